//! Chats: each format, and the one request that carries it. The formats' own limits are theirs; nothing that they would
//! refuse is sent.

mod discord;
mod slack;
mod teams;

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::outcome::{Again, Plan, Trouble};
use super::report::Report;
use super::text;
use crate::model::Secret;
use crate::model::notification::{Channel, NotificationErrorCode as Code};
use crate::outbound::{Outbound, OutboundBody, OutboundRequest, OutboundResponse};

/// So much of an answer is looked at.
const LONGEST_ANSWER: usize = 2 * 1024;
/// How long the words of an answer are waited for; its status counts without them.
const PATIENCE: Duration = Duration::from_secs(3);

/// The message in a chat's own format; `None` for mail.
pub(super) fn body(channel: Channel, report: &Report) -> Option<Value> {
    match channel {
        Channel::Email => None,
        Channel::Slack => Some(slack::message(report)),
        Channel::Discord => Some(discord::message(report)),
        Channel::Teams => Some(teams::message(report)),
    }
}

/// Posts a message to a chat. A 2xx alone is success; redirects are not followed.
pub(super) async fn post(outbound: &Outbound, channel: Channel, address: &Secret, body: &Value, plan: &Plan) -> Result<(), Trouble> {
    let mut request = OutboundRequest::new("POST", address.reveal().clone());
    request.headers.push(("content-type".to_owned(), "application/json".to_owned()));
    request.body = OutboundBody::Bytes(Bytes::from(body.to_string()));
    request.idle_timeout = plan.chat;
    request.total_timeout = Some(plan.chat);
    let mut response = outbound.send(request).await?;
    let status = response.status;
    let place = outbound.check_url(address.reveal()).map(|url| url.origin).unwrap_or_default();
    let place = place.split_once("://").map_or("", |(_, place)| place).to_owned();
    if (200..300).contains(&status) {
        // The connectors of one chat pass on its refusals as words of a success.
        let words = if channel == Channel::Teams { words(&mut response, address).await } else { String::new() };
        return match words.split_once("returned HTTP error ").map(|(_, code)| code.get(..3).and_then(|code| code.parse::<u16>().ok())) {
            Some(code) => Err(refused(&place, code.unwrap_or(502), None, &words)),
            None => Ok(()),
        };
    }
    let asked = response.header("retry-after").and_then(pause);
    let words = words(&mut response, address).await;
    Err(refused(&place, status, asked, &words))
}

fn refused(place: &str, status: u16, asked: Option<Duration>, words: &str) -> Trouble {
    let said = if words.is_empty() { String::new() } else { format!(": {words}") };
    let trouble = match status {
        300..400 => Trouble::for_ever(Code::Rejected, format!("{place} leads elsewhere; enter the address that it leads to{said}")),
        408 | 425 | 429 => Trouble::for_now(Code::Deferred, format!("{place} wants fewer messages ({status}){said}")),
        401 | 403 | 404 | 410 => {
            Trouble::for_ever(Code::Rejected, format!("{place} does not know this address any more ({status}); make a new one there{said}"))
        }
        400..500 => Trouble::for_ever(Code::Rejected, format!("{place} did not take the message ({status}){said}")),
        500..600 => Trouble::for_now(Code::Deferred, format!("{place} could not take the message ({status}){said}")),
        _ => Trouble::for_now(Code::ProtocolError, format!("{place} answered with {status}{said}")),
    };
    let again = match trouble.again {
        Again::Later(_) => Again::Later(asked),
        Again::Never => Again::Never,
    };
    Trouble { again, ..trouble }.with_status(status)
}

/// `Retry-After`: seconds, or a date.
fn pause(value: &str) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse::<f64>() {
        return Duration::try_from_secs_f64(seconds.ceil()).ok();
    }
    let at = chrono::DateTime::parse_from_rfc2822(value.trim()).ok()?;
    (at.to_utc() - chrono::Utc::now()).to_std().ok()
}

/// The beginning of an answer, fit to be shown: without the address that it may repeat.
async fn words(response: &mut OutboundResponse, address: &Secret) -> String {
    let mut heard = Vec::new();
    let hear = async {
        while heard.len() < LONGEST_ANSWER {
            let Ok(Some(more)) = response.chunk().await else { break };
            heard.extend_from_slice(&more[..more.len().min(LONGEST_ANSWER - heard.len())]);
        }
    };
    let _ = tokio::time::timeout(PATIENCE, hear).await;
    without_address(&String::from_utf8_lossy(&heard), address.reveal())
}

fn without_address(words: &str, address: &str) -> String {
    let mut words = words.to_owned();
    let parts = address.splitn(4, '/').nth(3).unwrap_or_default().split(['/', '?', '&', '=']);
    let mut parts: Vec<&str> = parts.filter(|part| part.len() >= 6).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
    for part in parts {
        words = words.replace(part, "***");
    }
    text::line(&words, 160)
}

/// The last lines of the log that fit into so many characters.
fn log(report: &Report, longest: usize) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let mut length = 0;
    for line in report.log.iter().rev() {
        length += line.chars().count() + 1;
        if length > longest {
            break;
        }
        lines.push(line);
    }
    lines.reverse();
    lines.join("\n")
}

/// Something stands between the sign and the name: nobody is called, in any chat that reads this format.
fn without_mentions(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut before = ' ';
    for character in text.chars() {
        if before == '@' && !character.is_whitespace() {
            out.push('\u{200b}');
        }
        out.push(character);
        before = character;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let verdict = |status| {
            let trouble = refused("chat.example:443", status, Some(Duration::from_secs(7)), "words");
            (trouble.code, trouble.again, trouble.status)
        };
        let later = Again::Later(Some(Duration::from_secs(7)));
        for (status, code, again) in [
            (302, Code::Rejected, Again::Never),
            (400, Code::Rejected, Again::Never),
            (404, Code::Rejected, Again::Never),
            (410, Code::Rejected, Again::Never),
            (429, Code::Deferred, later),
            (408, Code::Deferred, later),
            (500, Code::Deferred, later),
            (503, Code::Deferred, later),
            (999, Code::ProtocolError, later),
        ] {
            assert_eq!(verdict(status), (code, again, Some(status)));
        }
    }

    #[test]
    fn pauses_are_seconds_or_dates() {
        assert_eq!(pause("30"), Some(Duration::from_secs(30)));
        assert_eq!(pause("1.337"), Some(Duration::from_secs(2)));
        let later = (chrono::Utc::now() + chrono::Duration::seconds(100)).to_rfc2822();
        assert!(pause(&later).is_some_and(|wait| wait > Duration::from_secs(90) && wait <= Duration::from_secs(100)));
        for wrong in ["", "-1", "soon", "1e400", "NaN", "Wed, 21 Oct 2015 07:28:00 GMT"] {
            assert_eq!(pause(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_answer_that_repeats_the_address_does_not_give_it_away() {
        let address = "https://hooks.chat.example/services/T0AAAAAAA/B0BBBBBBB/s3cretS3cret?code=othersecret";
        let shown = without_address("no team at /services/T0AAAAAAA/B0BBBBBBB/s3cretS3cret?code=othersecret\0\u{202e}", address);
        assert!(!shown.contains("s3cret") && !shown.contains("othersecret") && !shown.contains("T0AAAAAAA"), "{shown}");
    }
}
