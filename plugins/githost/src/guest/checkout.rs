//! Puts exactly one commit into a workspace, and keeps what an earlier build left there where that is wanted.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use guest_support::{Code, Problem};

use super::bindings::cookhouse::plugin::log::{self, Level};
use super::bindings::cookhouse::plugin::types::Error;
use super::bindings::cookhouse::plugin::workspaces::{Entry, EntryKind, Workspace};
use super::bindings::exports::cookhouse::plugin::source_control::{CheckoutOptions, Materialised};
use super::source::facts;
use super::tool::{Fault, Git};
use super::web::Web;
use super::{pruning, submodules};
use crate::attributes;
use crate::git::{self, Depth};
use crate::git_output::{self, Failure};
use crate::names::{BranchName, CommitName, RepositoryName};
use crate::settings::Settings;

/// What is fetched of a branch, step by step, until the wanted commit is there.
const DEEPER: [u32; 3] = [50, 500, 5000];
/// Links and paths that are named in one warning.
const REPORTED_LINKS: usize = 20;
/// Links whose targets are looked at.
const INSPECTED_LINKS: usize = 1000;
const OUTPUT_LIMIT: u32 = 1 << 20;

pub(super) fn materialise(
    settings: &Settings,
    repository: &RepositoryName,
    branch: &BranchName,
    commit: &CommitName,
    workspace: &Workspace,
    options: &CheckoutOptions,
) -> Result<Materialised, Error> {
    let job = Job { branch: Some(branch), commit, options };
    say(Level::Info, format!("Checking out {repository} at {} ({})", commit.short(), branch.as_str()));
    let mut git = Git::new(settings, repository, workspace, "");
    let mut renamed = None;
    let mut outcome = job.at(&mut git);
    if let Some(name) = renamed_to(settings, repository, &outcome)? {
        say(Level::Info, format!("The repository is called {name} now"));
        let name = renamed.insert(name);
        let mut git = Git::new(settings, name, workspace, "");
        outcome = job.at(&mut git);
    }
    let name = renamed.as_ref().unwrap_or(repository);
    let mut done = outcome?;
    let below = submodules::check_out(settings, name, workspace, options)?;
    done.files += below.files;
    done.bytes += below.bytes;
    done.extra.extend(renamed.map(|name| ("repository".to_owned(), name.to_string())));
    say(Level::Info, format!("{} files of {} by {}", done.files, commit.short(), done.revision.author));
    Ok(done)
}

/// The repository's present name, when that is why it was not found.
fn renamed_to(
    settings: &Settings,
    repository: &RepositoryName,
    outcome: &Result<Materialised, Error>,
) -> Result<Option<RepositoryName>, Error> {
    let is_lost = |error: &Error| matches!(error.reason.as_deref(), Some("repository" | "http-status-301"));
    if !outcome.as_ref().is_err_and(is_lost) {
        return Ok(None);
    }
    match facts(&Web::new(settings.clone(), Some(repository.clone())), repository) {
        Ok(found) => Ok(RepositoryName::parse(&found.full_name).ok().filter(|name| !name.is_same(repository))),
        // What git said is what people should see.
        Err(_) => Ok(None),
    }
}

/// One commit of one repository.
pub(super) struct Job<'a> {
    /// Where the commit is looked for when the server does not give it by its hash.
    pub(super) branch: Option<&'a BranchName>,
    pub(super) commit: &'a CommitName,
    pub(super) options: &'a CheckoutOptions,
}

impl Job<'_> {
    /// Checks it out. A repository that cannot be used any more is made anew, once.
    pub(super) fn at(&self, git: &mut Git<'_>) -> Result<Materialised, Error> {
        let is_fresh = !prepare(git)?;
        let outcome = match self.run(git) {
            Err(Fault::Failed(Failure::Unknown(problem))) if !is_fresh => {
                say(Level::Warn, format!("The repository in the workspace cannot be used, it is made anew: {problem}"));
                git.workspace.remove(&git.path(".git"), true)?;
                prepare(git)?;
                self.run(git)
            }
            other => other,
        };
        Ok(outcome?)
    }

    fn run(&self, git: &mut Git<'_>) -> Result<Materialised, Fault> {
        self.fetch(git)?;
        git.run(&git::checkout(self.commit))?;
        git.run(&git::clean(self.options.incremental))?;
        self.large_files(git)?;
        pruning::prune(git)?;
        let head = git.output(&git::head(), b"", OUTPUT_LIMIT)?;
        if String::from_utf8_lossy(&head).trim() != self.commit.as_str() {
            return Err(Fault::Failed(Failure::Unknown(Problem::new(Code::Internal, "git checked out another commit than it was told"))));
        }
        let files = survey(git)?;
        let revision = git_output::revision(&git.output(&git::describe(), b"", OUTPUT_LIMIT)?)?;
        Ok(Materialised { revision: revision.into(), files, bytes: git.received(), reusable: true, extra: Vec::new() })
    }

    /// Fetches the one commit, unless an earlier build did.
    fn fetch(&self, git: &mut Git<'_>) -> Result<(), Fault> {
        let depth = match self.options.history_depth {
            0 => Depth::Whole { shallow: is_shallow(git)? },
            count => Depth::Newest(count),
        };
        if self.options.history_depth != 0 && git.succeeds(&git::has_commit(self.commit))? {
            return Ok(());
        }
        match (git.transfer(&git::fetch_commit(self.commit, depth)), self.branch) {
            (Err(Fault::Failed(Failure::NotByHash(_))), Some(branch)) => self.fetch_by_branch(git, branch, depth),
            (other, _) => other,
        }
    }

    /// For servers that give commits by branch only: the branch's tip, then more of its past until the commit is there.
    fn fetch_by_branch(&self, git: &mut Git<'_>, branch: &BranchName, depth: Depth) -> Result<(), Fault> {
        say(Level::Info, format!("The server does not give this commit by its hash; fetching {}", branch.as_str()));
        git.transfer(&git::fetch_branch(branch, depth))?;
        for count in DEEPER {
            if git.succeeds(&git::has_commit(self.commit))? || !is_shallow(git)? {
                break;
            }
            git.transfer(&git::fetch_branch(branch, Depth::More(count)))?;
        }
        if !git.succeeds(&git::has_commit(self.commit))? && is_shallow(git)? {
            git.transfer(&git::fetch_branch(branch, Depth::Whole { shallow: true }))?;
        }
        if git.succeeds(&git::has_commit(self.commit))? {
            return Ok(());
        }
        Err(Problem::new(Code::NotFound, format!("the git host has no commit {} on {}", self.commit.as_str(), branch.as_str()))
            .because("revision")
            .into())
    }

    /// Replaces the pointers of large files by the files, where the commit has any.
    fn large_files(&self, git: &mut Git<'_>) -> Result<(), Fault> {
        let listed = git.output(&git::attribute_files(), b"", OUTPUT_LIMIT)?;
        let mut uses_them = false;
        for path in String::from_utf8_lossy(&listed).split('\0').filter(|path| !path.is_empty()) {
            // Git does not follow an attribute file that is a link, and neither does this.
            let path = git.path(path);
            if git.workspace.stat(&path)?.is_some_and(|entry| entry.kind == EntryKind::File) {
                uses_them |= attributes::use_large_files(&git.workspace.read(&path, 0, attributes::SIZE_LIMIT)?);
            }
        }
        if !uses_them {
            return Ok(());
        }
        if !self.options.large_files {
            say(Level::Warn, "The commit uses Git LFS; its large files are left as pointers");
            return Ok(());
        }
        say(Level::Info, "Fetching large files (Git LFS)");
        git.transfer(&git::large_files())
    }
}

/// Makes the repository where there is none, and says whether there was one. A build may have put anything in its place: the host
/// takes away what would redirect or configure git before each command.
fn prepare(git: &Git<'_>) -> Result<bool, Error> {
    let is_directory = |entry: Entry| entry.kind == EntryKind::Directory;
    let place = git.path(".git");
    let existing = git.workspace.stat(&place)?.is_some_and(is_directory);
    match git.run(&git::init()) {
        Ok(()) => {}
        Err(Fault::Failed(Failure::Unknown(_))) if existing => {
            git.workspace.remove(&place, true)?;
            git.run(&git::init())?;
        }
        Err(fault) => return Err(fault.into()),
    }
    Ok(existing)
}

fn is_shallow(git: &Git<'_>) -> Result<bool, Fault> {
    Ok(git.output(&git::is_shallow(), b"", OUTPUT_LIMIT)?.starts_with(b"true"))
}

/// Counts the commit's files, and names links that lead out of the repository: they stay as they are, and no step of a build
/// follows them unasked. Names paths that differ in case only, too: where the file system does not tell them apart, one of them
/// is not what the commit says.
fn survey(git: &Git<'_>) -> Result<u64, Fault> {
    let mut files = 0;
    let mut links: Vec<(String, String)> = Vec::new();
    let (mut folded, mut alike) = (HashSet::new(), Vec::new());
    git.lines(&git::files(), |line| {
        let Some((mode, object, path)) = git_output::staged(line) else { return };
        files += u64::from(mode != "160000");
        if mode == "120000" && links.len() < INSPECTED_LINKS {
            links.push((object.to_owned(), path.to_owned()));
        }
        // The hash alone is kept: a tree may have very many paths.
        if !folded.insert(BuildHasherDefault::<DefaultHasher>::default().hash_one(path.to_lowercase())) && alike.len() < REPORTED_LINKS {
            alike.push(path.to_owned());
        }
    })?;
    if !alike.is_empty() {
        say(Level::Warn, format!("Of paths that differ in case only, Windows and macOS keep one: {}", alike.join(", ")));
    }
    if !links.is_empty() {
        let asked: String = links.iter().map(|(object, _)| format!("{object}\n")).collect();
        let targets = git_output::link_targets(&git.output(&git::objects(), asked.as_bytes(), OUTPUT_LIMIT)?);
        let outside = links.iter().zip(targets).filter(|((_, path), target)| git_output::leads_outside(path, target));
        for ((_, path), target) in outside.take(REPORTED_LINKS) {
            say(Level::Warn, format!("The link {path} leads out of the repository, to {target}"));
        }
    }
    Ok(files)
}

pub(super) fn say(level: Level, text: impl AsRef<str>) {
    log::log(level, text.as_ref(), &[]);
}
