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
mod tests {
    use proptest::prelude::*;

    use super::*;

    macro_rules! fixture {
        ($name:literal) => {
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/uprojects/", $name))
        };
    }

    fn kitchen() -> UprojectInfo {
        let module = |name: &str, kind: &str, loading_phase: &str| UprojectModule {
            name: name.to_owned(),
            kind: kind.to_owned(),
            loading_phase: loading_phase.to_owned(),
        };
        let plugin = |name: &str, enabled| UprojectPlugin { name: name.to_owned(), enabled };
        UprojectInfo {
            path: "Game/Kitchen.uproject".to_owned(),
            project_name: "Kitchen".to_owned(),
            engine_version: "5.4".to_owned(),
            modules: vec![module("Kitchen", "Runtime", "Default"), module("KitchenEditor", "Editor", "PostEngineInit")],
            plugins: vec![plugin("Paper2D", true), plugin("Küchengeräte", false)],
        }
    }

    fn read_text(text: &str) -> Result<UprojectInfo, UprojectError> {
        read(text.as_bytes(), "Kitchen.uproject")
    }

    fn reason(text: &str) -> (usize, String) {
        match read_text(text) {
            Err(UprojectError::Malformed { line, reason }) => (line, reason),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn every_spelling_of_the_same_project_reads_the_same() {
        for bytes in [
            &fixture!("plain.uproject")[..],
            fixture!("byte_order_mark.uproject"),
            fixture!("utf16_little_endian.uproject"),
            fixture!("utf16_big_endian.uproject"),
            fixture!("comments_and_trailing_commas.uproject"),
            fixture!("other_case.uproject"),
        ] {
            assert_eq!(read(bytes, "Game/Kitchen.uproject"), Ok(kitchen()));
        }
    }

    #[test]
    fn utf16_is_known_without_a_mark() {
        for bytes in [&fixture!("utf16_little_endian.uproject")[2..], &fixture!("utf16_big_endian.uproject")[2..]] {
            assert_eq!(read(bytes, "Game/Kitchen.uproject"), Ok(kitchen()));
        }
    }

    #[test]
    fn missing_arrays_are_empty_and_defaults_are_the_engines() {
        let info = read(fixture!("bare.uproject"), "bare.uproject").unwrap();
        assert_eq!((info.engine_version.as_str(), info.modules.len(), info.plugins.len()), ("", 0, 0));
        let info = read_text(r#"{"Modules":[{"Name":"A"}],"Plugins":[{"Name":"B"}],"EngineAssociation":null}"#).unwrap();
        assert_eq!((info.modules[0].kind.as_str(), info.modules[0].loading_phase.as_str()), ("Runtime", "Default"));
        assert!(!info.plugins[0].enabled);
    }

    #[test]
    fn engine_associations_of_every_form_are_kept_as_they_are() {
        for (written, kept) in [
            (r#""5.4""#, "5.4"),
            (r#""{6F3A2B10-1C2D-4E5F-8A9B-0C1D2E3F4A5B}""#, "{6F3A2B10-1C2D-4E5F-8A9B-0C1D2E3F4A5B}"),
            (r#""""#, ""),
            (r#""../Engine""#, "../Engine"),
            (r#""C:\\UE_5.4""#, "C:\\UE_5.4"),
            ("5.4", "5.4"),
            ("5.0", "5.0"),
            ("5", "5"),
        ] {
            assert_eq!(read_text(&format!(r#"{{"EngineAssociation":{written}}}"#)).unwrap().engine_version, kept);
        }
    }

    #[test]
    fn strings_keep_what_would_be_syntax_elsewhere() {
        let info = read_text("{\"Modules\":[{\"Name\":\"a//b/*c*/,]}\\\"{\",}]}").unwrap();
        assert_eq!(info.modules[0].name, "a//b/*c*/,]}\"{");
        let info = read_text("{\"Description\":\"two\nlines\tand a tab\",\"EngineAssociation\":\"5.4\"}").unwrap();
        assert_eq!(info.engine_version, "5.4");
    }

    #[test]
    fn an_lfs_pointer_is_told_from_a_project() {
        let pointer = LfsPointer { oid: "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393".to_owned(), size: 1312 };
        let error = read(fixture!("lfs_pointer.uproject"), "Kitchen.uproject").unwrap_err();
        assert_eq!(error, UprojectError::LfsPointer(pointer));
        assert!(error.to_string().contains("Git LFS pointer"));
        // Something that only begins like one is no pointer.
        let (line, _) = reason("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n");
        assert_eq!(line, 1);
    }

    #[test]
    fn what_is_no_project_file_is_refused_with_its_line() {
        for (text, line) in [
            ("", 1),
            ("[]", 1),
            ("\"Kitchen\"", 1),
            ("<html>not found</html>", 1),
            ("{\n\"Modules\":\n7}", 3),
            ("{\n\"Modules\": [1]}", 2),
            ("{\"Plugins\": [{\"Name\":\"A\",\"Enabled\":\"perhaps\"}]}", 1),
            ("{\n\n\"Modules\": [", 3),
            ("{\"A\" 1}", 1),
            ("{\"A\":1 2}", 1),
            ("{\"A\":1,,\"B\":2}", 1),
            ("{,}", 1),
            ("{\"A\":[,]}", 1),
            ("{} {}", 1),
            ("{\"A\":\"\\P\"}", 1),
            ("{\n/* for ever", 2),
            ("{/ 1}", 1),
            ("{\"Modules\":[],\"modules\":[]}", 1),
            ("{]", 1),
            ("}", 1),
        ] {
            assert_eq!(reason(text).0, line, "{text}");
        }
    }

    #[test]
    fn reasons_do_not_repeat_a_hostile_file() {
        let (_, reason) = reason(&format!("{{\"Modules\":\"{}\"}}", "x".repeat(100_000)));
        assert!(reason.chars().count() <= 160, "{}", reason.len());
    }

    #[test]
    fn entries_without_a_name_are_refused() {
        assert_eq!(read_text(r#"{"Modules":[{"Name":"A"},{}]}"#), Err(UprojectError::Nameless { list: "Modules", index: 2 }));
        assert_eq!(read_text(r#"{"Plugins":[{"Name":""}]}"#), Err(UprojectError::Nameless { list: "Plugins", index: 1 }));
    }

    #[test]
    fn size_nesting_and_counts_are_bounded() {
        let large = vec![b' '; MAXIMUM_BYTES + 1];
        assert_eq!(read(&large, "Kitchen.uproject"), Err(UprojectError::TooLarge { size: MAXIMUM_BYTES + 1 }));

        let nested = |depth: usize| format!("{{\"A\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(read_text(&nested(MAXIMUM_NESTING - 1)).is_ok());
        assert_eq!(read_text(&nested(MAXIMUM_NESTING)), Err(UprojectError::TooDeep { line: 1 }));

        let many = |count: usize| format!("{{\"Plugins\":[{}]}}", "{\"Name\":\"A\"},".repeat(count));
        assert_eq!(read_text(&many(MAXIMUM_ENTRIES)).unwrap().plugins.len(), MAXIMUM_ENTRIES);
        let refused = UprojectError::TooMany { kind: "plugins", count: MAXIMUM_ENTRIES + 1 };
        assert_eq!(read_text(&many(MAXIMUM_ENTRIES + 1)), Err(refused));
    }

    #[test]
    fn one_project_within_three_directories_is_found() {
        for path in ["A.uproject", "a/A.UPROJECT", "a/b/c/A.uProject", "a/.hidden/ü/Ä.uproject"] {
            assert_eq!(detect(["README.md", path, "a/b/c/d/Deep.uproject"]), Ok(path.to_owned()));
        }
        for paths in [&[][..], &["a/b/c/d/A.uproject"], &["uproject", "A.uproject.bak", ".uproject", "a/.uproject", "A.uproject/x", "ü"]] {
            assert_eq!(detect(paths), Err(DetectError::NotFound));
        }
    }

    #[test]
    fn several_projects_are_listed_sorted_and_bounded() {
        let several = detect(["b/B.uproject", "A.uproject", "b/B.uproject"]);
        assert_eq!(several, Err(DetectError::Several(vec!["A.uproject".to_owned(), "b/B.uproject".to_owned()])));
        let Err(DetectError::Several(listed)) = detect((0..1000).map(|number| format!("{number}.uproject"))) else { panic!() };
        assert_eq!(listed.len(), MAXIMUM_LISTED);
    }

    /// Reads every project file of a folder of real ones, if one is named; none may be refused but pointers of Git LFS.
    #[test]
    fn real_projects_are_read() {
        let Some(folder) = std::env::var_os("COOKHOUSE_UPROJECTS") else { return };
        let mut refused = Vec::new();
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if !has_extension(&name) {
                continue;
            }
            count += 1;
            match read(&std::fs::read(&path).unwrap(), &name) {
                Ok(_) | Err(UprojectError::LfsPointer(_)) => {}
                Err(error) => refused.push(format!("{name}: {error}")),
            }
        }
        println!("{count} project files");
        assert!(refused.is_empty(), "{refused:#?}");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
            let _ = read(&bytes, "Kitchen.uproject");
        }

        #[test]
        fn arbitrary_tokens_never_panic(tokens in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"", "\\", "/", "//", "/*", "*/", "\n", " ", "\"Modules\"", "\"Name\"", "5.4", "True", "null", "\u{feff}", "\u{1}", "ü",
        ]), 0..200)) {
            let text = tokens.concat();
            let _ = read_text(&text);
            if let Ok(strict) = lenient::to_strict_json(&text) {
                prop_assert!(strict.len() <= 6 * text.len());
            }
        }

        #[test]
        fn strict_json_keeps_its_meaning(name in "[^\\p{C}\"\\\\]{1,40}", enabled: bool) {
            let text = serde_json::json!({"Plugins": [{"Name": name, "Enabled": enabled}]}).to_string();
            let info = read_text(&text).unwrap();
            prop_assert_eq!(info.plugins, vec![UprojectPlugin { name, enabled }]);
        }

        #[test]
        fn arbitrary_paths_never_panic(paths in prop::collection::vec("(?i)[a/.ü]{0,8}(\\.uproject)?", 0..20)) {
            match detect(&paths) {
                Ok(path) => prop_assert!(paths.contains(&path)),
                Err(DetectError::Several(found)) => prop_assert!(found.len() > 1),
                Err(DetectError::NotFound) => {}
            }
        }
    }
}
