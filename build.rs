//! Builds the bundled plugins (`plugins/`) for WebAssembly, makes components of them and puts them where `include_bytes!` finds
//! them: `$OUT_DIR/custom-deploy.wasm`, `$OUT_DIR/githost.wasm` and `$OUT_DIR/streamvc.wasm`, each with its manifest in the custom section
//! `cookhouse:manifest`. A plain `cargo build` is all it takes; what is missing is named in one sentence with the command that mends it.
//!
//! Also lists the fixtures that `cookhouse demo` unpacks, in `$OUT_DIR/demo_files.rs`: an installed binary has no source tree.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wit_component::{ComponentEncoder, DecodedWasm};

const TARGET: &str = "wasm32-unknown-unknown";
/// `abuse` is for the tests of the host; nothing of it gets into the binary.
const GUESTS: [&str; 4] = ["custom-deploy", "githost", "streamvc", "abuse"];
const MANIFEST_SECTION: &str = "cookhouse:manifest";
const MANIFEST_LIMIT: usize = 256 * 1024;
/// Directories below `fixtures/` that the demo needs.
const DEMO: [&str; 3] = ["engines/UE_5.4", "engines/standin", "projects/demo"];

fn main() {
    for path in [
        "build.rs",
        "wit",
        "plugins/Cargo.toml",
        "plugins/Cargo.lock",
        "plugins/support",
        "plugins/custom-deploy",
        "plugins/githost",
        "plugins/streamvc",
        "plugins/abuse",
    ] {
        println!("cargo::rerun-if-changed={path}");
    }
    for directory in DEMO {
        println!("cargo::rerun-if-changed=fixtures/{directory}");
    }
    if let Err(sentence) = list_demo_files().and_then(|()| build()) {
        // One directive per line: cargo shows each as an error of this package.
        for line in sentence.lines() {
            println!("cargo::error={line}");
        }
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    let output = PathBuf::from(variable("OUT_DIR")?);
    let plugins = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("plugins");
    let directory = target_directory(&output);
    let mut cargo = Toolchain::find()?.cargo();
    cargo.current_dir(&plugins).args(["build", "--release", "--locked", "--quiet", "--target", TARGET, "--target-dir"]).arg(&directory);
    for guest in GUESTS {
        cargo.args(["--package", guest]);
    }
    let built = cargo.output().map_err(|error| format!("the bundled plugins could not be built: cargo did not start: {error}"))?;
    if !built.status.success() {
        return Err(format!("the bundled plugins could not be built ({}):\n{}", built.status, String::from_utf8_lossy(&built.stderr)));
    }
    for guest in GUESTS {
        let module = directory.join(TARGET).join("release").join(format!("{}.wasm", guest.replace('-', "_")));
        let manifest = plugins.join(guest).join("plugin.json");
        let component = component(&read(&module)?, &read(&manifest)?).map_err(|fault| format!("the plugin {guest} {fault}"))?;
        let file = output.join(format!("{guest}.wasm"));
        fs::write(&file, component).map_err(|error| format!("{} could not be written: {error}", file.display()))?;
    }
    Ok(())
}

/// Writes an array of (path below `fixtures/`, contents).
fn list_demo_files() -> Result<(), String> {
    let fixtures = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("fixtures");
    let mut files = Vec::new();
    let mut directories: Vec<PathBuf> = DEMO.iter().map(|name| fixtures.join(name)).collect();
    while let Some(directory) = directories.pop() {
        let failed = |error| format!("{} could not be listed: {error}", directory.display());
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_dir() { directories.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let mut list = String::from("[\n");
    for file in &files {
        let name = file.strip_prefix(&fixtures).unwrap_or(file).to_string_lossy().replace('\\', "/");
        list.push_str(&format!("    ({name:?}, include_bytes!({:?})),\n", file.display().to_string()));
    }
    list.push_str("]\n");
    let target = PathBuf::from(variable("OUT_DIR")?).join("demo_files.rs");
    fs::write(&target, list).map_err(|error| format!("{} could not be written: {error}", target.display()))
}

/// The plugins' own build directory, outside `OUT_DIR` itself: `cargo build` and `cargo clippy` have an `OUT_DIR` each and share this.
fn target_directory(output: &Path) -> PathBuf {
    match output.ancestors().nth(2) {
        Some(build) if build.ends_with("build") => build.with_file_name("plugins"),
        _ => output.join("plugins"),
    }
}

/// Wraps the core module, checks that it asks for nothing but the contract, and appends the manifest.
fn component(module: &[u8], manifest: &[u8]) -> Result<Vec<u8>, String> {
    if manifest.len() > MANIFEST_LIMIT {
        return Err(format!("has a manifest of more than {MANIFEST_LIMIT} bytes"));
    }
    let mut component = ComponentEncoder::default()
        .module(module)
        .and_then(|encoder| encoder.validate(true).encode())
        .map_err(|error| format!("is no component for the worlds in wit/: {error:#}"))?;
    let DecodedWasm::Component(resolve, world) =
        wit_component::decode(&component).map_err(|error| format!("cannot be read back: {error:#}"))?
    else {
        return Err("became a package instead of a component".to_owned());
    };
    for key in resolve.worlds[world].imports.keys() {
        let import = resolve.name_world_key(key);
        if !import.starts_with("cookhouse:plugin/") {
            return Err(format!("imports {import}, which no server provides; plugins use the interfaces in wit/ only"));
        }
    }
    let mut section = Vec::new();
    leb128(&mut section, MANIFEST_SECTION.len());
    section.extend_from_slice(MANIFEST_SECTION.as_bytes());
    section.extend_from_slice(manifest);
    component.push(0);
    leb128(&mut component, section.len());
    component.extend_from_slice(&section);
    Ok(component)
}

fn leb128(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// What compiles for WebAssembly on this machine.
enum Toolchain {
    /// The one that builds this crate: its WebAssembly standard library is installed.
    Same,
    /// Debian's compiler with the standard library's source, and the linker of the toolchain that builds this crate.
    Debian { linker: PathBuf },
}

impl Toolchain {
    fn find() -> Result<Self, String> {
        let rustc = variable("RUSTC")?;
        if has_standard_library(&rustc) {
            return Ok(Toolchain::Same);
        }
        let debian = OsString::from("/usr/bin/rustc");
        let source =
            printed(&debian, &["--print", "sysroot"]).map(|sysroot| Path::new(&sysroot).join("lib/rustlib/src/rust/library/Cargo.lock"));
        let linker = printed(&rustc, &["--print", "sysroot"])
            .map(|sysroot| Path::new(&sysroot).join("lib/rustlib").join(env::var("HOST").unwrap_or_default()).join("bin/rust-lld"));
        match (source, linker) {
            (Some(source), Some(linker)) if source.exists() && linker.exists() && Path::new("/usr/bin/cargo").exists() => {
                Ok(Toolchain::Debian { linker })
            }
            _ => Err(format!(
                "the bundled plugins need the Rust target {TARGET}, which is not installed: run `rustup target add {TARGET}` (or `cargo xtask setup`) and build again"
            )),
        }
    }

    /// A cargo that knows nothing of the build around it.
    fn cargo(&self) -> Command {
        let mut command = match self {
            Toolchain::Same => Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into())),
            Toolchain::Debian { .. } => Command::new("/usr/bin/cargo"),
        };
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(is_of_the_outer_build) {
                command.env_remove(name);
            }
        }
        if let Toolchain::Debian { linker } = self {
            command.env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1").env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
            command.arg("-Zbuild-std=std,panic_abort");
        }
        command
    }
}

/// Flags, wrappers (clippy's among them), directories and the job server of the cargo that runs this script would change or block
/// the inner one. Where crates come from stays.
fn is_of_the_outer_build(name: &str) -> bool {
    const KEPT: [&str; 6] = ["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR", "CARGO_SOURCE_", "CARGO_TERM_"];
    const DROPPED: [&str; 11] = [
        "RUSTFLAGS",
        "RUSTDOCFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_LINKER",
        "MAKEFLAGS",
        "MFLAGS",
        "TARGET",
        "HOST",
        "OUT_DIR",
        "PROFILE",
    ];
    (name.starts_with("CARGO") && !KEPT.iter().any(|kept| name.starts_with(kept))) || name.starts_with("CLIPPY_") || DROPPED.contains(&name)
}

fn has_standard_library(rustc: &OsString) -> bool {
    let Some(directory) = printed(rustc, &["--print", "target-libdir", "--target", TARGET]) else { return false };
    let Ok(entries) = fs::read_dir(directory) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
}

fn printed(program: &OsString, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim_end().to_owned())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{} could not be read: {error}", path.display()))
}

fn variable(name: &str) -> Result<OsString, String> {
    env::var_os(name).ok_or_else(|| format!("{name} is not set; this script is run by cargo"))
}
