//! Slack: Block Kit in a coloured attachment. What comes from outside is either escaped (mrkdwn) or in blocks that know no
//! markup at all. Limits: a section's text 3000 characters, ten fields of 2000, 50 blocks.

use serde_json::{Value, json};

use super::{log, without_mentions};
use crate::notifications::report::{Link, Report};

/// Fields of one section.
const FIELDS: usize = 10;
/// Characters of the log.
const LOG: usize = 3000;

/// The message.
pub(super) fn message(report: &Report) -> Value {
    let title = match report.links.first() {
        Some(link) => format!("*{}*", linked(link, &report.title())),
        None => format!("*{}*", escaped(&report.title())),
    };
    let mut blocks = vec![section(&report.reason)];
    let fields: Vec<Value> = report
        .facts
        .iter()
        .take(FIELDS)
        .map(|fact| json!({"type": "mrkdwn", "text": format!("*{}*\n{}", fact.label, escaped(&fact.value)), "verbatim": true}))
        .collect();
    if !fields.is_empty() {
        blocks.push(json!({"type": "section", "fields": fields}));
    }
    if !report.errors.is_empty() {
        let mut elements = vec![bold(&format!("First errors ({} of {})", report.errors.len(), report.error_count))];
        for finding in &report.errors {
            let place = if finding.place.is_empty() { String::new() } else { format!("{}  ", finding.place) };
            elements.push(plain(&format!("\n{place}{}", finding.message)));
        }
        blocks.push(json!({"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": elements}]}));
    }
    for build in &report.builds {
        let link = Link { label: "", url: build.url.clone() };
        let text = format!("{}\n{}", linked(&link, &build.subject), escaped(&build.reason));
        blocks.push(json!({"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": true}}));
    }
    if report.more_builds > 0 {
        blocks.push(section(&format!("and {} more", report.more_builds)));
    }
    let lines = log(report, LOG);
    if !lines.is_empty() {
        blocks.push(json!({"type": "rich_text", "elements": [
            {"type": "rich_text_section", "elements": [bold(&format!("Last {} lines of the log", lines.lines().count()))]},
            {"type": "rich_text_preformatted", "elements": [plain(&lines)]},
        ]}));
    }
    let links: Vec<String> = report.links.iter().map(|link| linked(link, link.label)).collect();
    blocks.push(json!({"type": "context", "elements": [{"type": "mrkdwn", "text": links.join("  \u{b7}  "), "verbatim": true}]}));
    json!({
        // What is shown where blocks are not: on the phone's lock screen.
        "text": title,
        "unfurl_links": false,
        "unfurl_media": false,
        "attachments": [{
            "color": format!("#{:06x}", report.tone.colour()),
            "fallback": escaped(&report.first_line(400)),
            "blocks": blocks,
        }],
    })
}

fn section(text: &str) -> Value {
    json!({"type": "section", "text": {"type": "mrkdwn", "text": escaped(text), "verbatim": true}})
}

fn plain(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn bold(text: &str) -> Value {
    json!({"type": "text", "text": text, "style": {"bold": true}})
}

/// The three characters that begin everything special, as the documentation wants them.
fn escaped(text: &str) -> String {
    without_mentions(&text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}

fn linked(link: &Link, label: &str) -> String {
    // A bar would end the address.
    format!("<{}|{}>", link.url.replace('|', "%7C"), escaped(&label.replace('|', "\u{a6}")))
}
