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
