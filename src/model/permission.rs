//! Who may do what (decisions 4), as tables.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Roles, strictly ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Also starts, creates and changes.
    Member,
    /// Everything.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 3] = [Role::Viewer, Role::Member, Role::Admin];

    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Member => "member",
            Role::Admin => "admin",
        }
    }
}

impl FromStr for Role {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        Role::ALL.into_iter().find(|role| role.as_str() == text).ok_or(())
    }
}

/// What an API token may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Every GET that its owner's role may see.
    Read,
    /// Start, cancel, retry, redeploy, pin, and reading the builds it started.
    Trigger,
    /// Includes read and trigger.
    Write,
    /// Includes all.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Scope; 4] = [Scope::Read, Scope::Trigger, Scope::Write, Scope::Admin];

    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Trigger => "trigger",
            Scope::Write => "write",
            Scope::Admin => "admin",
        }
    }

    /// Whether holding this scope is as good as holding `wanted`.
    pub fn includes(self, wanted: Scope) -> bool {
        match self {
            Scope::Admin => true,
            Scope::Write => wanted != Scope::Admin,
            Scope::Read | Scope::Trigger => self == wanted,
        }
    }
}

impl FromStr for Scope {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or(())
    }
}

/// What a route needs. Each row of the route table names one; there is no default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Projects, settings, builds, logs, downloads, the organization.
    Read,
    /// One build: like `Read`, and a trigger token may read a build that it started.
    ReadBuild,
    /// Start, cancel, redeploy, pin.
    Trigger,
    /// Create and change projects and settings, delete settings.
    Write,
    /// The git-host proxy and the list of plugins.
    ReadIntegrations,
    /// Delete projects, the organization, its connections, members, plugins, others' tokens, audit.
    Administer,
    /// One's own tokens and identity: any signed-in caller; what more it takes, the handler says.
    Own,
}

impl Permission {
    /// The least role, and the scope a token needs. `None`: any scope.
    pub fn needs(self) -> (Role, Option<Scope>) {
        match self {
            Permission::Read => (Role::Viewer, Some(Scope::Read)),
            Permission::ReadBuild => (Role::Viewer, Some(Scope::Read)),
            Permission::Trigger => (Role::Member, Some(Scope::Trigger)),
            Permission::Write => (Role::Member, Some(Scope::Write)),
            Permission::ReadIntegrations => (Role::Member, Some(Scope::Read)),
            Permission::Administer => (Role::Admin, Some(Scope::Admin)),
            Permission::Own => (Role::Viewer, None),
        }
    }
}
