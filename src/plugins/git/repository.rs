//! The repository in a workspace, made harmless before git looks at it. A build may have written anything into it.

use std::io;
use std::path::Path;

use cap_std::fs::Dir;

/// Files under `.git` that redirect it, borrow from elsewhere, or configure filters.
const REDIRECTIONS: &[&str] = &[
    "commondir",
    "gitdir",
    "config.worktree",
    "objects/info/alternates",
    "objects/info/http-alternates",
    "info/attributes",
    "info/grafts",
];
/// Locks that a killed git leaves. Nothing else works in the workspace while this call does.
const LOCKS: &[&str] = &["index.lock", "HEAD.lock", "config.lock", "shallow.lock", "packed-refs.lock", "FETCH_HEAD.lock"];
/// A configuration longer than this was not written by git.
const LONGEST: u64 = 64 * 1024;

/// Makes the repository at `path` of the workspace harmless: no link or file in place of `.git`, nothing that
/// redirects, only known configuration. Without a repository there is nothing to do.
///
/// `release_locks`: also removes locks, for the first git of a call.
///
/// # Errors
/// When something hostile could not be removed; git must not be started then.
pub(crate) fn disarm(workspace: &Dir, path: &Path, release_locks: bool) -> io::Result<()> {
    let place = path.join(".git");
    match workspace.symlink_metadata(&place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if found.is_dir() => {}
        // A link or a `gitdir:` file would lead git out of the workspace.
        Ok(_) => return workspace.remove_file(&place),
    }
    let git = workspace.open_dir(&place)?;
    for entry in git.entries()? {
        let entry = entry?;
        if entry.file_type()?.is_symlink() {
            git.remove_file(entry.file_name())?;
        }
    }
    if git.symlink_metadata("objects/info").is_ok_and(|found| found.is_symlink()) {
        git.remove_file("objects/info")?;
    }
    for name in REDIRECTIONS.iter().chain(if release_locks { LOCKS } else { &[] }) {
        remove(&git, Path::new(name))?;
    }
    let text = match git.metadata("config") {
        Ok(found) if found.is_file() && found.len() <= LONGEST => {
            git.read("config").map(|bytes| String::from_utf8_lossy(&bytes).into_owned())?
        }
        Ok(found) if found.is_dir() => {
            git.remove_dir_all("config")?;
            String::new()
        }
        Ok(_) => String::new(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let wanted = harmless(&text);
    if text != wanted {
        git.write("config", wanted)?;
    }
    Ok(())
}

fn remove(git: &Dir, name: &Path) -> io::Result<()> {
    let gone = match git.symlink_metadata(name) {
        Ok(found) if found.is_dir() => git.remove_dir_all(name),
        Ok(_) => git.remove_file(name),
        Err(error) => Err(error),
    };
    match gone {
        // A parent that is a link out of the workspace is refused by the sandbox, and git would be too.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(()),
        other => other,
    }
}

/// Keys that git writes itself and that change nothing but how objects are read. The remote comes from the call.
const KEPT: &[(&str, &str)] = &[
    ("core", "repositoryformatversion"),
    ("core", "filemode"),
    ("core", "logallrefupdates"),
    ("core", "ignorecase"),
    ("core", "symlinks"),
    ("core", "precomposeunicode"),
    ("extensions", "objectformat"),
    ("extensions", "partialclone"),
    ("remote \"origin\"", "promisor"),
    ("remote \"origin\"", "partialclonefilter"),
    ("lfs", "repositoryformatversion"),
];

/// The configuration with the known keys only, written afresh: `bare = false` always.
fn harmless(text: &str) -> String {
    let mut section = String::new();
    let mut kept: Vec<(&str, &str, String)> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_ascii_lowercase();
        } else if let Some((key, value)) = line.split_once('=') {
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            let plain =
                !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'.' | b'-' | b'_'));
            if let Some((section, key)) = KEPT.iter().find(|(wanted, name)| *wanted == section && *name == key)
                && plain
                && !kept.iter().any(|(s, k, _)| s == section && k == key)
            {
                kept.push((section, key, value.to_owned()));
            }
        }
    }
    if !kept.iter().any(|(_, key, _)| *key == "repositoryformatversion") {
        kept.push(("core", "repositoryformatversion", "0".to_owned()));
    }
    let mut out = String::new();
    for section in ["core", "extensions", "remote \"origin\"", "lfs"] {
        let mut lines = kept.iter().filter(|(s, ..)| *s == section).peekable();
        if lines.peek().is_none() {
            continue;
        }
        out.push_str(&format!("[{section}]\n"));
        for (_, key, value) in lines {
            out.push_str(&format!("\t{key} = {value}\n"));
        }
        if section == "core" {
            out.push_str("\tbare = false\n");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_plain_keys_survive() {
        let hostile = "[core]\n\trepositoryformatversion = 1\n\tfsmonitor = touch x\n\tworktree = /etc\n\tbare = true\n\tsshCommand = x\n\thooksPath = /x\n\tfilemode = true \\\n\
            [include]\n\tpath = /etc/evil\n[filter \"evil\"]\n\tsmudge = touch x\n[alias]\n\tlfs = !x\n[credential]\n\thelper = !x\n[extensions]\n\tpartialClone = origin\n\tworktreeConfig = true\n\
            [remote \"origin\"]\n\turl = ext::sh\n\tpromisor = true\n\tuploadpack = x\n[core]\n\trepositoryformatversion = 0\n";
        let text = harmless(hostile);
        assert_eq!(
            text,
            "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tpartialclone = origin\n[remote \"origin\"]\n\tpromisor = true\n"
        );
        assert_eq!(harmless(&text), text);
        assert_eq!(harmless(""), "[core]\n\trepositoryformatversion = 0\n\tbare = false\n");
    }

    #[test]
    fn links_and_redirections_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Dir::open_ambient_dir(directory.path(), cap_std::ambient_authority()).unwrap();
        disarm(&workspace, Path::new(""), true).unwrap();
        workspace.write(".git", "gitdir: /elsewhere\n").unwrap();
        disarm(&workspace, Path::new(""), true).unwrap();
        assert!(!workspace.exists(".git"));
        workspace.create_dir_all(".git/objects/info").unwrap();
        for name in ["commondir", "objects/info/alternates", "info", "index.lock"] {
            workspace.write(format!(".git/{name}"), "x").unwrap();
        }
        workspace.write(".git/config", "[core]\n\tfsmonitor = x\n").unwrap();
        disarm(&workspace, Path::new(""), false).unwrap();
        assert!(workspace.exists(".git/index.lock"));
        disarm(&workspace, Path::new(""), true).unwrap();
        for name in ["commondir", "objects/info/alternates", "index.lock"] {
            assert!(!workspace.exists(format!(".git/{name}")), "{name}");
        }
        assert!(!workspace.read_to_string(".git/config").unwrap().contains("fsmonitor"));
    }
}
