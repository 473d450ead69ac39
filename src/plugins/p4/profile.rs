//! The environment and the private files of every p4 process: nothing of the machine's or the user's own.

use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::server::Server;
use crate::platform::files;

/// What a guest may say by `env`.
pub(crate) const USER: &str = "COOKHOUSE_P4_USER";
/// What a guest may say by `env`: `utf8` for servers that want it, else nothing.
pub(crate) const CHARSET: &str = "COOKHOUSE_P4_CHARSET";
/// What a guest may say by `env`: the fingerprint of the server's key, as p4 writes it.
pub(crate) const FINGERPRINT: &str = "COOKHOUSE_P4_FINGERPRINT";
/// What a guest may say by `secret-env`.
pub(crate) const TICKET: &str = "COOKHOUSE_P4_TICKET";

/// The client of commands that belong to no workspace: no server has it, and so none loads its view.
const NO_CLIENT: &str = "cookhouse-no-workspace";
/// Files that could configure p4, each empty, and the variable that names it.
const EMPTY_FILES: [(&str, &str); 4] =
    [("P4CONFIG", "config"), ("P4ENVIRO", "environment"), ("P4ALIASES", "aliases"), ("P4TICKETS", "tickets")];

/// The program and the private files.
#[derive(Debug, Clone)]
pub(crate) struct Profile {
    /// Absolute path of p4.
    pub(crate) p4: PathBuf,
    /// A private directory: home, empty configuration, trust.
    pub(crate) home: PathBuf,
    /// Tells this installation's client workspaces from those of others on the same server.
    pub(crate) installation: String,
}

/// What one process is told besides its arguments.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// The server and its checked address.
    pub(crate) server: Option<(Server, IpAddr)>,
    /// Whose the ticket is.
    pub(crate) user: Option<String>,
    /// For servers in unicode mode.
    pub(crate) charset: Option<String>,
    /// What the server's key has to be.
    pub(crate) fingerprint: Option<String>,
    /// For the environment.
    pub(crate) ticket: Option<String>,
    /// Name of the client workspace.
    pub(crate) client: Option<String>,
    /// Its directory. p4 writes nothing outside of it, whatever the server tells it to.
    pub(crate) writes_below: Option<PathBuf>,
}

impl Profile {
    /// Makes the private files. They are looked at again before every start: p4 must find nothing in them.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        files::create_private_directory(&self.home)?;
        for (_, name) in EMPTY_FILES {
            let path = self.home.join(name);
            if !std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && found.len() == 0) {
                let _ = std::fs::remove_file(&path);
                match files::create_private_file(&path) {
                    // Another call was faster.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    made => drop(made?),
                }
            }
        }
        for name in ["empty", "trust"] {
            files::create_private_directory(&self.home.join(name))?;
        }
        Ok(())
    }

    /// A trust file that knows one server by one key, or none at all. Each has a name of its own, so that calls for
    /// different servers do not disturb each other.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn trust(&self, access: &Access) -> io::Result<PathBuf> {
        let line = match (&access.server, &access.fingerprint) {
            (Some((server, address)), Some(fingerprint)) if server.is_encrypted() => {
                format!("{}=**++**:{fingerprint}\n", server.place(*address))
            }
            _ => String::new(),
        };
        let path = self.home.join("trust").join(hash(line.as_bytes()));
        if std::fs::read_to_string(&path).is_ok_and(|known| known == line) {
            return Ok(path);
        }
        // Written aside and renamed: another call may be reading it.
        let mut random = [0u8; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let aside = self.home.join("trust").join(format!("new-{:016x}", u64::from_ne_bytes(random)));
        files::create_private_file(&aside)?;
        std::fs::write(&aside, line)?;
        files::rename(&aside, &path)?;
        Ok(path)
    }

    /// The complete environment of one p4 process.
    ///
    /// # Errors
    /// When the trust file cannot be written.
    pub(crate) fn environment(&self, access: &Access) -> io::Result<Vec<(OsString, OsString)>> {
        let mut out: Vec<(OsString, OsString)> = Vec::new();
        let mut set = |name: &str, value: OsString| out.push((name.into(), value));
        set("HOME", self.home.clone().into());
        set("USERPROFILE", self.home.clone().into());
        set("LC_ALL", "C.UTF-8".into());
        for (variable, name) in EMPTY_FILES {
            set(variable, self.home.join(name).into());
        }
        set("P4TRUST", self.trust(access)?.into());
        let temporary = self.home.join("empty");
        set("P4CLIENTPATH", access.writes_below.as_ref().unwrap_or(&temporary).clone().into());
        for name in ["TMPDIR", "TEMP", "TMP"] {
            set(name, temporary.clone().into());
        }
        set("P4CLIENT", access.client.as_deref().unwrap_or(NO_CLIENT).into());
        // Set even where it is the default: on Windows the registry would be asked else.
        set("P4CHARSET", access.charset.as_deref().unwrap_or("none").into());
        set("P4USER", access.user.as_deref().unwrap_or("cookhouse").into());
        if let Some((server, address)) = &access.server {
            set("P4PORT", server.at(*address).into());
        }
        if let Some(ticket) = &access.ticket {
            set("P4PASSWD", ticket.into());
        }
        // What Windows programs need to open a socket at all.
        if let Some(root) = std::env::var_os("SystemRoot") {
            set("SystemRoot", root);
        }
        Ok(out)
    }

    /// The client workspace that belongs to a directory. People who look after the server see whose it is.
    pub(crate) fn client(&self, root: &Path) -> String {
        let setting = root.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let setting =
            setting.filter(|name| name.len() <= 40 && name.bytes().all(|byte| byte.is_ascii_alphanumeric())).unwrap_or("workspace");
        let mut place = self.installation.clone().into_bytes();
        place.push(0);
        place.extend_from_slice(root.as_os_str().as_encoded_bytes());
        format!("cookhouse-{setting}-{}", &hash(&place)[..10])
    }
}

/// `AB:CD:...`, twenty bytes.
pub(crate) fn is_fingerprint(text: &str) -> bool {
    text.len() == 59
        && text.split(':').count() == 20
        && text.split(':').all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINGERPRINT: &str = "50:A3:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22";

    #[test]
    fn the_ticket_is_in_one_variable_and_no_file_configures_anything() {
        let directory = tempfile::tempdir().unwrap();
        let profile = Profile { p4: "/usr/bin/p4".into(), home: directory.path().join("p4"), installation: "i".into() };
        profile.prepare().unwrap();
        for (_, name) in EMPTY_FILES {
            std::fs::write(profile.home.join(name), "P4PORT=evil:1\n").unwrap();
        }
        profile.prepare().unwrap();
        let access = Access {
            server: Server::parse("ssl:vcs:1666").map(|server| (server, [10, 0, 0, 7].into())),
            user: Some("builder".into()),
            ticket: Some("0123456789ABCDEF".into()),
            fingerprint: Some(FINGERPRINT.into()),
            ..Access::default()
        };
        let environment = profile.environment(&access).unwrap();
        let get = |name: &str| environment.iter().find(|(found, _)| found == name).map(|(_, value)| PathBuf::from(value));
        for (variable, _) in EMPTY_FILES {
            assert_eq!(std::fs::read(get(variable).unwrap()).unwrap(), b"", "{variable}");
        }
        let naming: Vec<_> = environment.iter().filter(|(_, value)| value.to_string_lossy().contains("0123456789")).collect();
        assert_eq!(naming.len(), 1);
        assert_eq!(naming[0].0, "P4PASSWD");
        assert_eq!(std::fs::read_to_string(get("P4TRUST").unwrap()).unwrap(), format!("10.0.0.7:1666=**++**:{FINGERPRINT}\n"));
        assert_eq!(get("P4PORT"), Some("ssl:10.0.0.7:1666".into()));
        assert_eq!(get("P4CLIENTPATH"), Some(profile.home.join("empty")));
        let other = Access { fingerprint: None, ..access };
        assert_eq!(std::fs::read(profile.trust(&other).unwrap()).unwrap(), b"");
    }

    #[test]
    fn each_workspace_has_a_client_of_its_own() {
        let profile = |installation: &str| Profile { p4: "/p4".into(), home: "/h".into(), installation: installation.into() };
        let name = profile("one").client(Path::new("/data/workspaces/01abc/source"));
        assert!(name.starts_with("cookhouse-01abc-") && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{name}");
        assert_eq!(name, profile("one").client(Path::new("/data/workspaces/01abc/source")));
        assert_ne!(name, profile("two").client(Path::new("/data/workspaces/01abc/source")));
        assert_ne!(name, profile("one").client(Path::new("/data/workspaces/01abd/source")));
        assert!(profile("one").client(Path::new("/a b/c d")).starts_with("cookhouse-workspace-"));
    }

    #[test]
    fn fingerprints_are_twenty_bytes() {
        assert!(is_fingerprint(FINGERPRINT));
        for wrong in
            ["", "50:A3", &FINGERPRINT[..58], &FINGERPRINT.replace(':', "-"), &format!("{FINGERPRINT}:00"), &FINGERPRINT.replace('A', "G")]
        {
            assert!(!is_fingerprint(wrong), "{wrong}");
        }
    }
}
