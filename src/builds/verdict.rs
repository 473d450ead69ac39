//! Whether the automation tool succeeded. It lies in every direction, so three witnesses have to agree: the exit code,
//! the log's own words, and the output on disk.

use std::path::Path;

use crate::model::build::{Diagnostics, Failure, FailureCode, StepName};

/// How the process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself.
    Exited(i32),
    /// By a signal that the service did not send.
    Signalled(i32),
}

/// What the log said on the way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    exit_line: Option<(i32, String)>,
    stage: Option<String>,
    stage_is_open: bool,
    conflicting_instance: bool,
}

impl Facts {
    /// Looks at one line of the log.
    pub fn observe(&mut self, text: &str) {
        const EXIT: &str = "AutomationTool exiting with ExitCode=";
        if let Some(stage) = text.find("********** ").map(|at| &text[at + 11..])
            && let Some((name, rest)) = stage.split_once(" COMMAND ")
            && name.len() <= 20
        {
            self.stage = Some(name.to_owned());
            self.stage_is_open = rest.starts_with("STARTED");
        } else if let Some(at) = text.find(EXIT) {
            let rest = &text[at + EXIT.len()..];
            let digits = rest.find(|character: char| !character.is_ascii_digit() && character != '-').unwrap_or(rest.len());
            let name = rest[digits..].trim().trim_matches(['(', ')']);
            let name: String = name.chars().take(60).collect();
            // The last one counts: a tool that the automation tool calls may print one of its own.
            self.exit_line = rest[..digits].parse().ok().map(|code| (code, name));
        } else if text.contains("A conflicting instance of AutomationTool is already running") {
            self.conflicting_instance = true;
        }
    }
}

/// What lies in the archive directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    /// There is at least one file with content.
    pub has_files: bool,
    /// There is something that the platform can start or install.
    pub has_program: bool,
}

/// The verdict. `Err` says what happened and what to look at.
pub fn judge(ended: Ended, facts: &Facts, output: Output, platform: &str, diagnostics: &Diagnostics) -> Result<(), Failure> {
    let fail = |code: FailureCode, message: String| Err(Failure { code, message, step: Some(StepName::Build) });
    let code = match ended {
        Ended::Signalled(signal) => {
            let hint = if signal == 9 { ", as the operating system does when memory runs out" } else { "" };
            return fail(
                FailureCode::BuildStepFailed,
                format!("The build command was ended by signal {signal}{hint}{}.{}", in_stage(facts), first_error(diagnostics)),
            );
        }
        Ended::Exited(code) => code,
    };
    if facts.conflicting_instance {
        return fail(
            FailureCode::EngineUnavailable,
            "Another automation tool is running in this engine's directory, started by somebody else on the machine. Wait for it, or give it an engine of its own.".into(),
        );
    }
    let said = facts.exit_line.as_ref();
    let reason = match (code, said) {
        (0, Some((0, _))) => None,
        (0, Some((said, name))) => Some(format!("The build command said that it failed ({said} {name}), although its exit code was 0")),
        (0, None) => Some("The build command ended without saying that it succeeded".to_owned()),
        (code, Some((said, name))) if *said != 0 => {
            Some(explain(*said, name).unwrap_or_else(|| format!("The build command failed with exit code {code} ({name})")))
        }
        (code, _) => Some(explain(code, "").unwrap_or_else(|| format!("The build command failed with exit code {code}"))),
    };
    if let Some(reason) = reason {
        let stage = facts.stage.as_deref().filter(|_| facts.stage_is_open).unwrap_or_default();
        let code = if matches!(stage, "STAGE" | "PACKAGE" | "ARCHIVE") { FailureCode::StagingFailed } else { FailureCode::BuildStepFailed };
        return fail(code, format!("{reason}{}.{}", in_stage(facts), first_error(diagnostics)));
    }
    match output {
        Output { has_files: false, .. } => {
            fail(FailureCode::StagingFailed, "The build command said that it succeeded, but its archive directory is empty.".into())
        }
        Output { has_program: false, .. } => fail(
            FailureCode::StagingFailed,
            format!(
                "The build command said that it succeeded, but its archive has nothing that {platform} could start. Building from a clean workspace (cleanBuild) mends a stale target receipt."
            ),
        ),
        _ => Ok(()),
    }
}

fn in_stage(facts: &Facts) -> String {
    match (&facts.stage, facts.stage_is_open) {
        (Some(stage), true) => format!(", in the stage {stage}"),
        _ => String::new(),
    }
}

fn first_error(diagnostics: &Diagnostics) -> String {
    let Some(first) = diagnostics.items.iter().find(|item| item.severity == "error") else {
        return " The end of the log says more.".into();
    };
    let place = match (&first.file, first.line) {
        (Some(file), Some(line)) => format!("{file}({line}): "),
        (Some(file), None) => format!("{file}: "),
        _ => String::new(),
    };
    let message: String = first.message.chars().take(300).collect();
    format!(" First error: {place}{message}")
}

/// The exit codes of the automation tool that people meet.
fn explain(code: i32, name: &str) -> Option<String> {
    let sentence = match code {
        2 => "The automation tool did not understand its arguments",
        3 if name.is_empty() || name.contains("Command") => "The automation tool does not know the command, or crashed",
        10 => "The platform's software development kit is not installed",
        25 => "Cooking the content failed",
        6 | 27 | 202 => "Compiling the code failed",
        8 => "The build rules (*.Build.cs or *.Target.cs) have an error",
        28 => "Packaging for the platform failed",
        30 => "A file that should be staged is missing",
        11..=18 | 32 => "Signing failed: a certificate or provisioning profile is missing, expired or does not fit",
        102 => "The staging directory could not be emptied: something still uses a file in it",
        103 => "The executable to stage is missing: the target was not built",
        154 => "A licence of a software development kit has not been accepted",
        200 => "The platform's software development kit could not be installed",
        126 | 127 => "The automation tool could not be started",
        129..=165 => return Some(format!("A tool of the build was ended by signal {}", code - 128)),
        _ => return None,
    };
    Some(format!("{sentence} (exit code {code})"))
}

/// How many entries are looked at for something to start.
const ENTRIES_LOOKED_AT: usize = 200_000;

/// Looks through an archive directory; links are not followed. Stops at the first program it finds.
pub fn inspect(archive: &Path, platform: &str) -> std::io::Result<Output> {
    let mut output = Output { has_files: false, has_program: false };
    let mut directories = vec![archive.to_path_buf()];
    let mut looked_at = 0;
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            looked_at += 1;
            let kind = entry.file_type()?;
            let name = entry.file_name().to_string_lossy().to_ascii_lowercase();
            let is_bundle = kind.is_dir() && name.ends_with(".app") && matches!(platform, "Mac" | "IOS" | "TVOS" | "VisionOS");
            let metadata = if kind.is_file() { Some(entry.metadata()?) } else { None };
            if metadata.as_ref().is_some_and(|metadata| metadata.len() > 0) {
                output.has_files = true;
                output.has_program |= is_program(&entry.path(), &name, platform);
            }
            output.has_program |= is_bundle;
            if kind.is_dir() {
                directories.push(entry.path());
            }
            if (output.has_files && output.has_program) || looked_at >= ENTRIES_LOOKED_AT {
                return Ok(output);
            }
        }
    }
    Ok(output)
}

fn is_program(path: &Path, name: &str, platform: &str) -> bool {
    match platform {
        "Win64" => name.ends_with(".exe"),
        "Linux" | "LinuxArm64" => begins_with_elf(path),
        "Android" => name.ends_with(".apk") || name.ends_with(".aab"),
        "Mac" | "IOS" | "TVOS" | "VisionOS" => name.ends_with(".ipa") || name.ends_with(".pkg"),
        // What a console's package looks like is under its owner's agreement.
        _ => true,
    }
}

/// A program or a library; a game without either has nothing to run.
fn begins_with_elf(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 4];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Output = Output { has_files: true, has_program: true };

    fn facts(lines: &[&str]) -> Facts {
        let mut facts = Facts::default();
        lines.iter().for_each(|line| facts.observe(line));
        facts
    }

    fn verdict(ended: Ended, lines: &[&str], output: Output) -> Result<(), (FailureCode, String)> {
        judge(ended, &facts(lines), output, "Linux", &Diagnostics::default()).map_err(|failure| (failure.code, failure.message))
    }

    #[test]
    fn three_witnesses_have_to_agree() {
        let good =
            ["********** ARCHIVE COMMAND COMPLETED **********", "BUILD SUCCESSFUL", "AutomationTool exiting with ExitCode=0 (Success)"];
        assert_eq!(verdict(Ended::Exited(0), &good, GOOD), Ok(()));
        let lied = verdict(Ended::Exited(0), &["AutomationTool exiting with ExitCode=25 (Error_UnknownCookFailure)"], GOOD).unwrap_err();
        assert!(lied.0 == FailureCode::BuildStepFailed && lied.1.contains("although its exit code was 0"), "{lied:?}");
        assert!(verdict(Ended::Exited(0), &["BUILD SUCCESSFUL"], GOOD).unwrap_err().1.contains("without saying"));
        assert!(verdict(Ended::Exited(1), &good, GOOD).unwrap_err().1.contains("exit code 1"));
        assert_eq!(
            verdict(Ended::Exited(0), &good, Output { has_files: false, has_program: false }).unwrap_err().0,
            FailureCode::StagingFailed
        );
        assert!(
            verdict(Ended::Exited(0), &good, Output { has_files: true, has_program: false }).unwrap_err().1.contains("nothing that Linux")
        );
    }

    #[test]
    fn the_failure_says_which_stage_and_what() {
        let cook = ["********** BUILD COMMAND COMPLETED **********", "********** COOK COMMAND STARTED **********"];
        let failed = verdict(Ended::Exited(25), &cook, GOOD).unwrap_err();
        assert_eq!(
            (failed.0, failed.1.contains("Cooking the content failed (exit code 25), in the stage COOK")),
            (FailureCode::BuildStepFailed, true)
        );
        let staged = verdict(Ended::Exited(103), &["********** STAGE COMMAND STARTED **********"], GOOD).unwrap_err();
        assert_eq!(staged.0, FailureCode::StagingFailed);
        assert!(verdict(Ended::Signalled(9), &cook, GOOD).unwrap_err().1.contains("memory runs out"));
        assert!(verdict(Ended::Exited(139), &cook, GOOD).unwrap_err().1.contains("signal 11"));
        let busy = verdict(Ended::Exited(1), &["A conflicting instance of AutomationTool is already running. Curent location: x"], GOOD);
        assert_eq!(busy.unwrap_err().0, FailureCode::EngineUnavailable);
        let passed_on = verdict(Ended::Exited(6), &["AutomationTool exiting with ExitCode=6 (6)"], GOOD).unwrap_err();
        assert!(passed_on.1.contains("Compiling the code failed"), "{passed_on:?}");
    }

    #[test]
    fn an_archive_is_judged_by_what_lies_in_it() {
        let place = tempfile::tempdir().unwrap();
        let inspect = |platform: &str| inspect(place.path(), platform).unwrap();
        assert_eq!(inspect("Linux"), Output { has_files: false, has_program: false });
        std::fs::create_dir_all(place.path().join("Linux/X/Binaries/Linux")).unwrap();
        std::fs::write(place.path().join("Linux/X/empty.pak"), "").unwrap();
        assert!(!inspect("Linux").has_files);
        std::fs::write(place.path().join("Linux/X/a.pak"), "pak").unwrap();
        assert_eq!(inspect("Linux"), Output { has_files: true, has_program: false });
        std::fs::write(place.path().join("Linux/X/Binaries/Linux/X"), b"\x7fELF...").unwrap();
        assert_eq!(inspect("Linux"), GOOD);
        assert_eq!(inspect("Win64"), Output { has_files: true, has_program: false });
        std::fs::write(place.path().join("X.EXE"), "MZ").unwrap();
        assert_eq!(inspect("Win64"), GOOD);
    }
}
