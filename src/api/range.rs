//! Which bytes a `Range` header asks for (RFC 9110, 14). Several ranges in one request are answered with the whole, as the
//! standard allows: nobody who resumes a download asks for them.

use std::ops::Range;

/// What to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Selected {
    /// Everything, as if there were no header.
    Whole,
    /// These bytes, at least one.
    Part(Range<u64>),
    /// None of the bytes exist.
    Unsatisfiable,
}

/// Reads the header's value for something of `length` bytes. What is no single byte range is ignored.
pub(super) fn select(value: &str, length: u64) -> Selected {
    let Some((unit, range)) = value.split_once('=') else { return Selected::Whole };
    let Some((first, last)) = range.trim().split_once('-') else { return Selected::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Selected::Whole;
    }
    match (number(first), number(last)) {
        (Some(first), Some(last)) if last < first => Selected::Whole,
        (Some(first), _) if first >= length && (last.is_empty() || number(last).is_some()) => Selected::Unsatisfiable,
        (Some(first), Some(last)) => Selected::Part(first..last.saturating_add(1).min(length)),
        (Some(first), None) if last.is_empty() => Selected::Part(first..length),
        (None, Some(0)) if first.is_empty() => Selected::Unsatisfiable,
        // Nothing of nothing is everything; it could not be written as a part.
        (None, Some(suffix)) if first.is_empty() && length > 0 => Selected::Part(length.saturating_sub(suffix)..length),
        _ => Selected::Whole,
    }
}

/// Digits and nothing else. Numbers beyond all files count as the largest.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Selected::{Part, Unsatisfiable, Whole};
    use super::*;

    #[test]
    fn single_ranges_of_every_form() {
        for (value, length, expected) in [
            ("bytes=0-0", 10, Part(0..1)),
            ("bytes=2-5", 10, Part(2..6)),
            ("bytes=2-99", 10, Part(2..10)),
            ("bytes=9-", 10, Part(9..10)),
            ("Bytes= 2-3", 10, Part(2..4)),
            ("bytes=-3", 10, Part(7..10)),
            ("bytes=-99", 10, Part(0..10)),
            ("bytes=0-18446744073709551615", 10, Part(0..10)),
            ("bytes=0-99999999999999999999999", 10, Part(0..10)),
            ("bytes=10-", 10, Unsatisfiable),
            ("bytes=10-12", 10, Unsatisfiable),
            ("bytes=99999999999999999999999-", 10, Unsatisfiable),
            ("bytes=-0", 10, Unsatisfiable),
            ("bytes=0-", 0, Unsatisfiable),
            ("bytes=-5", 0, Whole),
        ] {
            assert_eq!(select(value, length), expected, "{value}");
        }
    }

    #[test]
    fn what_is_no_single_byte_range_is_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=5-2",
            "bytes=0-1,4-5",
            "bytes=1",
            "items=0-1",
            "bytes=+1-2",
            "bytes=1--2",
            "bytes=10-x",
        ] {
            assert_eq!(select(value, 10), Whole, "{value}");
        }
    }

    proptest! {
        #[test]
        fn a_part_is_never_empty_nor_outside(value in "bytes=[0-9,x -]{0,24}", length in 0u64..1000) {
            if let Part(range) = select(&value, length) {
                prop_assert!(range.start < range.end && range.end <= length);
            }
        }
    }
}
