//! The addresses of the REST API that are used, relative to its base.
//!
//! GitHub wants `per_page`, Gitea and Forgejo `limit`; each ignores the other's word.

use crate::names::{BranchName, CommitName, FilePath, RepositoryName, encode_path, encode_query};
use crate::paging::Position;

/// Who the credentials are.
pub const USER: &str = "/user";
/// The server's version, on Gitea and Forgejo.
pub const VERSION: &str = "/version";

/// The app itself.
pub const APP: &str = "/app";

/// Where the app is installed, one page.
pub fn installations(page: u32) -> String {
    format!("/app/installations?per_page=100&page={page}")
}

/// What an installation reaches.
pub fn installed_repositories(position: Position) -> String {
    format!("/installation/repositories?{}", page(position))
}

/// What the credentials reach.
pub fn repositories(position: Position) -> String {
    format!("/user/repos?{}", page(position))
}

/// One repository.
pub fn repository(repository: &RepositoryName) -> String {
    format!("/repos/{repository}")
}

/// Its branches, one page.
pub fn branches(repository: &RepositoryName, position: Position) -> String {
    format!("/repos/{repository}/branches?{}", page(position))
}

/// One branch with its newest commit.
pub fn branch(repository: &RepositoryName, branch: &BranchName) -> String {
    format!("/repos/{repository}/branches/{}", encode_path(branch.as_str()))
}

/// A commit, by whole or shortened hash, as GitHub has it.
pub fn commit(repository: &RepositoryName, commit: &CommitName) -> String {
    format!("/repos/{repository}/commits/{}", commit.as_str())
}

/// The same on Gitea and Forgejo.
pub fn git_commit(repository: &RepositoryName, commit: &CommitName) -> String {
    format!("/repos/{repository}/git/commits/{}", commit.as_str())
}

/// A tree by the hash of a commit or of a tree. Any value of `recursive` means yes, so it is left out for no. `page` beyond the
/// first exists on Gitea and Forgejo.
pub fn tree(repository: &RepositoryName, hash: &CommitName, recursive: bool, page: u32) -> String {
    let recursive = if recursive { "recursive=1&" } else { "" };
    let page = if page > 1 { format!("page={page}&") } else { String::new() };
    format!("/repos/{repository}/git/trees/{}?{recursive}{page}per_page=1000", hash.as_str())
}

/// A file at a commit.
pub fn contents(repository: &RepositoryName, hash: &CommitName, path: &FilePath) -> String {
    format!("/repos/{repository}/contents/{}?ref={}", encode_path(path.as_str()), encode_query(hash.as_str()))
}

/// A file's bytes on Gitea and Forgejo, which leave out large contents above.
pub fn raw(repository: &RepositoryName, hash: &CommitName, path: &FilePath) -> String {
    format!("/repos/{repository}/raw/{}?ref={}", encode_path(path.as_str()), encode_query(hash.as_str()))
}

fn page(position: Position) -> String {
    format!("per_page={0}&limit={0}&page={1}", position.size, position.page)
}

#[cfg(test)]
mod tests {
    use crate::names::{BranchName, CommitName, FilePath, RepositoryName};
    use crate::paging::Position;

    #[test]
    fn values_are_encoded_where_they_stand() {
        let repository = RepositoryName::parse("studio/game").unwrap();
        let hash = CommitName::parse(&"a".repeat(40)).unwrap();
        let branch = BranchName::parse("feature/#1%&x").unwrap();
        assert_eq!(super::branch(&repository, &branch), "/repos/studio/game/branches/feature/%231%25%26x");
        assert_eq!(
            super::branches(&repository, Position { page: 2, size: 50, skip: 3 }),
            "/repos/studio/game/branches?per_page=50&limit=50&page=2"
        );
        let path = FilePath::parse("My Game/a?b.uproject").unwrap();
        assert_eq!(
            super::contents(&repository, &hash, &path),
            format!("/repos/studio/game/contents/My%20Game/a%3Fb.uproject?ref={}", "a".repeat(40))
        );
        assert!(!super::tree(&repository, &hash, false, 1).contains("recursive"));
        assert!(super::tree(&repository, &hash, true, 2).ends_with("?recursive=1&page=2&per_page=1000"));
    }
}
