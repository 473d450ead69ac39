//! One entry's header in the POSIX (pax) tar format: ustar fields, and extended records where they do not suffice.

const BLOCK: usize = 512;
/// The largest number that eleven octal digits hold.
const LARGEST_OCTAL: u64 = 0o777_7777_7777;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// With its size in bytes, and whether it may be executed.
    File {
        /// In bytes.
        size: u64,
        /// Mode 0755 instead of 0644.
        executable: bool,
    },
    /// Mode 0755.
    Directory,
    /// With its target as it is stored.
    Link {
        /// Relative, with `/`.
        target: &'a [u8],
    },
}

/// Appends the header blocks of one entry. `path` is relative, with `/`, without one at its end; `modified` is in Unix seconds.
pub(super) fn append(out: &mut Vec<u8>, path: &[u8], kind: Kind<'_>, modified: u64) {
    let modified = modified.min(LARGEST_OCTAL);
    let (mode, size, flag, target): (u64, u64, u8, &[u8]) = match kind {
        Kind::File { size, executable } => (if executable { 0o755 } else { 0o644 }, size, b'0', &[]),
        Kind::Directory => (0o755, 0, b'5', &[]),
        Kind::Link { target } => (0o777, 0, b'2', target),
    };
    let mut name = path.to_vec();
    if kind == Kind::Directory {
        name.push(b'/');
    }
    let mut records = Vec::new();
    for (key, text) in [("path", &name[..]), ("linkpath", target)] {
        // Without a record the readers guess the encoding of a name that is not ASCII. One that is no text at all stays bytes:
        // GNU tar and Python take them as they are, and know nothing of the record that would say so.
        if text.len() > 100 || (!text.is_ascii() && std::str::from_utf8(text).is_ok()) {
            record(&mut records, key, text);
        }
    }
    if size > LARGEST_OCTAL {
        record(&mut records, "size", size.to_string().as_bytes());
    }
    if !records.is_empty() {
        ustar(out, b"PaxHeaders/entry", 0o644, records.len() as u64, modified, b'x', &[]);
        out.extend_from_slice(&records);
        pad(out, records.len() as u64);
    }
    // Where a record overrides them, the ustar fields hold what fits.
    ustar(
        out,
        &name[..name.len().min(100)],
        mode,
        if size > LARGEST_OCTAL { 0 } else { size },
        modified,
        flag,
        &target[..target.len().min(100)],
    );
}

/// Zeros up to the next whole block after `length` bytes of content.
pub(super) fn padding(length: u64) -> usize {
    (length.next_multiple_of(BLOCK as u64) - length) as usize
}

/// The two empty blocks that end an archive.
pub(super) const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

fn pad(out: &mut Vec<u8>, length: u64) {
    out.resize(out.len() + padding(length), 0);
}

/// `<length> <key>=<value>\n`, where the length counts its own digits too.
fn record(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    out.extend_from_slice(format!("{length} {key}=").as_bytes());
    out.extend_from_slice(value);
    out.push(b'\n');
}

fn ustar(out: &mut Vec<u8>, name: &[u8], mode: u64, size: u64, modified: u64, flag: u8, target: &[u8]) {
    let mut block = [0u8; BLOCK];
    block[..name.len()].copy_from_slice(name);
    octal(&mut block[100..108], mode);
    octal(&mut block[108..116], 0);
    octal(&mut block[116..124], 0);
    octal(&mut block[124..136], size);
    octal(&mut block[136..148], modified);
    block[148..156].fill(b' ');
    block[156] = flag;
    block[157..157 + target.len()].copy_from_slice(target);
    block[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    octal(&mut block[148..155], sum);
    out.extend_from_slice(&block);
}

/// Fills the field with leading zeros and a NUL at its end.
fn octal(field: &mut [u8], mut number: u64) {
    let last = field.len() - 1;
    for digit in field[..last].iter_mut().rev() {
        *digit = b'0' + (number & 7) as u8;
        number >>= 3;
    }
    field[last] = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_its_own_digits() {
        for length in [1, 90, 91, 92, 93, 94, 95, 985, 986, 987, 988, 989, 990, 991] {
            let mut out = Vec::new();
            record(&mut out, "path", &vec![b'a'; length]);
            let space = out.iter().position(|byte| *byte == b' ').unwrap();
            assert_eq!(std::str::from_utf8(&out[..space]).unwrap().parse::<usize>().unwrap(), out.len());
        }
    }

    #[test]
    fn short_plain_names_need_one_block_and_others_get_a_record() {
        let plain = Kind::File { size: 3, executable: false };
        let blocks = |path: &[u8], kind| {
            let mut out = Vec::new();
            append(&mut out, path, kind, 0);
            out.len() / BLOCK
        };
        assert_eq!(blocks(&[b'a'; 100], plain), 1);
        assert_eq!(blocks(&[b'a'; 101], plain), 3);
        assert_eq!(blocks("Überall".as_bytes(), plain), 3);
        assert_eq!(blocks(b"huge", Kind::File { size: LARGEST_OCTAL, executable: false }), 1);
        assert_eq!(blocks(b"huge", Kind::File { size: LARGEST_OCTAL + 1, executable: false }), 3);
        assert_eq!(blocks(b"link", Kind::Link { target: &[b'b'; 101] }), 3);
    }

    /// With GNU's tar.
    #[cfg(unix)]
    #[test]
    fn tar_reads_a_size_that_needs_a_record() {
        use std::io::Write;
        use std::process::{Command, Stdio};
        let mut header = Vec::new();
        append(&mut header, b"huge.pak", Kind::File { size: LARGEST_OCTAL + 2, executable: false }, 0);
        let tar =
            Command::new("tar").args(["--list", "--verbose"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut tar = tar.unwrap();
        tar.stdin.take().unwrap().write_all(&header).unwrap();
        // It misses the content, which is not there, after it told what it read.
        let listed = String::from_utf8(tar.wait_with_output().unwrap().stdout).unwrap();
        assert!(listed.contains(" 8589934593 ") && listed.ends_with(" huge.pak\n"), "{listed}");
    }
}
