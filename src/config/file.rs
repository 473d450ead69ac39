//! The TOML file: every value in it with its key and its line.

use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::problem::{Place, Problem};
use super::rule::Raw;

/// A configuration file is a few kilobytes; more is another file given by mistake.
const LARGEST: u64 = 1 << 20;

/// One value of the file. Entries of lists of tables have `*` in their path and their place in `index`.
pub(super) struct Found {
    /// Parts joined by dots.
    pub(super) path: String,
    /// Which entry of the list; 0 outside of lists.
    pub(super) index: usize,
    /// As it was typed.
    pub(super) raw: Raw,
    /// From 1.
    pub(super) line: usize,
}

/// Reads the file. Syntax errors do not hide what else is wrong.
pub(super) fn read(path: &Path) -> (Vec<Found>, Vec<Problem>) {
    let whole = |message: String| (Vec::new(), vec![Problem { place: Place::File { path: path.to_owned(), line: 0 }, message }]);
    match std::fs::metadata(path) {
        Ok(about) if about.len() > LARGEST => return whole("is larger than 1 MiB; this is not a configuration of Cookhouse".into()),
        Ok(about) if about.is_dir() => return whole("is a directory; name the file itself".into()),
        Ok(_) => {}
        Err(error) => return whole(format!("cannot be read: {}", reason(&error))),
    }
    match std::fs::read(path).map(String::from_utf8) {
        Ok(Ok(text)) => parse(path, text.strip_prefix('\u{feff}').unwrap_or(&text)),
        Ok(Err(_)) => whole("is not UTF-8 text; save it as UTF-8".into()),
        Err(error) => whole(format!("cannot be read: {}", reason(&error))),
    }
}

/// Why a file cannot be used: what is usual in the same words everywhere, the rest in the operating system's own without
/// their number.
pub(crate) fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string().split(" (os error").next().unwrap_or_default().trim_end_matches('.').to_lowercase(),
    }
}

fn parse(path: &Path, text: &str) -> (Vec<Found>, Vec<Problem>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut found = Vec::new();
    walk(text, table.get_ref(), "", 0, &mut found);
    let problems: Vec<Problem> = errors
        .iter()
        .map(|error| {
            let line = error.span().map_or(0, |span| line_of(text, &span));
            Problem { place: Place::File { path: path.to_owned(), line }, message: format!("is not valid TOML: {}", error.message()) }
        })
        .collect();
    // What the parser made up to go on after an error is no further mistake of the person.
    let broken = |line| problems.iter().any(|problem| matches!(problem.place, Place::File { line: other, .. } if other == line));
    found.retain(|found| !broken(found.line));
    (found, problems)
}

fn walk(text: &str, table: &DeTable<'_>, prefix: &str, index: usize, found: &mut Vec<Found>) {
    for (name, value) in table {
        let path = if prefix.is_empty() { name.get_ref().to_string() } else { format!("{prefix}.{}", name.get_ref()) };
        match value.get_ref() {
            DeValue::Table(inner) if !inner.is_empty() => walk(text, inner, &path, index, found),
            // An empty section says nothing, but its name has to be known: it is looked at like a key.
            DeValue::Array(items) if !items.is_empty() && items.iter().all(|item| item.get_ref().is_table()) => {
                for (index, item) in items.iter().enumerate() {
                    if let DeValue::Table(inner) = item.get_ref() {
                        walk(text, inner, &format!("{path}.*"), index, found);
                    }
                }
            }
            other => found.push(Found { path, index, raw: raw(other), line: line_of(text, &name.span()) }),
        }
    }
}

/// A parsed value as the rules take it.
pub(super) fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(number) => {
            i128::from_str_radix(number.as_str(), number.radix()).map_or(Raw::Other("a number out of range"), Raw::Integer)
        }
        DeValue::Boolean(value) => Raw::Boolean(*value),
        DeValue::Array(items) => Raw::List(items.iter().map(|item| raw(item.get_ref())).collect()),
        DeValue::Float(_) => Raw::Other("a fraction"),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(_) => Raw::Other("a section"),
    }
}

fn line_of(text: &str, span: &Range<usize>) -> usize {
    text.as_bytes().iter().take(span.start).filter(|byte| **byte == b'\n').count() + 1
}
