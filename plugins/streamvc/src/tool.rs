//! What `p4 -V` says about the program.

/// The oldest that prints JSON.
pub const OLDEST: (u32, u32) = (2016, 1);

/// The version, `(2024, 2)`; `None`: it says none that could be read.
pub fn version(text: &str) -> Option<(u32, u32)> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Rev. P4/"))?;
    let (year, number) = line.split('/').nth(1)?.split_once('.')?;
    let number: String = number.chars().take_while(char::is_ascii_digit).collect();
    Some((year.parse().ok()?, number.parse().ok()?))
}

/// Whether it transfers files in parallel by threads of its own. Other builds start further processes for that, with the
/// ticket in their arguments, where every user of the machine can read it.
pub fn has_threads(text: &str) -> bool {
    text.contains("Parallel sync threading built-in.")
}

#[cfg(test)]
mod tests {
    use super::{OLDEST, has_threads, version};

    #[test]
    fn the_version_is_in_the_last_line() {
        let new = "Perforce - The Fast Software Configuration Management System.\nParallel sync threading built-in.\nRev. P4/LINUX26X86_64/2024.2/2697822 (2024/12/17).\n";
        let old = "Rev. P4/NTX64/2009.1/206393 (2009/06/23).";
        assert_eq!((version(new), has_threads(new)), (Some((2024, 2)), true));
        assert_eq!((version(old), has_threads(old)), (Some((2009, 1)), false));
        assert_eq!(version("Rev. P4/X/2025.1.PREP-TEST_ONLY/1 (x)"), Some((2025, 1)));
        assert!(version(old).unwrap() < OLDEST);
        for nonsense in ["", "p4 1.0", "Rev. P4/", "Rev. P4/X/new/1"] {
            assert_eq!(version(nonsense), None, "{nonsense}");
        }
    }
}
