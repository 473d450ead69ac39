//! A message as HTML. Mail programs are not browsers: tables lay it out, every style stands on its element (one of them
//! is a word processor, others drop style sheets), nothing is loaded from anywhere. Where the style sheet is read, it turns
//! the colours for a dark screen.

use crate::notifications::report::{Finding, LISTED, Link, Report, Tone};
use crate::notifications::text::html as escaped;

const FONT: &str = "font-family:'Segoe UI',-apple-system,Roboto,Helvetica,Arial,sans-serif;";
const MONO: &str = "font-family:Consolas,'SF Mono',Menlo,'DejaVu Sans Mono',monospace;";

/// Turns the light colours below. `data-ogsc` is how one mail program marks what it has darkened.
const STYLE: &str = "\
:root{color-scheme:light dark;supported-color-schemes:light dark}
@media (prefers-color-scheme:dark){
.page{background-color:#0d1117!important}
.card{background-color:#161b22!important;border-left-color:#30363d!important;border-right-color:#30363d!important;border-bottom-color:#30363d!important}
.text{color:#e6edf3!important}
.soft{color:#9198a1!important}
.line{border-color:#30363d!important}
.code{background-color:#0d1117!important;border-color:#30363d!important;color:#e6edf3!important}
.link{color:#79b8ff!important}
.good{color:#56d364!important}
.bad{color:#ff8580!important}
.button{background-color:#21262d!important;border-color:#4b535d!important;color:#e6edf3!important}
}
[data-ogsc] .text{color:#e6edf3!important}
[data-ogsc] .soft{color:#9198a1!important}
[data-ogsc] .link{color:#79b8ff!important}
@media (max-width:480px){.wide{padding-left:16px!important;padding-right:16px!important}.label{width:84px!important}}
";

/// The whole document.
pub(super) fn document(report: &Report) -> String {
    let colour = format!("#{:06x}", report.tone.colour());
    let mut body = String::new();
    body.push_str(&title(report, &colour));
    body.push_str(&facts(report));
    if !report.errors.is_empty() {
        body.push_str(&section(
            &format!("First errors ({} of {})", report.errors.len(), report.error_count),
            &report.errors.iter().map(finding).collect::<String>(),
        ));
    }
    if !report.builds.is_empty() {
        body.push_str(&section("Builds", &builds(report)));
    }
    if !report.log.is_empty() {
        body.push_str(&section(&format!("Last {} lines of the log", report.log.len()), &code(&report.log)));
    }
    body.push_str(&buttons(&report.links));
    let title = escaped(&report.title());
    // What mail programs show of a message beside its subject, before it is opened.
    let preview = escaped(&report.reason);
    let footer = escaped(report.footer);
    format!(
        "<!DOCTYPE html>\r\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\r\n<head>\r\n\
         <meta http-equiv=\"Content-Type\" content=\"text/html; charset=utf-8\">\r\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\r\n\
         <meta name=\"color-scheme\" content=\"light dark\">\r\n<meta name=\"supported-color-schemes\" content=\"light dark\">\r\n\
         <title>{title}</title>\r\n<style type=\"text/css\">\r\n{STYLE}</style>\r\n</head>\r\n\
         <body class=\"page\" style=\"margin:0;padding:0;background-color:#f3f4f6;\">\r\n\
         <div style=\"display:none;max-height:0;overflow:hidden;mso-hide:all;\">{preview}</div>\r\n\
         <table role=\"presentation\" class=\"page\" width=\"100%\" cellpadding=\"0\" cellspacing=\"0\" border=\"0\" bgcolor=\"#f3f4f6\" \
         style=\"background-color:#f3f4f6;\"><tr><td align=\"center\" style=\"padding:24px 8px;\">\r\n\
         <table role=\"presentation\" class=\"card\" width=\"640\" cellpadding=\"0\" cellspacing=\"0\" border=\"0\" bgcolor=\"#ffffff\" \
         style=\"width:100%;max-width:640px;background-color:#ffffff;border:1px solid #d1d5db;border-top:4px solid {colour};\">\r\n\
         {body}</table>\r\n\
         <table role=\"presentation\" width=\"640\" cellpadding=\"0\" cellspacing=\"0\" border=\"0\" style=\"width:100%;max-width:640px;\"><tr>\
         <td class=\"soft\" style=\"{FONT}font-size:12px;line-height:18px;color:#57606a;padding:12px 24px;\">{footer}</td></tr></table>\r\n\
         </td></tr></table>\r\n</body>\r\n</html>\r\n"
    )
}

fn title(report: &Report, colour: &str) -> String {
    let class = match report.tone {
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Neutral => "soft",
    };
    format!(
        "<tr><td class=\"wide\" style=\"padding:20px 24px 4px 24px;{FONT}\">\r\n\
         <div class=\"{class}\" style=\"font-size:14px;line-height:20px;font-weight:bold;color:{colour};\">{}</div>\r\n\
         <div class=\"text\" style=\"font-size:20px;line-height:28px;font-weight:bold;color:#1f2328;word-break:break-word;\">{}</div>\r\n\
         <div class=\"text\" style=\"font-size:15px;line-height:22px;color:#1f2328;padding-top:8px;word-break:break-word;\">{}</div>\r\n\
         </td></tr>\r\n",
        escaped(report.status),
        escaped(&report.subject),
        escaped(&report.reason),
    )
}

fn facts(report: &Report) -> String {
    let row = |label: &str, value: &str| {
        format!(
            "<tr><td class=\"soft label\" width=\"110\" valign=\"top\" style=\"{FONT}width:110px;font-size:14px;line-height:20px;color:#57606a;\
             padding:3px 12px 3px 0;\">{}</td><td class=\"text\" valign=\"top\" style=\"{FONT}font-size:14px;line-height:20px;color:#1f2328;\
             padding:3px 0;word-break:break-word;\">{}</td></tr>\r\n",
            escaped(label),
            escaped(value)
        )
    };
    let rows: String = report.facts.iter().map(|fact| row(fact.label, &fact.value)).collect();
    format!(
        "<tr><td class=\"wide\" style=\"padding:12px 24px;\"><table role=\"presentation\" class=\"line\" width=\"100%\" cellpadding=\"0\" cellspacing=\"0\" border=\"0\">\r\n\
         {rows}</table></td></tr>\r\n"
    )
}

fn section(heading: &str, content: &str) -> String {
    format!(
        "<tr><td class=\"wide\" style=\"padding:8px 24px;\">\r\n\
         <div class=\"text\" style=\"{FONT}font-size:14px;line-height:20px;font-weight:bold;color:#1f2328;padding-bottom:6px;\">{}</div>\r\n\
         {content}</td></tr>\r\n",
        escaped(heading)
    )
}

fn finding(finding: &Finding) -> String {
    let place = match finding.place.as_str() {
        "" => String::new(),
        place => format!(
            "<div class=\"soft\" style=\"{MONO}font-size:12px;line-height:18px;color:#57606a;word-break:break-all;\">{}</div>",
            escaped(place)
        ),
    };
    format!(
        "<table role=\"presentation\" width=\"100%\" cellpadding=\"0\" cellspacing=\"0\" border=\"0\"><tr>\
         <td style=\"padding:4px 0 8px 10px;border-left:3px solid #cf222e;\">{place}\
         <div class=\"text\" style=\"{FONT}font-size:14px;line-height:20px;color:#1f2328;word-break:break-word;\">{}</div></td></tr></table>\r\n",
        escaped(&finding.message)
    )
}

fn builds(report: &Report) -> String {
    let mut out: String = report
        .builds
        .iter()
        .map(|build| {
            format!(
                "<table role=\"presentation\" width=\"100%\" cellpadding=\"0\" cellspacing=\"0\" border=\"0\"><tr>\
                 <td class=\"line\" style=\"{FONT}font-size:14px;line-height:20px;padding:6px 0;border-top:1px solid #d1d5db;word-break:break-word;\">\
                 <a class=\"link\" href=\"{}\" style=\"color:#0969da;font-weight:bold;\">{}</a><br>\
                 <span class=\"text\" style=\"color:#1f2328;\">{}</span></td></tr></table>\r\n",
                escaped(&build.url),
                escaped(&build.subject),
                escaped(&build.reason)
            )
        })
        .collect();
    if report.more_builds > 0 {
        out.push_str(&format!(
            "<div class=\"soft\" style=\"{FONT}font-size:14px;line-height:20px;color:#57606a;\">and {} more than these {LISTED}</div>\r\n",
            report.more_builds
        ));
    }
    out
}

/// Lines of a log. Not `pre`: one mail program would make the whole message as wide as the longest line.
fn code(lines: &[String]) -> String {
    let rows: String = lines.iter().map(|line| format!("{}<br>\r\n", with_columns(&escaped(line)))).collect();
    format!(
        "<table role=\"presentation\" width=\"100%\" cellpadding=\"0\" cellspacing=\"0\" border=\"0\"><tr>\
         <td class=\"code\" bgcolor=\"#f6f8fa\" style=\"{MONO}font-size:12px;line-height:18px;color:#1f2328;background-color:#f6f8fa;\
         border:1px solid #d1d5db;padding:8px 10px;word-break:break-word;\">\r\n{rows}</td></tr></table>\r\n"
    )
}

/// Spaces that would melt into one stay; single ones let lines break.
fn with_columns(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut before = ' ';
    for character in line.chars() {
        match character {
            ' ' if before == ' ' => out.push_str("&nbsp;"),
            character => out.push(character),
        }
        before = character;
    }
    out
}

fn buttons(links: &[Link]) -> String {
    let cells: String = links
        .iter()
        .map(|link| {
            format!(
                "<td style=\"padding:0 8px 8px 0;\"><table role=\"presentation\" cellpadding=\"0\" cellspacing=\"0\" border=\"0\"><tr>\
                 <td class=\"button\" bgcolor=\"#f6f8fa\" style=\"background-color:#f6f8fa;border:1px solid #d1d5db;border-radius:6px;padding:7px 16px;\">\
                 <a class=\"text\" href=\"{}\" style=\"{FONT}font-size:14px;line-height:20px;font-weight:bold;color:#1f2328;text-decoration:none;\">{}</a>\
                 </td></tr></table></td>\r\n",
                escaped(&link.url),
                escaped(link.label)
            )
        })
        .collect();
    format!(
        "<tr><td class=\"wide\" style=\"padding:12px 24px 16px 24px;\"><table role=\"presentation\" cellpadding=\"0\" cellspacing=\"0\" border=\"0\"><tr>\r\n\
         {cells}</tr></table></td></tr>\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_log_stay_and_lines_can_break() {
        assert_eq!(with_columns("  a  b c"), "&nbsp;&nbsp;a &nbsp;b c");
    }
}
