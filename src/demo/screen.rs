//! What the demo shows: coloured, with a line that moves, where a person looks on; plain lines elsewhere.

#![allow(clippy::print_stdout, reason = "the demo speaks to people")]

use std::fmt::Display;
use std::time::Duration;

use console::{StyledObject, style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Where the demo writes. Everything goes to standard output in the order in which it happens.
pub struct Screen {
    is_terminal: bool,
    moving: ProgressBar,
    /// A long path that log lines are full of.
    directory: String,
}

impl Default for Screen {
    /// Standard output, whatever it is.
    fn default() -> Self {
        let is_terminal = console::Term::stdout().features().is_attended();
        let target = if is_terminal { ProgressDrawTarget::stdout() } else { ProgressDrawTarget::hidden() };
        Screen { is_terminal, moving: ProgressBar::with_draw_target(None, target), directory: String::new() }
    }
}

impl Screen {
    /// From here on log lines say `$DEMO` for this directory.
    pub fn shorten(&mut self, directory: &std::path::Path) {
        self.directory = directory.display().to_string();
    }

    /// A line as it is.
    pub fn line(&self, text: impl Display) {
        if self.is_terminal && !self.moving.is_finished() {
            self.moving.println(text.to_string());
        } else {
            println!("{text}");
        }
    }

    /// The name of a chapter.
    pub fn chapter(&self, text: &str) {
        self.line("");
        self.line(style(text).bold().cyan());
    }

    /// Something that went well: what it is, and what came of it.
    pub fn done(&self, what: &str, detail: impl Display) {
        self.line(format_args!("  {} {what:<19} {detail}", style("✔").green().bold()));
    }

    /// More of the line above.
    pub fn more(&self, detail: impl Display) {
        self.line(format_args!("    {:<19} {detail}", ""));
    }

    /// A line of a log, cut to the terminal's width.
    pub fn log(&self, text: &str, is_system: bool) {
        let text = if self.directory.is_empty() { text.to_owned() } else { text.replace(&self.directory, "$DEMO") };
        let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let width = if self.is_terminal { usize::from(console::Term::stdout().size().1).saturating_sub(6).max(40) } else { usize::MAX };
        let cut = console::truncate_str(&clean, width, "…");
        let text = if is_system { style(cut).cyan() } else { style(cut).dim() };
        self.line(format_args!("  {} {text}", style("│").dim()));
    }

    /// Starts the moving line for work whose end is not known.
    pub fn working(&mut self, what: impl Display) {
        self.start(None, "  {spinner:.cyan.bold} {msg}");
        self.moving.set_message(what.to_string());
        self.moving.enable_steady_tick(Duration::from_millis(80));
    }

    /// Changes what the moving line says.
    pub fn now(&self, what: impl Display) {
        self.moving.set_message(what.to_string());
    }

    /// Starts the moving line for so many bytes.
    pub fn bytes(&mut self, what: &str, total: u64) {
        self.start(Some(total), "  {spinner:.cyan.bold} {msg:<19} {bar:30.cyan/blue} {bytes} of {total_bytes}");
        self.moving.set_message(what.to_owned());
    }

    /// So many of them are done.
    pub fn position(&self, done: u64) {
        self.moving.set_position(done);
    }

    /// Takes the moving line away.
    pub fn still(&self) {
        self.moving.finish_and_clear();
    }

    fn start(&mut self, total: Option<u64>, template: &str) {
        self.moving.finish_and_clear();
        let target = if self.is_terminal { ProgressDrawTarget::stdout() } else { ProgressDrawTarget::hidden() };
        self.moving = ProgressBar::with_draw_target(total, target);
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
        self.moving.set_style(style.progress_chars("━━─").tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ "));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.moving.finish_and_clear();
    }
}

/// What matters in a line.
pub fn strong<D: Display>(text: D) -> StyledObject<D> {
    style(text).bold()
}

/// What can be skipped.
pub fn faint<D: Display>(text: D) -> StyledObject<D> {
    style(text).dim()
}

/// An address or a command to be used.
pub fn link<D: Display>(text: D) -> StyledObject<D> {
    style(text).cyan()
}
