//! Finding and reading project files; pure, on lists of paths and on bytes.
//!
//! Real `.uproject` files are JSON as the editor reads it, not as the standard writes it: byte order marks, UTF-16,
//! trailing commas, comments, keys in any case. All of that is read; what is left is refused in a sentence.

mod lenient;
mod text;

use serde::Deserialize;

use crate::model::project::{UprojectInfo, UprojectModule, UprojectPlugin};

/// How many directories may lie above a project file that is found by itself.
pub const MAXIMUM_DEPTH: usize = 3;
/// The largest project file that is read, in bytes.
pub const MAXIMUM_BYTES: usize = 1024 * 1024;
/// How deep its brackets may nest.
pub const MAXIMUM_NESTING: usize = 64;
/// How many modules, and how many plugins, it may name. The largest known one names 168 plugins.
pub const MAXIMUM_ENTRIES: usize = 4096;
/// How many paths [`DetectError::Several`] lists.
pub const MAXIMUM_LISTED: usize = 100;

const EXTENSION: &str = ".uproject";

/// Why no one project file could be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DetectError {
    /// None within the depth.
    #[error("there is no .uproject file within three directories of the root")]
    NotFound,
    /// More than one; the first [`MAXIMUM_LISTED`] paths, sorted.
    #[error("there are several .uproject files; name the one that is meant")]
    Several(Vec<String>),
}

/// Why a project file could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UprojectError {
    /// It has more bytes than [`MAXIMUM_BYTES`].
    #[error("the .uproject file is {size} bytes large; at most {MAXIMUM_BYTES} are read")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
    },
    /// The file lies in Git LFS and these are the bytes of the pointer to it.
    #[error("the .uproject file is a Git LFS pointer; project files belong into git itself, so exclude *.uproject from LFS")]
    LfsPointer(LfsPointer),
    /// Brackets nest deeper than [`MAXIMUM_NESTING`].
    #[error("the .uproject file nests deeper than {MAXIMUM_NESTING} brackets at line {line}")]
    TooDeep {
        /// Counted from 1.
        line: usize,
    },
    /// It names more modules or plugins than [`MAXIMUM_ENTRIES`].
    #[error("the .uproject file names {count} {kind}; at most {MAXIMUM_ENTRIES} are read")]
    TooMany {
        /// `modules` or `plugins`.
        kind: &'static str,
        /// How many there are.
        count: usize,
    },
    /// It is no JSON object, or something in it has the wrong shape.
    #[error("the .uproject file cannot be read: line {line}: {reason}")]
    Malformed {
        /// Counted from 1.
        line: usize,
        /// What was expected there.
        reason: String,
    },
    /// An entry without the one key that it needs.
    #[error("entry {index} of {list} in the .uproject file has no Name")]
    Nameless {
        /// `Modules` or `Plugins`.
        list: &'static str,
        /// Counted from 1.
        index: usize,
    },
}

/// What a pointer of Git LFS says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LfsPointer {
    /// SHA-256 of the content, 64 hex digits.
    pub oid: String,
    /// Size of the content in bytes.
    pub size: u64,
}

/// The one project file among the paths of a codebase (`/` between names, no leading one).
pub fn detect<P: AsRef<str>>(paths: impl IntoIterator<Item = P>) -> Result<String, DetectError> {
    let mut found: Vec<String> =
        paths.into_iter().filter(|path| is_candidate(path.as_ref())).map(|path| path.as_ref().to_owned()).collect();
    found.sort_unstable();
    found.dedup();
    match found.len() {
        0 => Err(DetectError::NotFound),
        1 => Ok(found.swap_remove(0)),
        _ => {
            found.truncate(MAXIMUM_LISTED);
            Err(DetectError::Several(found))
        }
    }
}

fn is_candidate(path: &str) -> bool {
    path.bytes().filter(|byte| *byte == b'/').count() <= MAXIMUM_DEPTH && !project_name(path).is_empty() && has_extension(path)
}

fn has_extension(path: &str) -> bool {
    path.len().checked_sub(EXTENSION.len()).and_then(|start| path.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(EXTENSION))
}

/// The file's name without its extension.
fn project_name(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    if has_extension(name) { &name[..name.len() - EXTENSION.len()] } else { name }
}

/// What the project file at `path` of the codebase says.
pub fn read(bytes: &[u8], path: &str) -> Result<UprojectInfo, UprojectError> {
    if bytes.len() > MAXIMUM_BYTES {
        return Err(UprojectError::TooLarge { size: bytes.len() });
    }
    if let Some(pointer) = text::lfs_pointer(bytes) {
        return Err(UprojectError::LfsPointer(pointer));
    }
    let strict = lenient::to_strict_json(&text::decode(bytes))?;
    if !strict.trim_start().starts_with('{') {
        return Err(UprojectError::Malformed { line: 1, reason: "expected an object, { ... }".to_owned() });
    }
    let file: File = serde_json::from_str(&strict).map_err(|error| malformed(&error))?;
    Ok(UprojectInfo {
        path: path.to_owned(),
        project_name: project_name(path).to_owned(),
        engine_version: file.engine_association.unwrap_or_default().0,
        modules: modules(file.modules.unwrap_or_default())?,
        plugins: plugins(file.plugins.unwrap_or_default())?,
    })
}

fn malformed(error: &serde_json::Error) -> UprojectError {
    let sentence = error.to_string();
    // The column is one of the normalised text, and the sentence may quote a value of any length.
    let reason = sentence.rsplit_once(" at line ").map_or(sentence.as_str(), |(reason, _)| reason);
    UprojectError::Malformed { line: error.line(), reason: reason.chars().take(160).collect() }
}

fn modules(entries: Vec<Module>) -> Result<Vec<UprojectModule>, UprojectError> {
    if entries.len() > MAXIMUM_ENTRIES {
        return Err(UprojectError::TooMany { kind: "modules", count: entries.len() });
    }
    let module = |(index, entry): (usize, Module)| {
        Ok(UprojectModule {
            name: entry.name.filter(|name| !name.0.is_empty()).ok_or(UprojectError::Nameless { list: "Modules", index: index + 1 })?.0,
            kind: entry.kind.map_or_else(|| "Runtime".to_owned(), |kind| kind.0),
            loading_phase: entry.loading_phase.map_or_else(|| "Default".to_owned(), |phase| phase.0),
        })
    };
    entries.into_iter().enumerate().map(module).collect()
}

fn plugins(entries: Vec<Plugin>) -> Result<Vec<UprojectPlugin>, UprojectError> {
    if entries.len() > MAXIMUM_ENTRIES {
        return Err(UprojectError::TooMany { kind: "plugins", count: entries.len() });
    }
    let plugin = |(index, entry): (usize, Plugin)| {
        Ok(UprojectPlugin {
            name: entry.name.filter(|name| !name.0.is_empty()).ok_or(UprojectError::Nameless { list: "Plugins", index: index + 1 })?.0,
            enabled: entry.enabled.unwrap_or(false),
        })
    };
    entries.into_iter().enumerate().map(plugin).collect()
}

// The keys in lower case, as `lenient` leaves them. Everything else in a file is skipped without being kept.

#[derive(Deserialize)]
struct File {
    #[serde(rename = "engineassociation")]
    engine_association: Option<text::Text>,
    modules: Option<Vec<Module>>,
    plugins: Option<Vec<Plugin>>,
}

#[derive(Deserialize)]
struct Module {
    name: Option<text::Text>,
    #[serde(rename = "type")]
    kind: Option<text::Text>,
    #[serde(rename = "loadingphase")]
    loading_phase: Option<text::Text>,
}

#[derive(Deserialize)]
struct Plugin {
    name: Option<text::Text>,
    enabled: Option<bool>,
}

#[cfg(test)]
mod tests;
