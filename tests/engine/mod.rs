//! The stand-in engine of `fixtures/engines` itself: what the other tests take for Unreal has to behave like it.

mod failure;
mod mischief;
mod mutex;
mod success;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A project in a directory of its own, an engine to build it with, and a place for what comes out.
struct Bench {
    place: TempDir,
    engine: PathBuf,
    project: PathBuf,
}

/// What a finished run left.
struct Run {
    /// The exit code; of a wrapper that a signal killed, none.
    code: Option<i32>,
    output: Vec<u8>,
    errors: String,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let name = entry.unwrap().file_name();
            copy(&from.join(&name), &to.join(&name));
        }
    } else {
        fs::copy(from, to).unwrap();
    }
}

impl Bench {
    /// The demo project, with code.
    fn demo(version: &str) -> Bench {
        let bench = Bench::empty(version, "Kitchen");
        copy(&fixtures().join("projects/demo/Game"), bench.project.parent().unwrap());
        bench
    }

    /// A project of content alone, which builds faster.
    fn plain(version: &str) -> Bench {
        let bench = Bench::empty(version, "Plain");
        bench.write("Plain.uproject", "{\"FileVersion\":3}");
        bench.write("Content/A.umap", "a map");
        bench
    }

    fn empty(version: &str, name: &str) -> Bench {
        let place = TempDir::new().unwrap();
        let directory = place.path().join("a workspace");
        fs::create_dir(&directory).unwrap();
        let engine = fixtures().join("engines").join(version);
        Bench { project: directory.join(format!("{name}.uproject")), engine, place }
    }

    /// Writes a file of the project.
    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// What the engine is to do wrong.
    fn mischief(&self, text: &str) {
        self.write("Config/StandIn.ini", text);
    }

    /// A path in the project's directory.
    fn path(&self, path: &str) -> PathBuf {
        self.project.parent().unwrap().join(path)
    }

    /// A path in the archive directory.
    fn archived(&self, path: &str) -> PathBuf {
        self.place.path().join("archive").join(path)
    }

    /// A path in the log folder.
    fn log(&self, path: &str) -> PathBuf {
        self.place.path().join("logs").join(path)
    }

    /// The command line every source agrees on. Tests run side by side, so the mutex is off where it is not the subject.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bare_command();
        let archive = format!("-archivedirectory={}", self.archived("").display());
        command
            .args(["BuildCookRun", &format!("-project={}", self.project.display())])
            .args(["-platform=Linux", "-clientconfig=Development"]);
        command.args(["-build", "-cook", "-stage", "-pak", "-package", "-archive", &archive, "-nop4", "-utf8output", "-unattended"]);
        if self.engine.ends_with("UE_5.4") {
            command.arg("-iostore");
        }
        command.args(arguments);
        command
    }

    fn bare_command(&self) -> Command {
        let mut command = Command::new(self.engine.join("Engine/Build/BatchFiles/RunUAT.sh"));
        command.env("uebp_LogFolder", self.log("")).env("uebp_UATMutexNoWait", "1");
        command
    }

    fn run(&self, arguments: &[&str]) -> Run {
        finish(self.command(arguments))
    }

    fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

fn finish(mut command: Command) -> Run {
    Run::from(command.stdin(Stdio::null()).output().unwrap())
}

impl From<std::process::Output> for Run {
    fn from(output: std::process::Output) -> Run {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        Run { code: output.status.code(), output: output.stdout, errors }
    }
}

impl Run {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    fn has(&self, line: &str) -> bool {
        self.text().lines().any(|candidate| candidate.trim_start() == line)
    }

    /// How many lines begin so.
    fn count(&self, start: &str) -> usize {
        self.text().lines().filter(|line| line.trim_start().starts_with(start)).count()
    }

    /// The names of what was compiled.
    fn compiled(&self) -> Vec<String> {
        self.text().lines().filter_map(|line| line.split_once("] Compile ").map(|(_, name)| name.to_owned())).collect()
    }

    /// Fails the test with the whole output unless the run ended so.
    #[track_caller]
    fn ended(&self, code: i32) -> &Run {
        assert_eq!(self.code, Some(code), "{}\n{}", self.text(), self.errors);
        self
    }

    /// Fails the test unless all these lines are there, in this order.
    #[track_caller]
    fn said(&self, lines: &[&str]) -> &Run {
        let text = self.text();
        let mut rest = text.lines();
        for line in lines {
            assert!(rest.any(|candidate| candidate.trim_start().starts_with(line)), "no line {line} in its place in\n{text}");
        }
        self
    }
}

/// Every file below a directory, sorted, `/` between names.
fn files(directory: &Path) -> Vec<String> {
    fn collect(directory: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type().unwrap().is_dir() {
                collect(&entry.path(), &format!("{name}/"), found);
            } else {
                found.push(name);
            }
        }
    }
    let mut found = Vec::new();
    collect(directory, "", &mut found);
    found.sort();
    found
}

/// Waits for something another process does; the test runner bounds how long.
fn wait_until(mut done: impl FnMut() -> bool) {
    while !done() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
