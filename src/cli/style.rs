//! Colours, only where a person looks: `console` leaves them out for pipes, files and `NO_COLOR`.

use std::fmt::Display;

use console::StyledObject;

/// The word before a failure.
pub(crate) fn error<D: Display>(text: D) -> StyledObject<D> {
    console::style(text).red().bold().for_stderr()
}

/// The word before something to look at.
pub(crate) fn warning<D: Display>(text: D) -> StyledObject<D> {
    console::style(text).yellow().bold()
}

/// What went well.
pub(crate) fn good<D: Display>(text: D) -> StyledObject<D> {
    console::style(text).green()
}

/// What matters in a line.
pub(crate) fn strong<D: Display>(text: D) -> StyledObject<D> {
    console::style(text).bold()
}

/// What can be skipped.
pub(crate) fn faint<D: Display>(text: D) -> StyledObject<D> {
    console::style(text).dim()
}
