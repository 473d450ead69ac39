//! Discord: one embed. Limits: title 256, description 4096, a field's value 1024, all texts together 6000. Nobody is
//! mentioned, whatever a text says.

use serde_json::{Value, json};

use super::{log, without_mentions};
use crate::notifications::report::{Link, Report};
use crate::notifications::text::cut;

const TITLE: usize = 256;
const DESCRIPTION: usize = 4096;
const VALUE: usize = 1024;
/// A little less than what is allowed: how characters are counted is not documented.
const TOGETHER: usize = 5900;
const FIELDS: usize = 25;
/// Characters of the log.
const LOG: usize = 1800;

/// The message.
pub(super) fn message(report: &Report) -> Value {
    let title = fitting(&[escaped(&report.title())], TITLE);
    let mut left = TOGETHER - units(&title);
    let mut fields = Vec::new();
    for fact in report.facts.iter().take(FIELDS) {
        let value = fitting(&[escaped(&fact.value)], VALUE);
        let size = units(fact.label) + units(&value);
        // The description needs the greater part.
        if value.is_empty() || left.saturating_sub(size) < TOGETHER / 2 {
            continue;
        }
        left -= size;
        fields.push(json!({"name": fact.label, "value": value, "inline": fact.value.chars().count() <= 40}));
    }
    let description = fitting(&paragraphs(report), left.min(DESCRIPTION));
    let mut embed = json!({
        "title": title,
        "description": description,
        "color": report.tone.colour(),
        "fields": fields,
        "timestamp": report.at,
    });
    // An address that it takes for none makes it refuse the whole message.
    if let (Some(link), Some(embed)) = (report.links.first().filter(|link| is_public(link)), embed.as_object_mut()) {
        embed.insert("url".to_owned(), json!(link.url));
    }
    json!({"username": "Cookhouse", "embeds": [embed], "allowed_mentions": {"parse": []}})
}

/// The most important first: what does not fit is left out.
fn paragraphs(report: &Report) -> Vec<String> {
    let links: Vec<String> = report.links.iter().map(|link| format!("[{}]({})", link.label, link.url)).collect();
    let mut parts = vec![escaped(&report.reason), format!("\n{}", links.join(" \u{b7} "))];
    if !report.errors.is_empty() {
        parts.push(format!("\n\n**First errors ({} of {})**", report.errors.len(), report.error_count));
        for finding in &report.errors {
            let place = if finding.place.is_empty() { String::new() } else { format!("{}  ", escaped(&finding.place)) };
            parts.push(format!("\n{place}{}", escaped(&cut(finding.message.clone(), 240))));
        }
    }
    for build in &report.builds {
        parts.push(format!("\n[{}]({}) {}", escaped(&build.subject), build.url, escaped(&cut(build.reason.clone(), 80))));
    }
    if report.more_builds > 0 {
        parts.push(format!("\nand {} more", report.more_builds));
    }
    let lines = log(report, LOG);
    if !lines.is_empty() {
        let heading = format!("**Last {} lines of the log**", lines.lines().count());
        // Three of these in a row would end the block.
        parts.push(format!("\n\n{heading}\n```\n{}\n```", without_mentions(&lines.replace('`', "`\u{200b}"))));
    }
    parts
}

/// The parts, from the first, that fit; the first is cut.
fn fitting(parts: &[String], most: usize) -> String {
    let mut out = String::new();
    for part in parts {
        if units(&out) + units(part) <= most {
            out.push_str(part);
        } else if out.is_empty() {
            let tries = (1..=most).rev().step_by(16).map(|longest| cut(part.clone(), longest));
            out = tries.into_iter().find(|shorter| units(shorter) <= most).unwrap_or_default();
        }
    }
    out
}

/// The longer one of the ways to count characters.
fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

fn is_public(link: &Link) -> bool {
    let host = link.url.split_once("://").map_or("", |(_, rest)| rest).split(['/', ':']).next().unwrap_or_default();
    host.contains('.')
}

/// Everything that begins something special, as it is.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if r"\*_~`|>#-+[]()<!:".contains(character) {
            out.push('\\');
        }
        out.push(character);
    }
    without_mentions(&out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_shown_and_not_followed() {
        assert_eq!(escaped("[x](http://e)"), r"\[x\]\(http\://e\)");
        assert_eq!(escaped("@everyone <@&1> **b**"), "@\u{200b}everyone \\<@\u{200b}&1\\> \\*\\*b\\*\\*");
    }

    #[test]
    fn what_does_not_fit_is_cut_or_left_out() {
        let parts = ["a".repeat(30), "b".repeat(90), "c".repeat(10)];
        assert_eq!(fitting(&parts, 50), "a".repeat(30) + &"c".repeat(10));
        let cut = fitting(&["\u{1f373}".repeat(100)], 50);
        assert!(units(&cut) <= 50 && cut.ends_with('\u{2026}'), "{cut}");
    }
}
