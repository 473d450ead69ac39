//! Amounts of bytes as people write them: `"50 GB"`, `"512 MiB"`.

/// Units, largest first among each family; decimal ones as disks are sold, binary ones as memory is.
const UNITS: [(&str, u64); 9] = [
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// Reads a whole number with a unit; without one it counts bytes. `None` for everything else, also for what exceeds 64 bits.
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim();
    if unit.is_empty() {
        return Some(number);
    }
    let (_, factor) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    number.checked_mul(*factor)
}

/// The shortest exact way to write it.
pub fn format(bytes: u64) -> String {
    let unit = UNITS.iter().filter(|(_, factor)| bytes != 0 && bytes.is_multiple_of(*factor)).max_by_key(|(_, factor)| *factor);
    let (name, factor) = unit.copied().unwrap_or(("B", 1));
    format!("{} {name}", bytes / factor)
}

/// Rounded for people: `1.4 GB`.
pub fn rounded(bytes: u64) -> String {
    const STEPS: [(&str, u64); 4] = [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    match STEPS.iter().find(|(_, factor)| bytes >= *factor) {
        Some((name, factor)) => {
            let tenths = u128::from(bytes) * 10 / u128::from(*factor);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write_and_nothing_else() {
        assert_eq!(parse("50 GB"), Some(50_000_000_000));
        assert_eq!(parse("50GiB"), Some(50 << 30));
        assert_eq!(parse(" 7 kb "), Some(7_000));
        assert_eq!(parse("1024"), Some(1024));
        for wrong in ["", "GB", "-1 GB", "1.5 GB", "5 GBs", "99999999999 TB", "1 2", "٣ GB"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn writes_what_it_reads() {
        for bytes in [0, 1, 999, 1_000, 1_024, 50_000_000_000, 20 << 30, u64::MAX] {
            assert_eq!(parse(&format(bytes)), Some(bytes));
        }
        assert_eq!(rounded(1_449_999_999), "1.4 GB");
        assert_eq!(rounded(12), "12 B");
    }
}
