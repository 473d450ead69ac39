//! The settings, the `metadata` part, and what an answer means.

use guest_support::{Address, Code, Problem, text};
use serde::{Deserialize, Serialize};

/// Bytes of an answer that are read: its beginning goes into an error's text.
pub const ANSWER_LIMIT: usize = 4096;

/// Bytes of a `Location` header that are shown.
const LOCATION_CHARACTERS: usize = 200;

/// The settings as they are stored; unknown keys belong to a newer version and are left alone.
#[derive(Debug, Deserialize)]
struct Document {
    #[serde(default)]
    url: String,
}

/// The address from the settings.
pub fn address(document: &str) -> Result<Address, Problem> {
    let document: Document = serde_json::from_str(document)
        .map_err(|error| Problem::new(Code::InvalidConfig, format!("the settings of custom deploy cannot be read: {error}")))?;
    if document.url.is_empty() {
        return Err(Problem::new(Code::InvalidConfig, "the upload address (url) is missing"));
    }
    Address::parse(&document.url).map_err(|fault| Problem::new(Code::InvalidConfig, format!("the upload address {fault}")))
}

/// The `metadata` part: these keys, all of them strings, in this order.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are the specification's own words")]
pub struct Metadata {
    pub build_id: String,
    pub project_id: String,
    pub platform: String,
    pub build_type: String,
    pub ue_version: String,
    pub branch: String,
    pub commit: String,
}

impl Metadata {
    /// As it is sent.
    pub fn to_json(&self) -> Result<Vec<u8>, Problem> {
        serde_json::to_vec(self).map_err(|error| Problem::new(Code::Internal, format!("the metadata could not be written: {error}")))
    }

    /// The name of the file part.
    pub fn file_name(&self) -> String {
        format!("{}.tar.gz", self.build_id)
    }
}

/// 2xx alone is success. `location` is the header of that name.
pub fn judge(status: u16, location: Option<&str>, answer: &[u8]) -> Result<(), Problem> {
    match status {
        200..=299 => Ok(()),
        300..=399 => {
            let mut problem = Problem::from_status("the receiver", status, b"");
            problem.message = match location.map(|location| text::excerpt(location.as_bytes(), LOCATION_CHARACTERS)) {
                Some(location) => {
                    format!("the receiver answered {status} and points to {location}; redirects are not followed, enter the final address")
                }
                None => format!("the receiver answered {status}; redirects are not followed"),
            };
            Err(problem)
        }
        _ => Err(Problem::from_status("the receiver", status, answer)),
    }
}

#[cfg(test)]
mod tests {
    use guest_support::Code;

    use super::{Metadata, address, judge};

    #[test]
    fn the_address_comes_from_the_settings() {
        assert_eq!(address(r#"{"url":"https://host/up","later":1}"#).unwrap().as_str(), "https://host/up");
        for document in
            ["", "[]", "{}", r#"{"url":""}"#, r#"{"url":7}"#, r#"{"url":"ftp://host"}"#, r#"{"url":"https://user:secret@host/"}"#]
        {
            let problem = address(document).unwrap_err();
            assert_eq!(problem.code, Code::InvalidConfig, "{document}");
            assert!(!problem.message.contains("secret"), "{}", problem.message);
        }
    }

    #[test]
    fn the_metadata_has_the_seven_strings() {
        let metadata = Metadata {
            build_id: "b1".into(),
            project_id: "p1".into(),
            platform: "Win64".into(),
            build_type: "Shipping".into(),
            ue_version: "5.4".into(),
            branch: "feature/\"x\"".into(),
            commit: "0123".into(),
        };
        assert_eq!(
            String::from_utf8(metadata.to_json().unwrap()).unwrap(),
            r#"{"buildId":"b1","projectId":"p1","platform":"Win64","buildType":"Shipping","ueVersion":"5.4","branch":"feature/\"x\"","commit":"0123"}"#
        );
        assert_eq!(metadata.file_name(), "b1.tar.gz");
    }

    #[test]
    fn only_2xx_is_success() {
        for status in [200, 201, 202, 204, 299] {
            assert!(judge(status, None, b"whatever").is_ok());
        }
        for status in [100, 301, 302, 304, 307, 308, 400, 401, 403, 404, 413, 429, 500, 503, 999] {
            assert_eq!(judge(status, None, b"").unwrap_err().reason, Some(format!("http-status-{status}")));
        }
        let problem = judge(302, Some("https://else\u{1b}where/"), b"").unwrap_err();
        assert!(problem.message.contains("https://else where/") && problem.message.contains("not followed"), "{}", problem.message);
        assert!(judge(500, None, b"disk full").unwrap_err().message.ends_with(": disk full"));
    }
}
