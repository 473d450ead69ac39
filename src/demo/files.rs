//! The stand-in engine and the demo project, carried inside the binary.

use std::io;
use std::path::Path;

use crate::platform::files::{create_private_directory, make_program};

/// Path below `fixtures/`, contents.
const FILES: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/demo_files.rs"));

/// Writes everything below `directory`; what lies there already is replaced, file by file.
pub fn unpack(directory: &Path) -> io::Result<()> {
    create_private_directory(directory)?;
    for (name, contents) in FILES {
        let path = directory.join(hidden(name));
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        // An unchanged file keeps its time, so that a second demo builds incrementally.
        if std::fs::read(&path).is_ok_and(|there| there == *contents) {
            continue;
        }
        std::fs::write(&path, contents)?;
        if name.ends_with(".sh") {
            make_program(&path)?;
        }
    }
    Ok(())
}

/// The project's own git files have no dot in this repository, where they would take effect.
fn hidden(name: &str) -> String {
    match name.rsplit_once('/') {
        Some((directory, file @ ("gitattributes" | "gitignore"))) => format!("{directory}/.{file}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_and_a_project_come_out() {
        let directory = tempfile::tempdir().expect("a directory");
        unpack(directory.path()).expect("unpacked");
        unpack(directory.path()).expect("unpacked over itself");
        for name in [
            "engines/UE_5.4/Engine/Build/Build.version",
            "engines/UE_5.4/Engine/Build/BatchFiles/RunUAT.sh",
            "projects/demo/Game/Kitchen.uproject",
        ] {
            assert!(directory.path().join(name).is_file(), "{name}");
        }
        if cfg!(windows) {
            return;
        }
        // The script really starts: it is a program, and it finds its parts.
        let script = directory.path().join("engines/UE_5.4/Engine/Build/BatchFiles/RunUAT.sh");
        let ended = std::process::Command::new(script).arg("-help").env_clear().env("PATH", "/usr/bin:/bin").output().expect("it starts");
        assert!(String::from_utf8_lossy(&ended.stderr).find("No such file").is_none(), "{ended:?}");
    }
}
