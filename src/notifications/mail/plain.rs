//! A message as plain text, for terminals and for whoever reads mail as text.

use crate::notifications::report::{LISTED, Report};

/// Columns of a terminal, less a quotation mark's place.
const WIDTH: usize = 76;

/// The whole text. The first line says everything that counts.
pub(super) fn text(report: &Report) -> String {
    let mut out = Vec::new();
    out.extend(wrapped(&report.first_line(1000), "", ""));
    out.push(String::new());
    let width = report.facts.iter().map(|fact| fact.label.len()).max().unwrap_or(0) + 2;
    for fact in &report.facts {
        out.extend(wrapped(&fact.value, &format!("{:width$}", fact.label), &" ".repeat(width)));
    }
    if !report.errors.is_empty() {
        out.push(String::new());
        out.push(heading(&format!("First errors ({} of {})", report.errors.len(), report.error_count)));
        for finding in &report.errors {
            if !finding.place.is_empty() {
                out.push(format!("  {}", finding.place));
            }
            out.extend(wrapped(&finding.message, "    ", "    "));
        }
    }
    if !report.builds.is_empty() {
        out.push(String::new());
        for build in &report.builds {
            out.extend(wrapped(&build.subject, "* ", "  "));
            out.extend(wrapped(&build.reason, "  ", "  "));
            out.push(format!("  {}", build.url));
        }
        if report.more_builds > 0 {
            out.push(format!("... and {} more than these {LISTED}", report.more_builds));
        }
    }
    if !report.log.is_empty() {
        out.push(String::new());
        out.push(heading(&format!("Last {} lines of the log", report.log.len())));
        out.extend(report.log.iter().map(|line| format!("  {line}").trim_end().to_owned()));
    }
    out.push(String::new());
    let width = report.links.iter().map(|link| link.label.len()).max().unwrap_or(0) + 2;
    out.extend(report.links.iter().map(|link| format!("{:width$}{}", link.label, link.url)));
    out.push(String::new());
    // What follows this line, mail programs take for a signature.
    out.push("-- ".to_owned());
    out.extend(wrapped(report.footer, "", ""));
    out.join("\r\n") + "\r\n"
}

fn heading(text: &str) -> String {
    format!("{text}\r\n{}", "-".repeat(text.chars().count()))
}

/// Lines of at most [`WIDTH`] characters, where words allow it.
fn wrapped(text: &str, first: &str, others: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = first.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let space = usize::from(!is_empty);
        if !is_empty && current.chars().count() + space + word.chars().count() > WIDTH {
            lines.push(std::mem::replace(&mut current, others.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            current.push(' ');
        }
        current.push_str(word);
        is_empty = false;
    }
    lines.push(current.trim_end().to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_and_long_ones_stay_whole() {
        let long = "x".repeat(100);
        let lines = wrapped(&format!("{} {long} end", "word ".repeat(20)), "Reason  ", "        ");
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH || line.contains(&long)), "{lines:#?}");
        assert!(lines[0].starts_with("Reason  word") && lines.iter().skip(1).all(|line| line.starts_with("        ")), "{lines:#?}");
        assert_eq!(wrapped("", "Label  ", ""), ["Label"]);
    }
}
