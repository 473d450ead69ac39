//! Where the launcher and the engine's own tools write down what is installed. All of it is a hint: an entry counts
//! only when an engine really lies there.

use std::path::PathBuf;

use serde::Deserialize;

use super::{EngineSetting, Host, read_small_file};

/// Every engine that this machine's registrations name, whether or not it exists.
pub(super) fn registered() -> Vec<EngineSetting> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let mut found = Vec::new();
    let mut launcher = |path: PathBuf| found.extend(read_small_file(&path).map(|text| launcher_entries(&text)).unwrap_or_default());
    match Host::current() {
        Host::Windows => {
            if let Some(shared) = variable("PROGRAMDATA") {
                launcher(shared.join("Epic/UnrealEngineLauncher/LauncherInstalled.dat"));
            }
            for key in [r"HKCU\SOFTWARE\Epic Games\Unreal Engine\Builds", r"HKLM\SOFTWARE\EpicGames\Unreal Engine"] {
                found.extend(registry_entries(&query_registry(key)));
            }
        }
        Host::Linux | Host::Mac => {
            let folder = if Host::current() == Host::Mac { "Library/Application Support" } else { ".config" };
            if let Some(home) = variable("HOME") {
                launcher(home.join(folder).join("Epic/UnrealEngineLauncher/LauncherInstalled.dat"));
                let installations = read_small_file(&home.join(folder).join("Epic/UnrealEngine/Install.ini"));
                found.extend(installations.map(|text| installation_entries(&text)).unwrap_or_default());
            }
        }
    }
    found
}

fn entry(label: &str, root: &str) -> Option<EngineSetting> {
    let (label, root) = (label.trim(), root.trim().trim_matches('"'));
    (!label.is_empty() && !root.is_empty()).then(|| EngineSetting { label: label.to_owned(), root: root.into(), platforms: Vec::new() })
}

/// The launcher's list also holds games and engine plugins; engines are those whose name begins with `UE_`.
fn launcher_entries(text: &str) -> Vec<EngineSetting> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct List {
        #[serde(default)]
        installation_list: Vec<Installation>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Installation {
        #[serde(default)]
        install_location: String,
        #[serde(default)]
        app_name: String,
    }
    let list: List = serde_json::from_str(text).unwrap_or(List { installation_list: Vec::new() });
    let engines = list.installation_list.iter().filter(|one| one.app_name.starts_with("UE_"));
    engines.filter_map(|one| entry(&one.app_name, &one.install_location)).collect()
}

/// `[Installations]` of `Install.ini`: a version, a GUID with or without braces, or any name, then the root.
fn installation_entries(text: &str) -> Vec<EngineSetting> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line.eq_ignore_ascii_case("[Installations]");
        } else if inside && !line.starts_with(';') {
            found.extend(line.split_once('=').and_then(|(label, root)| entry(label, root)));
        }
    }
    found
}

/// What `reg.exe` prints of a key and its sub-keys. Only ever called on Windows.
fn query_registry(key: &str) -> String {
    let Some(system) = std::env::var_os("SystemRoot") else { return String::new() };
    let tool = PathBuf::from(system).join("System32").join("reg.exe");
    let output = std::process::Command::new(tool).args(["query", key, "/s"]).stdin(std::process::Stdio::null()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// Source builds are values `<identifier> REG_SZ <root>`; installed ones are keys `...\5.4` with `InstalledDirectory`.
fn registry_entries(text: &str) -> Vec<EngineSetting> {
    let mut key = "";
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with("HKEY_") {
            key = line.trim().rsplit('\\').next().unwrap_or_default();
        } else if let Some((name, root)) = line.split_once("    REG_SZ    ") {
            let label = if name.trim() == "InstalledDirectory" { key } else { name };
            found.extend(entry(label, root));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(found: Vec<EngineSetting>) -> Vec<(String, String)> {
        found.into_iter().map(|one| (one.label, one.root.to_string_lossy().into_owned())).collect()
    }

    #[test]
    fn the_launcher_list_yields_engines_only() {
        let text = r#"{"InstallationList":[
            {"InstallLocation":"C:\\Program Files\\Epic Games\\UE_5.4","NamespaceId":"ue","AppName":"UE_5.4"},
            {"InstallLocation":"D:\\Games\\Fortnite","AppName":"Fortnite"}, {"AppName":"UE_5.5"}, {}]}"#;
        assert_eq!(pairs(launcher_entries(text)), [("UE_5.4".into(), r"C:\Program Files\Epic Games\UE_5.4".into())]);
        assert!(launcher_entries(r#"{"InstallationList": []}"#).is_empty());
        assert!(launcher_entries("not json").is_empty());
    }

    #[test]
    fn install_ini_takes_every_form_of_identifier() {
        let text = "[Other]\nx=/no\n[Installations]\n148492FA-37EF=/opt/a\n{148492FB}=/opt/b\nUE_5.6 = /opt/c\n;5.1=/opt/d\nMine=\"/opt/e\"\n=/f\n[End]\ny=/no\n";
        let labels: Vec<String> = installation_entries(text).into_iter().map(|one| one.label).collect();
        assert_eq!(labels, ["148492FA-37EF", "{148492FB}", "UE_5.6", "Mine"]);
        assert_eq!(pairs(installation_entries(text))[3].1, "/opt/e");
    }

    #[test]
    fn the_registry_holds_source_builds_and_installed_ones() {
        let text = "\r\nHKEY_CURRENT_USER\\SOFTWARE\\Epic Games\\Unreal Engine\\Builds\r\n    {11-22}    REG_SZ    D:/UE5\r\n\r\n\
                    HKEY_LOCAL_MACHINE\\SOFTWARE\\EpicGames\\Unreal Engine\\5.4\r\n    InstalledDirectory    REG_SZ    C:\\UE_5.4\r\n    Other    REG_DWORD    0x1\r\n";
        assert_eq!(pairs(registry_entries(text)), [("{11-22}".into(), "D:/UE5".into()), ("5.4".into(), r"C:\UE_5.4".into())]);
    }
}
