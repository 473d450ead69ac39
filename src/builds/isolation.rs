//! What keeps a build from the rest of the machine: which account its commands run as, and which directories they may
//! change or even read.
//!
//! A build's commands are whatever its project says. They may change the build's workspace, what the engine writes
//! beside itself, the machine's temporary directories and what the administrator adds; they may read everything else
//! but what the service keeps for itself and for other builds.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::engines::Engine;
use super::workspace::Workspace;
use crate::platform::accounts::{self, Account};
use crate::platform::confinement::{Confinement, landlock_version};

/// What of an engine its own tools write when it was installed ready-made. One that is built from source compiles
/// parts of itself and may write everywhere below `Engine`.
const WRITTEN_BY_TOOLS: [&str; 4] =
    ["Engine/Intermediate", "Engine/Saved", "Engine/DerivedDataCache", "Engine/Programs/AutomationTool/Saved"];
/// The same in directories beside these.
const WRITTEN_BY_PROGRAMS: [&str; 2] = ["Saved", "Intermediate"];
/// Temporary directories that programs name without asking.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];
/// Variables that name a directory which builds of several machines share.
const SHARED_CACHES: [&str; 2] = ["UE_SharedDataCachePath", "UE-SharedDataCachePath"];

/// Whether builds are shut in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// Where the kernel can.
    #[default]
    Auto,
    /// Or the service does not start.
    Required,
    /// Never.
    Off,
}

/// What the administrator wants.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// Shut in or not.
    pub sandbox: Sandbox,
    /// The user whose account builds run as, by name or number; empty: the service's own.
    pub user: String,
    /// The group they run in; empty: the user's own.
    pub group: String,
    /// Files and directories that no build may read.
    pub hidden: Vec<PathBuf>,
    /// Further directories that builds may change.
    pub writable: Vec<PathBuf>,
}

/// What is in force on this machine.
#[derive(Debug, Clone, Default)]
pub struct Isolation {
    /// The version of Landlock that shuts builds in, where one does.
    pub landlock: Option<u32>,
    /// Whom builds run as, where it is not the service's own user.
    pub account: Option<Account>,
    /// Why it is less than could be, in a sentence for the administrator.
    pub remark: Option<String>,
    hidden: Vec<PathBuf>,
    writable: Vec<PathBuf>,
}

impl Isolation {
    /// As much of the wish as this machine can do.
    ///
    /// # Errors
    /// A sentence for the administrator, when something that was asked for by name cannot be had.
    pub fn establish(wish: Wish) -> Result<Isolation, String> {
        let account = match wish.user.as_str() {
            "" => None,
            user => Some(account(user, &wish.group)?),
        };
        let version = landlock_version();
        let (landlock, remark) = match (wish.sandbox, version) {
            (Sandbox::Off, _) => {
                (None, Some("Builds may read and change whatever their user may: executor.sandbox is \"off\".".to_owned()))
            }
            (_, Some(version)) => (Some(version), None),
            (Sandbox::Required, None) => {
                return Err(format!("executor.sandbox is \"required\", but {NOT_HERE}"));
            }
            (Sandbox::Auto, None) => (None, Some(format!("Builds may read and change whatever their user may: {NOT_HERE}."))),
        };
        Ok(Isolation { landlock, account, remark, hidden: wish.hidden, writable: wish.writable })
    }

    /// Lets the account of builds go through a directory of the service, to what belongs to it beneath.
    ///
    /// # Errors
    /// What the file system says.
    pub fn admit(&self, directory: &Path) -> io::Result<()> {
        self.account.as_ref().map_or(Ok(()), |account| accounts::let_through(directory, account))
    }

    /// Whether builds will reach what is in this directory.
    ///
    /// # Errors
    /// A sentence for the administrator.
    pub fn probe(&self, directory: &Path) -> Result<(), String> {
        let Some(account) = &self.account else { return Ok(()) };
        accounts::enter(directory, account).map_err(|error| {
            format!(
                "executor.user: {} cannot enter {} ({error}); every directory above it has to let that user pass",
                account.name,
                directory.display()
            )
        })
    }

    /// Builds do not simply do what the service's user may, and do not share its home.
    pub(super) fn is_any(&self) -> bool {
        self.landlock.is_some() || self.account.is_some()
    }

    /// For the log of a build.
    pub(super) fn sentence(&self) -> String {
        let files = match self.landlock {
            Some(version) => format!("held to its workspace and its engine by Landlock {version}"),
            None => "not held to its workspace".to_owned(),
        };
        match &self.account {
            Some(account) => format!("The build is {files}, and runs as the user {}.", account.name),
            None => format!("The build is {files}, and runs as the service's own user."),
        }
    }

    /// Changes the variables that a build is given: its home is its own, not the service's.
    pub(super) fn settle(&self, environment: &mut Vec<(OsString, OsString)>, home: &Path) {
        if !self.is_any() {
            return;
        }
        let mut own: Vec<(&str, OsString)> = vec![("HOME", home.into()), ("DOTNET_CLI_HOME", home.into())];
        if let Some(account) = &self.account {
            own.extend([("USER", account.name.clone().into()), ("LOGNAME", account.name.clone().into())]);
        }
        environment.retain(|(name, _)| name != "XDG_RUNTIME_DIR" && !own.iter().any(|(own, _)| name == own));
        environment.extend(own.into_iter().map(|(name, value)| (name.into(), value)));
    }

    /// What a build of this workspace with this engine may reach. Makes the engine's directories that are missing, for
    /// a build cannot; an engine that the service may not write in stays as it is.
    pub(super) fn confinement(&self, workspace: &Workspace, engine: &Engine, environment: &[(OsString, OsString)]) -> Option<Confinement> {
        self.landlock?;
        let mut writable = vec![workspace.root().to_owned()];
        writable.extend(self.places_of(engine));
        writable.extend(TEMPORARY.map(PathBuf::from));
        let caches = environment.iter().filter(|(name, _)| SHARED_CACHES.iter().any(|cache| name == cache));
        writable.extend(caches.map(|(_, path)| PathBuf::from(path)).filter(|path| path.is_absolute()));
        writable.extend(self.writable.iter().cloned());
        Some(Confinement { writable, fixed: vec![engine.root.clone()], hidden: self.hidden.clone() })
    }

    fn places_of(&self, engine: &Engine) -> Vec<PathBuf> {
        if !engine.is_installed {
            return vec![engine.root.join("Engine")];
        }
        let mut places: Vec<PathBuf> = WRITTEN_BY_TOOLS.iter().map(|name| engine.root.join(name)).collect();
        for place in &places {
            if !place.exists() && std::fs::create_dir_all(place).is_ok() {
                let theirs = self.account.as_ref().map_or(Ok(()), |account| accounts::hand_over(place, account));
                if let Err(error) = theirs {
                    tracing::warn!(%error, place = %place.display(), "a directory of an engine could not be given to the user of builds");
                }
            }
        }
        for program in std::fs::read_dir(engine.root.join("Engine/Programs")).into_iter().flatten().flatten() {
            places.extend(WRITTEN_BY_PROGRAMS.map(|name| program.path().join(name)));
        }
        // A link in their place would lead to somewhere else.
        places.retain(|place| std::fs::symlink_metadata(place).is_ok_and(|found| found.is_dir()));
        places
    }
}

const NOT_HERE: &str = if cfg!(windows) {
    "Windows has nothing that holds a program to its directories; give the service a user of its own, and nothing else to lose"
} else {
    "this machine has no Landlock (Linux 5.19 or newer, with landlock among the kernel's security modules)"
};

fn account(user: &str, group: &str) -> Result<Account, String> {
    if !accounts::may_act_as_others() {
        return Err("executor.user needs Linux, and the service to run as root: nobody else may start programs as another user".to_owned());
    }
    let account = accounts::find(user, group).map_err(|sentence| format!("executor.user cannot be used: {sentence}"))?;
    match account.user {
        0 => Err("executor.user must not be root: builds run whatever their project says".to_owned()),
        _ => Ok(account),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_gets_a_home_of_its_own_where_it_is_isolated() {
        let given =
            || vec![("HOME".into(), "/root".into()), ("PATH".into(), "/bin".into()), ("XDG_RUNTIME_DIR".into(), "/run/user/0".into())];
        let mut environment: Vec<(OsString, OsString)> = given();
        Isolation::default().settle(&mut environment, Path::new("/w/home"));
        assert_eq!(environment, given());
        let account = Account { name: "builder".into(), user: 1001, group: 1001 };
        let isolation = Isolation { account: Some(account), ..Isolation::default() };
        isolation.settle(&mut environment, Path::new("/w/home"));
        let value = |name: &str| environment.iter().find(|(own, _)| own == name).map(|(_, value)| value.to_str().unwrap());
        assert_eq!(
            [value("HOME"), value("PATH"), value("USER"), value("XDG_RUNTIME_DIR")],
            [Some("/w/home"), Some("/bin"), Some("builder"), None]
        );
    }

    #[test]
    fn what_cannot_be_had_is_told() {
        let wish = |user: &str, sandbox| Wish { user: user.into(), sandbox, ..Wish::default() };
        assert!(Isolation::establish(wish("root", Sandbox::Auto)).unwrap_err().contains("root"));
        assert!(Isolation::establish(wish("nobody-has-this-name", Sandbox::Auto)).is_err());
        let off = Isolation::establish(wish("", Sandbox::Off)).unwrap();
        assert!(off.landlock.is_none() && off.remark.is_some() && !off.is_any());
        let auto = Isolation::establish(wish("", Sandbox::Auto)).unwrap();
        assert_eq!(auto.landlock.is_none(), auto.remark.is_some(), "less than could be has a reason");
        assert_eq!(Isolation::establish(wish("", Sandbox::Required)).is_ok(), auto.landlock.is_some());
    }

    #[cfg(unix)]
    #[test]
    fn an_installed_engine_is_not_all_writable_and_links_in_it_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("Engine/Programs/Shader/Saved")).unwrap();
        std::fs::create_dir_all(place.path().join("Engine/Binaries")).unwrap();
        std::os::unix::fs::symlink("/etc", place.path().join("Engine/Saved")).unwrap();
        let mut engine = Engine {
            label: "e".into(),
            root: place.path().to_owned(),
            version: super::super::engines::EngineVersion { major: 5, minor: 4, patch: 0 },
            is_installed: true,
            extra_platforms: Vec::new(),
        };
        let isolation = Isolation { landlock: Some(7), ..Isolation::default() };
        let workspace = Workspace::of(place.path(), crate::model::Id::from_parts(1, 1));
        let writable = |engine: &Engine| isolation.confinement(&workspace, engine, &[]).unwrap().writable;
        let found = writable(&engine);
        for (name, is_in) in [
            ("Engine/Intermediate", true),
            ("Engine/DerivedDataCache", true),
            ("Engine/Programs/Shader/Saved", true),
            ("Engine/Saved", false),
            ("Engine/Binaries", false),
            ("Engine", false),
        ] {
            assert_eq!(found.contains(&place.path().join(name)), is_in, "{name}");
        }
        engine.is_installed = false;
        assert!(writable(&engine).contains(&place.path().join("Engine")));
        assert!(Isolation::default().confinement(&workspace, &engine, &[]).is_none());
    }
}
