//! What a project can ask the engine to do wrong, so that other tests can rely on it.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::{Bench, Run, files, wait_until};

/// The processes a run left behind; they end with this value.
pub(super) struct Daemons(Vec<Pid>);

impl Daemons {
    pub(super) fn of(bench: &Bench, count: usize) -> Daemons {
        let pid = |number: usize| fs::read_to_string(bench.path(&format!("Saved/StandIn/daemon-{number}.pid"))).unwrap();
        Daemons((1..=count).map(|number| Pid::from_raw(pid(number).trim().parse().unwrap()).unwrap()).collect())
    }

    pub(super) fn alive(&self, index: usize) -> bool {
        test_kill_process(self.0[index]).is_ok()
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = kill_process(*pid, Signal::KILL);
        }
    }
}

#[test]
fn each_stage_can_fail_with_any_code() {
    let bench = Bench::plain("UE_5.4");
    for (stage, code, name) in [
        ("Build", 27, "Error_UnknownBuildFailure"),
        ("Cook", 25, "Error_UnknownCookFailure"),
        ("Stage", 102, "Error_FailedToDeleteStagingDirectory"),
        ("Package", 28, "Error_UnknownPackageFailure"),
        ("Archive", 42, "Error_CopyFile"),
        ("Cook", 77, "77"),
    ] {
        bench.mischief(&format!("[{stage}]\nFail={code}\n"));
        let run = bench.run(&[]);
        let marker = format!("********** {} COMMAND ", stage.to_uppercase());
        run.ended(code).said(&[
            &format!("{marker}STARTED"),
            &format!("AutomationTool exiting with ExitCode={code} ({name})"),
            "BUILD FAILED",
        ]);
        assert_eq!(run.count(&format!("{marker}COMPLETED")), 0);
    }
}

#[test]
fn the_verdict_can_lie() {
    let bench = Bench::plain("UE_5.4");
    bench.mischief("[Cook]\nFail=25\n[End]\nProcessExitCode=0\n");
    bench.run(&[]).ended(0).said(&["AutomationTool exiting with ExitCode=25 (Error_UnknownCookFailure)"]);

    bench.mischief("[End]\nProcessExitCode=1\n");
    bench.run(&[]).ended(1).said(&["AutomationTool exiting with ExitCode=0 (Success)"]);

    bench.mischief("[End]\nMissingFinalLine=1\n");
    assert_eq!(bench.run(&[]).ended(0).count("AutomationTool exiting"), 0);

    fs::remove_dir_all(bench.archived("")).unwrap();
    bench.mischief("[Archive]\nEmpty=1\n");
    bench.run(&[]).ended(0).said(&["AutomationTool exiting with ExitCode=0 (Success)"]);
    assert!(bench.archived("").is_dir() && files(&bench.archived("")).is_empty());

    bench.mischief("[Stage]\nNoExecutable=1\n");
    bench.run(&[]).ended(0).said(&["AutomationTool exiting with ExitCode=0 (Success)"]);
    let archived = files(&bench.archived(""));
    assert!(archived.iter().any(|file| file.ends_with(".pak")) && !archived.iter().any(|file| file.contains("Binaries")), "{archived:?}");
}

#[test]
fn crashes_end_without_a_verdict_and_childrens_crashes_with_one() {
    let bench = Bench::plain("UE_5.4");
    for (signal, code) in [("SEGV", 139), ("ABRT", 134), ("KILL", 137)] {
        bench.mischief(&format!("[Stage]\nCrash={signal}\n"));
        let run = bench.run(&[]);
        assert_eq!(run.ended(code).count("AutomationTool exiting"), 0);
    }
    bench.mischief("[Cook]\nChildCrash=SEGV\n");
    bench.run(&[]).ended(25).said(&[
        "LogCore: Error: === Critical error: ===",
        "Took ",
        "CommandletException: Editor terminated with exit code 139 (segmentation fault) while running Cook for ",
        "AutomationTool exiting with ExitCode=25 (Error_UnknownCookFailure)",
    ]);
    bench.mischief("[Build]\nChildCrash=KILL\n");
    bench.run(&[]).ended(137).said(&["AutomationTool exiting with ExitCode=137 (137)"]);
}

#[test]
fn output_can_be_much_long_and_strange() {
    let bench = Bench::plain("UE_5.4");
    bench.mischief(
        "[Build]\nLines=100000\nLongLine=300000\n[Cook]\nBytes=invalid\nBytes=crlf\nBytes=bom\nBytes=nul\nBytes=ansi\nBytes=utf16\nBytes=cr\n\
         Print=AutomationTool exiting with ExitCode=0 (Success)\nPrintEnvironment=BUILD_SECRET\nPrintStderr=complaint\n[End]\nBytes=unterminated\nFail=1\n",
    );
    let mut command = bench.command(&[]);
    command.env("BUILD_SECRET", "hunter2");
    let run = super::finish(command);
    assert_eq!(run.ended(1).count("LogTexture: Display: Building textures: T_Generated_"), 100_000);
    assert!(run.text().lines().any(|line| line.len() > 300_000));
    assert!(run.has("BUILD_SECRET=hunter2") && run.has("AutomationTool exiting with ExitCode=0 (Success)"));
    assert_eq!(run.errors, "complaint\n");
    for bytes in
        [&b"\xb5\xc7"[..], b"\r\n", b"\n\xef\xbb\xbf", b"before\0after", b"\x1b[31m", b"L\0o\0g\0", b"10%\r", b"without an endERROR: "]
    {
        assert!(run.output.windows(bytes.len()).any(|window| window == bytes), "{bytes:?}");
    }
    assert!(std::str::from_utf8(&run.output).is_err());
}

#[test]
fn the_staged_tree_can_hold_what_a_packer_must_survive() {
    let bench = Bench::plain("UE_5.4");
    bench.mischief("[Stage]\nSparseBytes=20G\nRandomBytes=5000\nFiles=300\nSymlinks=1\nOddNames=1\nSpecialFiles=1\n");
    bench.run(&[]).ended(0);
    let movies = bench.archived("Linux/Plain/Content/Movies");
    let sparse = fs::metadata(movies.join("Intro.bin")).unwrap();
    assert!(sparse.len() == 20 << 30 && sparse.blocks() * 512 < 1 << 20, "{} bytes, {} blocks", sparse.len(), sparse.blocks());
    assert_eq!(fs::metadata(movies.join("Noise.bin")).unwrap().len(), 5000);
    assert_eq!(fs::read_to_string(movies.join("300.txt")).unwrap(), "300\n");
    for link in ["inside", "climbing", "absolute", "dangling", "loop"] {
        assert!(fs::symlink_metadata(movies.join(link)).unwrap().is_symlink(), "{link}");
    }
    assert!(movies.join("with\nnewline.txt").is_file() && movies.join("Küche 厨房.txt").is_file() && movies.join("-rf").is_file());
    assert!(fs::symlink_metadata(movies.join("pipe")).unwrap().file_type().is_fifo());
}

#[test]
fn a_build_can_write_outside_its_workspace() {
    let bench = Bench::plain("UE_5.4");
    bench.mischief("[Build]\nWriteOutside=../escaped.txt\nWriteOutside=/proc/nowhere\n");
    bench.run(&[]).ended(0).said(&["LogTemp: Display: Wrote ", "LogTemp: Warning: Could not write /proc/nowhere"]);
    assert!(bench.place.path().join("escaped.txt").is_file());
}

#[test]
fn termination_ends_a_silent_hang_with_everything_it_started() {
    let bench = Bench::plain("UE_5.4");
    bench.mischief("[Cook]\nTouch=Saved/cooking\nHang=silent\n");
    let child = bench.start(&[]);
    wait_until(|| bench.path("Saved/cooking").exists());
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let run = Run::from(child.wait_with_output().unwrap());
    assert_eq!(run.ended(143).count("AutomationTool exiting"), 0);
}

#[test]
fn a_noisy_hang_keeps_talking() {
    let bench = Bench::plain("UE_5.4");
    bench.mischief("[Cook]\nHang=noisy\n");
    let mut child = bench.start(&[]);
    let mut output = child.stdout.take().unwrap();
    let mut seen = String::new();
    wait_until(|| {
        let mut buffer = [0; 4096];
        let length = output.read(&mut buffer).unwrap();
        seen.push_str(&String::from_utf8_lossy(&buffer[..length]));
        length == 0 || seen.matches("Still waiting for shaders").count() >= 2
    });
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    output.read_to_string(&mut seen).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143), "{seen}");
}

#[test]
fn termination_can_be_ignored() {
    let bench = Bench::plain("UE_5.4");
    bench.mischief("[Cook]\nIgnoreTerm=1\nTouch=Saved/cooking\nWaitFor=Saved/go\n");
    let child = bench.start(&[]);
    wait_until(|| bench.path("Saved/cooking").exists());
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    bench.write("Saved/go", "");
    Run::from(child.wait_with_output().unwrap()).ended(0).said(&["AutomationTool exiting with ExitCode=0 (Success)"]);
}

#[test]
fn daemons_stay_in_sessions_of_their_own() {
    let bench = Bench::plain("UE_5.4");
    bench.mischief("[Build]\nDaemons=2\nDaemonEnvironment=clean\n");
    let mut command = bench.command(&[]);
    command.env("COOKHOUSE_PROCESS", "a marker");
    super::finish(command).ended(0);
    let daemons = Daemons::of(&bench, 2);
    for (index, pid) in daemons.0.iter().enumerate() {
        assert!(daemons.alive(index));
        assert_eq!(rustix::process::getsid(Some(*pid)).unwrap(), *pid);
        kill_process(*pid, Signal::TERM).unwrap();
        assert!(daemons.alive(index));
        let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap();
        assert!(!String::from_utf8_lossy(&environment).contains("a marker"));
    }
}

#[test]
fn daemons_can_keep_the_output_open() {
    let bench = Bench::plain("UE_5.4");
    bench.mischief("[Build]\nDaemons=1\nDaemonOutput=held\n");
    let mut child = bench.start(&[]);
    let mut output = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        text
    });
    assert!(child.wait().unwrap().success());
    let daemons = Daemons::of(&bench, 1);
    assert!(daemons.alive(0) && !reader.is_finished());
    drop(daemons);
    assert!(reader.join().unwrap().contains("BUILD SUCCESSFUL"));
}

#[test]
fn a_misspelt_wish_is_refused() {
    let bench = Bench::plain("UE_5.4");
    for text in ["[Cook]\nFial=25\n", "[Bake]\nFail=25\n", "Fail\n"] {
        bench.mischief(text);
        bench.run(&[]).ended(1);
    }
}
