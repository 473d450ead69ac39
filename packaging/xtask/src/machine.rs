//! What a machine needs, and how it gets it.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::say;

const TARGET: &str = "wasm32-unknown-unknown";
/// Windows, as Debian's mingw-w64 links it.
pub(crate) const WINDOWS: &str = "x86_64-pc-windows-gnu";

/// A program that has to be there.
struct Need {
    /// Any of these will do.
    programs: &'static [&'static str],
    /// Debian's package.
    package: &'static str,
    why: &'static str,
}

const NEEDS: [Need; 4] = [
    Need { programs: &["git"], package: "git", why: "source control" },
    Need { programs: &["git-lfs"], package: "git-lfs", why: "large files of repositories" },
    Need { programs: &["c++", "g++", "clang++"], package: "g++", why: "the demo project's C++" },
    Need { programs: &["curl"], package: "curl", why: "tests that download with a client that is not ours" },
];

const NEEDS_FOR_WINDOWS: [Need; 1] =
    [Need { programs: &["x86_64-w64-mingw32-gcc"], package: "gcc-mingw-w64-x86-64", why: "C code and linking for Windows" }];

/// Makes sure that everything is there. An error is a sentence that says what to do.
pub(crate) fn prepare() -> Result<(), String> {
    say("looking at what the build needs");
    programs(&NEEDS)?;
    wasm_target()
}

/// What compiling for Windows needs besides.
pub(crate) fn prepare_windows() -> Result<(), String> {
    prepare()?;
    programs(&NEEDS_FOR_WINDOWS)?;
    if has_target(WINDOWS) || is_on_path("rustup") && run(Command::new("rustup").args(["target", "add", WINDOWS])) && has_target(WINDOWS) {
        return Ok(());
    }
    Err(format!("the Rust target {WINDOWS} is missing: run `rustup target add {WINDOWS}` and try again"))
}

fn programs(needs: &[Need]) -> Result<(), String> {
    let mut packages = Vec::new();
    for need in needs {
        let found = need.programs.iter().find(|program| is_on_path(program));
        match found {
            Some(program) => say(&format!("  {program:<8} is here ({})", need.why)),
            None => {
                say(&format!("  {:<8} is missing ({})", need.package, need.why));
                packages.push(need.package);
            }
        }
    }
    if !packages.is_empty() {
        install(&packages)?;
        let still: Vec<&str> =
            needs.iter().filter(|need| !need.programs.iter().any(|program| is_on_path(program))).map(|need| need.package).collect();
        if !still.is_empty() {
            return Err(format!("still missing after the installation: {}", still.join(", ")));
        }
    }
    Ok(())
}

/// The plugins are WebAssembly: the standard library for it comes from rustup, or is built by Debian's compiler.
fn wasm_target() -> Result<(), String> {
    if has_target(TARGET) {
        say(&format!("  Rust target {TARGET} is here (the bundled plugins)"));
        return Ok(());
    }
    say(&format!("  Rust target {TARGET} is missing (the bundled plugins)"));
    if is_on_path("rustup") && run(Command::new("rustup").args(["target", "add", TARGET])) && has_target(TARGET) {
        return Ok(());
    }
    if has_debian_toolchain() {
        say("  Debian's rustc-web, cargo-web and rust-web-src will build the plugins");
        return Ok(());
    }
    say("rustup could not add it; trying Debian's own toolchain for WebAssembly");
    install(&["rustc-web", "cargo-web", "rust-web-src"])
        .map_err(|_| format!("the Rust target {TARGET} is missing: run `rustup target add {TARGET}` and try again"))?;
    if has_debian_toolchain() { Ok(()) } else { Err("Debian's toolchain for WebAssembly is not where it should be".to_owned()) }
}

fn has_target(target: &str) -> bool {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let Some(directory) = output(Command::new(rustc).args(["--print", "target-libdir", "--target", target])) else { return false };
    let Ok(entries) = std::fs::read_dir(directory) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
}

fn has_debian_toolchain() -> bool {
    output(Command::new("/usr/bin/rustc").args(["--print", "sysroot"]))
        .is_some_and(|sysroot| Path::new(&sysroot).join("lib/rustlib/src/rust/library/Cargo.lock").exists())
        && Path::new("/usr/bin/cargo").exists()
}

/// Installs packages with apt-get, as root or with sudo.
fn install(packages: &[&str]) -> Result<(), String> {
    let names = packages.join(" ");
    if cfg!(windows) {
        return Err(
            "install Git for Windows (it brings Git LFS) from https://git-scm.com and the C++ build tools of Visual Studio, then try again"
                .into(),
        );
    }
    if !is_on_path("apt-get") {
        return Err(format!("please install these with your system's package manager, then try again: {names}"));
    }
    let is_root = output(Command::new("id").arg("-u")).as_deref() == Some("0");
    let prefix: &[&str] = if is_root {
        &[]
    } else if is_on_path("sudo") {
        &["sudo"]
    } else {
        return Err(format!("please run this as root, then try again: apt-get install {names}"));
    };
    let apt = |words: &[&str]| {
        // Under sudo the variable has to be given to `env`.
        let line: Vec<&str> =
            prefix.iter().copied().chain(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]).chain(words.iter().copied()).collect();
        let mut command = Command::new(line[0]);
        run(command.args(&line[1..]))
    };
    // Without an index, or with an old one, there is nothing to install from; a failure shows in the installation.
    apt(&["update", "--quiet"]);
    let mut words = vec!["install", "--yes", "--quiet", "--no-install-recommends", "ca-certificates"];
    words.extend(packages);
    if apt(&words) { Ok(()) } else { Err(format!("apt-get could not install: {names}; install them by hand, then try again")) }
}

fn is_on_path(program: &str) -> bool {
    let name = format!("{program}{}", env::consts::EXE_SUFFIX);
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|directory| directory.join(&name).is_file()))
        // git's own directory holds git-lfs on some systems.
        || (program == "git-lfs" && output(Command::new("git").args(["lfs", "version"])).is_some())
}

/// Runs a command in sight of whoever called.
fn run(command: &mut Command) -> bool {
    let words: Vec<String> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(|word| word.to_string_lossy().into_owned()).collect();
    say(&format!("$ {}", words.join(" ")));
    command.status().is_ok_and(|status| status.success())
}

fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
