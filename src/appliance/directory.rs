//! The data directory: ours alone, and locked.

use std::io;
use std::path::Path;

use crate::platform::files::create_private_directory;

use super::StartError;

/// What may lie in a directory that becomes a data directory.
const HARMLESS: [&str; 4] = ["cookhouse.toml", "secret.key", "service.log", "lost+found"];
/// What shows that it is one already.
const SIGNS: [&str; 2] = ["store.redb", "lock"];

/// Makes the data directory, or takes one that is empty or ours. Its mode becomes private, which would be a nasty
/// surprise for a directory that somebody named by mistake: that one is refused.
pub fn prepare(path: &Path) -> Result<(), StartError> {
    let refused = |message: String| StartError::Directory { path: path.to_owned(), message };
    let mut strange = None;
    let mut is_ours = false;
    match std::fs::read_dir(path) {
        Ok(entries) => {
            for entry in entries {
                let name = entry.map_err(|error| refused(reason(&error)))?.file_name().to_string_lossy().into_owned();
                is_ours |= SIGNS.contains(&name.as_str());
                if !HARMLESS.contains(&name.as_str()) {
                    strange = Some(name);
                }
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(refused(reason(&error))),
    }
    if let (Some(name), false) = (strange, is_ours) {
        return Err(refused(format!("it holds other things, such as {name:?}; choose an empty directory")));
    }
    create_private_directory(path).map_err(|error| refused(reason(&error)))
}

/// Takes only one in which a server or a command worked before: who misspelt a name is told so, instead of getting a new,
/// empty one.
pub fn expect(path: &Path) -> Result<(), StartError> {
    if SIGNS.iter().any(|name| path.join(name).exists()) {
        return Ok(());
    }
    let message = if path.exists() { "it is no data directory of Cookhouse" } else { "there is no such directory" };
    Err(StartError::Directory { path: path.to_owned(), message: message.to_owned() })
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "this user may not use it".into(),
        io::ErrorKind::NotADirectory => "it is not a directory".into(),
        io::ErrorKind::ReadOnlyFilesystem => "its file system is read-only".into(),
        io::ErrorKind::NotFound => "it cannot be made there".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_somebody_else_is_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let theirs = directory.path().join("theirs");
        std::fs::create_dir(&theirs).expect("made");
        std::fs::write(theirs.join("thesis.txt"), "x").expect("written");
        let before = std::fs::metadata(&theirs).expect("there").permissions();
        assert!(prepare(&theirs).is_err_and(|error| error.to_string().contains("thesis.txt")));
        assert_eq!(std::fs::metadata(&theirs).expect("there").permissions(), before);
        assert!(prepare(&theirs.join("thesis.txt")).is_err());
    }

    #[test]
    fn a_new_an_empty_and_a_former_one_are_taken() {
        let directory = tempfile::tempdir().expect("a directory");
        let deep = directory.path().join("a/b");
        prepare(&deep).expect("made");
        std::fs::write(deep.join("cookhouse.toml"), "").expect("written");
        prepare(&deep).expect("only a configuration");
        assert!(expect(&deep).is_err() && expect(&deep.join("missing")).is_err());
        std::fs::write(deep.join("lock"), "").expect("written");
        std::fs::create_dir(deep.join("artifacts")).expect("made");
        prepare(&deep).expect("ours");
        expect(&deep).expect("one already");
    }
}
