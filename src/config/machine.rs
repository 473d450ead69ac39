//! Whether what the configuration names is there on this machine.

use std::path::{Path, PathBuf};

use super::{Config, file};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// The service starts, but something will not work.
    Warning,
    /// The service cannot start.
    Error,
}

/// One thing that somebody should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub weight: Weight,
    /// A sentence that names the key.
    pub message: String,
}

/// Looks at every file, program and engine of the configuration. Changes nothing.
pub fn look(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut say = |weight, message: String| findings.push(Finding { weight, message });
    let files = [("tls.certificate", &config.tls_certificate), ("tls.key", &config.tls_key)];
    let files = files.into_iter().filter_map(|(key, path)| Some((key, path.as_ref()?)));
    for (key, path) in files.chain(config.outbound.ca_certificates.iter().map(|path| ("outbound.ca_certificates", path))) {
        if let Err(error) = std::fs::File::open(path) {
            say(Weight::Error, format!("{key}: {} cannot be read: {}", path.display(), file::reason(&error)));
        }
    }
    for engine in &config.engines {
        if !engine.root.join("Engine/Build/Build.version").is_file() {
            let what =
                format!("engines: {:?}: {} is no engine (it has no Engine/Build/Build.version)", engine.label, engine.root.display());
            say(Weight::Warning, format!("{what}; builds with it fail until it is there"));
        }
    }
    for (key, name, named) in [("tools.git", "git", &config.tools.git), ("tools.git_lfs", "git-lfs", &config.tools.git_lfs)] {
        match named {
            Some(path) if !path.is_file() => say(Weight::Error, format!("{key}: there is no program {}", path.display())),
            None if find_program(name).is_none() => {
                say(Weight::Warning, format!("{key}: there is no {name} in the PATH; git-hosted projects cannot be built without it"));
            }
            _ => {}
        }
    }
    // Most studios have one kind of server: that there is no p4 is worth no word unless somebody named one.
    if let Some(path) = config.tools.p4.as_ref().filter(|path| !path.is_file()) {
        say(Weight::Error, format!("tools.p4: there is no program {}", path.display()));
    }
    if !config.address().ip().is_loopback() && config.tls_certificate.is_none() {
        say(
            Weight::Warning,
            format!("listen: {} is reachable from the network without [tls]; passwords and tokens travel readable", config.listen),
        );
    }
    findings
}

/// The first program of this name in the PATH; for git-lfs also the one that Git for Windows brings, which it keeps out
/// of the PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let file_name = if cfg!(windows) { format!("{name}.exe") } else { name.to_owned() };
    let found = std::env::split_paths(&std::env::var_os("PATH")?)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(&file_name))
        .find(|path: &PathBuf| is_program(path));
    if found.is_some() || !cfg!(windows) || name != "git-lfs" {
        return found;
    }
    // `<Git>\cmd\git.exe` or `<Git>\bin\git.exe`.
    let git = find_program("git")?.ancestors().nth(2)?.to_owned();
    Some(git.join(r"mingw64\bin").join(file_name)).filter(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.is_file()
}
