//! The command lines of git: complete argument lists, every value checked before or behind an end of options.

use crate::names::{BranchName, CommitName};

/// Kept between builds of one workspace: what Unreal made there and uses again.
pub const KEPT_FOLDERS: [&str; 4] = ["Intermediate", "Saved", "Binaries", "DerivedDataCache"];

/// What of `.git` is thrown away before git reads it: the build before could have written there, and each of these can make git
/// run a program, read another repository or talk to another server.
pub const DISTRUSTED: [&str; 13] = [
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/gitdir",
    ".git/hooks",
    ".git/info",
    ".git/modules",
    ".git/worktrees",
    ".git/objects/info/alternates",
    ".git/objects/info/http-alternates",
    ".git/index.lock",
    ".git/shallow.lock",
    ".git/HEAD.lock",
];

/// Where a branch's tip goes when its commit cannot be fetched by hash.
const FETCHED: &str = "refs/cookhouse/fetched";

/// How much history to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The newest commits.
    Newest(u32),
    /// So many more than are there.
    More(u32),
    /// Everything. Of a shallow repository, what is missing.
    Whole {
        /// The repository lacks history.
        shallow: bool,
    },
}

fn line<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// Makes the repository, or its configuration anew.
pub fn init() -> Vec<String> {
    line(["init", "--quiet", "--template=", "--initial-branch=main"])
}

/// Fetches exactly one commit.
pub fn fetch_commit(address: &str, commit: &CommitName, depth: Depth) -> Vec<String> {
    fetch(address, commit.as_str(), depth)
}

/// Fetches a branch, for servers that give commits by branch only.
pub fn fetch_branch(address: &str, branch: &BranchName, depth: Depth) -> Vec<String> {
    fetch(address, &format!("+{}:{FETCHED}", branch.reference()), depth)
}

fn fetch(address: &str, wanted: &str, depth: Depth) -> Vec<String> {
    let mut line =
        line(["fetch", "--progress", "--force", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--update-shallow"]);
    match depth {
        Depth::Newest(count) => line.push(format!("--depth={count}")),
        Depth::More(count) => line.push(format!("--deepen={count}")),
        Depth::Whole { shallow: true } => line.push("--unshallow".to_owned()),
        Depth::Whole { shallow: false } => {}
    }
    line.extend(["--".to_owned(), address.to_owned(), wanted.to_owned()]);
    line
}

/// Succeeds when the commit is in the repository.
pub fn has_commit(commit: &CommitName) -> Vec<String> {
    vec!["cat-file".into(), "-e".into(), format!("{}^{{commit}}", commit.as_str())]
}

/// Prints `true` or `false`.
pub fn is_shallow() -> Vec<String> {
    line(["rev-parse", "--is-shallow-repository"])
}

/// Puts the commit's files into the workspace.
pub fn checkout(commit: &CommitName) -> Vec<String> {
    line(["checkout", "--quiet", "--force", "--no-recurse-submodules", "--detach", commit.as_str()])
}

/// Removes what is not the commit's, nested repositories too, but for [`KEPT_FOLDERS`] when `keep`.
pub fn clean(keep: bool) -> Vec<String> {
    let mut line = line(["clean", "-ffdx", "--quiet"]);
    if keep {
        for folder in KEPT_FOLDERS {
            line.extend(["-e".to_owned(), folder.to_owned()]);
        }
    }
    line
}

/// Prints the commit that is checked out.
pub fn head() -> Vec<String> {
    line(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
}

/// Prints hash, author, seconds since 1970 and message, a NUL between each.
pub fn describe() -> Vec<String> {
    line(["log", "-1", "--no-show-signature", "--no-color", "--format=%H%x00%an%x00%ct%x00%B"])
}

/// Lists the files of the commit with their modes.
pub fn files() -> Vec<String> {
    line(["ls-files", "--stage"])
}

/// Lists the attribute files of the commit, a NUL behind each.
pub fn attribute_files() -> Vec<String> {
    line(["ls-files", "-z", "--", ":(top,glob)**/.gitattributes"])
}

/// Prints the objects named on the standard input.
pub fn objects() -> Vec<String> {
    line(["cat-file", "--batch"])
}

/// Fetches the large files of the commit that is checked out and puts them in place of their pointers.
pub fn large_files() -> Vec<String> {
    line(["lfs", "pull"])
}

/// Behind the configuration that `git init` wrote: the large-file filter, which leaves pointers at checkout, and the one server
/// large files come from. It outranks a `.lfsconfig` in the repository.
pub fn configuration(lfs_address: &str) -> String {
    format!(
        "[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\tsmudge = git-lfs smudge --skip -- %f\n\tprocess = git-lfs filter-process --skip\n\trequired = true\n\
         [lfs]\n\turl = \"{lfs_address}\"\n\tlocksverify = false\n\tsetlockablereadonly = false\n[lfs \"{lfs_address}\"]\n\taccess = basic\n"
    )
}

#[cfg(test)]
mod tests {
    use super::{Depth, clean, configuration, fetch_branch, fetch_commit};
    use crate::names::{BranchName, CommitName};

    #[test]
    fn values_stand_behind_the_end_of_options() {
        let hash = "a".repeat(40);
        let commit = CommitName::parse(&hash).unwrap();
        let line = fetch_commit("https://host/a/b.git", &commit, Depth::Newest(1));
        assert_eq!(line[line.len() - 3..], ["--".to_owned(), "https://host/a/b.git".to_owned(), hash]);
        assert!(line.contains(&"--depth=1".to_owned()));
        let line = fetch_branch("https://host/a/b.git", &BranchName::parse("dev").unwrap(), Depth::Whole { shallow: true });
        assert_eq!(line.last().unwrap(), "+refs/heads/dev:refs/cookhouse/fetched");
        assert!(line.contains(&"--unshallow".to_owned()));
    }

    #[test]
    fn only_an_incremental_checkout_keeps_folders() {
        assert_eq!(clean(false), ["clean", "-ffdx", "--quiet"]);
        assert_eq!(clean(true).len(), 3 + 8);
    }

    #[test]
    fn the_configuration_names_the_large_file_server() {
        assert!(configuration("https://host/a/b.git/info/lfs").contains("\turl = \"https://host/a/b.git/info/lfs\"\n"));
    }
}
