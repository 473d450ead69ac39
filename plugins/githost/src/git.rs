//! The command lines of git: complete argument lists, every value checked before or behind an end of options.

use crate::names::{BranchName, CommitName};

/// Kept between builds of one workspace: what Unreal made there and uses again.
pub const KEPT_FOLDERS: [&str; 4] = ["Intermediate", "Saved", "Binaries", "DerivedDataCache"];

/// Names what was fetched, so that the next fetch can say what is there already.
const FETCHED: &str = "refs/cookhouse/fetched";

/// What may lie beside the largest pack, and as much again as that has.
const SPARE_BYTES: u64 = 256 << 20;
const MOST_PACKS: usize = 50;
/// As git's own garbage collection counts.
const MOST_LOOSE: usize = 6700;

/// The repository's address, as the host was told it for this command.
const REMOTE: &str = "origin";

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
    line(["init", "--quiet", "--initial-branch=main"])
}

/// Fetches exactly one commit.
pub fn fetch_commit(commit: &CommitName, depth: Depth) -> Vec<String> {
    fetch(commit.as_str(), depth)
}

/// Fetches a branch, for servers that give commits by branch only.
pub fn fetch_branch(branch: &BranchName, depth: Depth) -> Vec<String> {
    fetch(&branch.reference(), depth)
}

fn fetch(wanted: &str, depth: Depth) -> Vec<String> {
    let mut line =
        line(["fetch", "--progress", "--force", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--update-shallow"]);
    match depth {
        Depth::Newest(count) => line.push(format!("--depth={count}")),
        Depth::More(count) => line.push(format!("--deepen={count}")),
        Depth::Whole { shallow: true } => line.push("--unshallow".to_owned()),
        Depth::Whole { shallow: false } => {}
    }
    line.extend(["--".to_owned(), REMOTE.to_owned(), format!("+{wanted}:{FETCHED}")]);
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

/// Lists one file, or one submodule, a NUL behind it.
pub fn file(path: &str) -> Vec<String> {
    let mut line = line(["ls-files", "--stage", "-z", "--"]);
    line.push(format!(":(top,literal){path}"));
    line
}

/// Removes objects that nothing refers to any more, and packs the rest together.
pub fn collect() -> Vec<String> {
    line(["gc", "--quiet", "--prune=now"])
}

/// Removes large files that the commit does not need.
pub fn prune_large_files() -> Vec<String> {
    line(["lfs", "prune"])
}

/// Whether [`collect`] is worth its time: much lies beside the largest pack, or very many pieces do.
pub fn has_grown(packs: &[u64], loose: usize) -> bool {
    let (total, largest) = (packs.iter().sum::<u64>(), packs.iter().max().copied().unwrap_or(0));
    packs.len() > MOST_PACKS || loose > MOST_LOOSE || total - largest > largest + SPARE_BYTES
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

#[cfg(test)]
mod tests {
    use super::{Depth, clean, fetch_branch, fetch_commit, has_grown};
    use crate::names::{BranchName, CommitName};

    #[test]
    fn values_stand_behind_the_end_of_options() {
        let hash = "a".repeat(40);
        let commit = CommitName::parse(&hash).unwrap();
        let line = fetch_commit(&commit, Depth::Newest(1));
        assert_eq!(line[line.len() - 3..], ["--".to_owned(), "origin".to_owned(), format!("+{hash}:refs/cookhouse/fetched")]);
        assert!(line.contains(&"--depth=1".to_owned()));
        let line = fetch_branch(&BranchName::parse("dev").unwrap(), Depth::Whole { shallow: true });
        assert_eq!(line.last().unwrap(), "+refs/heads/dev:refs/cookhouse/fetched");
        assert!(line.contains(&"--unshallow".to_owned()));
    }

    #[test]
    fn a_repository_has_grown_by_bytes_packs_or_pieces() {
        let mebi = 1 << 20;
        assert!(!has_grown(&[], 0) && !has_grown(&[900 * mebi, 500 * mebi, 600 * mebi], 2000) && !has_grown(&[mebi, 200 * mebi], 0));
        assert!(has_grown(&[900 * mebi, 500 * mebi, 700 * mebi], 0) && has_grown(&[1; 51], 0) && has_grown(&[], 7000));
    }

    #[test]
    fn only_an_incremental_checkout_keeps_folders() {
        assert_eq!(clean(false), ["clean", "-ffdx", "--quiet"]);
        assert_eq!(clean(true).len(), 3 + 8);
    }
}
