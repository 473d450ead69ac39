//! The bare repositories on disk, read and filled with git itself.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::process::Command;

/// Longest owner or repository name.
const NAME_LIMIT: usize = 100;

/// A directory of bare repositories, `<owner>/<name>.git`.
#[derive(Debug, Clone)]
pub struct Repositories {
    directory: PathBuf,
    /// Each old name with the one that followed.
    renames: Arc<Mutex<Vec<(String, String)>>>,
}

/// A commit to make.
#[derive(Debug, Clone)]
pub struct Commit<'a> {
    /// Its branch, made where it does not exist.
    pub branch: &'a str,
    /// What it says.
    pub message: &'a str,
    /// Who wrote it.
    pub author: &'a str,
}

/// What the endpoints tell of a commit.
#[derive(Debug, Clone)]
pub(super) struct Description {
    pub(super) hash: String,
    pub(super) tree: String,
    pub(super) author: String,
    pub(super) email: String,
    /// RFC 3339.
    pub(super) date: String,
    pub(super) message: String,
}

/// One entry of a tree.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) mode: String,
    pub(super) kind: String,
    pub(super) hash: String,
    pub(super) size: Option<u64>,
    pub(super) path: String,
}

/// git, knowing of no configuration but the repository's own.
pub(super) fn git_command(repository: &Path) -> Command {
    let mut command = Command::new("git");
    command.env_clear();
    for name in ["PATH", "SystemRoot", "TMPDIR", "TEMP", "TMP"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
        .env("GIT_DIR", repository)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C")
        .env("GIT_CONFIG_COUNT", "2")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .env("GIT_CONFIG_KEY_1", "gc.auto")
        .env("GIT_CONFIG_VALUE_1", "0")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Whether the text is `<owner>/<name>`, with nothing that means something to a file system.
pub(super) fn is_name(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.len() <= NAME_LIMIT
            && !part.starts_with(['.', '-'])
            && part.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.'))
    };
    text.split_once('/').is_some_and(|(owner, name)| is_part(owner) && is_part(name))
}

impl Repositories {
    /// The ones below a directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Repositories { directory: directory.into(), renames: Arc::default() }
    }

    /// Where a repository lies, when there is one of that name.
    pub fn directory_of(&self, name: &str) -> Option<PathBuf> {
        is_name(name).then(|| self.path(name)).filter(|path| path.join("HEAD").is_file())
    }

    /// Gives a repository another name. The old one leads to the new one from then on.
    pub async fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let place = self.directory_of(from).filter(|_| is_name(to)).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let target = self.path(to);
        tokio::fs::create_dir_all(target.parent().unwrap_or(&self.directory)).await?;
        tokio::fs::rename(place, target).await?;
        self.renames().push((from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn renames(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.renames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a repository of this name is called now.
    pub(super) fn current(&self, name: &str) -> String {
        let renames = self.renames();
        renames.iter().fold(name.to_owned(), |name, (from, to)| if from.eq_ignore_ascii_case(&name) { to.clone() } else { name })
    }

    /// Its number, which no new name changes.
    pub(super) fn number(&self, name: &str) -> u64 {
        let renames = self.renames();
        let first = renames.iter().rev().fold(name, |name, (from, to)| if to == name { from } else { name });
        u64::from(crc32fast::hash(first.as_bytes()))
    }

    /// The repository of a number.
    pub(super) async fn numbered(&self, number: u64) -> Option<String> {
        self.names().await.ok()?.into_iter().find(|name| self.number(name) == number)
    }

    /// The repository that a path of the API or of git is about, as it is called now.
    pub(super) async fn subject(&self, path: &str) -> Option<String> {
        if let Some(rest) = path.strip_prefix("/api/v3/repositories/") {
            return self.numbered(rest.split('/').next()?.parse().ok()?).await;
        }
        let name = match path.strip_prefix("/api/v3/repos/") {
            Some(rest) => &rest[..rest.match_indices('/').nth(1).map_or(rest.len(), |(end, _)| end)],
            None => path.strip_prefix('/')?.split_once(".git/")?.0,
        };
        Some(self.current(name))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.git"))
    }

    /// Makes an empty repository, unless there is one.
    pub async fn create(&self, name: &str) -> io::Result<PathBuf> {
        if !is_name(name) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a repository is named <owner>/<name>"));
        }
        let path = self.path(name);
        if !path.join("HEAD").is_file() {
            tokio::fs::create_dir_all(&path).await?;
            run(git_command(&path).args(["init", "--quiet", "--bare", "--template=", "--initial-branch=main"])).await?;
        }
        Ok(path)
    }

    /// Commits all files of a directory and gives the new commit's hash. Files that `.gitattributes` hands to Git LFS become
    /// pointers, and their contents large-file objects of the repository.
    pub async fn publish(&self, name: &str, files: &Path, commit: Commit<'_>) -> io::Result<String> {
        let path = self.create(name).await?;
        let git = || {
            let mut command = git_command(&path);
            command
                .env("GIT_WORK_TREE", files)
                .env("GIT_CONFIG_COUNT", "8")
                .envs([("GIT_CONFIG_KEY_2", "filter.lfs.clean"), ("GIT_CONFIG_VALUE_2", "git-lfs clean -- %f")])
                .envs([("GIT_CONFIG_KEY_3", "filter.lfs.required"), ("GIT_CONFIG_VALUE_3", "true")])
                .envs([("GIT_CONFIG_KEY_4", "core.hooksPath"), ("GIT_CONFIG_VALUE_4", "/dev/null")])
                .envs([("GIT_CONFIG_KEY_5", "core.autocrlf"), ("GIT_CONFIG_VALUE_5", "false")])
                .envs([("GIT_CONFIG_KEY_6", "core.safecrlf"), ("GIT_CONFIG_VALUE_6", "false")])
                .envs([("GIT_CONFIG_KEY_7", "filter.lfs.smudge"), ("GIT_CONFIG_VALUE_7", "git-lfs smudge --skip -- %f")])
                .envs([("GIT_AUTHOR_NAME", commit.author), ("GIT_COMMITTER_NAME", commit.author)])
                .envs([("GIT_AUTHOR_EMAIL", "studio@example.com"), ("GIT_COMMITTER_EMAIL", "studio@example.com")])
                .current_dir(files);
            command
        };
        let reference = format!("refs/heads/{}", commit.branch);
        run(git().args(["add", "--all", "--", "."])).await?;
        let tree = text(run(git().arg("write-tree")).await?)?;
        let parent = run(git().args(["rev-parse", "--verify", "--quiet", "--end-of-options", &reference])).await.ok();
        let mut make = git();
        make.args(["commit-tree", &tree, "-m", commit.message]);
        if let Some(parent) = parent {
            make.args(["-p", &text(parent)?]);
        }
        let hash = text(run(&mut make).await?)?;
        run(git().args(["update-ref", &reference, &hash])).await?;
        Ok(hash)
    }

    /// Every repository, by name.
    pub(super) async fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let mut owners = tokio::fs::read_dir(&self.directory).await?;
        while let Some(owner) = owners.next_entry().await? {
            if !owner.file_type().await?.is_dir() {
                continue;
            }
            let mut entries = tokio::fs::read_dir(owner.path()).await?;
            while let Some(entry) = entries.next_entry().await? {
                let name = entry
                    .file_name()
                    .to_string_lossy()
                    .strip_suffix(".git")
                    .map(|name| format!("{}/{name}", owner.file_name().to_string_lossy()));
                names.extend(name.filter(|name| self.directory_of(name).is_some()));
            }
        }
        names.sort();
        Ok(names)
    }
}

/// The branch that `HEAD` names.
pub(super) async fn default_branch(repository: &Path) -> io::Result<String> {
    text(run(git_command(repository).args(["symbolic-ref", "--short", "HEAD"])).await?)
}

/// Branches and their commits' hashes, by name.
pub(super) async fn branches(repository: &Path) -> io::Result<Vec<(String, String)>> {
    let listed =
        text(run(git_command(repository).args(["for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads"])).await?)?;
    Ok(listed.lines().filter_map(|line| line.split_once(' ')).map(|(name, hash)| (name.to_owned(), hash.to_owned())).collect())
}

/// The commit that a whole or shortened hash or a reference names.
pub(super) async fn describe(repository: &Path, name: &str) -> io::Result<Option<Description>> {
    let Some(hash) = resolve(repository, name, "commit").await? else { return Ok(None) };
    let format = "--format=%H%x00%T%x00%an%x00%ae%x00%aI%x00%B";
    let output = run(git_command(repository).args(["log", "-1", "--no-show-signature", "--no-color", format, &hash, "--"])).await?;
    let output = String::from_utf8_lossy(&output).into_owned();
    let mut fields = output.splitn(6, '\0').map(str::to_owned);
    let mut next = || fields.next().unwrap_or_default();
    let (hash, tree, author, email, date, message) = (next(), next(), next(), next(), next(), next());
    Ok(Some(Description { hash, tree, author, email, date, message: message.trim_end().to_owned() }))
}

/// The whole hash of what a name stands for, as `kind`.
pub(super) async fn resolve(repository: &Path, name: &str, kind: &str) -> io::Result<Option<String>> {
    let wanted = format!("{name}^{{{kind}}}");
    let output = git_command(repository).args(["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted]).output().await?;
    if output.status.success() { text(output.stdout).map(Some) } else { Ok(None) }
}

/// A tree's entries; with directories and all that is in them when `recursive`.
pub(super) async fn tree(repository: &Path, hash: &str, recursive: bool, path: Option<&str>) -> io::Result<Vec<Entry>> {
    let mut command = git_command(repository);
    command.args(["ls-tree", "-z", "-l", "--full-tree"]);
    if recursive {
        command.args(["-r", "-t"]);
    }
    command.arg(hash).arg("--").args(path);
    let output = run(&mut command).await?;
    let entries = output.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()).filter_map(|entry| {
        let entry = String::from_utf8_lossy(entry).into_owned();
        let (facts, path) = entry.split_once('\t')?;
        let mut facts = facts.split_whitespace().map(str::to_owned);
        let (mode, kind, hash) = (facts.next()?, facts.next()?, facts.next()?);
        Some(Entry { mode, kind, hash, size: facts.next().and_then(|size| size.parse().ok()), path: path.to_owned() })
    });
    Ok(entries.collect())
}

/// A file's bytes.
pub(super) async fn blob(repository: &Path, hash: &str) -> io::Result<Vec<u8>> {
    run(git_command(repository).args(["cat-file", "blob", hash])).await
}

async fn run(command: &mut Command) -> io::Result<Vec<u8>> {
    let output = command.output().await?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("git ended with {}: {}", output.status, said.trim())))
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    let text = String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(text.trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_cannot_leave_the_directory() {
        assert!(is_name("studio/My-Game.2"));
        for name in ["", "game", "/game", "a/", "../a", "a/..", "a/.b", "-a/b", "a/b/c", "a/b\\c", "a/b c", "a/%2e"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
