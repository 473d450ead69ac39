//! A build while it runs: its log line by line, its steps in the line that moves.

use std::time::{Duration, Instant};

use console::style;
use serde_json::Value;

use super::DemoError;
use super::client::{Client, text};
use super::screen::{Screen, faint, strong};

/// How often the API is asked.
const ASKED_EVERY: Duration = Duration::from_millis(150);
/// A demo build takes seconds; a machine on which it takes so long has another problem.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// Lines that are shown of one answer; a build that prints more is summed up.
const SHOWN_AT_ONCE: usize = 60;

/// Shows the build until it and its deploy are finished; gives it as it is then.
pub(super) async fn build(screen: &mut Screen, client: &Client, id: &str) -> Result<Value, DemoError> {
    let started = Instant::now();
    let mut seen = 0;
    screen.working("waiting for a slot");
    loop {
        let build = client.get(&format!("/builds/{id}")).await?;
        show_log(screen, &build, &mut seen);
        screen.now(steps(&build));
        let status = text(&build["status"]);
        let is_deploying = matches!(text(&build["autoDeployStatus"]), "pending" | "in_progress");
        if !matches!(status, "pending" | "running") && !is_deploying {
            screen.still();
            return finished(screen, build);
        }
        if started.elapsed() > PATIENCE {
            return Err(DemoError::failed(format!("the build is still {status} after {} minutes", PATIENCE.as_secs() / 60)));
        }
        tokio::time::sleep(ASKED_EVERY).await;
    }
}

fn finished(screen: &Screen, build: Value) -> Result<Value, DemoError> {
    if text(&build["status"]) != "complete" {
        let failure = &build["failure"];
        let what = format!("the build {}: {} ({})", text(&build["status"]), text(&failure["message"]), text(&failure["code"]));
        return Err(DemoError::failed(what));
    }
    let seconds = build["durationMs"].as_u64().unwrap_or(0) / 100;
    let took = format!("{}.{} s, {} log lines", seconds / 10, seconds % 10, build["logLines"].as_u64().unwrap_or(0));
    screen.done("Build complete", format_args!("{took} {}", faint(text(&build["commit"]).chars().take(10).collect::<String>())));
    Ok(build)
}

/// Shows the lines of `recentLogs` that were not shown before.
fn show_log(screen: &Screen, build: &Value, seen: &mut u64) {
    let lines: Vec<&Value> = build["recentLogs"].as_array().into_iter().flatten().filter(|line| seq(line) > *seen).collect();
    let Some(newest) = lines.last().map(|line| seq(line)) else { return };
    let missed = newest - *seen - lines.len() as u64;
    let skipped = lines.len().saturating_sub(SHOWN_AT_ONCE) as u64 + missed;
    if skipped > 0 {
        screen.log(&format!("… {skipped} more lines"), true);
    }
    for line in lines.iter().skip(lines.len().saturating_sub(SHOWN_AT_ONCE)) {
        screen.log(text(&line["text"]), text(&line["stream"]) == "system");
    }
    *seen = newest;
}

fn seq(line: &Value) -> u64 {
    line["seq"].as_u64().unwrap_or(0)
}

/// `sync ✔ 0.4 s  prepare ✔ 0.0 s  build 3.1 s`
fn steps(build: &Value) -> String {
    let Some(steps) = build["steps"].as_array().filter(|steps| !steps.is_empty()) else {
        return "waiting for a slot".into();
    };
    let shown = steps.iter().map(|step| {
        let name = text(&step["name"]);
        match text(&step["status"]) {
            "complete" => {
                let tenths = step["durationMs"].as_u64().unwrap_or(0) / 100;
                format!("{name} {} {}", style("✔").green(), faint(format_args!("{}.{} s", tenths / 10, tenths % 10)))
            }
            "failed" => format!("{name} {}", style("✘").red()),
            _ => strong(name).to_string(),
        }
    });
    format!("{}  {}", shown.collect::<Vec<_>>().join("  "), faint(format_args!("{} lines", build["logLines"].as_u64().unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_are_shown_once() {
        let screen = Screen::default();
        let mut seen = 0;
        let line = |seq: u64| json!({ "seq": seq, "text": "x", "stream": "stdout" });
        show_log(&screen, &json!({ "recentLogs": [line(1), line(2)] }), &mut seen);
        assert_eq!(seen, 2);
        show_log(&screen, &json!({ "recentLogs": [line(1), line(2)] }), &mut seen);
        assert_eq!(seen, 2);
        show_log(&screen, &json!({ "recentLogs": [line(900)] }), &mut seen);
        assert_eq!(seen, 900);
    }

    #[test]
    fn steps_are_told_in_order() {
        console::set_colors_enabled(false);
        let build = json!({ "logLines": 12, "steps": [
            { "name": "sync", "status": "complete", "durationMs": 1234 },
            { "name": "build", "status": "running", "durationMs": null },
        ]});
        assert_eq!(steps(&build), "sync ✔ 1.2 s  build  12 lines");
    }
}
