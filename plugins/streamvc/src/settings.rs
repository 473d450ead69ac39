//! The settings of a connection.

use guest_support::{Code, Problem};
use serde::Deserialize;

/// A connection's settings. Where the server is, the host reads by itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// Whose ticket it is.
    pub user_name: String,
    /// Of the server's key; empty: none is known yet.
    #[serde(default)]
    pub fingerprint: String,
}

impl Settings {
    /// Reads the stored document.
    pub fn parse(document: &str) -> Result<Self, Problem> {
        let invalid = |fault: String| Problem::new(Code::InvalidConfig, format!("the settings of the version-control server {fault}"));
        let settings: Settings = serde_json::from_str(document).map_err(|error| invalid(format!("cannot be read: {error}")))?;
        if settings.user_name.is_empty() || settings.user_name.chars().any(|character| character.is_control() || character.is_whitespace())
        {
            return Err(invalid("name no user".to_owned()));
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::Settings;

    #[test]
    fn a_user_is_needed() {
        let settings = Settings::parse(r#"{"serverUrl":"ssl:vcs:1666","userName":"builder"}"#).unwrap();
        assert_eq!((settings.user_name.as_str(), settings.fingerprint.as_str()), ("builder", ""));
        for wrong in ["", "{}", r#"{"userName":""}"#, r#"{"userName":"a b"}"#, r#"{"userName":"a\nb"}"#] {
            assert!(Settings::parse(wrong).is_err(), "{wrong}");
        }
    }
}
