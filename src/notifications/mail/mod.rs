//! Mail: the message, and the dialogue with the server it leaves by.

mod html;
mod plain;
pub(super) mod smtp;

use std::time::{Duration, SystemTime};

use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart, SinglePart};
use lettre::{Address, Message};

use super::outcome::Trouble;
use super::report::Report;
use super::text;
use crate::model::notification::NotificationErrorCode;

/// Who every message is from, beside the configured address.
const SENDER: &str = "Cookhouse";
/// Longer subjects are cut off in every list of messages.
const LONGEST_SUBJECT: usize = 150;

/// A message ready to be sent.
pub(super) struct Letter {
    pub(super) from: Address,
    pub(super) to: Address,
    /// ASCII, lines of at most 998 bytes, each ended by CR LF.
    pub(super) bytes: Vec<u8>,
}

/// Writes a report to somebody. `id` is the same for every try: whoever gets it twice can tell.
pub(super) fn letter(report: &Report, from: &str, to: &str, id: &str, host: &str) -> Result<Letter, Trouble> {
    let address = |text: &str| {
        text.parse::<Address>()
            .map_err(|_| Trouble::for_ever(NotificationErrorCode::Invalid, format!("{} is no address of mail", text::line(text, 100))))
    };
    let (from, to) = (address(from)?, address(to)?);
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(report.at.0).unwrap_or_default());
    let mut builder = Message::builder()
        .from(Mailbox::new(Some(SENDER.to_owned()), from.clone()))
        .to(Mailbox::new(None, to.clone()))
        .subject(text::cut(as_it_is(&report.first_line(1000)), LONGEST_SUBJECT))
        .date(at)
        .message_id(Some(format!("<{id}@{host}>")));
    // No vacation notices in answer, and something for rules of mail programs to go by.
    for (name, value) in [("Auto-Submitted", "auto-generated"), ("X-Auto-Response-Suppress", "All"), ("X-Cookhouse-Status", report.keyword)]
    {
        builder = with(builder, name, value.to_owned());
    }
    if let Some((id, name)) = &report.project {
        // A list's name is a phrase in quotation marks.
        let phrase: String = name.chars().filter(|character| !matches!(character, '"' | '\\' | '<' | '>')).collect();
        let phrase = as_it_is(&phrase);
        builder = with(builder, "List-Id", format!("\"Builds of {phrase}\" <{id}.builds.{host}>"));
        builder = with(builder, "X-Cookhouse-Project", id.clone());
    }
    let body = MultiPart::alternative()
        .singlepart(SinglePart::builder().header(ContentType::TEXT_PLAIN).body(plain::text(report)))
        .singlepart(SinglePart::builder().header(ContentType::TEXT_HTML).body(html::document(report)));
    let message = builder
        .multipart(body)
        .map_err(|error| Trouble::for_ever(NotificationErrorCode::Invalid, format!("the message could not be written: {error}")))?;
    Ok(Letter { from, to, bytes: message.formatted() })
}

/// Text of a header that no reader decodes into something else: this is how encoded words begin (RFC 2047).
fn as_it_is(text: &str) -> String {
    text.replace("=?", "= ?")
}

fn with(builder: lettre::message::MessageBuilder, name: &str, value: String) -> lettre::message::MessageBuilder {
    match HeaderName::new_from_ascii(name.to_owned()) {
        Ok(name) => builder.raw_header(HeaderValue::new(name, value)),
        Err(_) => builder,
    }
}
