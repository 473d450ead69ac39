//! Finding and reading files of a commit without a checkout.

use std::collections::VecDeque;

use guest_support::{Code, Problem, pattern};

use super::bindings::cookhouse::plugin::types::{Error, ErrorCode};
use super::bindings::exports::cookhouse::plugin::source_control::Found;
use super::source::{describe_revision, facts, missing};
use super::web::{Download, JSON, RAW, Web, is_status};
use crate::answers::Contents;
use crate::names::{CommitName, FilePath, RepositoryName};
use crate::tree::{self, Entry, Kind, Summary};
use crate::{base64, endpoints};

/// GitHub cuts trees at 7 MB of git data; as JSON with addresses that is some tens of megabytes.
const TREE_LIMIT: u64 = 96 << 20;
/// Requests of one walk through directories.
const WALK_LIMIT: usize = 1000;
const PAGES_PER_TREE: u32 = 100;

/// Finds by the whole tree in one answer, or directory by directory where the server does not give it whole. Links and
/// submodules are not followed.
pub(super) fn find(
    web: &Web,
    repository: &RepositoryName,
    revision: &CommitName,
    wanted: &str,
    max_depth: u32,
    limit: u32,
) -> Result<Found, Error> {
    let commit = whole(web, repository, revision)?;
    let mut search = Search { wanted, max_depth: max_depth as usize, limit: limit as usize, paths: Vec::new(), truncated: false };
    let summary = match tree(web, repository, &commit, true, |entry| search.look_at("", &entry)) {
        Err(error) if [404, 409].iter().any(|status| is_status(&error, *status)) => {
            facts(web, repository)?;
            return Err(missing(format!("{repository} has no commit {}", commit.as_str()), "revision"));
        }
        other => other?,
    };
    if summary.truncated {
        search.paths.clear();
        search.truncated = false;
        walk(web, repository, commit, &mut search)?;
    }
    search.paths.sort();
    Ok(Found { paths: search.paths, truncated: search.truncated })
}

struct Search<'a> {
    wanted: &'a str,
    max_depth: usize,
    limit: usize,
    paths: Vec<String>,
    truncated: bool,
}

impl Search<'_> {
    fn look_at(&mut self, directory: &str, entry: &Entry) {
        if entry.kind() != Kind::File {
            return;
        }
        let path = join(directory, &entry.path);
        // A path that could not be asked for is no path of ours, whatever the server says.
        if tree::depth(&path) > self.max_depth || !pattern::matches(self.wanted, &path) || FilePath::parse(&path).is_err() {
            return;
        }
        if self.paths.len() < self.limit {
            self.paths.push(path);
        } else {
            self.truncated = true;
        }
    }
}

/// Breadth first; the folders full of assets only when nothing was found elsewhere.
fn walk(web: &Web, repository: &RepositoryName, root: CommitName, search: &mut Search<'_>) -> Result<(), Error> {
    let mut waiting = VecDeque::from([(String::new(), root)]);
    let mut heavy = VecDeque::new();
    for _ in 0..WALK_LIMIT {
        if waiting.is_empty() && search.paths.is_empty() {
            std::mem::swap(&mut waiting, &mut heavy);
        }
        let Some((directory, hash)) = waiting.pop_front() else { return Ok(()) };
        let mut below = Vec::new();
        tree(web, repository, &hash, false, |entry| {
            if entry.kind() == Kind::Directory {
                below.push(entry);
            } else {
                search.look_at(&directory, &entry);
            }
        })?;
        for entry in below {
            let path = join(&directory, &entry.path);
            if tree::depth(&path) < search.max_depth {
                let queue = if tree::is_heavy(&path) { &mut heavy } else { &mut waiting };
                queue.push_back((path, CommitName::parse(&entry.sha)?));
            }
        }
    }
    search.truncated = true;
    Ok(())
}

/// One tree, on all its pages where the server has pages.
fn tree(web: &Web, repository: &RepositoryName, hash: &CommitName, recursive: bool, mut see: impl FnMut(Entry)) -> Result<Summary, Error> {
    let mut seen = 0;
    for page in 1.. {
        let response = web.send(&endpoints::tree(repository, hash, recursive, page), JSON)?;
        let mut body = Download::new(&response, TREE_LIMIT);
        let read = tree::read(&mut body, &mut see);
        let summary = match (read, body.fault.take()) {
            (_, Some(fault)) => return Err(fault),
            (read, None) => read?,
        };
        seen += summary.entries;
        match summary.total {
            Some(total) if summary.truncated && summary.entries > 0 && seen < total => {
                if page == PAGES_PER_TREE {
                    return Ok(summary);
                }
            }
            Some(_) => return Ok(Summary { truncated: false, ..summary }),
            None => return Ok(summary),
        }
    }
    Ok(Summary::default())
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

fn whole(web: &Web, repository: &RepositoryName, revision: &CommitName) -> Result<CommitName, Error> {
    if revision.is_whole() {
        return Ok(revision.clone());
    }
    Ok(CommitName::parse(&describe_revision(web, repository, revision)?.id)?)
}

/// A file's bytes: raw where the server can, unwrapped where it wraps them.
pub(super) fn read(web: &Web, repository: &RepositoryName, revision: &CommitName, path: &FilePath, limit: u32) -> Result<Vec<u8>, Error> {
    let commit = whole(web, repository, revision)?;
    let absent = || missing(format!("{} is not in {repository} at {}", path.as_str(), commit.short()), "file");
    let response = match web.send(&endpoints::contents(repository, &commit, path), RAW) {
        Ok(response) => response,
        Err(error) if error.code == ErrorCode::NotFound => {
            describe_revision(web, repository, &commit)?;
            return Err(absent());
        }
        Err(error) => return Err(error),
    };
    let kind = response.header("content-type").unwrap_or_default().to_ascii_lowercase();
    let is_wrapped = kind.split(';').next().is_some_and(|kind| kind.trim().ends_with("json")) && !kind.contains(".raw");
    if !is_wrapped {
        return bounded(response.read_all(limit), path, limit);
    }
    // Base64 with line ends is less than 1.4 times as long; the rest of the object is small.
    let text = response.read_all(limit.saturating_add(limit / 2).saturating_add(64 << 10));
    let text = bounded(text, path, limit)?;
    let contents = match serde_json::from_slice::<Contents>(&text) {
        // A directory is a list.
        _ if text.trim_ascii_start().starts_with(b"[") => return Err(absent()),
        Ok(contents) if !contents.kind.is_empty() => contents,
        // What was asked for, called by what it holds itself: a project file is JSON, or nearly.
        _ if text.len() <= limit as usize => return Ok(text),
        _ => return Err(too_large(path, limit)),
    };
    if contents.kind != "file" {
        return Err(absent());
    }
    if contents.size.is_some_and(|size| size > u64::from(limit)) {
        return Err(too_large(path, limit));
    }
    if contents.encoding != "base64" {
        return bounded(web.send(&endpoints::raw(repository, &commit, path), "*/*")?.read_all(limit), path, limit);
    }
    match base64::decode(&contents.content) {
        Some(bytes) if bytes.len() > limit as usize => Err(too_large(path, limit)),
        Some(bytes) if contents.size.is_none_or(|size| bytes.len() as u64 == size) => Ok(bytes),
        _ => Err(Problem::new(Code::Protocol, "the git host's answer (contents) does not hold the file it promises").into()),
    }
}

fn bounded(read: Result<Vec<u8>, Error>, path: &FilePath, limit: u32) -> Result<Vec<u8>, Error> {
    read.map_err(|error| if error.code == ErrorCode::TooLarge { too_large(path, limit) } else { error })
}

fn too_large(path: &FilePath, limit: u32) -> Error {
    Problem::new(Code::TooLarge, format!("{} is larger than {limit} bytes", path.as_str())).because("file").into()
}
