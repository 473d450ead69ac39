//! What the engine's automation tool is called with. Pure: a description of the build in, a command line out.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::engines::{Engine, Host};

/// What is to be built, and where.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// With which engine.
    pub engine: &'a Engine,
    /// On which operating system.
    pub host: Host,
    /// The project file, absolute.
    pub project: &'a Path,
    /// The setting's platform, in the spelling of engine 5.
    pub platform: &'a str,
    /// The engine's build configuration.
    pub build_type: &'a str,
    /// `Game`, `Client`, `Server` or `Editor`.
    pub target_type: &'a str,
    /// Which target, where the project has several of the type.
    pub target: Option<&'a str>,
    /// The setting's own arguments, checked by [`check_extra_argument`].
    pub extra: &'a [String],
    /// An empty directory for the result, absolute.
    pub archive: &'a Path,
    /// A directory for the tool's logs, which it empties when it starts; absolute.
    pub logs: &'a Path,
    /// The build's own directory for temporary files; absolute.
    pub temporary: &'a Path,
}

/// A command, complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// Absolute.
    pub program: PathBuf,
    /// One each, never through a shell of ours.
    pub arguments: Vec<OsString>,
    /// Where it starts: the engine's root, as its own documentation does.
    pub directory: PathBuf,
    /// Variables besides the allowed ones.
    pub environment: Vec<(OsString, OsString)>,
}

/// Platforms whose result is an installable package.
const PACKAGED_PLATFORMS: [&str; 4] = ["Android", "IOS", "TVOS", "VisionOS"];

/// The command line of one build.
pub fn invocation(request: &Request<'_>) -> Invocation {
    let (platform, build_type) = (platform_name(request.platform, request.engine.version.major), request.build_type);
    let mut arguments: Vec<OsString> = vec!["BuildCookRun".into(), path_argument("-project=", request.project)];
    let mut add = |argument: String| arguments.push(argument.into());
    match request.target_type {
        "Server" => {
            for argument in ["-server", "-noclient"] {
                add(argument.into());
            }
            add(format!("-serverplatform={platform}"));
            add(format!("-serverconfig={build_type}"));
        }
        "Client" => add("-client".into()),
        _ => {}
    }
    // The tool reads these for every target type: a server build without them takes the host's own platform.
    add(format!("-platform={platform}"));
    add(format!("-clientconfig={build_type}"));
    if let Some(target) = request.target {
        add(format!("-target={target}"));
    }
    for stage in ["-build", "-cook", "-stage", "-pak"] {
        add(stage.into());
    }
    if request.engine.version.major >= 5 {
        add("-iostore".into());
    }
    if PACKAGED_PLATFORMS.contains(&request.platform) || !crate::model::build_setting::PLATFORMS.contains(&request.platform) {
        add("-package".into());
    }
    if request.platform == "Win64" {
        add("-prereqs".into());
    }
    if request.engine.is_installed {
        add("-installed".into());
    }
    for habit in ["-nop4", "-utf8output", "-unattended"] {
        add(habit.into());
    }
    if request.engine.version.major >= 5 {
        // Only one tool at a time runs in an engine's directory. Somebody may package by hand there; without this the build
        // would fail at once. Engine 4 has no such argument.
        add("-WaitForUATMutex".into());
    }
    for argument in request.extra {
        add(argument.clone());
    }
    add("-archive".into());
    arguments.push(path_argument("-archivedirectory=", request.archive));
    let temporary = request.temporary.as_os_str();
    let mut environment: Vec<(OsString, OsString)> = vec![
        // The tool empties its log folder when it starts; one folder for each build keeps them apart and complete.
        ("uebp_LogFolder".into(), request.logs.into()),
        ("DOTNET_CLI_TELEMETRY_OPTOUT".into(), "1".into()),
        ("DOTNET_NOLOGO".into(), "1".into()),
    ];
    let names: &[&str] = if request.host == Host::Windows { &["TEMP", "TMP"] } else { &["TMPDIR"] };
    environment.extend(names.iter().map(|name| (OsString::from(name), temporary.to_owned())));
    Invocation { program: request.engine.automation_tool(request.host), arguments, directory: request.engine.root.clone(), environment }
}

fn path_argument(name: &str, path: &Path) -> OsString {
    let mut argument = OsString::from(name);
    argument.push(path);
    argument
}

/// Engine 4 has another word for one of the platforms.
fn platform_name(platform: &str, major: u32) -> &str {
    match (platform, major) {
        ("LinuxArm64", ..=4) => "LinuxAArch64",
        _ => platform,
    }
}

/// Arguments that the service itself decides: naming them would build something else than the setting says, write
/// elsewhere, or start the game on this machine.
const RESERVED: [&str; 25] = [
    "project",
    "scriptsforproject",
    "platform",
    "targetplatform",
    "serverplatform",
    "servertargetplatform",
    "clientconfig",
    "serverconfig",
    "config",
    "configuration",
    "server",
    "dedicatedserver",
    "noclient",
    "client",
    "archive",
    "archivedirectory",
    "stagingdirectory",
    "skipstage",
    "skipcook",
    "p4",
    "submit",
    "deploy",
    "run",
    "help",
    "list",
];

/// Longest argument.
const LONGEST_ARGUMENT: usize = 1000;

/// Whether one of a setting's `extraUatArgs` may be used; the error is a sentence for the one who wrote it.
pub fn check_extra_argument(argument: &str) -> Result<(), String> {
    let Some(body) = argument.strip_prefix('-') else {
        return Err("An argument begins with `-`; commands of the automation tool are chosen by the service.".into());
    };
    if argument.len() > LONGEST_ARGUMENT {
        return Err(format!("An argument has at most {LONGEST_ARGUMENT} bytes."));
    }
    // A percent sign and a quote mean something to the Windows command processor, which runs RunUAT.bat.
    if let Some(character) = argument.chars().find(|character| character.is_control() || matches!(character, '"' | '%')) {
        return Err(format!("The character {character:?} cannot be passed; quotes are not needed, also not around spaces."));
    }
    let name = body.trim_start_matches('-').split(['=', ':', ' ']).next().unwrap_or_default().to_ascii_lowercase();
    if name.is_empty() {
        return Err("An argument has a name after `-`.".into());
    }
    match RESERVED.contains(&name.as_str()) {
        true => Err(format!("`-{name}` is decided by the service; use the fields of the build setting.")),
        false => Ok(()),
    }
}

/// Variables that a build sees when the configuration does not say otherwise: what compilers and software development
/// kits are found by. No proxy, no token, nothing of the service's own.
pub fn default_environment() -> Vec<String> {
    let common =
        ["PATH", "LANG", "LC_ALL", "TZ", "HOME", "USER", "LOGNAME", "JAVA_HOME", "ANDROID_HOME", "ANDROID_SDK_ROOT", "NDKROOT", "NDK_ROOT"];
    let unix = ["LINUX_MULTIARCH_ROOT", "UE_SharedDataCachePath", "DOTNET_ROOT", "DEVELOPER_DIR", "XDG_RUNTIME_DIR"];
    let windows = [
        "SystemRoot",
        "SystemDrive",
        "windir",
        "ComSpec",
        "PATHEXT",
        "USERPROFILE",
        "USERNAME",
        "USERDOMAIN",
        "COMPUTERNAME",
        "APPDATA",
        "LOCALAPPDATA",
        "PROGRAMDATA",
        "ProgramFiles",
        "ProgramFiles(x86)",
        "ProgramW6432",
        "CommonProgramFiles",
        "CommonProgramFiles(x86)",
        "NUMBER_OF_PROCESSORS",
        "PROCESSOR_ARCHITECTURE",
        "OS",
        "UE-SharedDataCachePath",
        "UE-LocalDataCachePath",
        "LINUX_MULTIARCH_ROOT",
    ];
    let own: &[&str] = if cfg!(windows) { &windows } else { &unix };
    common.iter().chain(own).map(|name| (*name).to_owned()).collect()
}

/// The allowed variables that are set, by `read`. Names of the service's own variables are never passed, whatever the
/// list says: one of them may hold the key of its secrets.
pub fn allowed_environment(allowed: &[String], read: impl Fn(&str) -> Option<OsString>) -> Vec<(OsString, OsString)> {
    let ours = |name: &str| name.to_ascii_uppercase().starts_with("COOKHOUSE_");
    let names = allowed.iter().filter(|name| !ours(name) && !name.is_empty() && !name.contains(['=', '\0']));
    names.filter_map(|name| Some((OsString::from(name), read(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::engines::EngineVersion;
    use super::*;

    fn engine(major: u32) -> Engine {
        let version = EngineVersion { major, minor: 4, patch: 0 };
        Engine { label: "e".into(), root: "/opt/UE".into(), version, is_installed: major == 4, extra_platforms: Vec::new() }
    }

    fn line(engine: &Engine, host: Host, platform: &str, target_type: &str, extra: &[String]) -> String {
        let invocation = invocation(&Request {
            engine,
            host,
            project: Path::new("/w/My Game/X.uproject"),
            platform,
            build_type: "Shipping",
            target_type,
            target: None,
            extra,
            archive: Path::new("/w/out"),
            logs: Path::new("/w/logs"),
            temporary: Path::new("/w/tmp"),
        });
        assert!(invocation.environment.contains(&("uebp_LogFolder".into(), "/w/logs".into())));
        let words: Vec<String> = invocation.arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        format!("{} {}", invocation.program.display().to_string().replace('\\', "/"), words.join(" "))
    }

    #[test]
    fn the_command_line_follows_platform_target_and_engine() {
        assert_eq!(
            line(&engine(5), Host::Linux, "Linux", "Game", &["-allmaps".into()]),
            "/opt/UE/Engine/Build/BatchFiles/RunUAT.sh BuildCookRun -project=/w/My Game/X.uproject -platform=Linux -clientconfig=Shipping \
             -build -cook -stage -pak -iostore -nop4 -utf8output -unattended -WaitForUATMutex -allmaps -archive -archivedirectory=/w/out"
        );
        assert_eq!(
            line(&engine(4), Host::Windows, "Win64", "Server", &[]),
            "/opt/UE/Engine/Build/BatchFiles/RunUAT.bat BuildCookRun -project=/w/My Game/X.uproject -server -noclient -serverplatform=Win64 \
             -serverconfig=Shipping -platform=Win64 -clientconfig=Shipping -build -cook -stage -pak -prereqs -installed -nop4 -utf8output \
             -unattended -archive -archivedirectory=/w/out"
        );
        assert!(line(&engine(4), Host::Linux, "LinuxArm64", "Game", &[]).contains("-platform=LinuxAArch64 "));
        assert!(line(&engine(5), Host::Linux, "LinuxArm64", "Game", &[]).contains("-platform=LinuxArm64 "));
        assert!(line(&engine(5), Host::Linux, "Android", "Client", &[]).contains("-client -platform=Android"));
        for packaged in ["Android", "IOS", "PS5"] {
            assert!(line(&engine(5), Host::Windows, packaged, "Game", &[]).contains(" -package "), "{packaged}");
        }
    }

    #[test]
    fn extra_arguments_cannot_change_what_is_built_or_where() {
        for good in ["-allmaps", "-map=A+B", "-ubtargs=-NoUBA -Verbose", "-ini:Game:[/Script/X]:Key=1", "-CrashReporter"] {
            assert_eq!(check_extra_argument(good), Ok(()), "{good}");
        }
        let long = format!("-x={}", "y".repeat(1000));
        for bad in [
            "",
            "-",
            "--",
            "Turnkey",
            "-project=/etc/x",
            "-ArchiveDirectory=/",
            "--run",
            "-deploy",
            "-a\nb",
            "-a=%PATH%",
            "-a=\"b\"",
            "-P4",
            &long,
        ] {
            assert!(check_extra_argument(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_allowed_variables_pass_and_never_our_own() {
        let allowed: Vec<String> = ["PATH", "cookhouse_SECRET_KEY", "ABSENT", "A=B", ""].map(String::from).into();
        let passed = allowed_environment(&allowed, |name| (name != "ABSENT").then(|| "value".into()));
        assert_eq!(passed, [("PATH".into(), "value".into())]);
    }
}
