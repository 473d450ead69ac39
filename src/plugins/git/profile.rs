//! The environment and configuration of every git process: nothing of the machine's or the user's own.

use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::super::askpass;
use super::super::capability::{Grants, Origin};
use super::desk::{Answers, Renewal, Ticket};
use crate::model::Secret;
use crate::outbound::Route;

/// What a guest may say by `env`.
pub(crate) const REMOTE: &str = "COOKHOUSE_GIT_REMOTE";
/// What a guest may say by `env`.
pub(crate) const USERNAME: &str = "COOKHOUSE_GIT_USERNAME";
/// What a guest may say by `secret-env`.
pub(crate) const PASSWORD: &str = "COOKHOUSE_GIT_PASSWORD";

/// The programs and the private files.
#[derive(Debug, Clone)]
pub(crate) struct Profile {
    /// Absolute path of git.
    pub(crate) git: PathBuf,
    /// Absolute path of git-lfs; without it repositories with LFS keep their pointers.
    pub(crate) git_lfs: Option<PathBuf>,
    /// Our own binary.
    pub(crate) askpass: PathBuf,
    /// A private directory: home, empty configuration, empty hooks and templates.
    pub(crate) home: PathBuf,
    /// Certificates to trust, when the machine's own are not enough.
    pub(crate) certificates: Option<PathBuf>,
    /// Proxy for http and https.
    pub(crate) proxy: Option<String>,
}

/// What one process is told besides its arguments.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// The repository's URL; already checked.
    pub(crate) remote: Option<String>,
    /// For askpass.
    pub(crate) username: Option<String>,
    /// For askpass, which asks at the desk.
    pub(crate) password: Option<Secret>,
    /// The right to ask there.
    pub(crate) ticket: Option<Ticket>,
    /// How each host of its command line is reached.
    pub(crate) routes: Vec<(Origin, Route)>,
}

impl Access {
    /// What askpass is to be told at the desk. With a remote, only its origin hears the password; else every granted one.
    pub(crate) fn answers(&mut self, grants: &Grants, renewal: Option<Renewal>) -> Option<Answers> {
        let password = self.password.take()?;
        let origins = match self.remote.as_deref().and_then(Origin::parse) {
            Some(origin) => vec![origin],
            None => grants.fixed_origins().cloned().collect(),
        };
        let username = self.username.clone().unwrap_or_else(|| "x-access-token".to_owned());
        Some(Answers { origins, username, password, renewal })
    }
}

impl Profile {
    /// Makes the private files, empty. They are looked at again before every start: git must find nothing in them.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        // The global configuration is an empty FILE, not /dev/null: git renames its lock file over the name it was
        // given, and as root that would replace the device.
        let settings = self.home.join("gitconfig");
        match std::fs::symlink_metadata(&settings) {
            Ok(found) if found.is_file() && found.len() == 0 => {}
            _ => {
                let _ = std::fs::remove_file(&settings);
                std::fs::create_dir_all(&self.home)?;
                std::fs::write(&settings, "")?;
            }
        }
        for name in ["hooks", "template", "empty"] {
            let directory = self.home.join(name);
            let is_empty = std::fs::read_dir(&directory).is_ok_and(|mut entries| entries.next().is_none());
            if !is_empty {
                let _ = std::fs::remove_dir_all(&directory);
                std::fs::create_dir_all(&directory)?;
            }
        }
        Ok(())
    }

    /// The complete environment of one git process that works in `directory`.
    pub(crate) fn environment(&self, directory: &Path, access: &Access, grants: &Grants) -> Vec<(OsString, OsString)> {
        let mut out: Vec<(OsString, OsString)> = Vec::new();
        let mut set = |name: &str, value: OsString| out.push((name.into(), value));
        let protocols = if grants.fixed_origins().any(|origin| !origin.is_secure()) { "https:http" } else { "https" };
        set("PATH", self.search_path());
        set("HOME", self.home.clone().into());
        set("XDG_CONFIG_HOME", self.home.clone().into());
        set("LC_ALL", "C.UTF-8".into());
        set("GIT_CONFIG_NOSYSTEM", "1".into());
        set("GIT_CONFIG_GLOBAL", self.home.join("gitconfig").into());
        set("GIT_ATTR_NOSYSTEM", "1".into());
        set("GIT_TERMINAL_PROMPT", "0".into());
        set("GIT_OPTIONAL_LOCKS", "0".into());
        set("GIT_ALLOW_PROTOCOL", protocols.into());
        set("GIT_PROTOCOL_FROM_USER", "0".into());
        set("GIT_NO_REPLACE_OBJECTS", "1".into());
        set("GIT_LFS_SKIP_SMUDGE", "1".into());
        // Without a terminal it would say nothing for hours.
        set("GIT_LFS_FORCE_PROGRESS", "1".into());
        set("GIT_PAGER", "cat".into());
        set("GIT_EDITOR", "false".into());
        set("GIT_SSH_COMMAND", "false".into());
        set("GIT_DISCOVERY_ACROSS_FILESYSTEM", "0".into());
        // Never a repository above the workspace, nor another work tree.
        set("GIT_DIR", directory.join(".git").into());
        set("GIT_WORK_TREE", directory.as_os_str().to_owned());
        set("GIT_ASKPASS", self.askpass.clone().into());
        set("SSH_ASKPASS", "false".into());
        set(askpass::MODE, "1".into());
        if let Some(ticket) = &access.ticket {
            set(askpass::DESK, ticket.address.to_string().into());
            set(askpass::KEY, ticket.key.reveal().into());
        }
        if let Some(certificates) = &self.certificates {
            set("GIT_SSL_CAINFO", certificates.clone().into());
        }
        let settings = self.settings(directory, access, protocols);
        set("GIT_CONFIG_COUNT", settings.len().to_string().into());
        for (place, (key, value)) in settings.into_iter().enumerate() {
            out.push((format!("GIT_CONFIG_KEY_{place}").into(), key.into()));
            out.push((format!("GIT_CONFIG_VALUE_{place}").into(), value));
        }
        out
    }

    /// git finds git-lfs, and both find the system's shell and tools; nothing else is on the path.
    fn search_path(&self) -> OsString {
        let mut places: Vec<PathBuf> = Vec::new();
        for program in [Some(&self.git), self.git_lfs.as_ref()].into_iter().flatten() {
            places.extend(program.parent().map(Path::to_path_buf));
        }
        if cfg!(unix) {
            places.extend(["/usr/bin", "/bin"].map(PathBuf::from));
        }
        places.dedup();
        std::env::join_paths(places).unwrap_or_default()
    }

    /// Overrides that come after, and so win over, everything a repository's own configuration says.
    fn settings(&self, directory: &Path, access: &Access, protocols: &str) -> Vec<(String, OsString)> {
        let mut out: Vec<(String, OsString)> = Vec::new();
        let mut set = |key: &str, value: OsString| out.push((key.to_owned(), value));
        set("protocol.allow", "never".into());
        for protocol in protocols.split(':') {
            set(&format!("protocol.{protocol}.allow"), "always".into());
        }
        set("core.hooksPath", self.home.join("hooks").into());
        set("init.templateDir", self.home.join("template").into());
        set("core.attributesFile", self.home.join("gitconfig").into());
        set("core.excludesFile", self.home.join("gitconfig").into());
        set("safe.directory", directory.as_os_str().to_owned());
        for (key, value) in FIXED {
            set(key, (*value).into());
        }
        if let Some(lfs) = &self.git_lfs {
            // git hands these to a shell.
            let program = format!("'{}'", lfs.to_string_lossy().replace('\'', r"'\''"));
            set("filter.lfs.process", format!("{program} filter-process").into());
            set("filter.lfs.smudge", format!("{program} smudge -- %f").into());
            set("filter.lfs.clean", format!("{program} clean -- %f").into());
            set("filter.lfs.required", "true".into());
        }
        if let Some(remote) = &access.remote {
            set("remote.origin.url", remote.into());
            // Wins over `.lfsconfig` of the repository.
            set("lfs.url", format!("{}/info/lfs", remote.trim_end_matches('/')).into());
            set("remote.origin.lfsurl", format!("{}/info/lfs", remote.trim_end_matches('/')).into());
        }
        if let Some(certificates) = &self.certificates {
            set("http.sslCAInfo", certificates.clone().into());
        }
        let is_outside = access.routes.iter().any(|(_, route)| *route == Route::Proxy);
        set("http.proxy", self.proxy.as_deref().filter(|_| is_outside).unwrap_or_default().into());
        for (origin, route) in &access.routes {
            if let Route::Direct(addresses) = route {
                set("http.curloptResolve", pin(origin, addresses).into());
            }
        }
        out
    }
}

/// Tells git's HTTP library the addresses of a host, so that it does not ask for them itself: `host:port:address,…`.
fn pin(origin: &Origin, addresses: &[IpAddr]) -> String {
    let written = addresses.iter().map(|address| match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    });
    format!("{}:{}:{}", origin.host(), origin.port(), written.collect::<Vec<_>>().join(","))
}

/// The same for every process.
const FIXED: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.quotePath", "false"),
    ("core.untrackedCache", "false"),
    ("core.sshCommand", "false"),
    ("core.gitProxy", ""),
    ("core.askPass", ""),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("core.alternateRefsCommand", "false"),
    ("core.protectNTFS", "true"),
    ("core.protectHFS", "true"),
    ("core.autocrlf", "false"),
    ("core.longpaths", "true"),
    ("core.bare", "false"),
    ("credential.helper", ""),
    ("credential.useHttpPath", "false"),
    ("diff.external", ""),
    ("gpg.program", "false"),
    ("log.showSignature", "false"),
    ("http.sslVerify", "true"),
    // A redirect would lead to an address that nobody checked.
    ("http.followRedirects", "false"),
    ("http.saveCookies", "false"),
    ("http.cookieFile", ""),
    ("http.lowSpeedLimit", "1"),
    ("http.lowSpeedTime", "120"),
    ("transfer.credentialsInUrl", "die"),
    ("transfer.bundleURI", "false"),
    ("transfer.fsckObjects", "true"),
    ("fetch.fsckObjects", "true"),
    // Old repositories carry these; they harm nobody.
    ("fetch.fsck.zeroPaddedFilemode", "warn"),
    ("fetch.fsck.missingSpaceBeforeDate", "warn"),
    ("fetch.fsck.zeroPaddedDate", "warn"),
    ("fetch.fsck.badTimezone", "warn"),
    ("fetch.fsck.missingNameBeforeEmail", "warn"),
    ("fetch.fsck.missingEmail", "warn"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("gc.auto", "0"),
    // What is not checked out any more may go.
    ("core.logAllRefUpdates", "false"),
    ("gc.reflogExpire", "now"),
    ("gc.reflogExpireUnreachable", "now"),
    ("maintenance.auto", "false"),
    ("protocol.version", "2"),
    ("advice.detachedHead", "false"),
    ("init.defaultBranch", "main"),
    ("lfs.locksverify", "false"),
    ("lfs.fetchrecentrefsdays", "0"),
    ("lfs.fetchrecentcommitsdays", "0"),
    ("lfs.fetchrecentremoterefs", "false"),
    ("lfs.pruneoffsetdays", "0"),
    ("lfs.pruneverifyremotealways", "false"),
    ("lfs.concurrenttransfers", "8"),
    ("lfs.activitytimeout", "120"),
    ("lfs.standalonetransferagent", ""),
    ("lfs.basictransfersonly", "true"),
    ("lfs.allowincompletepush", "false"),
];

#[cfg(test)]
mod tests {
    use super::super::desk::Desk;
    use super::*;

    #[tokio::test]
    async fn the_password_stays_here_and_the_global_configuration_is_an_empty_file() {
        let directory = tempfile::tempdir().unwrap();
        let profile = Profile {
            git: "/usr/bin/git".into(),
            git_lfs: Some("/opt/it's/git-lfs".into()),
            askpass: "/opt/cookhouse".into(),
            home: directory.path().join("git"),
            certificates: None,
            proxy: None,
        };
        profile.prepare().unwrap();
        std::fs::write(profile.home.join("gitconfig"), "[alias]\n").unwrap();
        std::fs::write(profile.home.join("hooks/post-checkout"), "x").unwrap();
        profile.prepare().unwrap();
        assert_eq!(std::fs::read(profile.home.join("gitconfig")).unwrap(), b"");
        assert_eq!(std::fs::read_dir(profile.home.join("hooks")).unwrap().count(), 0);

        let password = Some(Secret::new("hunter2hunter2".to_owned()));
        let mut access = Access { remote: Some("https://git.example/a/b.git".into()), password, ..Access::default() };
        let answers = access.answers(&Grants::default(), None).unwrap();
        assert_eq!(answers.origins, [Origin::parse("https://git.example").unwrap()]);
        assert_eq!((answers.username.as_str(), access.password.is_none()), ("x-access-token", true));
        access.ticket = Some(Desk::open().await.unwrap().admit(answers).unwrap());
        let environment = profile.environment(Path::new("/workspace"), &access, &Grants::default());
        assert!(!environment.iter().any(|(_, value)| value.to_string_lossy().contains("hunter2")));
        let key = access.ticket.as_ref().unwrap().key.reveal();
        let naming: Vec<_> = environment.iter().filter(|(_, value)| value.to_string_lossy().contains(key)).map(|(name, _)| name).collect();
        assert_eq!(naming, [askpass::KEY]);
        let get = |name: &str| environment.iter().find(|(found, _)| found == name).map(|(_, value)| value.to_string_lossy().into_owned());
        assert_eq!(get("GIT_CONFIG_GLOBAL"), Some(profile.home.join("gitconfig").to_string_lossy().into_owned()));
        assert_eq!(get("GIT_ALLOW_PROTOCOL").as_deref(), Some("https"));
        assert!(environment.iter().any(|(_, value)| value == r"'/opt/it'\''s/git-lfs' filter-process"));
    }
    #[test]
    fn hosts_are_pinned_to_the_addresses_that_were_checked() {
        let pinned = |url: &str, addresses: &[&str]| {
            let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
            pin(&Origin::parse(url).unwrap(), &addresses)
        };
        assert_eq!(pinned("https://Git.Example./a/b.git", &["10.0.0.7", "fd00::7"]), "git.example:443:10.0.0.7,[fd00::7]");
        assert_eq!(pinned("http://git.lan:8080", &["10.0.0.7"]), "git.lan:8080:10.0.0.7");
    }
}
