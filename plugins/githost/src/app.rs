//! Signing in as an app: a short-lived token that the host signs with the app's key buys an installation's token.

use guest_support::{Code, Problem};
use serde::Deserialize;
use serde_json::json;

use crate::answers;
use crate::base64;
use crate::names::RepositoryName;

/// How far the git host's clock may be behind ours without being asked what time it is, in seconds.
const DRIFT: u64 = 60;
/// How long an app's token is good for, in seconds; git hosts allow ten minutes.
const APP_TOKEN_LIFE: u64 = 540;
/// Clocks that are less apart, in milliseconds, agree: the header has whole seconds, and the answer was on its way.
const NOTICED_MS: u64 = 5_000;
/// An installation's token is not used any more when it has less than this, in milliseconds.
const RESERVE_MS: u64 = 5 * 60_000;

/// What has to be signed for the app's token: header and claims.
pub fn unsigned(app_id: &str, now_ms: u64) -> String {
    let now = now_ms / 1000;
    let header = json!({"alg": "RS256", "typ": "JWT"}).to_string();
    let claims = json!({"iat": now.saturating_sub(DRIFT), "exp": now + APP_TOKEN_LIFE, "iss": app_id}).to_string();
    format!("{}.{}", base64::encode_url(header.as_bytes()), base64::encode_url(claims.as_bytes()))
}

/// How far the git host's clock is ahead of ours, in milliseconds, as far as that is why it does not take the app's token: `date` is
/// the header of its answer, `known_ms` what the token was made by. `None`: the clocks agree, and the token is wrong otherwise.
pub fn clock_ahead_ms(date: Option<&str>, now_ms: u64, known_ms: i64) -> Option<i64> {
    let ahead = answers::header_milliseconds(date?)?.cast_signed() - now_ms.cast_signed();
    ((ahead - known_ms).unsigned_abs() >= NOTICED_MS).then_some(ahead)
}

/// The app's token.
pub fn signed(unsigned: &str, signature: &[u8]) -> String {
    format!("{unsigned}.{}", base64::encode_url(signature))
}

/// How far an installation's token is to reach.
#[derive(Debug, Clone, Copy)]
pub enum Reach<'a> {
    /// Everything that the installation reaches.
    All,
    /// One repository, by its present name.
    Named(&'a RepositoryName),
    /// One repository, by its number.
    Numbered(u64),
}

/// What an installation's token is asked for with: reading contents, no further than `reach`.
pub fn wish(reach: Reach<'_>) -> String {
    let permissions = json!({"contents": "read", "metadata": "read"});
    let wish = match reach {
        Reach::All => json!({"permissions": permissions}),
        Reach::Named(repository) => json!({"repositories": [repository.name()], "permissions": permissions}),
        Reach::Numbered(id) => json!({"repository_ids": [id], "permissions": permissions}),
    };
    wish.to_string()
}

/// An installation's token.
#[derive(Deserialize)]
pub struct Token {
    /// Opaque; there are short and very long ones.
    pub token: String,
    /// When it ends.
    expires_at: String,
}

impl Token {
    /// How long it may be kept, in milliseconds; 0 when it is about to end.
    pub fn life_ms(&self, now_ms: u64) -> u64 {
        answers::milliseconds(&self.expires_at).unwrap_or(0).saturating_sub(now_ms).saturating_sub(RESERVE_MS)
    }

    /// The token, if it can stand in a header and in a tool's environment.
    pub fn checked(&self) -> Result<&str, Problem> {
        let is_plain = (1..=16 << 10).contains(&self.token.len()) && self.token.bytes().all(|byte| byte.is_ascii_graphic());
        is_plain.then_some(self.token.as_str()).ok_or_else(|| Problem::new(Code::Protocol, "the git host's installation token is no token"))
    }
}

/// The app, as it sees itself.
#[derive(Default, Deserialize)]
pub struct App {
    /// Its name in addresses.
    #[serde(default)]
    slug: Option<String>,
    /// Its name for people.
    #[serde(default)]
    name: Option<String>,
}

impl App {
    /// What it is called.
    pub fn called(self) -> String {
        self.slug.or(self.name).unwrap_or_default()
    }
}

/// One place where the app is installed.
#[derive(Deserialize)]
pub struct Installation {
    id: u64,
    account: Option<answers::User>,
    #[serde(default)]
    repository_selection: Option<String>,
    #[serde(default)]
    suspended_at: Option<String>,
}

impl Installation {
    /// As the host reads it.
    pub fn described(&self) -> serde_json::Value {
        json!({
            "id": self.id.to_string(),
            "account": self.account.as_ref().map(answers::User::name).unwrap_or_default(),
            "repositorySelection": if self.repository_selection.as_deref() == Some("selected") { "selected" } else { "all" },
            "suspended": self.suspended_at.is_some(),
        })
    }
}

/// Repositories of an installation come in an envelope.
#[derive(Deserialize)]
pub struct Reached {
    /// One page of them.
    pub repositories: Vec<answers::Repository>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_begins_a_minute_ago_and_ends_before_ten() {
        let text = unsigned("Iv1.8a61f9b3a7aba766", 1_700_000_000_999);
        let claims = text.split_once('.').unwrap().1.replace('-', "+").replace('_', "/");
        let claims: serde_json::Value = serde_json::from_slice(&base64::decode(&claims).unwrap()).unwrap();
        assert_eq!(claims, json!({"iat": 1_699_999_940u64, "exp": 1_700_000_540u64, "iss": "Iv1.8a61f9b3a7aba766"}));
        assert_eq!(signed("a.b", &[0xfb, 0xff]), "a.b.-_8");
    }

    #[test]
    fn a_clock_that_is_wrong_is_told_from_a_key_that_is() {
        let now = answers::milliseconds("1994-11-06T08:40:00Z").unwrap();
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(clock_ahead_ms(date, now, 0), Some(577_000));
        assert_eq!(clock_ahead_ms(date, now, 577_000), None);
        assert_eq!(clock_ahead_ms(date, now + 1_200_000, 0), Some(-623_000));
        assert_eq!(clock_ahead_ms(date, now + 580_000, 0), None);
        assert_eq!((clock_ahead_ms(None, now, 0), clock_ahead_ms(Some("now"), now, 0)), (None, None));
    }

    #[test]
    fn installations_are_read_whatever_they_are_on() {
        let described = |text: &str| serde_json::from_str::<Installation>(text).unwrap().described();
        let enterprise =
            described(r#"{"id":7,"account":{"id":1,"slug":"octo","name":"Octo"},"repository_selection":"selected","suspended_at":null}"#);
        assert_eq!(enterprise, json!({"id": "7", "account": "octo", "repositorySelection": "selected", "suspended": false}));
        let bare = described(r#"{"id":7,"account":null,"suspended_at":"2026-01-01T00:00:00Z"}"#);
        assert_eq!(bare, json!({"id": "7", "account": "", "repositorySelection": "all", "suspended": true}));
        for (text, called) in [(r#"{"slug":"a","name":"A"}"#, "a"), (r#"{"slug":null,"name":"A"}"#, "A"), ("{}", "")] {
            assert_eq!(serde_json::from_str::<App>(text).unwrap().called(), called);
        }
    }

    #[test]
    fn wishes_are_read_only_and_narrow() {
        let repository = RepositoryName::parse("studio/game").unwrap();
        let permissions = json!({"contents": "read", "metadata": "read"});
        for (reach, wanted) in [
            (Reach::Named(&repository), json!({"repositories": ["game"], "permissions": permissions})),
            (Reach::Numbered(7), json!({"repository_ids": [7], "permissions": permissions})),
            (Reach::All, json!({"permissions": permissions})),
        ] {
            assert_eq!(serde_json::from_str::<serde_json::Value>(&wish(reach)).unwrap(), wanted);
        }
    }

    #[test]
    fn tokens_are_kept_until_five_minutes_before_their_end() {
        let token = |token: String, expires_at: &str| Token { token, expires_at: expires_at.to_owned() };
        let now = answers::milliseconds("2026-01-01T00:00:00Z").unwrap();
        assert_eq!(token("t".into(), "2026-01-01T01:00:00Z").life_ms(now), 55 * 60_000);
        assert_eq!(token("t".into(), "2026-01-01T00:04:00Z").life_ms(now), 0);
        assert_eq!(token("t".into(), "soon").life_ms(now), 0);
        assert!(token(format!("ghs_1_{}", "a.b_".repeat(130)), "").checked().is_ok());
        assert!(token("a b".into(), "").checked().is_err() && token(String::new(), "").checked().is_err());
    }
}
