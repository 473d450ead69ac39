//! The engines of this machine: which there are, which one a `ueVersion` means, and what each can build.
//!
//! The list is read from disk whenever it is needed (a few small files), so that an engine that was installed or
//! updated a minute ago is found without a restart.

mod discovery;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Which engines builds may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Engines that the administrator named.
    pub engines: Vec<EngineSetting>,
    /// Also look where the launcher and the engine's own installer write down what is installed.
    pub discover_engines: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { engines: Vec::new(), discover_engines: true }
    }
}

/// One engine of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSetting {
    /// What build settings call it in `ueVersion`, besides its version.
    pub label: String,
    /// The directory that contains `Engine`.
    pub root: PathBuf,
    /// Platforms it can build here although its host normally cannot: a cross toolchain, Wine, a remote Mac.
    #[serde(default)]
    pub platforms: Vec<String>,
}

/// `Engine/Build/Build.version`, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EngineVersion {
    /// 4 or 5.
    pub major: u32,
    /// The release.
    pub minor: u32,
    /// The hot fix.
    pub patch: u32,
}

impl fmt::Display for EngineVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// An engine that is on disk and complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    /// The administrator's label, or the name under which it was found.
    pub label: String,
    /// The directory that contains `Engine`, absolute.
    pub root: PathBuf,
    /// What its `Build.version` says.
    pub version: EngineVersion,
    /// Made by a launcher or an installed-build script: its own tools are compiled already.
    pub is_installed: bool,
    /// The administrator's word on what it can build beyond its host's usual platforms.
    pub extra_platforms: Vec<String>,
}

/// A place that was named or found, but holds no usable engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// The label it goes by.
    pub label: String,
    /// Why not; for administrators, it names a directory of the host.
    pub reason: String,
}

/// What is on this machine right now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Configured ones first, in the configuration's order; then found ones.
    pub engines: Vec<Engine>,
    /// Those that cannot be used.
    pub unusable: Vec<Unusable>,
}

/// The operating system that runs the engine's tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// Tools end in `.sh`.
    Linux,
    /// Tools end in `.bat`.
    Windows,
    /// Tools end in `.sh`.
    Mac,
}

impl Host {
    /// This machine's.
    pub fn current() -> Host {
        match std::env::consts::OS {
            "windows" => Host::Windows,
            "macos" => Host::Mac,
            _ => Host::Linux,
        }
    }

    /// The engine's automation tool, relative to the engine's root.
    pub fn automation_tool(self) -> &'static str {
        match self {
            Host::Windows => "Engine/Build/BatchFiles/RunUAT.bat",
            Host::Linux | Host::Mac => "Engine/Build/BatchFiles/RunUAT.sh",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Host::Linux => "Linux",
            Host::Windows => "Windows",
            Host::Mac => "macOS",
        }
    }

    fn usual_platforms(self) -> &'static [&'static str] {
        match self {
            Host::Linux => &["Linux", "LinuxArm64", "Android"],
            Host::Windows => &["Win64", "Linux", "LinuxArm64", "Android"],
            Host::Mac => &["Mac", "IOS", "TVOS", "VisionOS", "Android"],
        }
    }
}

impl Inventory {
    /// Reads the configured engines, then those that are registered on this machine. One root is listed once.
    pub fn read(settings: &Settings) -> Inventory {
        let configured = settings.engines.iter().cloned();
        let found = settings.discover_engines.then(discovery::registered).into_iter().flatten();
        let mut inventory = Inventory::default();
        let mut seen: Vec<PathBuf> = Vec::new();
        for (index, candidate) in configured.chain(found).enumerate() {
            let key = candidate.root.canonicalize().unwrap_or_else(|_| candidate.root.clone());
            // Two labels for one configured root are fine: both are names people may use.
            if index >= settings.engines.len() && seen.contains(&key) {
                continue;
            }
            seen.push(key);
            match Engine::read(&candidate, Host::current()) {
                Ok(engine) => inventory.engines.push(engine),
                Err(reason) => inventory.unusable.push(Unusable { label: candidate.label, reason }),
            }
        }
        inventory
    }

    /// The engine that a build setting's `ueVersion` means: a label, else an exact version, else the newest hot fix
    /// of a release. The error is a sentence for people and names no directory.
    pub fn find(&self, ue_version: &str) -> Result<&Engine, String> {
        if let Some(engine) = self.engines.iter().find(|engine| engine.label == ue_version) {
            return Ok(engine);
        }
        if let Some(unusable) = self.unusable.iter().find(|unusable| unusable.label == ue_version) {
            return Err(format!(
                "The engine \"{}\" is configured, but it cannot be used; an administrator sees why in the log.",
                unusable.label
            ));
        }
        let wanted: Option<Vec<u32>> = ue_version.split('.').map(|part| part.parse().ok()).collect();
        let matching = |engine: &&Engine| match wanted.as_deref() {
            Some([major, minor]) => (engine.version.major, engine.version.minor) == (*major, *minor),
            Some([major, minor, patch]) => engine.version == EngineVersion { major: *major, minor: *minor, patch: *patch },
            _ => false,
        };
        // `rev` makes the first of equals win: the administrator's order, before what was found.
        self.engines.iter().rev().filter(matching).max_by_key(|engine| engine.version).ok_or_else(|| {
            let known: Vec<String> = self.engines.iter().map(|engine| format!("{} ({})", engine.label, engine.version)).collect();
            match known.is_empty() {
                true => format!("Engine {ue_version} is not on this machine, nor is any other. Install one and name it in the configuration under [[engines]]."),
                false => format!("Engine {ue_version} is not on this machine. There are: {}.", known.join(", ")),
            }
        })
    }

    /// Why no engine here can build `platform`, or `None` when one can.
    pub fn refusal(&self, platform: &str) -> Option<String> {
        let mut reasons = self.engines.iter().map(|engine| engine.refusal(platform, Host::current()));
        match reasons.next() {
            None => Some("No engine is installed or configured on this machine.".to_owned()),
            Some(first) => reasons.fold(first, |known, next| known.and(next)),
        }
    }
}

impl Engine {
    fn read(candidate: &EngineSetting, host: Host) -> Result<Engine, String> {
        let root = &candidate.root;
        if !root.is_absolute() {
            return Err(format!("its root {} is not an absolute path", root.display()));
        }
        let version = read_version(&root.join("Engine/Build/Build.version"))?;
        let tool = root.join(host.automation_tool());
        if !tool.is_file() {
            return Err(format!("{} is missing: this is not a complete engine for {}", tool.display(), host.name()));
        }
        Ok(Engine {
            label: candidate.label.clone(),
            // In the system's own spelling: Windows' registry and configurations write `D:/UE5` as well.
            root: root.components().collect(),
            version,
            is_installed: root.join("Engine/Build/InstalledBuild.txt").is_file(),
            extra_platforms: candidate.platforms.clone(),
        })
    }

    /// The automation tool of this engine.
    pub fn automation_tool(&self, host: Host) -> PathBuf {
        self.root.join(host.automation_tool()).components().collect()
    }

    /// Why this engine cannot build `platform` on `host`; `None` when it can. A sentence for people.
    pub fn refusal(&self, platform: &str, host: Host) -> Option<String> {
        let known = |names: &[&str]| names.contains(&platform);
        if self.extra_platforms.iter().any(|extra| extra == platform) {
            return None;
        }
        if platform == "VisionOS" && (self.version.major, self.version.minor) < (5, 4) {
            return Some(format!("VisionOS needs engine 5.4 or newer, this is {}.", self.version));
        }
        if known(host.usual_platforms()) {
            return None;
        }
        if known(&crate::model::build_setting::PLATFORMS) {
            let builders: Vec<&str> = [Host::Windows, Host::Linux, Host::Mac]
                .into_iter()
                .filter(|other| known(other.usual_platforms()))
                .map(Host::name)
                .collect();
            return Some(format!(
                "{platform} is built on {}; this machine runs {}. If this engine can do it all the same, add \"{platform}\" to its `platforms` in the configuration.",
                builders.join(" or "),
                host.name()
            ));
        }
        // A console's code is a directory of its own that the platform's owner hands out.
        let name_is_plain = !platform.is_empty() && platform.bytes().all(|byte| byte.is_ascii_alphanumeric());
        match name_is_plain && self.root.join("Engine/Platforms").join(platform).is_dir() {
            true => None,
            false => Some(format!("The engine \"{}\" has no platform extension \"{platform}\".", self.label)),
        }
    }
}

/// Largest file of an engine that is read for discovery.
const LARGEST_FILE: u64 = 1 << 20;

/// The text of a small file; a byte order mark is dropped, UTF-16 (registry exports, hand edits) is understood.
fn read_small_file(path: &Path) -> Result<String, String> {
    use std::io::Read;
    let file = std::fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE).read_to_end(&mut bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => {
            let units: Vec<u16> = rest.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
            String::from_utf16_lossy(&units)
        }
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        all => String::from_utf8_lossy(all).into_owned(),
    })
}

fn read_version(path: &Path) -> Result<EngineVersion, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct BuildVersion {
        major_version: u32,
        minor_version: u32,
        #[serde(default)]
        patch_version: u32,
    }
    let text = read_small_file(path)?;
    let file: BuildVersion = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(EngineVersion { major: file.major_version, minor: file.minor_version, patch: file.patch_version })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine_on_disk(root: &Path, version: &str) {
        let tool = root.join(Host::current().automation_tool());
        std::fs::create_dir_all(tool.parent().unwrap()).unwrap();
        std::fs::write(tool, "").unwrap();
        std::fs::write(root.join("Engine/Build/Build.version"), version).unwrap();
    }

    fn engine(label: &str, version: (u32, u32, u32)) -> Engine {
        let version = EngineVersion { major: version.0, minor: version.1, patch: version.2 };
        Engine { label: label.into(), root: "/e".into(), version, is_installed: true, extra_platforms: Vec::new() }
    }

    #[test]
    fn an_engine_is_known_by_its_build_version_also_with_a_byte_order_mark() {
        let place = tempfile::tempdir().unwrap();
        let setting = |label: &str, name: &str| EngineSetting { label: label.into(), root: place.path().join(name), platforms: vec![] };
        engine_on_disk(
            &place.path().join("a"),
            "\u{feff}{\"MajorVersion\": 5, \"MinorVersion\": 4, \"PatchVersion\": 3, \"BranchName\": \"x\"}",
        );
        engine_on_disk(&place.path().join("broken"), "{\"MajorVersion\": \"five\"}");
        std::fs::create_dir_all(place.path().join("empty")).unwrap();
        let settings =
            Settings { engines: vec![setting("studio", "a"), setting("bad", "broken"), setting("none", "empty")], discover_engines: false };
        let inventory = Inventory::read(&settings);
        assert_eq!(inventory.engines.len(), 1);
        assert_eq!(inventory.unusable.len(), 2);
        for name in ["studio", "5.4", "5.4.3"] {
            assert_eq!(inventory.find(name).map(|engine| engine.version.to_string()).as_deref(), Ok("5.4.3"), "{name}");
        }
        for name in ["5.5", "5.4.1", "5", "", "5.4.3.1", "../5.4", "bad"] {
            let message = inventory.find(name).unwrap_err();
            assert!(!message.contains(&*place.path().to_string_lossy()), "no directory of the host in: {message}");
        }
    }

    #[test]
    fn a_release_means_its_newest_hot_fix_and_a_label_goes_first() {
        let inventory = Inventory {
            engines: vec![engine("old", (5, 4, 1)), engine("new", (5, 4, 4)), engine("same", (5, 4, 4)), engine("5.3", (5, 2, 0))],
            unusable: vec![],
        };
        assert_eq!(inventory.find("5.4").unwrap().label, "new");
        assert_eq!(inventory.find("5.4.1").unwrap().label, "old");
        assert_eq!(inventory.find("5.3").unwrap().version.minor, 2);
    }

    #[test]
    fn a_platform_that_the_host_cannot_build_is_refused_with_the_way_out() {
        let mut engine = engine("5.4", (5, 4, 0));
        assert_eq!(engine.refusal("Linux", Host::Linux), None);
        assert!(engine.refusal("Win64", Host::Linux).unwrap().contains("Windows"));
        assert!(engine.refusal("PS5", Host::Windows).is_some());
        assert!(engine.refusal("../Build", Host::Linux).is_some());
        engine.extra_platforms.push("Win64".into());
        assert_eq!(engine.refusal("Win64", Host::Linux), None);
        engine.version.minor = 3;
        assert!(engine.refusal("VisionOS", Host::Mac).unwrap().contains("5.4"));
    }
}
