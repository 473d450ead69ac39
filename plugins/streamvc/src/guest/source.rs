//! Depots, streams and changelists.

use guest_support::{Code, Problem};

use super::bindings::cookhouse::plugin::cache;
use super::bindings::cookhouse::plugin::types::Error;
use super::bindings::exports::cookhouse::plugin::source_control::{Branch, BranchPage, PageRequest, Repository, RepositoryPage, Revision};
use super::tool::P4;
use crate::commands::{self, Span};
use crate::names::{Changelist, StreamPath};
use crate::record::Record;
use crate::view::View;

/// How long a stream's view is believed.
const REMEMBERED_MS: u64 = 60 * 1000;
/// Largest view that is remembered; the cache takes no more.
const REMEMBERED_BYTES: usize = 60 * 1024;
const LARGEST_PAGE: u32 = 200;
/// Streams of one depot that are looked at.
const MOST_STREAMS: u32 = 5000;
/// Patterns of one question.
const AT_ONCE: usize = 100;

/// Depots that hold streams.
pub(super) fn list_depots(p4: &mut P4, page: &PageRequest) -> Result<RepositoryPage, Error> {
    let answer = p4.ask(&commands::depots())?;
    let mut names: Vec<String> =
        answer.records.iter().filter(|depot| depot.get("type") == "stream").map(|depot| depot.get("name").to_owned()).collect();
    names.sort();
    let (names, next_cursor) = page_of(names, page);
    let repository = |name: String| Repository {
        id: name.clone(),
        full_name: format!("//{name}"),
        is_private: true,
        default_branch: String::new(),
        extra: Vec::new(),
    };
    Ok(RepositoryPage { items: names.into_iter().map(repository).collect(), next_cursor })
}

/// One page of names in their order; the cursor is the last name that was given.
fn page_of(names: Vec<String>, page: &PageRequest) -> (Vec<String>, Option<String>) {
    let limit = page.limit.clamp(1, LARGEST_PAGE) as usize;
    let mut rest: Vec<String> = names.into_iter().filter(|name| page.cursor.as_ref().is_none_or(|after| name > after)).collect();
    let has_more = rest.len() > limit;
    rest.truncate(limit);
    let next = rest.last().filter(|_| has_more).cloned();
    (rest, next)
}

/// Streams of a depot with their newest changelists. A query that is a whole stream path asks for that stream alone.
pub(super) fn list_streams(p4: &mut P4, depot: &str, query: Option<&str>, page: &PageRequest) -> Result<BranchPage, Error> {
    if let Some(path) = query.filter(|query| query.starts_with("//")) {
        let stream = known_stream(p4, &StreamPath::parse(path)?)?;
        let head = head(p4, &stream, None)?;
        return Ok(BranchPage { items: vec![branch(stream.as_str(), head)], next_cursor: None });
    }
    let answer = p4.ask(&commands::streams(&format!("//{depot}/..."), MOST_STREAMS))?;
    if answer.records.is_empty() {
        check_depot(p4, depot)?;
    }
    let wanted = query.unwrap_or_default().to_lowercase();
    let paths = answer.records.iter().map(|stream| stream.get("Stream").to_owned());
    let mut paths: Vec<String> = paths.filter(|path| path.to_lowercase().contains(&wanted)).collect();
    paths.sort();
    let (paths, next_cursor) = page_of(paths, page);
    let mut items = Vec::with_capacity(paths.len());
    for path in paths {
        // A stream whose name we would not take, or that has nothing yet, is none that could be built.
        let Ok(stream) = StreamPath::parse(&path) else { continue };
        match head(p4, &stream, None) {
            Ok(head) => items.push(branch(&path, head)),
            Err(error) if error.reason.as_deref() == Some("revision") => {}
            Err(error) => return Err(error),
        }
    }
    Ok(BranchPage { items, next_cursor })
}

fn branch(name: &str, head: Revision) -> Branch {
    Branch { name: name.to_owned(), head, is_default: false, extra: Vec::new() }
}

/// The stream as the server writes it; not found with the reason `repository` or `branch`.
pub(super) fn known_stream(p4: &mut P4, stream: &StreamPath) -> Result<StreamPath, Error> {
    let answer = p4.ask(&commands::streams(stream.as_str(), 2))?;
    let found = answer.records.iter().map(|record| record.get("Stream")).find(|path| stream.is_same(path, p4.ignores_case));
    match found {
        Some(path) => Ok(StreamPath::parse(path)?),
        None => {
            check_depot(p4, stream.depot())?;
            Err(missing(format!("the server has no stream {stream}"), "branch"))
        }
    }
}

fn check_depot(p4: &mut P4, name: &str) -> Result<(), Error> {
    let answer = match p4.ask(&commands::depots()) {
        Err(error) if error.reason.as_deref() == Some("unknown-command") => return Ok(()),
        other => other?,
    };
    let is_it = |depot: &&Record| depot.get("name") == name || (p4.ignores_case && depot.get("name").to_lowercase() == name.to_lowercase());
    match answer.records.iter().find(is_it) {
        Some(depot) if depot.get("type") != "stream" => {
            Err(missing(format!("the depot //{name} is of the type {}, and not a stream depot", depot.get("type")), "repository"))
        }
        Some(_) => Ok(()),
        None => Err(missing(format!("the server has no depot //{name}"), "repository")),
    }
}

/// What the stream consists of.
pub(super) fn view(p4: &mut P4, stream: &StreamPath) -> Result<View, Error> {
    let key = format!("view {stream}");
    let known = cache::get(&key).and_then(|known| String::from_utf8(known).ok());
    if let Some(known) = known {
        return Ok(View::parse(stream.as_str(), known.lines()));
    }
    let stream = known_stream(p4, stream)?;
    let lines: Vec<String> = match p4.ask(&commands::stream(&stream)) {
        Ok(answer) => answer.records.first().map(|form| form.list("View").map(str::to_owned).collect()).unwrap_or_default(),
        // Its own files are what is certain.
        Err(error) if matches!(error.reason.as_deref(), Some("unknown-command" | "refused")) => Vec::new(),
        Err(error) => return Err(error),
    };
    let text = lines.join("\n");
    if text.len() <= REMEMBERED_BYTES {
        cache::put(&key, text.as_bytes(), REMEMBERED_MS);
    }
    Ok(View::parse(stream.as_str(), lines.iter().map(String::as_str)))
}

fn newest(p4: &mut P4, view: &View, span: Span) -> Result<Option<Record>, Error> {
    let mut newest: Option<Record> = None;
    for patterns in view.patterns().chunks(AT_ONCE) {
        for record in p4.ask(&commands::changes(patterns, span))?.records {
            // Of several patterns some servers give one answer each.
            if newest.as_ref().is_none_or(|known| known.number("change") < record.number("change")) {
                newest = Some(record);
            }
        }
    }
    Ok(newest)
}

/// The newest changelist of a stream, or the newest that is not newer than another.
pub(super) fn head(p4: &mut P4, stream: &StreamPath, until: Option<Changelist>) -> Result<Revision, Error> {
    let view = view(p4, stream)?;
    let span = until.map_or(Span::All, Span::Until);
    match newest(p4, &view, span)? {
        Some(record) => revision(&record),
        None => Err(missing(
            format!("the stream {stream} has no changelist{}", until.map(|until| format!(" up to {until}")).unwrap_or_default()),
            "revision",
        )),
    }
}

/// A submitted changelist that touches the stream. One that touches other files only is not found, with the reason `elsewhere`.
pub(super) fn describe(p4: &mut P4, stream: &StreamPath, number: Changelist) -> Result<Revision, Error> {
    let view = view(p4, stream)?;
    if let Some(record) = newest(p4, &view, Span::Only(number))?.filter(|record| record.number("change") == Some(number.0)) {
        return revision(&record);
    }
    let answer = match p4.ask(&commands::describe(number)) {
        // A usage error: the option is unknown.
        Err(error) if error.reason.as_deref() == Some("refused") => p4.ask(&commands::describe_all(number))?,
        other => other?,
    };
    let no_such = || missing(format!("the server has no changelist {number}"), "revision");
    let record = answer.records.first().filter(|record| record.number("change") == Some(number.0)).ok_or_else(no_such)?;
    match record.get("status") {
        "submitted" => Err(missing(format!("changelist {number} changes nothing in {stream}"), "elsewhere")),
        status => {
            let text = format!(
                "changelist {number} is {}: only submitted ones can be built",
                if status.is_empty() { "not submitted" } else { status }
            );
            Err(Problem::new(Code::InvalidArgument, text).because("revision").into())
        }
    }
}

fn revision(record: &Record) -> Result<Revision, Error> {
    let number = record.number("change").filter(|number| *number > 0);
    let number = number.ok_or_else(|| Problem::new(Code::Protocol, "the server's answer names no changelist"))?;
    Ok(Revision {
        id: number.to_string(),
        message: record.get("desc").trim_end().to_owned(),
        author: record.get("user").to_owned(),
        time_ms: record.number("time").map(|seconds| seconds.saturating_mul(1000)),
        extra: Vec::new(),
    })
}

/// A thing that is not there; `reason` says which kind of thing.
pub(super) fn missing(message: String, reason: &str) -> Error {
    Problem::new(Code::NotFound, message).because(reason).into()
}
