//! Accounts of this machine: whom a program can be run as, and what has to belong to them for that.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::system;

/// An account, as the kernel knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// What people call it.
    pub name: String,
    /// The user's number.
    pub user: u32,
    /// The number of the only group it acts in.
    pub group: u32,
}

/// Whether this process may start programs as somebody else.
pub fn may_act_as_others() -> bool {
    system::may_act_as_others()
}

/// The account of a user, by name or number; in a group of its own choice, or of `group`.
///
/// # Errors
/// A sentence for the administrator, when there is no such user or group.
pub fn find(user: &str, group: &str) -> Result<Account, String> {
    let entry = entry_of("passwd", user).ok_or_else(|| format!("there is no user {user:?} on this machine"))?;
    let number = |place: usize| entry.get(place).and_then(|text| text.parse::<u32>().ok());
    let (Some(id), Some(own_group)) = (number(2), number(3)) else {
        return Err(format!("what this machine says of the user {user:?} cannot be understood"));
    };
    let group = match group {
        "" => own_group,
        name => {
            let entry = entry_of("group", name).ok_or_else(|| format!("there is no group {name:?} on this machine"))?;
            entry.get(2).and_then(|text| text.parse().ok()).ok_or_else(|| format!("the group {name:?} has no number"))?
        }
    };
    Ok(Account { name: entry.first().cloned().unwrap_or_else(|| user.to_owned()), user: id, group })
}

/// The fields of an entry of the user or the group database. The file first; what a directory service knows besides,
/// `getent` tells.
fn entry_of(database: &str, wanted: &str) -> Option<Vec<String>> {
    let local = std::fs::read_to_string(Path::new("/etc").join(database)).unwrap_or_default();
    entry_in(&local, wanted).or_else(|| {
        let mut asking = Command::new("getent");
        asking.args([database, wanted]).stdin(Stdio::null()).stderr(Stdio::null());
        let answer = asking.output().ok().filter(|answer| answer.status.success())?;
        entry_in(&String::from_utf8_lossy(&answer.stdout), wanted)
    })
}

fn entry_in(text: &str, wanted: &str) -> Option<Vec<String>> {
    let mut entries = text.lines().map(|line| line.split(':').map(str::to_owned).collect::<Vec<String>>());
    entries.find(|fields| fields.len() > 3 && (fields[0] == wanted || fields[2] == wanted))
}

/// Lets the account's group go through a directory of ours that nobody else may enter. Nobody may list it.
///
/// # Errors
/// What the file system says.
pub fn let_through(directory: &Path, account: &Account) -> io::Result<()> {
    system::let_through(directory, account)
}

/// Tries whether the account gets into a directory, by starting a program of no consequence there. Blocks.
///
/// # Errors
/// Why it does not.
pub fn enter(directory: &Path, account: &Account) -> io::Result<()> {
    system::enter(directory, account)
}

/// Makes a tree the account's: directories, files and links, but never what a link leads to, and no file that has
/// another name elsewhere. What belongs to it already is left alone.
///
/// # Errors
/// What the file system says; parts of the tree are then handed over.
pub fn hand_over(tree: &Path, account: &Account) -> io::Result<()> {
    system::hand_over(tree, account)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_name_and_by_number() {
        let users = "root:x:0:0:root:/root:/bin/bash\nbuilder:x:1001:1002::/home/builder:/bin/sh\nbroken\n+::::\n";
        assert_eq!(entry_in(users, "builder").unwrap()[3], "1002");
        assert_eq!(entry_in(users, "1001").unwrap()[0], "builder");
        assert_eq!(entry_in(users, "broken"), None);
        assert_eq!(entry_in(users, "x"), None);
        assert_eq!(entry_in("games:x:60:\n", "games").unwrap()[2], "60");
    }

    #[cfg(unix)]
    #[test]
    fn an_unknown_name_is_told_in_a_sentence() {
        assert_eq!(find("root", "").map(|found| (found.user, found.group)), Ok((0, 0)));
        assert!(find("nobody-has-this-name", "").unwrap_err().contains("no user"));
        assert!(find("root", "nobody-has-this-name").unwrap_err().contains("no group"));
    }
}
