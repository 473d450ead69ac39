//! Errors and warnings in the lines that compilers, linkers and the engine print. The patterns are our own; a line
//! that fits none is no diagnostic. Memory is bounded however much a build prints.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::model::build::{DIAGNOSTICS_KEPT, Diagnostic, Diagnostics};

/// Longest message that is kept, in bytes.
const LONGEST_MESSAGE: usize = 1024;
/// How many different diagnostics are told apart; what comes after that is counted each time it is printed.
const REMEMBERED: usize = 65_536;

/// Collects the diagnostics of one build.
pub struct Collector {
    roots: Vec<PathBuf>,
    seen: HashSet<u64>,
    found: Diagnostics,
}

impl Collector {
    /// `roots`: the workspace and the engine; what lies in one of them is named relative to it.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Collector { roots, seen: HashSet::new(), found: Diagnostics::default() }
    }

    /// Looks at one line of the log.
    pub fn observe(&mut self, seq: u64, text: &str) {
        let Some(found) = parse(text) else { return };
        let is_error = found.severity == "error";
        // "linker command failed", "Cook failed": what went wrong stands above it already.
        if is_error && self.found.errors > 0 && FOLLOW_UPS.iter().any(|sentence| found.message.contains(sentence)) {
            return;
        }
        let file = found.file.map(|file| self.shorten(file));
        // One header's error is printed once for every file that includes it.
        let mut hasher = DefaultHasher::new();
        (found.severity, found.code, &file, found.line, &found.message).hash(&mut hasher);
        if self.seen.len() < REMEMBERED && !self.seen.insert(hasher.finish()) {
            return;
        }
        match is_error {
            true => self.found.errors += 1,
            false => self.found.warnings += 1,
        }
        let items = &mut self.found.items;
        if items.len() >= DIAGNOSTICS_KEPT {
            // Hundreds of warnings must not hide the error that ended the build.
            let Some(last_warning) = items.iter().rposition(|item| item.severity != "error").filter(|_| is_error) else { return };
            items.remove(last_warning);
        }
        items.push(Diagnostic {
            severity: found.severity.to_owned(),
            code: found.code.map(str::to_owned),
            message: cut(&found.message).to_owned(),
            file: file.as_deref().map(|file| cut(file).to_owned()),
            line: found.line,
            log_seq: seq,
        });
    }

    /// What was found so far.
    pub fn diagnostics(&self) -> Diagnostics {
        self.found.clone()
    }

    fn shorten(&self, file: &str) -> String {
        let path = Path::new(file);
        let relative = self.roots.iter().find_map(|root| path.strip_prefix(root).ok());
        relative.map_or_else(|| file.to_owned(), |relative| relative.to_string_lossy().into_owned())
    }
}

/// Errors that only say that there were errors.
const FOLLOW_UPS: [&str; 6] =
    ["linker command failed", "UnrealBuildTool failed", "unresolved externals", "Cook failed", "BUILD FAILED", "terminated with exception"];

#[derive(Debug, PartialEq, Eq)]
struct Found<'a> {
    severity: &'static str,
    code: Option<&'a str>,
    message: String,
    file: Option<&'a str>,
    line: Option<u32>,
}

/// The longest beginning of `text` that fits and ends between characters.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(LONGEST_MESSAGE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn parse(line: &str) -> Option<Found<'_>> {
    let text = without_prefixes(line);
    if text.starts_with("Undefined symbols for architecture") || text.starts_with("FAILURE: Build failed with an exception") {
        return Some(Found { severity: "error", code: None, message: text.to_owned(), file: None, line: None });
    }
    // The first word that fits decides; later ones belong to the message.
    let mut from = 0;
    while let Some((start, length, severity)) = next_keyword(text, from) {
        if let Some(found) = around(&text[..start], &text[start + length..], severity) {
            return Some(found);
        }
        from = start + length;
    }
    None
}

/// The next `error` or `warning`, in any case, that stands alone.
fn next_keyword(text: &str, from: usize) -> Option<(usize, usize, &'static str)> {
    let bytes = text.as_bytes();
    let word = |at: usize, word: &str| bytes.get(at..at + word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word.as_bytes()));
    (from..bytes.len()).find_map(|at| {
        let (length, severity) = match bytes[at] | 0x20 {
            b'e' if word(at, "error") => (5, "error"),
            b'w' if word(at, "warning") => (7, "warning"),
            _ => return None,
        };
        let stands_alone = at == 0 || matches!(bytes[at - 1], b' ' | b':' | b'\t');
        stands_alone.then_some((at, length, severity))
    })
}

/// What stands before and after the keyword makes it a diagnostic, or not.
fn around<'a>(before: &'a str, after: &'a str, severity: &'static str) -> Option<Found<'a>> {
    let (code, message) = code_and_message(after)?;
    let before = before.trim_end();
    let before = before.strip_suffix("fatal").map_or(before, str::trim_end);
    if before.is_empty() {
        return (!message.is_empty()).then(|| Found { severity, code, message: message.to_owned(), file: None, line: None });
    }
    let place = before.strip_suffix(':')?.trim_end();
    if let Some(category) = place.strip_prefix("Log") {
        // The cook repeats everything at its end as `LogInit: Display: LogX: Warning: ...`.
        let is_category = !category.is_empty() && category.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        return (is_category && !message.is_empty()).then(|| Found {
            severity,
            code: Some(place),
            message: message.to_owned(),
            file: None,
            line: None,
        });
    }
    if let Some((file, line)) = file_and_line(place) {
        return Some(Found { severity, code, message: message.to_owned(), file: Some(file), line: Some(line) });
    }
    let is_source = [".cs", ".h", ".cpp", ".uproject", ".uplugin", ".ini", ".usf"].iter().any(|end| place.ends_with(end));
    if is_source {
        return Some(Found { severity, code, message: message.to_owned(), file: Some(place), line: None });
    }
    // A tool's name, or the object file that a linker complains about. A sentence is neither.
    let is_tool = !place.contains(' ') || place.ends_with(".obj") || place.ends_with(".exe") || place.ends_with(".o");
    (is_tool && place.len() <= 300 && !message.is_empty()).then(|| Found {
        severity,
        code,
        message: format!("{place}: {message}"),
        file: None,
        line: None,
    })
}

/// `: message`, ` : message` or ` CODE: message`.
fn code_and_message(after: &str) -> Option<(Option<&str>, &str)> {
    let rest = after.trim_start();
    if let Some(message) = rest.strip_prefix(':') {
        return Some((None, message.trim()));
    }
    let (code, message) = after.strip_prefix(' ')?.split_once(':')?;
    let code = code.trim();
    let digits = code.trim_start_matches(|character: char| character.is_ascii_uppercase());
    let is_code = (1..=6).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (1..=6).contains(&(code.len() - digits.len()));
    is_code.then(|| (Some(code), message.trim()))
}

/// `file(12)`, `file(12,5)`, `file:12` or `file:12:5`.
fn file_and_line(place: &str) -> Option<(&str, u32)> {
    if let Some((file, numbers)) = place.strip_suffix(')').and_then(|inner| inner.rsplit_once('(')) {
        return Some((file.trim_end(), numbers.split(',').next()?.trim().parse().ok()?));
    }
    let (head, last) = place.rsplit_once(':')?;
    let last: u32 = last.parse().ok()?;
    match head.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse::<u32>().ok()?))) {
        // A drive letter is no file.
        Some((file, line)) if file.len() > 1 => Some((file, line)),
        _ => (head.len() > 1).then_some((head, last)),
    }
}

/// Without what other tools put before a line: `1>`, `[2026.01.02-03.04.05:678][  0]`, `UATHelper: Packaging (X): `.
fn without_prefixes(line: &str) -> &str {
    let mut text = line.trim();
    if let Some((number, rest)) = text.split_once('>')
        && number.len() <= 3
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
    {
        text = rest.trim_start();
    }
    if let Some(rest) = text.strip_prefix("UATHelper: ") {
        text = rest.split_once("): ").map_or(rest, |(_, rest)| rest).trim_start();
    }
    while let Some((stamp, rest)) = text.strip_prefix('[').and_then(|inner| inner.split_once(']'))
        && stamp.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b':' | b' '))
    {
        text = rest.trim_start();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row = (&'static str, Option<&'static str>, Option<&'static str>, Option<u32>, &'static str);

    fn row(found: &Found<'_>) -> (String, Option<String>, Option<String>, Option<u32>, String) {
        (found.severity.into(), found.code.map(Into::into), found.file.map(Into::into), found.line, found.message.clone())
    }

    #[test]
    fn the_forms_of_compilers_linkers_and_the_engine_are_understood() {
        let table: &[(&str, Row)] = &[
            (
                r"N:\a\Wheel.cpp(75): warning C4458: declaration hides member",
                ("warning", Some("C4458"), Some(r"N:\a\Wheel.cpp"), Some(75), "declaration hides member"),
            ),
            (
                r"D:\a\X.gen.cpp(25) : error C4430: missing type",
                ("error", Some("C4430"), Some(r"D:\a\X.gen.cpp"), Some(25), "missing type"),
            ),
            (
                "  Z:\\C.cpp(4): fatal error C1083: Cannot open include file",
                ("error", Some("C1083"), Some("Z:\\C.cpp"), Some(4), "Cannot open include file"),
            ),
            ("1>D:/p/G.h(238): error : Unrecognized type 'U'", ("error", None, Some("D:/p/G.h"), Some(238), "Unrecognized type 'U'")),
            (
                "Source/B.h(139): Error: Struct 'F' shares engine name",
                ("error", None, Some("Source/B.h"), Some(139), "Struct 'F' shares engine name"),
            ),
            ("/w/My Game/A.cpp:12:5: error: expected ';'", ("error", None, Some("/w/My Game/A.cpp"), Some(12), "expected ';'")),
            (r"X.props(31,3): warning MSB4011: twice", ("warning", Some("MSB4011"), Some("X.props"), Some(31), "twice")),
            ("Battle.Build.cs : warning : Modules must specify", ("warning", None, Some("Battle.Build.cs"), None, "Modules must specify")),
            (
                "Module.V.cpp.obj : error LNK2001: unresolved external",
                ("error", Some("LNK2001"), None, None, "Module.V.cpp.obj: unresolved external"),
            ),
            ("LINK : error LNK2001: unresolved", ("error", Some("LNK2001"), None, None, "LINK: unresolved")),
            ("ld.lld: error: undefined symbol: U::E()", ("error", None, None, None, "ld.lld: undefined symbol: U::E()")),
            ("LogCook: Warning: Unable to find package", ("warning", Some("LogCook"), None, None, "Unable to find package")),
            ("LogBlueprint:Error: [compiler X] y", ("error", Some("LogBlueprint"), None, None, "[compiler X] y")),
            ("[2023.01.04-04.48.19:147][166]LogTemp: Error: boom", ("error", Some("LogTemp"), None, None, "boom")),
            ("UATHelper: Packaging (Windows (64-bit)):   LogX: Error: y", ("error", Some("LogX"), None, None, "y")),
            ("ERROR: Unable to find plugin 'P'", ("error", None, None, None, "Unable to find plugin 'P'")),
            ("Undefined symbols for architecture arm64:", ("error", None, None, None, "Undefined symbols for architecture arm64:")),
        ];
        for (line, (severity, code, file, number, message)) in table {
            let found = parse(line).unwrap_or_else(|| panic!("{line}"));
            let wanted = (severity.to_string(), code.map(Into::into), file.map(Into::into), *number, message.to_string());
            assert_eq!(row(&found), wanted, "{line}");
        }
    }

    #[test]
    fn lines_that_only_sound_like_errors_are_none() {
        for line in [
            "",
            "error",
            "warning:",
            "LogInit: Display: Success - 0 error(s), 3 warning(s)",
            "[3/19] SharedPCH.Engine.ShadowErrors.cpp",
            "clang++ -Wno-error=deprecated -Wwarning",
            "LogInit: Display: LogPhysics: Warning: again",
            "no error: all is well here: really",
            "Result: Failed (OtherCompilationError)",
            "/e/Actor.h(533): note: see declaration",
            "::::",
            "(((error",
            "error\u{0}: x\u{fffd}:",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    #[test]
    fn what_is_kept_is_bounded_and_errors_displace_warnings() {
        let mut collector = Collector::new(vec![PathBuf::from("/w")]);
        for number in 0..5000 {
            collector.observe(number, &format!("/w/A.cpp:{number}:1: warning: {}", "é".repeat(2000)));
            collector.observe(number, &format!("/w/A.cpp:{number}:1: warning: {}", "é".repeat(2000)));
        }
        collector.observe(9999, "/w/B.cpp(7): error C2065: undeclared");
        collector.observe(10_000, "clang++: error: linker command failed with exit code 1");
        let found = collector.diagnostics();
        assert_eq!((found.errors, found.warnings, found.items.len()), (1, 5000, DIAGNOSTICS_KEPT));
        let last = found.items.last().unwrap();
        assert_eq!((last.file.as_deref(), last.line, last.log_seq), (Some("B.cpp"), Some(7), 9999));
        assert!(found.items.iter().all(|item| item.message.len() <= LONGEST_MESSAGE));
    }
}
