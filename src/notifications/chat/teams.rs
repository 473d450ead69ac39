//! Microsoft Teams: an Adaptive Card 1.4 in the envelope that workflows ("when a webhook request is received") expect. Every
//! text from outside stands in a text run, which knows no markup. Limit: 28 KB for the whole message.

use serde_json::{Value, json};

use super::log;
use crate::notifications::report::{Report, Tone};

/// In bytes.
const LARGEST: usize = 24 * 1024;
/// Characters of the log.
const LOG: usize = 3000;

/// The message: with less and less of the log until it fits.
pub(super) fn message(report: &Report) -> Value {
    let mut longest = LOG;
    loop {
        let message = with_log(report, longest);
        if longest == 0 || message.to_string().len() <= LARGEST {
            return message;
        }
        longest /= 2;
    }
}

fn with_log(report: &Report, longest: usize) -> Value {
    let (style, colour) = match report.tone {
        Tone::Good => ("good", "Good"),
        Tone::Bad => ("attention", "Attention"),
        Tone::Neutral => ("emphasis", "Default"),
    };
    let mut body = vec![json!({
        "type": "Container", "style": style, "bleed": true, "items": [
            runs(vec![json!({"type": "TextRun", "text": report.status, "weight": "Bolder", "color": colour})], "Default"),
            runs(vec![json!({"type": "TextRun", "text": report.subject, "weight": "Bolder", "size": "Large"})], "None"),
            runs(vec![run(&report.reason)], "Small"),
        ],
    })];
    for fact in &report.facts {
        body.push(json!({"type": "ColumnSet", "spacing": "Small", "columns": [
            {"type": "Column", "width": "90px", "items": [runs(vec![json!({"type": "TextRun", "text": fact.label, "isSubtle": true})], "None")]},
            {"type": "Column", "width": "stretch", "items": [runs(vec![run(&fact.value)], "None")]},
        ]}));
    }
    if !report.errors.is_empty() {
        body.push(heading(&format!("First errors ({} of {})", report.errors.len(), report.error_count)));
        for finding in &report.errors {
            let mut inlines = Vec::new();
            if !finding.place.is_empty() {
                inlines.push(json!({"type": "TextRun", "text": format!("{}  ", finding.place), "fontType": "Monospace", "isSubtle": true}));
            }
            inlines.push(run(&finding.message));
            body.push(runs(inlines, "Small"));
        }
    }
    for build in &report.builds {
        let open = json!({"type": "Action.OpenUrl", "url": build.url});
        let title = json!({"type": "TextRun", "text": build.subject, "weight": "Bolder", "selectAction": open});
        body.push(runs(vec![title], "Medium"));
        body.push(runs(vec![run(&build.reason)], "None"));
    }
    if report.more_builds > 0 {
        body.push(runs(vec![run(&format!("and {} more", report.more_builds))], "Medium"));
    }
    let lines = log(report, longest);
    if !lines.is_empty() {
        body.push(heading(&format!("Last {} lines of the log", lines.lines().count())));
        let line = |text: &str| {
            // An empty run is none.
            let text = if text.is_empty() { " " } else { text };
            runs(vec![json!({"type": "TextRun", "text": text, "fontType": "Monospace", "size": "Small"})], "None")
        };
        body.push(json!({"type": "Container", "style": "emphasis", "items": lines.lines().map(line).collect::<Vec<_>>()}));
    }
    let actions: Vec<Value> =
        report.links.iter().map(|link| json!({"type": "Action.OpenUrl", "title": link.label, "url": link.url})).collect();
    json!({
        "type": "message",
        "summary": report.first_line(200),
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "fallbackText": report.first_line(400),
                "msteams": {"width": "Full"},
                "body": body,
                "actions": actions,
            },
        }],
    })
}

fn run(text: &str) -> Value {
    json!({"type": "TextRun", "text": text})
}

fn runs(inlines: Vec<Value>, spacing: &str) -> Value {
    json!({"type": "RichTextBlock", "spacing": spacing, "inlines": inlines})
}

fn heading(text: &str) -> Value {
    runs(vec![json!({"type": "TextRun", "text": text, "weight": "Bolder"})], "Medium")
}
