//! One chunk of the tar stream as whole bytes of deflate blocks, so that chunks made in parallel join into one stream.

use super::fast_deflate::FastDeflate;

/// What one task compresses. Large enough that the lost window at its start does not show in the size, small enough that a
/// few per core fit into memory.
pub(super) const CHUNK: usize = 512 * 1024;
/// The unit in which chunks are looked at before time is spent on them.
const PIECE: usize = 64 * 1024;
/// The longest stored block that deflate knows.
const LONGEST_STORED: usize = 65_535;
/// An empty stored block with the mark of the last one.
pub(super) const END: [u8; 5] = [1, 0, 0, 0xff, 0xff];

static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// Compresses chunks, each by itself: the same chunk always gives the same bytes.
pub(super) struct Deflater {
    compress: FastDeflate,
    zeros: Option<(Vec<u8>, u32)>,
}

impl Deflater {
    pub(super) fn new() -> Self {
        Deflater { compress: FastDeflate::new(), zeros: None }
    }

    /// Appends the chunk's blocks to `output` and returns the CRC-32 of `input`.
    pub(super) fn chunk(&mut self, input: &[u8], output: &mut Vec<u8>) -> u32 {
        // Holes in sparse files, and padding: compressed once.
        if input == &ZEROS[..] {
            if self.zeros.is_none() {
                let mut compressed = Vec::new();
                self.squeeze(input, &mut compressed);
                self.zeros = Some((compressed, crc32fast::hash(input)));
            }
            if let Some((compressed, crc)) = &self.zeros {
                output.extend_from_slice(compressed);
                return *crc;
            }
        }
        // Neighbours of one sort are handled together.
        let mut rest = input;
        while !rest.is_empty() {
            let random = looks_random(&rest[..rest.len().min(PIECE)]);
            let mut end = rest.len().min(PIECE);
            while end < rest.len() && looks_random(&rest[end..rest.len().min(end + PIECE)]) == random {
                end = rest.len().min(end + PIECE);
            }
            let (run, after) = rest.split_at(end);
            if random {
                store(run, output);
            } else {
                self.squeeze(run, output);
            }
            rest = after;
        }
        crc32fast::hash(input)
    }

    fn squeeze(&mut self, input: &[u8], output: &mut Vec<u8>) {
        let start = output.len();
        self.compress.compress(input, output);
        if output.len() - start > stored_length(input.len()) {
            output.truncate(start);
            store(input, output);
        }
    }
}

fn stored_length(length: usize) -> usize {
    length + length.div_ceil(LONGEST_STORED) * 5
}

fn store(input: &[u8], output: &mut Vec<u8>) {
    output.reserve(stored_length(input.len()));
    for block in input.chunks(LONGEST_STORED) {
        let length = (block.len() as u16).to_le_bytes();
        output.extend_from_slice(&[0, length[0], length[1], !length[0], !length[1]]);
        output.extend_from_slice(block);
    }
}

/// Whether the bytes are spread as evenly as those of encrypted or compressed data, by a sample of a sixteenth. Repetitions
/// of random data are not seen, and then stored: larger than need be, never wrong.
fn looks_random(piece: &[u8]) -> bool {
    const WINDOW: usize = 256;
    const SAMPLE: usize = 4096;
    if piece.len() < 2 * SAMPLE {
        return false;
    }
    let mut counts = [0u32; 256];
    let stride = piece.len() / (SAMPLE / WINDOW);
    for window in piece.chunks(stride).take(SAMPLE / WINDOW) {
        for byte in &window[..WINDOW.min(window.len())] {
            counts[usize::from(*byte)] += 1;
        }
    }
    // The sum of squares is 69,600 +- 360 for evenly spread bytes, and grows with every byte that is more frequent.
    counts.iter().map(|count| count * count).sum::<u32>() < 72_500
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn random(length: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    fn there_and_back(input: &[u8]) -> usize {
        let mut deflater = Deflater::new();
        let mut output = Vec::new();
        // A second chunk must not lean on the first.
        let mut crc = 0;
        for _ in 0..2 {
            crc = deflater.chunk(input, &mut output);
        }
        let length = output.len() / 2;
        output.extend_from_slice(&END);
        let mut back = Vec::new();
        flate2::read::DeflateDecoder::new(&output[..]).read_to_end(&mut back).unwrap();
        assert_eq!(back.len(), 2 * input.len());
        assert!(back.chunks(input.len().max(1)).all(|half| half == input));
        assert_eq!(crc, crc32fast::hash(input));
        length
    }

    #[test]
    fn every_sort_of_chunk_reads_back() {
        let noise = random(CHUNK);
        assert!(there_and_back(&noise) <= stored_length(CHUNK));
        assert!(there_and_back(&[0; CHUNK]) < 4096);
        assert!(there_and_back(&b"LogInit: Display: text ".repeat(9_000)) < 8192);
        let mut mixed = noise;
        mixed[100_000..300_000].fill(7);
        assert!(there_and_back(&mixed) < CHUNK - 100_000);
        for length in [1, 2, 511, 4096, 8191, 65_535, 65_536, 65_537] {
            there_and_back(&mixed[..length]);
        }
    }

    #[test]
    fn only_evenly_spread_bytes_are_stored_unseen() {
        assert!(looks_random(&random(PIECE)));
        // Seven bits of chance in eight are worth compressing.
        assert!(!looks_random(&random(PIECE).iter().map(|byte| byte & 0x7f).collect::<Vec<u8>>()));
        assert!(!looks_random(&b"text".repeat(PIECE / 4)));
        assert!(!looks_random(&random(1000)));
    }
}
