//! Step 2: the engine, the project file and the target are found and checked before anything is started.

use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use super::engines::{Engine, Host, Inventory};
use super::lifecycle::Claimed;
use super::run::failure;
use super::uat::{self, Invocation};
use super::workspace::Workspace;
use crate::model::build::{Failure, FailureCode, StepName};
use crate::uproject;

/// How many entries of a workspace are looked at to say where its project files are.
const ENTRIES_LOOKED_AT: usize = 20_000;
/// Most bytes of a target's rules that are read.
const LARGEST_RULES: u64 = 256 * 1024;

/// What the build step starts.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The command, without the allowed environment.
    pub invocation: Invocation,
    /// With which engine.
    pub engine: Engine,
}

/// Finds everything. Blocks; reads a few files.
pub(super) fn prepare(claimed: &Claimed, workspace: &Workspace, inventory: &Inventory) -> Result<Prepared, Failure> {
    let unavailable = |message: String| failure(FailureCode::EngineUnavailable, StepName::Prepare, message);
    let build = &claimed.build;
    let engine = inventory.find(&build.ue_version).map_err(unavailable)?;
    if let Some(reason) = engine.refusal(&build.platform, Host::current()) {
        return Err(unavailable(reason));
    }
    let wanted = match claimed.setting.uproject_path.as_str() {
        "" => claimed.project.uproject_path.as_str(),
        own => own,
    };
    let project =
        find_project(&workspace.source(), wanted).map_err(|message| failure(FailureCode::UprojectNotFound, StepName::Prepare, message))?;
    let extra = &claimed.setting.extra_uat_args;
    let names_target = extra.iter().any(|argument| argument.to_ascii_lowercase().starts_with("-target="));
    let target = if names_target { None } else { choose_target(&project, &build.target_type) };
    let invocation = uat::invocation(&uat::Request {
        engine,
        host: Host::current(),
        project: &project,
        platform: &build.platform,
        build_type: &build.build_type,
        target_type: &build.target_type,
        target: target.as_deref(),
        extra,
        archive: &workspace.output(),
        logs: &workspace.logs(),
        temporary: &workspace.temporary(),
    });
    Ok(Prepared { invocation, engine: engine.clone() })
}

/// The project file, checked to lie in the workspace and to be one. The error is a sentence without a directory of the
/// host.
fn find_project(source: &Path, wanted: &str) -> Result<PathBuf, String> {
    let relative = Path::new(wanted);
    let is_plain = !wanted.is_empty() && relative.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain {
        return Err("The path of the project file is not a path within the codebase.".into());
    }
    let path: PathBuf = source.join(relative).components().collect();
    let missing = || format!("There is no file {wanted} in this revision.{}", what_there_is(source));
    let real = path.canonicalize().map_err(|_| missing())?;
    let inside = source.canonicalize().map(|source| real.starts_with(source)).unwrap_or(false);
    if !inside {
        return Err(format!("{wanted} is a link that leads out of the codebase."));
    }
    let mut bytes = Vec::new();
    let is_file = real.metadata().is_ok_and(|metadata| metadata.is_file());
    let read = std::fs::File::open(&real).and_then(|file| file.take(uproject::MAXIMUM_BYTES as u64 + 1).read_to_end(&mut bytes));
    if !is_file || read.is_err() {
        return Err(missing());
    }
    match uproject::read(&bytes, wanted) {
        Ok(_) => Ok(path),
        Err(error) => {
            let reason = error.to_string();
            let mut letters = reason.chars();
            let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
            Err(format!("{first}{} ({wanted})", letters.as_str()))
        }
    }
}

/// Where the project files are, for whoever named one that is not there.
fn what_there_is(source: &Path) -> String {
    let mut found = Vec::new();
    let mut looked_at = 0;
    let mut waiting = vec![(source.to_owned(), String::new(), 0)];
    while let Some((directory, name, depth)) = waiting.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            looked_at += 1;
            if looked_at > ENTRIES_LOOKED_AT || found.len() > uproject::MAXIMUM_LISTED {
                break;
            }
            let own = entry.file_name().to_string_lossy().into_owned();
            let path = if name.is_empty() { own } else { format!("{name}/{own}") };
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < uproject::MAXIMUM_DEPTH => waiting.push((entry.path(), path, depth + 1)),
                Ok(kind) if kind.is_file() => found.push(path),
                _ => {}
            }
        }
    }
    match uproject::detect(found.iter().filter(|path| path.to_ascii_lowercase().ends_with(".uproject"))) {
        Ok(path) => format!(" There is {path}; the project's uprojectPath can be set to it on the build setting."),
        Err(uproject::DetectError::Several(paths)) => format!(" There are {}.", paths.join(", ")),
        Err(uproject::DetectError::NotFound) => String::new(),
    }
}

/// Which target to name: none where the project has one of the type only, for the tool then finds it by itself.
/// Where there are several, the one that is called as the engine's own templates call it.
fn choose_target(project: &Path, target_type: &str) -> Option<String> {
    let stem = project.file_stem()?.to_string_lossy().into_owned();
    if target_type == "Editor" {
        return Some(format!("{stem}Editor"));
    }
    let mut of_type = Vec::new();
    for entry in std::fs::read_dir(project.parent()?.join("Source")).ok()?.flatten().take(1000) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(target) = name.strip_suffix(".Target.cs") else { continue };
        let mut rules = String::new();
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let read = std::fs::File::open(entry.path()).and_then(|file| file.take(LARGEST_RULES).read_to_string(&mut rules));
        if is_file && read.is_ok() && rules.contains(&format!("TargetType.{target_type}")) {
            of_type.push(target.to_owned());
        }
    }
    let usual = if target_type == "Game" { stem } else { format!("{stem}{target_type}") };
    (of_type.len() > 1 && of_type.contains(&usual)).then_some(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROJECT: &str = r#"{"FileVersion": 3, "EngineAssociation": "5.4"}"#;

    #[test]
    fn the_project_file_must_lie_in_the_workspace() {
        let place = tempfile::tempdir().unwrap();
        let source = place.path().join("source");
        std::fs::create_dir_all(source.join("Game")).unwrap();
        std::fs::write(source.join("Game/A.uproject"), PROJECT).unwrap();
        std::fs::write(place.path().join("Out.uproject"), PROJECT).unwrap();
        std::fs::create_dir(source.join("Dir.uproject")).unwrap();
        assert_eq!(find_project(&source, "Game/A.uproject"), Ok(source.join("Game/A.uproject")));
        for wanted in ["", "../Out.uproject", "/etc/passwd", "Game/../../Out.uproject", "Dir.uproject", "B.uproject", "A.uproject"] {
            let message = find_project(&source, wanted).unwrap_err();
            assert!(!message.contains(&*place.path().to_string_lossy()), "{message}");
        }
        assert!(find_project(&source, "B.uproject").unwrap_err().contains("There is Game/A.uproject"));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(place.path().join("Out.uproject"), source.join("Link.uproject")).unwrap();
            assert!(find_project(&source, "Link.uproject").unwrap_err().contains("leads out"));
        }
    }

    #[test]
    fn a_file_that_is_no_project_is_refused_in_words() {
        let place = tempfile::tempdir().unwrap();
        let check = |bytes: &[u8]| {
            std::fs::write(place.path().join("A.uproject"), bytes).unwrap();
            find_project(place.path(), "A.uproject").map(|_| ())
        };
        let utf16: Vec<u8> = [0xff, 0xfe].into_iter().chain(PROJECT.encode_utf16().flat_map(u16::to_le_bytes)).collect();
        assert_eq!(check(format!("\u{feff}{PROJECT}").as_bytes()), Ok(()));
        assert_eq!(check(&utf16), Ok(()));
        let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 133\n", "a".repeat(64));
        assert!(check(pointer.as_bytes()).unwrap_err().contains("LFS pointer"));
        for broken in [&b""[..], b"{", b"\0\0\0\0", b"[1]", &vec![b' '; uproject::MAXIMUM_BYTES + 10]] {
            assert!(check(broken).is_err());
        }
    }

    #[test]
    fn a_target_is_named_only_where_there_are_several() {
        let place = tempfile::tempdir().unwrap();
        let project = place.path().join("Kitchen.uproject");
        std::fs::create_dir(place.path().join("Source")).unwrap();
        let target = |name: &str, kind: &str| {
            std::fs::write(place.path().join(format!("Source/{name}.Target.cs")), format!("Type = TargetType.{kind};")).unwrap();
        };
        target("Kitchen", "Game");
        target("KitchenServer", "Server");
        assert_eq!(choose_target(&project, "Game"), None);
        target("KitchenDemo", "Game");
        target("Other", "Server");
        assert_eq!(choose_target(&project, "Game").as_deref(), Some("Kitchen"));
        assert_eq!(choose_target(&project, "Server").as_deref(), Some("KitchenServer"));
        assert_eq!(choose_target(&project, "Client"), None);
        assert_eq!(choose_target(&project, "Editor").as_deref(), Some("KitchenEditor"));
    }
}
