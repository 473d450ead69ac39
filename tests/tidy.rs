//! What keeps the house a house: floors, one module for each outside thing, sizes, words.
//!
//! Each check fails with the sentence that a reviewer would have written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The floors of `src/lib.rs`, lowest first. A module may use what stands below it.
const FLOORS: &[&[&str]] = &[
    &["model", "seams", "clock", "platform", "uproject"],
    &["store", "artifacts", "plugins", "outbound", "vault"],
    &["builds", "people", "retention", "schedules", "keys", "webhooks", "notifications"],
    &["live"],
    &["app"],
    &["api"],
    &["appliance", "config", "control"],
    &["main", "cli", "demo"],
];

/// What modules of one floor may use of each other, and nothing more.
const SAME_FLOOR: &[(&str, &[&str])] = &[
    ("clock", &["model"]),
    ("platform", &["model"]),
    ("seams", &["model", "platform"]),
    ("uproject", &["model"]),
    ("plugins", &["outbound"]),
    ("retention", &["builds", "people"]),
    ("schedules", &["builds"]),
    ("notifications", &["builds"]),
    ("appliance", &["config", "control"]),
    ("main", &["cli"]),
    ("cli", &["demo"]),
];

/// An outside thing, and the only modules that may name it.
const ONLY_HERE: &[(&str, &[&str])] = &[
    ("redb", &["store"]),
    ("wasmtime", &["plugins"]),
    ("matchit", &["api"]),
    // The demo's git server and receiver stand for machines of the studio; they are no part of the service.
    ("hyper", &["api", "demo"]),
    ("hyper_util", &["api", "demo"]),
    ("tokio_tungstenite", &["api"]),
    ("tokio_rustls", &["api", "demo", "outbound"]),
    ("reqwest", &["outbound"]),
    ("lettre", &["notifications"]),
    ("rcgen", &["demo"]),
    ("multer", &["demo"]),
    ("indicatif", &["demo"]),
    ("clap", &["cli"]),
    ("toml", &["config"]),
    ("rustix", &["platform"]),
    ("landlock", &["platform"]),
    ("libc", &["platform"]),
    ("tokio_cron_scheduler", &["schedules"]),
    ("windows_sys", &["platform"]),
    ("cap_std", &["platform", "plugins", "artifacts"]),
    ("tracing_subscriber", &["appliance", "cli"]),
];

struct Source {
    /// Relative to the package, with `/`.
    name: String,
    /// The top module that it belongs to.
    module: String,
    text: String,
    /// Without comments, texts and the tests at its foot.
    code: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let is_ours = !matches!(name.to_str(), Some("target" | ".git" | "Cargo.lock" | "node_modules"));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && is_ours => found.extend(files(&path)),
            Ok(kind) if kind.is_file() && is_ours => found.push(path),
            _ => {}
        }
    }
    found.sort();
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

fn sources() -> Vec<Source> {
    let paths = files(&root().join("src")).into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    // Unit tests that outgrew the foot of their file.
    let paths = paths.filter(|path| path.file_name().is_some_and(|name| name != "tests.rs"));
    let sources: Vec<Source> = paths
        .map(|path| {
            let name = relative(&path);
            let module = name.trim_start_matches("src/").split(['/', '.']).next().unwrap_or_default().to_owned();
            let text = fs::read_to_string(&path).expect("a source is UTF-8");
            // Tests stand at the foot of a file.
            let product = ["\n#[cfg(test)]\nmod ", "\n#[cfg(all(test"]
                .iter()
                .filter_map(|start| text.find(start))
                .min()
                .map_or(&*text, |at| &text[..at]);
            Source { name, module, code: without_comments_and_texts(product), text }
        })
        .collect();
    assert!(sources.len() > 50, "found only {} sources", sources.len());
    sources
}

/// Blanks out comments and the inside of string literals; line ends stay.
fn without_comments_and_texts(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if first == '"' {
            let mut escaped = false;
            let end = rest[1..].char_indices().find(|(_, c)| {
                let ends = *c == '"' && !escaped;
                escaped = *c == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |(at, _)| at + 2)
        } else if let Some(raw) = rest.strip_prefix("r#\"") {
            raw.find("\"#").map_or(rest.len(), |at| at + 5)
        } else if rest.starts_with("'\"'") {
            3
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        out.extend(rest[..skipped].chars().filter(|c| *c == '\n'));
        out.push(' ');
        rest = &rest[skipped..];
    }
    out
}

/// The words that directly follow each occurrence of `start`.
fn words_after<'a>(code: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    code.match_indices(start).filter(|(at, _)| !code[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_')).map(move |(at, _)| {
        let rest = &code[at + start.len()..];
        rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
    })
}

fn floor_of(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

#[test]
fn nothing_is_imported_from_a_floor_above() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| source.module != "lib") {
        let Some(own) = floor_of(&source.module) else {
            wrong.push(format!("{}: give the module `{}` a floor in tests/tidy.rs and in src/lib.rs", source.name, source.module));
            continue;
        };
        let start = if source.module == "main" { "cookhouse::" } else { "crate::" };
        let grouped = format!("use {start}{{");
        assert!(
            !source.code.contains(&grouped),
            "{}: write one `use {start}module` for each module, so that floors can be read",
            source.name
        );
        for used in words_after(&source.code, start) {
            let allowed = SAME_FLOOR.iter().any(|(module, others)| *module == source.module && others.contains(&used));
            match floor_of(used) {
                Some(floor) if floor < own || used == source.module || allowed => {}
                Some(_) => {
                    wrong.push(format!("{}: `{}` may not use `{used}`: it stands on the same floor or above", source.name, source.module))
                }
                None => wrong.push(format!("{}: `{start}{used}` is no module with a floor", source.name)),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_outside_thing_is_named_in_one_module() {
    let mut wrong = Vec::new();
    for source in sources() {
        for (outside, modules) in ONLY_HERE {
            let named = words_after(&source.code, &format!("{outside}::")).next().is_some();
            if named && !modules.contains(&source.module.as_str()) {
                wrong.push(format!("{}: only {} may name {outside}", source.name, modules.join(" and ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_differs_between_operating_systems_stands_in_platform() {
    for source in sources().iter().filter(|source| source.module != "platform") {
        for word in ["std::os::unix", "std::os::linux", "std::os::windows", "libc::", "cfg(unix)", "cfg(windows)", "cfg(target_os"] {
            assert!(!source.code.contains(word), "{}: `{word}` belongs in src/platform", source.name);
        }
    }
}

#[test]
fn unsafe_code_stands_in_two_places() {
    for source in sources() {
        let allowed = source.module == "platform" || source.name == "src/plugins/cache.rs";
        let uses = words_after(&source.code, "unsafe").any(str::is_empty);
        assert!(allowed || !uses || source.module == "lib", "{}: unsafe code belongs in src/platform", source.name);
        if uses && source.module != "lib" {
            assert!(source.text.contains("SAFETY:"), "{}: say in a SAFETY comment why it is sound", source.name);
        }
    }
}

#[test]
fn files_stay_small_enough_to_read_at_once() {
    let sources = sources();
    let mut sizes: Vec<usize> = Vec::new();
    for source in &sources {
        let lines = source.text.lines().count();
        assert!(lines <= 600, "{} has {lines} lines; split it where its parts change for different reasons", source.name);
        sizes.push(lines);
    }
    sizes.sort_unstable();
    let median = sizes[sizes.len() / 2];
    assert!(median <= 150, "half of the files have {median} lines or more; 150 is where a file stops having one subject");
}

#[test]
fn every_file_says_what_it_is() {
    for source in sources() {
        assert!(source.text.starts_with("//! "), "{}: begin with a `//!` line that says what it is", source.name);
    }
    let lib = fs::read_to_string(root().join("src/lib.rs")).expect("src/lib.rs");
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    assert!(lib.contains("missing_docs") || manifest.contains("missing_docs"), "the lint that asks for documentation is gone");
}

#[test]
fn input_cannot_end_the_process() {
    for source in sources() {
        for call in [".unwrap()", "panic!(", "unreachable!(", "todo!(", "unimplemented!(", "dbg!("] {
            assert!(!source.code.contains(call), "{}: `{call}`: return an error that says what to do", source.name);
        }
    }
}

#[test]
fn identifiers_carry_no_product_names() {
    // Put together here, so that this file does not hold what it forbids.
    let products = [["git", "hub"].concat(), ["per", "force"].concat(), ["he", "lix"].concat()];
    for source in sources() {
        let code = source.code.to_ascii_lowercase();
        for product in &products {
            assert!(!code.contains(product.as_str()), "{}: say githost or streamvc instead of {product} in identifiers", source.name);
        }
    }
}

#[test]
fn nothing_remembers_the_machine_it_was_written_on() {
    let places = [["/wo", "rk/"].concat(), ["/ro", "ot/"].concat(), ["/home/", "user"].concat()];
    let loose_ends = [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["X", "XX"].concat()];
    for path in files(root()) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let name = relative(&path);
        for place in &places {
            assert!(!text.contains(place.as_str()), "{name} names {place}, a directory of one machine");
        }
        if name.starts_with("src/") || name.starts_with("tests/") || name.starts_with("plugins/") {
            for word in &loose_ends {
                let found = text.split(|c: char| !c.is_alphanumeric()).any(|part| part == word);
                assert!(!found, "{name}: do what the {word} says, or write down why not");
            }
        }
    }
}

/// What git keeps, not what lies in the directory: there, whoever ran the fuzzer has what it was built into.
#[test]
fn nothing_that_was_built_is_kept() {
    if !root().join(".git").exists() {
        // The sources without their history: they were packed from what git keeps.
        return;
    }
    let mut git = Command::new("git");
    // The directory may belong to another user than the tests run as.
    git.args(["-c", "safe.directory=*", "ls-files", "-z"]).current_dir(root());
    let kept = git.output().expect("git starts");
    assert!(kept.status.success(), "{}", String::from_utf8_lossy(&kept.stderr));
    let kept = String::from_utf8(kept.stdout).expect("names");
    let names: Vec<&str> = kept.split('\0').filter(|name| !name.is_empty()).collect();
    assert!(names.contains(&"tests/tidy.rs"));
    for name in names {
        assert!(!name.split('/').any(|part| matches!(part, "target" | "node_modules")), "{name} can be made anew; it is not for git");
        let size = fs::metadata(root().join(name)).map_or(0, |about| about.len());
        assert!(size < 2 << 20, "{name} has {size} bytes: what is that large is made or fetched when it is needed");
    }
}

#[test]
fn the_engines_and_projects_of_the_fixtures_are_whole() {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for path in files(&root().join("fixtures")) {
        let name = relative(&path);
        let file_name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // `fixtures/uprojects` holds what the standard does not allow and the editor reads.
        if file_name == "Build.version" || (file_name.ends_with(".uproject") && !name.starts_with("fixtures/uprojects/")) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{name} is no JSON");
            *kinds.entry(if file_name.ends_with("t") { "project" } else { "engine" }).or_default() += 1;
        }
        if file_name.ends_with(".sh") {
            assert!(!fs::read_to_string(&path).unwrap_or_default().contains('\r'), "{name} has line ends that bash stumbles over");
        }
        let size = fs::metadata(&path).map_or(0, |about| about.len());
        assert!(size < 256 << 10, "{name} has {size} bytes: fixtures are small");
    }
    assert!(kinds.get("engine") >= Some(&2) && kinds.get("project") >= Some(&1), "{kinds:?}");
}

#[test]
fn the_changelog_knows_this_version() {
    let changelog = fs::read_to_string(root().join("packaging/CHANGELOG.md")).expect("packaging/CHANGELOG.md");
    let version = env!("CARGO_PKG_VERSION");
    assert!(changelog.contains(&format!("## {version}")), "packaging/CHANGELOG.md says nothing of {version}");
}
