//! The settings of a connection.

use guest_support::{Address, Code, Problem};
use serde::Deserialize;

use crate::names::RepositoryName;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default = "token_mode")]
    mode: String,
    #[serde(default)]
    api_base_url: String,
    #[serde(default)]
    git_base_url: String,
    #[serde(default)]
    app_id: String,
    #[serde(default)]
    installation_id: String,
}

fn token_mode() -> String {
    "token".to_owned()
}

/// How the service signs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// With a token that somebody entered.
    Token,
    /// As an app.
    App {
        /// The app's id, or its client id.
        app_id: String,
        /// Which of its installations; none while they are being listed.
        installation_id: Option<String>,
    },
}

/// A connection's settings, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    mode: Mode,
    /// Base of the REST API, without a slash at its end.
    api: Address,
    /// Base of the clone addresses, without a slash at its end.
    git: Address,
}

impl Settings {
    /// Reads the stored document.
    pub fn parse(document: &str) -> Result<Self, Problem> {
        let document: Document = serde_json::from_str(document)
            .map_err(|error| Problem::new(Code::InvalidConfig, format!("the settings of the git host cannot be read: {error}")))?;
        let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        let mode = match document.mode.as_str() {
            "token" => Mode::Token,
            "app" if document.app_id.is_empty() || !is_name(&document.app_id) || !is_name(&document.installation_id) => {
                return Err(Problem::new(Code::InvalidConfig, "appId and installationId must be the git host's own ids"));
            }
            "app" => Mode::App { app_id: document.app_id, installation_id: Some(document.installation_id).filter(|id| !id.is_empty()) },
            _ => return Err(Problem::new(Code::InvalidConfig, "the git host's mode must be \"token\" or \"app\"")),
        };
        Ok(Settings { mode, api: base("apiBaseUrl", &document.api_base_url)?, git: base("gitBaseUrl", &document.git_base_url)? })
    }

    /// How to sign in.
    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// Base of the REST API.
    pub fn api(&self) -> &str {
        self.api.as_str()
    }

    /// Where GraphQL is spoken, as far as the API's base tells; Gitea and Forgejo do not speak it.
    pub fn graphql(&self) -> Option<String> {
        match self.api.path() {
            "" => Some(format!("{}/graphql", self.api)),
            path => {
                path.strip_suffix("/v3").filter(|rest| rest.ends_with("/api")).map(|rest| format!("{}{rest}/graphql", self.api.origin()))
            }
        }
    }

    /// Base of the clone addresses.
    pub fn git(&self) -> &Address {
        &self.git
    }

    /// Gitea and Forgejo serve their API below `/api/v1`; they know tokens under the older name.
    pub fn authorization_prefix(&self) -> &'static str {
        if self.api.path().ends_with("/api/v1") { "token " } else { "Bearer " }
    }

    /// The repository that such an address names.
    pub fn repository_at(&self, address: &str) -> Option<RepositoryName> {
        let name = address.strip_prefix(self.git.as_str())?.strip_prefix('/')?.strip_suffix(".git")?;
        RepositoryName::parse(name).ok()
    }

    /// Where git fetches from; it holds neither user nor password.
    pub fn clone_address(&self, repository: &RepositoryName) -> String {
        format!("{}/{repository}.git", self.git)
    }
}

fn base(key: &str, text: &str) -> Result<Address, Problem> {
    let invalid = |fault: &str| Problem::new(Code::InvalidConfig, format!("{key} {fault}"));
    let address = Address::parse(text.trim_end_matches('/')).map_err(invalid)?;
    if address.path().contains(['?', '"']) {
        return Err(invalid("must not contain a query or quotes"));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use guest_support::Code;

    use super::Settings;
    use crate::names::RepositoryName;

    #[test]
    fn addresses_are_put_together_from_the_bases() {
        let settings =
            Settings::parse(r#"{"mode":"token","apiBaseUrl":"https://host/api/v3/","gitBaseUrl":"https://host:8443/git//"}"#).unwrap();
        let repository = RepositoryName::parse("studio/Game.Project").unwrap();
        assert_eq!(settings.api(), "https://host/api/v3");
        assert_eq!(settings.clone_address(&repository), "https://host:8443/git/studio/Game.Project.git");
        assert_eq!(settings.repository_at(&settings.clone_address(&repository)), Some(repository));
        assert_eq!(settings.repository_at("https://host:8443/other/studio/game.git"), None);
        assert_eq!(settings.authorization_prefix(), "Bearer ");
    }

    #[test]
    fn graphql_is_beside_the_api() {
        for (api, graphql) in [
            ("https://api.github.com", Some("https://api.github.com/graphql")),
            ("https://git.studio.lan/api/v3/", Some("https://git.studio.lan/api/graphql")),
            ("https://studio.lan:8443/git/api/v3", Some("https://studio.lan:8443/git/api/graphql")),
            ("https://git.studio.lan/rest", None),
        ] {
            let document = format!(r#"{{"apiBaseUrl":"{api}","gitBaseUrl":"https://git.studio.lan"}}"#);
            assert_eq!(Settings::parse(&document).unwrap().graphql().as_deref(), graphql, "{api}");
        }
    }

    #[test]
    fn compatible_servers_get_the_word_they_know() {
        let settings = Settings::parse(r#"{"apiBaseUrl":"http://127.0.0.1:3000/api/v1","gitBaseUrl":"http://127.0.0.1:3000"}"#).unwrap();
        assert_eq!((settings.authorization_prefix(), settings.graphql()), ("token ", None));
    }

    #[test]
    fn what_cannot_work_is_named() {
        for (document, word) in [
            ("nonsense", "cannot be read"),
            (r#"{"mode":"ssh","apiBaseUrl":"https://a","gitBaseUrl":"https://b"}"#, "mode"),
            (r#"{"mode":"app","apiBaseUrl":"https://a","gitBaseUrl":"https://b"}"#, "appId"),
            (r#"{"mode":"app","appId":"1","installationId":"../1","apiBaseUrl":"https://a","gitBaseUrl":"https://b"}"#, "installationId"),
            (r#"{"gitBaseUrl":"https://b"}"#, "apiBaseUrl"),
            (r#"{"apiBaseUrl":"https://a","gitBaseUrl":"file:///srv"}"#, "gitBaseUrl"),
            (r#"{"apiBaseUrl":"https://a","gitBaseUrl":"https://user:pw@b"}"#, "user name or password"),
            (r#"{"apiBaseUrl":"https://a?x=1","gitBaseUrl":"https://b"}"#, "query"),
        ] {
            let problem = Settings::parse(document).unwrap_err();
            assert_eq!(problem.code, Code::InvalidConfig);
            assert!(problem.message.contains(word), "{document}: {}", problem.message);
        }
    }
}
