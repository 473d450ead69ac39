//! Where a reader of a build's stream is.

use std::fmt;
use std::str::FromStr;

/// A place in a build's stream: everything up to it was received. Clients keep it as opaque text and hand it back; its form is
/// `<event>-<line>`, the sequence of the last event of the build and the `seq` of its last log line, `0` for none. Within a
/// stream neither part ever becomes less. `-end` behind it says that the end was told, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// The last event's sequence in the event log.
    pub event: u64,
    /// The last log line's `seq`.
    pub line: u64,
    /// The stream said `end` here.
    pub is_end: bool,
}

/// The text is none that this service gave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a position of a stream")]
pub struct NotAPosition;

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}{}", self.event, self.line, if self.is_end { "-end" } else { "" })
    }
}

impl FromStr for Position {
    type Err = NotAPosition;

    fn from_str(text: &str) -> Result<Self, NotAPosition> {
        let (numbers, is_end) = text.strip_suffix("-end").map_or((text, false), |numbers| (numbers, true));
        let (event, line) = numbers.split_once('-').ok_or(NotAPosition)?;
        Ok(Position { event: number(event)?, line: number(line)?, is_end })
    }
}

/// A number exactly as this service writes it.
pub fn number(text: &str) -> Result<u64, NotAPosition> {
    let number: u64 = text.parse().map_err(|_| NotAPosition)?;
    (number.to_string() == text).then_some(number).ok_or(NotAPosition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_read_back_and_nothing_else_does() {
        for position in ["0-0", "12-345", "12-345-end", "18446744073709551615-1"] {
            assert_eq!(position.parse::<Position>().map(|position| position.to_string()).as_deref(), Ok(position));
        }
        for garbage in
            ["", "1", "-", "1-", "-1", "01-1", "1-+2", "1-2-3", "1-2-End", "1 -2", "18446744073709551616-0", "1-2-end-end", "\u{0661}-1"]
        {
            assert_eq!(garbage.parse::<Position>(), Err(NotAPosition), "{garbage}");
        }
    }
}
