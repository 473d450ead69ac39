//! Whether `.gitattributes` hands files to Git LFS.

/// The most of a `.gitattributes` that is looked at.
pub const SIZE_LIMIT: u32 = 1 << 20;

/// Whether a line, comments aside, has `filter=lfs` among its attributes.
pub fn use_large_files(attributes: &[u8]) -> bool {
    String::from_utf8_lossy(attributes)
        .lines()
        .map(str::trim_start)
        .filter(|line| !line.starts_with('#'))
        .any(|line| line.split_whitespace().skip(1).any(|attribute| attribute == "filter=lfs"))
}

#[cfg(test)]
mod tests {
    use super::use_large_files;

    #[test]
    fn attributes() {
        assert!(use_large_files(b"*.txt text\n*.uasset filter=lfs diff=lfs merge=lfs -text\n"));
        assert!(use_large_files(b"  [attr]lfs filter=lfs\r\n"));
        assert!(!use_large_files(b"# *.uasset filter=lfs\n*.umap text\nfilter=lfs\n"));
        assert!(!use_large_files(b"*.uasset filter=lfsx -filter\n"));
        assert!(!use_large_files(b""));
    }
}
