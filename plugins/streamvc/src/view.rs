//! Where the files of a stream lie in depots: its own, and those that it imports.

use crate::names::{decode, encode};

/// Lines of one view that are used; a stream with more is read by its own files alone.
const MOST_LINES: usize = 400;

/// The client view of a stream, in its order: of two lines that map the same, the later one counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    is_excluded: bool,
    /// In depot syntax, with a wildcard at its end or none.
    depot: Place,
    /// In the stream.
    local: Place,
}

/// A folder and everything below it, or one file. Escaped as the server writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    path: String,
    is_folder: bool,
}

impl Place {
    /// `None`: it has wildcards elsewhere than at its end.
    fn parse(text: &str) -> Option<Place> {
        let (path, is_folder) = text.strip_suffix("...").map_or((text, false), |path| (path, true));
        let is_plain = !path.contains("...") && !path.contains('*') && !path.contains("%%");
        is_plain.then(|| Place { path: path.to_owned(), is_folder })
    }

    /// What of `path` is below this place.
    fn rest<'a>(&self, path: &'a str, ignores_case: bool) -> Option<&'a str> {
        let head = path.get(..self.path.len())?;
        let is_head = head == self.path || (ignores_case && head.to_lowercase() == self.path.to_lowercase());
        (is_head && (self.is_folder || path.len() == self.path.len())).then(|| &path[self.path.len()..])
    }
}

impl View {
    /// A stream that has nothing but its own files.
    pub fn own(stream: &str) -> View {
        let place = |path: String| Place { path, is_folder: true };
        View { lines: vec![Line { is_excluded: false, depot: place(format!("{stream}/")), local: place(String::new()) }] }
    }

    /// From the lines that `stream -o -v` prints: `//depot/path/... folder/...`, the right side with or without the
    /// name of the stream or a client before it. Without any usable line the stream has its own files.
    pub fn parse<'a>(stream: &str, lines: impl Iterator<Item = &'a str>) -> View {
        let lines: Vec<Line> = lines.take(MOST_LINES + 1).filter_map(line).collect();
        let includes = lines.iter().any(|line| !line.is_excluded);
        if includes && lines.len() <= MOST_LINES { View { lines } } else { View::own(stream) }
    }

    /// Depot patterns that hold every file of the stream, and possibly some more.
    pub fn patterns(&self) -> Vec<String> {
        let included = self.lines.iter().filter(|line| !line.is_excluded);
        included.map(|line| format!("{}{}", line.depot.path, if line.depot.is_folder { "..." } else { "" })).collect()
    }

    /// The depot file that lies at a path of the stream (not escaped).
    pub fn depot_file(&self, path: &str, ignores_case: bool) -> Option<String> {
        let path = encode(path);
        let line = self.lines.iter().rev().find(|line| line.local.rest(&path, ignores_case).is_some())?;
        let rest = line.local.rest(&path, ignores_case)?;
        (!line.is_excluded).then(|| format!("{}{rest}", line.depot.path))
    }

    /// Where a depot file lies in the stream (not escaped); `None`: not in it.
    pub fn stream_file(&self, depot_file: &str, ignores_case: bool) -> Option<String> {
        let line = self.lines.iter().rev().find(|line| line.depot.rest(depot_file, ignores_case).is_some())?;
        let rest = line.depot.rest(depot_file, ignores_case)?;
        let path = format!("{}{rest}", line.local.path);
        // A later line may have taken its place.
        let owner = self.lines.iter().rev().find(|line| line.local.rest(&path, ignores_case).is_some());
        (!line.is_excluded && owner == Some(line)).then(|| decode(&path))
    }

    /// Depot patterns for the files of the stream that match a glob, at most `depth` directories deep: they may match
    /// more, never less.
    pub fn find(&self, glob: &str, depth: usize) -> Vec<String> {
        if !glob.contains(['*', '?']) {
            return self.depot_file(glob, true).into_iter().collect();
        }
        let mut patterns = Vec::new();
        for line in self.lines.iter().filter(|line| !line.is_excluded) {
            let above = line.local.path.matches('/').count();
            if !line.depot.is_folder {
                patterns.push(line.depot.path.clone());
            } else if above == 0 && !glob.starts_with("**/") && !glob.contains("**") {
                patterns.push(format!("{}{}", line.depot.path, escaped(glob)));
            } else if let Some(name) = glob.strip_prefix("**/").filter(|rest| !rest.contains('/') && !rest.contains("**")) {
                for below in 0..=depth.saturating_sub(above) {
                    patterns.push(format!("{}{}{}", line.depot.path, "*/".repeat(below), escaped(name)));
                }
            } else {
                patterns.push(format!("{}...", line.depot.path));
            }
        }
        patterns
    }
}

/// A glob without `**`: `?` matches one character, which the server has no sign for.
fn escaped(glob: &str) -> String {
    glob.split(['*', '?']).map(encode).collect::<Vec<_>>().join("*")
}

fn line(text: &str) -> Option<Line> {
    let [depot, local] = words(text)?;
    let (is_excluded, depot) = match depot.strip_prefix('-') {
        Some(depot) => (true, depot),
        None => (false, depot.strip_prefix(['+', '&']).unwrap_or(&depot)),
    };
    // An import may be held at a changelist.
    let depot = depot.split('@').next().unwrap_or_default();
    let local = local.strip_prefix("//").map_or(local.as_str(), |rest| rest.split_once('/').map_or("", |(_, rest)| rest));
    if !depot.starts_with("//") {
        return None;
    }
    let (depot, local) = (Place::parse(depot)?, Place::parse(local)?);
    (depot.is_folder == local.is_folder).then_some(Line { is_excluded, depot, local })
}

/// Two words; one with a space in it stands in quotation marks.
fn words(text: &str) -> Option<[String; 2]> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        found.push(word.to_owned());
        rest = after.trim_start();
    }
    found.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::View;

    fn view() -> View {
        let lines = [
            "//Games/main/... ...",
            "//Engine/release/... Engine/...",
            "//Libs/zip/...@1200 \"Third Party/zip/...\"",
            "-//Games/main/Secret/... Secret/...",
            "//Games/tools/Tool.exe Binaries/Tool.exe",
        ];
        View::parse("//Games/main", lines.into_iter())
    }

    #[test]
    fn files_are_found_where_the_view_has_them() {
        let view = view();
        for (path, depot) in [
            ("Game.uproject", Some("//Games/main/Game.uproject")),
            ("Content/a@b.uasset", Some("//Games/main/Content/a%40b.uasset")),
            ("Engine/Build.version", Some("//Engine/release/Build.version")),
            ("Third Party/zip/zip.h", Some("//Libs/zip/zip.h")),
            ("Binaries/Tool.exe", Some("//Games/tools/Tool.exe")),
            ("Secret/x", None),
        ] {
            assert_eq!(view.depot_file(path, false).as_deref(), depot, "{path}");
            if let Some(depot) = depot {
                assert_eq!(view.stream_file(depot, false).as_deref(), Some(path), "{depot}");
            }
        }
        // Another line has its place.
        assert_eq!(view.stream_file("//Games/main/Engine/Build.version", false), None);
        assert_eq!(view.stream_file("//Games/main/Secret/x", false), None);
        assert_eq!(view.stream_file("//Other/x", false), None);
        assert_eq!(view.stream_file("//games/MAIN/x", true).as_deref(), Some("x"));
        assert_eq!(view.stream_file("//games/MAIN/x", false), None);
    }

    #[test]
    fn clients_and_streams_before_the_right_side_do_not_count() {
        for line in ["//Games/main/... //client/...", "//Games/main/... ...", "//Games/main/... //Games-main/..."] {
            assert_eq!(View::parse("//Games/main", [line].into_iter()), View::own("//Games/main"), "{line}");
        }
        for line in ["", "x", "//Games/main/... a b", "//Games/%%1/x ..."] {
            assert_eq!(View::parse("//Games/main", [line].into_iter()), View::own("//Games/main"), "{line}");
        }
        assert_eq!(view().patterns(), ["//Games/main/...", "//Engine/release/...", "//Libs/zip/...", "//Games/tools/Tool.exe"]);
    }

    #[test]
    fn a_search_asks_folder_by_folder() {
        let own = View::own("//Games/main");
        let expected =
            ["//Games/main/*.uproject", "//Games/main/*/*.uproject", "//Games/main/*/*/*.uproject", "//Games/main/*/*/*/*.uproject"];
        assert_eq!(own.find("**/*.uproject", 3), expected);
        assert_eq!(own.find("Game/a@b?.uproject", 3), ["//Games/main/Game/a%40b*.uproject"]);
        assert_eq!(own.find("Content/**", 3), ["//Games/main/..."]);
        assert_eq!(view().find("Engine/A.uproject", 3), ["//Engine/release/A.uproject"]);
        let found = view().find("**/*.uproject", 1);
        assert_eq!(found[2..5], ["//Engine/release/*.uproject", "//Libs/zip/*.uproject", "//Games/tools/Tool.exe"]);
    }
}
