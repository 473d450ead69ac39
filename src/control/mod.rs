//! What the owner of the data directory may ask for on the command line, with the server stopped or running.
//!
//! Stopped: the command opens the store itself. Running: it hands the order to the server over loopback, with a secret
//! that only the owner of the data directory can read. Both end in [`carry_out`].

pub mod client;
pub mod server;

use serde::{Deserialize, Serialize};

use crate::model::Secret;
use crate::model::audit::Verdict;
use crate::model::permission::Scope;
use crate::people::{NewAccount, NewToken, People, PeopleError, Reach, SetupToken};

/// The file in the data directory that says where the running server listens for orders, and with which secret.
pub const FILE: &str = "control";

/// Something to be done. It may hold a password: no `Debug`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Order {
    /// A new admin, in the only organization there is or in a new one of this name.
    CreateAdmin {
        /// Their e-mail address.
        email: String,
        /// What they are called.
        name: String,
        /// Their password.
        password: String,
        /// The new organization's name.
        organization: Option<String>,
    },
    /// A new password for somebody.
    ResetPassword {
        /// Their e-mail address.
        email: String,
        /// Their new password.
        password: String,
    },
    /// No new builds; asked again, it tells what still runs. Only for a server that runs.
    Drain,
    /// New builds again.
    EndDrain,
    /// A new API token of somebody.
    CreateToken {
        /// Their e-mail address.
        email: String,
        /// What the token is for.
        name: String,
        /// What it may do, as the API spells it.
        scopes: Vec<String>,
    },
    /// Whether the audit log's chain holds.
    VerifyAudit {},
}

impl Order {
    /// What the audit log calls it.
    fn operation(&self) -> &'static str {
        match self {
            Order::CreateAdmin { .. } => "admin create",
            Order::ResetPassword { .. } => "admin reset-password",
            Order::Drain | Order::EndDrain => "drain",
            Order::CreateToken { .. } => "token create",
            Order::VerifyAudit {} => "audit verify",
        }
    }
}

/// What was done.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "done", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Done {
    /// The admin exists.
    AdminCreated {
        /// Their e-mail address, as it is stored.
        email: String,
        /// Their organization.
        organization: String,
    },
    /// The password is another one, and every session of the person ended.
    PasswordReset {
        /// Their e-mail address, as it is stored.
        email: String,
    },
    /// No new builds are started.
    Draining {
        /// Ids of builds that still run.
        running: Vec<String>,
    },
    /// New builds are started again.
    DrainEnded,
    /// The token exists.
    TokenCreated {
        /// The token; it is not shown again.
        token: String,
    },
    /// The chain was walked.
    AuditVerified {
        /// Whether it holds.
        verdict: Verdict,
    },
}

/// Why it was not done, in a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The sentence.
    pub message: String,
}

/// Does it, and records it.
pub async fn carry_out(people: &People, setup_token: &SetupToken, order: Order) -> Result<Done, Refusal> {
    people.for_the_host(order.operation(), perform(people, setup_token, order)).await
}

async fn perform(people: &People, setup_token: &SetupToken, order: Order) -> Result<Done, Refusal> {
    let refused = |error: PeopleError| Refusal { message: error.to_string() };
    match order {
        Order::CreateAdmin { email, name, password, organization } => {
            let account = NewAccount { email, name, password: Secret::new(password) };
            let (organization, user) = people.create_admin(account, organization.as_deref()).await.map_err(refused)?;
            setup_token.forget();
            Ok(Done::AdminCreated { email: user.email, organization: organization.name })
        }
        Order::ResetPassword { email, password } => {
            let user = people.reset_password(&email, Secret::new(password)).await.map_err(refused)?;
            Ok(Done::PasswordReset { email: user.email })
        }
        Order::Drain | Order::EndDrain => Err(Refusal { message: "no server runs on this data directory: no builds are started".into() }),
        Order::CreateToken { email, name, scopes } => {
            let user = people.find_user(&email).map_err(refused)?;
            let scopes = scopes.iter().map(|text| scope(text)).collect::<Result<_, _>>()?;
            let new = NewToken { name, scopes, project_ids: None, build_setting_ids: None, expires_at: None };
            let (_, token) = people.create_token(&Reach { user, token: None }, new).await.map_err(refused)?;
            Ok(Done::TokenCreated { token: token.reveal().clone() })
        }
        Order::VerifyAudit {} => {
            let verdict = people.verify_audit().await.map_err(|error| Refusal { message: error.to_string() })?;
            Ok(Done::AuditVerified { verdict })
        }
    }
}

fn scope(text: &str) -> Result<Scope, Refusal> {
    text.parse().map_err(|()| Refusal { message: format!("there is no scope {text:?}; there are read, trigger, write and admin") })
}
