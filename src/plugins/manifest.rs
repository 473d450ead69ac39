//! What a plugin says about itself: JSON in the custom section `cookhouse:manifest` of its component.

use serde::{Deserialize, Serialize};

use super::schema::Schema;

/// Name of the custom section.
const SECTION: &str = "cookhouse:manifest";
/// A manifest is for people to read.
const LIMIT: usize = 256 * 1024;
/// The version of `wit/` that this host speaks, major and minor. A plugin of an older minor version works.
const API: (u64, u64) = (1, 0);

/// A plugin's own description: who it is and what it asks for. Asking grants nothing.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Version of this format; 1.
    pub manifest: u32,
    /// Its name in bindings: lower-case letters, digits, `-` and `.`.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The version of `wit/` that it was built for, `major.minor`.
    pub api: String,
    /// The oldest Cookhouse that it works with.
    #[serde(default)]
    pub min_server: Option<String>,
    /// Which world of `wit/` it is.
    pub world: World,
    /// What it asks for.
    #[serde(default)]
    pub permissions: Permissions,
    /// What its settings are.
    #[serde(default)]
    pub config_schema: Schema,
}

/// The worlds a plugin can be written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// Pushes artifacts, speaks HTTP only.
    DeployPlugin,
    /// Pushes artifacts with a native tool.
    DeployCommandPlugin,
    /// Reads a source-control server.
    SourceControlPlugin,
    /// The same, and reads its webhooks.
    SourceControlWebhookPlugin,
}

/// What the plugin is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginKind {
    /// Exports `deploy-target`.
    DeployTarget,
    /// Exports `source-control`.
    SourceControl,
}

impl World {
    /// What a plugin of this world is for.
    pub fn kind(self) -> PluginKind {
        match self {
            World::DeployPlugin | World::DeployCommandPlugin => PluginKind::DeployTarget,
            World::SourceControlPlugin | World::SourceControlWebhookPlugin => PluginKind::SourceControl,
        }
    }

    /// Its interface `command` exists at all.
    pub(crate) fn has_command(self) -> bool {
        self != World::DeployPlugin
    }
}

/// A list of things to reach, as asked for or as granted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Permissions {
    /// Origins.
    pub http: Vec<HttpPermission>,
    /// Secrets by name.
    pub secrets: Vec<SecretPermission>,
    /// Tools by name.
    pub commands: Vec<CommandPermission>,
    /// How much it may use.
    pub limits: LimitPermission,
}

/// One origin, or a setting that holds a URL whose origin is meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum HttpPermission {
    /// `https://host[:port]`; the host may begin with `*.`.
    Fixed {
        /// The origin.
        origin: String,
        /// The author's reason.
        #[serde(default)]
        why: String,
    },
    /// JSON pointer into the settings.
    FromSettings {
        /// The pointer.
        #[serde(rename = "originFrom")]
        origin_from: String,
        /// The author's reason.
        #[serde(default)]
        why: String,
    },
}

/// One secret and what may be done with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretPermission {
    /// Its name.
    pub name: String,
    /// The uses; others are denied.
    #[serde(rename = "use", default)]
    pub uses: Vec<SecretUse>,
    /// The author's reason.
    #[serde(default)]
    pub why: String,
}

/// What can be done with a secret without seeing it, and `reveal`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretUse {
    /// In a request header.
    Header,
    /// As the password of basic authentication.
    Basic,
    /// In a request body.
    Body,
    /// In a tool's environment.
    Env,
    /// On a tool's standard input.
    Stdin,
    /// As the key of a message authentication code.
    Hmac,
    /// As a private key.
    Sign,
    /// Compared with a candidate.
    Equals,
    /// Given to the guest in plain text.
    Reveal,
}

/// One native tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandPermission {
    /// Its name, never a path.
    #[serde(alias = "name")]
    pub tool: String,
    /// For tools that speak to one server: JSON pointer to the setting that says where it is. The tool reaches no other.
    #[serde(rename = "serverFrom", default, skip_serializing_if = "Option::is_none")]
    pub server_from: Option<String>,
    /// The author's reason.
    #[serde(default)]
    pub why: String,
}

/// How much it may use; less than the server's own limit or as much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitPermission {
    /// Sum of all memories.
    #[serde(rename = "memoryMiB")]
    pub memory_mebibytes: Option<u64>,
    /// Processor time of one call.
    pub cpu_seconds: Option<u64>,
}

/// Why a manifest is no good. The text is for the administrator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Not a component.
    #[error("this is no WebAssembly component")]
    NotAComponent,
    /// No such section.
    #[error("the component carries no manifest (custom section `{SECTION}`)")]
    Missing,
    /// Too long.
    #[error("the manifest is longer than 256 KiB")]
    TooLong,
    /// Not as described.
    #[error("the manifest is not valid: {0}")]
    Invalid(String),
}

impl Manifest {
    /// Reads the manifest of a component.
    ///
    /// # Errors
    /// When there is none, or when it is not as described here.
    pub fn of_component(component: &[u8]) -> Result<Manifest, ManifestError> {
        let json = custom_section(component, SECTION)?.ok_or(ManifestError::Missing)?;
        if json.len() > LIMIT {
            return Err(ManifestError::TooLong);
        }
        let manifest: Manifest = serde_json::from_slice(json).map_err(|error| ManifestError::Invalid(error.to_string()))?;
        manifest.checked()
    }

    fn checked(self) -> Result<Manifest, ManifestError> {
        let invalid = |text: &str| Err(ManifestError::Invalid(text.to_owned()));
        if self.manifest != 1 {
            return invalid("this server reads manifests of version 1");
        }
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
        if self.id.is_empty() || self.id.len() > 64 || !self.id.bytes().all(is_name) {
            return invalid("`id` is 1 to 64 lower-case letters, digits, `-` and `.`");
        }
        let Some((major, minor, _)) = version(&self.api) else {
            return invalid("`api` is a version of the plugin interface, such as \"1.0\"");
        };
        if major != API.0 || minor > API.1 {
            let text = format!("it was built for version {major}.{minor} of the plugin interface; this server speaks {}.{}", API.0, API.1);
            return invalid(&text);
        }
        if let Some(wanted) = &self.min_server {
            let own = env!("CARGO_PKG_VERSION");
            match version(wanted) {
                None => return invalid("`minServer` is a version of Cookhouse, such as \"0.1.0\""),
                wanted_version if wanted_version > version(own) => {
                    return invalid(&format!("it needs Cookhouse {} or newer; this is {own}", super::text::clean(wanted, 20)));
                }
                Some(_) => {}
            }
        }
        if !self.permissions.commands.is_empty() && !self.world.has_command() {
            return invalid("a plugin of the world `deploy-plugin` has no commands");
        }
        Ok(self)
    }
}

/// `major.minor` or `major.minor.patch`, in numbers.
fn version(text: &str) -> Option<(u64, u64, u64)> {
    let mut numbers = text.split('.').map(|number| number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok()).flatten());
    let found = (numbers.next()??, numbers.next()??, numbers.next().unwrap_or(Some(0))?);
    numbers.next().is_none().then_some(found)
}

/// The payload of a top-level custom section.
fn custom_section<'a>(component: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, ManifestError> {
    // Magic, then the version and layer of a component.
    let mut rest = component.strip_prefix(b"\0asm\x0d\0\x01\0").ok_or(ManifestError::NotAComponent)?;
    while let Some((&id, after)) = rest.split_first() {
        let (size, after) = leb128(after).ok_or(ManifestError::NotAComponent)?;
        let (section, after) = after.split_at_checked(size).ok_or(ManifestError::NotAComponent)?;
        rest = after;
        if id != 0 {
            continue;
        }
        let (length, section) = leb128(section).ok_or(ManifestError::NotAComponent)?;
        let (found, payload) = section.split_at_checked(length).ok_or(ManifestError::NotAComponent)?;
        if found == name.as_bytes() {
            return Ok(Some(payload));
        }
    }
    Ok(None)
}

fn leb128(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0usize;
    for (place, &byte) in bytes.iter().take(5).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[place + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(manifest: &str) -> Vec<u8> {
        let mut section = vec![u8::try_from(SECTION.len()).unwrap()];
        section.extend(SECTION.as_bytes());
        section.extend(manifest.as_bytes());
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        bytes.push(0);
        let size = section.len();
        bytes.extend([(size & 0x7f) as u8 | 0x80, (size >> 7) as u8]);
        bytes.extend(section);
        bytes
    }

    #[test]
    fn a_manifest_is_read_from_the_section() {
        let manifest = Manifest::of_component(&component(
            r#"{"manifest":1,"id":"a","name":"A","version":"1.0.0","api":"1.0","world":"deploy-plugin",
                "permissions":{"http":[{"originFrom":"/url"},{"origin":"https://*.example.com"}],
                "secrets":[{"name":"authorization","use":["header"]}],"limits":{"memoryMiB":32}}}"#,
        ))
        .unwrap();
        assert_eq!(manifest.world.kind(), PluginKind::DeployTarget);
        assert_eq!(manifest.permissions.http.len(), 2);
        assert_eq!(manifest.permissions.secrets[0].uses, [SecretUse::Header]);
        assert_eq!(manifest.permissions.limits.memory_mebibytes, Some(32));
    }

    #[test]
    fn broken_components_and_manifests_are_refused() {
        assert_eq!(Manifest::of_component(b"\0asm\x01\0\0\0").unwrap_err(), ManifestError::NotAComponent);
        assert_eq!(Manifest::of_component(b"\0asm\x0d\0\x01\0").unwrap_err(), ManifestError::Missing);
        assert_eq!(Manifest::of_component(b"\0asm\x0d\0\x01\0\x00\xff\xff\xff\xff\x0f").unwrap_err(), ManifestError::NotAComponent);
        for text in ["", "{}", r#"{"manifest":2,"id":"a","name":"A","version":"1","api":"1.0","world":"deploy-plugin"}"#] {
            assert!(matches!(Manifest::of_component(&component(text)), Err(ManifestError::Invalid(_))), "{text}");
        }
        let command = r#"{"manifest":1,"id":"a","name":"A","version":"1","api":"1.0","world":"deploy-plugin","permissions":{"commands":[{"tool":"git"}]}}"#;
        assert!(matches!(Manifest::of_component(&component(command)), Err(ManifestError::Invalid(_))));
    }
    #[test]
    fn plugins_for_another_server_are_refused_in_a_sentence() {
        let said = |more: &str| {
            let text = format!(r#"{{"manifest":1,"id":"a","name":"A","version":"1","world":"deploy-plugin",{more}}}"#);
            Manifest::of_component(&component(&text)).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let own = concat!(r#""api":"1.0","minServer":""#, env!("CARGO_PKG_VERSION"), '"');
        for fine in [r#""api":"1.0""#, r#""api":"1.0.3""#, r#""api":"1.0","minServer":"0.0.9""#, own] {
            assert_eq!(said(fine), "", "{fine}");
        }
        for (wrong, sentence) in [
            (r#""api":"1.1""#, "version 1.1 of the plugin interface; this server speaks 1.0"),
            (r#""api":"2.0""#, "version 2.0 of the plugin interface"),
            (r#""api":"0.9""#, "version 0.9 of the plugin interface"),
            (r#""api":"1""#, "`api` is a version"),
            (r#""api":"1.+0""#, "`api` is a version"),
            (r#""api":"1.0","minServer":"999.1""#, "it needs Cookhouse 999.1 or newer; this is "),
            (r#""api":"1.0","minServer":"new""#, "`minServer` is a version"),
            (r#""api":"1.0","configSchema":{"type":"object","patternProperties":{}}"#, "patternProperties"),
        ] {
            assert!(said(wrong).contains(sentence), "{wrong}: {}", said(wrong));
        }
    }

    #[test]
    fn the_version_is_the_one_of_the_interface_files() {
        let package = format!("package cookhouse:plugin@{}.{}.", API.0, API.1);
        assert!(include_str!("../../wit/basics.wit").starts_with(&package));
    }
}
