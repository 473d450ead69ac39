//! Deflate for speed: one probe per position, greedy, Huffman codes made for each block. zlib-rs at the level that reaches
//! the same size takes 1.8 times as long (90 MB of executables, symbols and text: 0.58 s against 0.31 s of one core), and
//! compressing is what packaging waits for.

use super::huffman::{self, Code};

/// Positions by the hash of the four bytes there: small enough to stay in the first-level cache.
const HASH_BITS: u32 = 13;
/// How far back a match may lie.
const WINDOW: usize = 32 * 1024;
const LONGEST_MATCH: usize = 258;
/// Literals and matches of one block: short enough that its codes fit what is in it.
const BLOCK: usize = 24 * 1024;
/// The symbol that ends a block.
const END_OF_BLOCK: usize = 256;

/// First length and number of extra bits of each length symbol, from symbol 257 on.
const LENGTHS: [(u16, u8); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];

/// The compressor and its memory, used again for every chunk.
pub(super) struct FastDeflate {
    /// The last place with this hash in the present input, modulo 2^16: farther than the window counts as nowhere, and what
    /// a candidate holds is compared anyway.
    places: Box<[u16]>,
    /// `distance << 16 | length` of a match, or a literal's byte.
    tokens: Box<[u32; BLOCK]>,
    count: usize,
    symbols: [u32; 286],
    distances: [u32; 30],
    /// Of each length 3..=258 the index into `LENGTHS`.
    length_symbols: [u8; 259],
}

impl FastDeflate {
    pub(super) fn new() -> Self {
        let mut length_symbols = [0; 259];
        for (symbol, (first, _)) in LENGTHS.iter().enumerate() {
            for entry in &mut length_symbols[usize::from(*first)..] {
                *entry = symbol as u8;
            }
        }
        FastDeflate {
            places: vec![0; 1 << HASH_BITS].into(),
            tokens: Box::new([0; BLOCK]),
            count: 0,
            symbols: [0; 286],
            distances: [0; 30],
            length_symbols,
        }
    }

    /// Appends blocks that hold `input` and end at a whole byte; none is marked as the last.
    pub(super) fn compress(&mut self, input: &[u8], output: &mut Vec<u8>) {
        let mut bits = Bits::new(output);
        self.places.fill(0);
        let mut position = 0;
        while position < input.len() {
            position = self.fill_block(input, position);
            self.write_block(&mut bits);
        }
        // An empty stored block: what follows begins at a byte.
        bits.reserve(16);
        bits.put(0, 3);
        bits.finish().extend_from_slice(&[0, 0, 0xff, 0xff]);
    }

    fn fill_block(&mut self, input: &[u8], mut position: usize) -> usize {
        self.count = 0;
        self.symbols.fill(0);
        self.distances.fill(0);
        // The last eight bytes are literals, so that eight can be read at once.
        let end = input.len().saturating_sub(8);
        while position < end && self.count < BLOCK {
            let here = load(input, position);
            let place = &mut self.places[hash(here)];
            let distance = usize::from((position as u16).wrapping_sub(*place));
            *place = position as u16;
            if distance.wrapping_sub(1) < WINDOW && distance <= position {
                let candidate = position - distance;
                let difference = here ^ load(input, candidate);
                if difference as u32 == 0 {
                    let length = match difference {
                        0 => 8 + same(&input[candidate + 8..], &input[position + 8..], LONGEST_MATCH - 8),
                        _ => difference.trailing_zeros() as usize / 8,
                    };
                    self.put_match(length, distance);
                    // A few places inside of the match are found again later; all of them would cost more than they give.
                    let last = (position + length).min(end);
                    for inside in [position + 1, position + length - 1] {
                        if inside < last {
                            self.places[hash(load(input, inside))] = inside as u16;
                        }
                    }
                    position += length;
                    continue;
                }
            }
            self.put_literal(input[position]);
            position += 1;
        }
        while position >= end && position < input.len() && self.count < BLOCK {
            self.put_literal(input[position]);
            position += 1;
        }
        position
    }

    fn put_literal(&mut self, byte: u8) {
        self.symbols[usize::from(byte)] += 1;
        self.put_token(u32::from(byte));
    }

    fn put_token(&mut self, token: u32) {
        if let Some(place) = self.tokens.get_mut(self.count) {
            *place = token;
            self.count += 1;
        }
    }

    fn put_match(&mut self, length: usize, distance: usize) {
        self.symbols[257 + usize::from(self.length_symbols[length])] += 1;
        self.distances[distance_symbol(distance)] += 1;
        self.put_token((distance as u32) << 16 | length as u32);
    }

    fn write_block(&mut self, bits: &mut Bits<'_>) {
        self.symbols[END_OF_BLOCK] = 1;
        let symbols = huffman::lengths(&self.symbols, 15);
        let distances = huffman::lengths(&self.distances, 15);
        // No token takes more than 48 bits, and the lengths of the codes never 2 KiB.
        bits.reserve(self.count * 6 + 4096);
        bits.put(0b100, 3);
        write_lengths(bits, &symbols, &distances);
        let (symbols, distances) = (huffman::codes(&symbols), huffman::codes(&distances));
        // A length's code with its extra bits is looked up as one.
        let mut length_codes = [Code::default(); 259];
        for (length, length_code) in length_codes.iter_mut().enumerate().take(LONGEST_MATCH + 1).skip(3) {
            let symbol = usize::from(self.length_symbols[length]);
            let code = symbols[257 + symbol];
            let extra = length as u32 - u32::from(LENGTHS[symbol].0);
            *length_code = Code { bits: code.bits | extra << code.length, length: code.length + LENGTHS[symbol].1 };
        }
        for token in &self.tokens[..self.count] {
            let (low, distance) = ((token & 0xffff) as usize, (token >> 16) as usize);
            if distance == 0 {
                let code = symbols[low & 0xff];
                bits.put(code.bits.into(), code.length);
            } else {
                let length = length_codes[low];
                let symbol = distance_symbol(distance);
                let code = distances[symbol];
                let extra_count = (symbol / 2).saturating_sub(1) as u8;
                let extra = (distance as u32 - 1) & ((1 << extra_count) - 1);
                let behind = u64::from(code.bits | extra << code.length) << length.length;
                bits.put(u64::from(length.bits) | behind, length.length + code.length + extra_count);
            }
        }
        let end = symbols[END_OF_BLOCK];
        bits.put(end.bits.into(), end.length);
    }
}

fn load(input: &[u8], at: usize) -> u64 {
    input[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn hash(eight: u64) -> usize {
    ((eight as u32).wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize
}

/// How many bytes are the same at the beginning, at most `limit`.
fn same(one: &[u8], other: &[u8], limit: usize) -> usize {
    let limit = limit.min(other.len()).min(one.len());
    let mut length = 0;
    while length + 8 <= limit {
        let difference = load(one, length) ^ load(other, length);
        if difference != 0 {
            return length + difference.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    while length < limit && one[length] == other[length] {
        length += 1;
    }
    length
}

/// 0..30 for 1..=32768: two symbols for each power of two.
fn distance_symbol(distance: usize) -> usize {
    let distance = distance - 1;
    if distance < 4 {
        return distance;
    }
    let power = distance.ilog2() as usize;
    power * 2 + (distance >> (power - 1) & 1)
}

/// The code lengths of both codes, run-length coded, themselves Huffman coded.
fn write_lengths(bits: &mut Bits<'_>, symbols: &[u8], distances: &[u8]) {
    const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
    let used = |lengths: &[u8], least: usize| lengths.iter().rposition(|length| *length > 0).map_or(least, |last| (last + 1).max(least));
    let (symbol_count, distance_count) = (used(symbols, 257), used(distances, 1));
    let all: Vec<u8> = symbols[..symbol_count].iter().chain(&distances[..distance_count]).copied().collect();
    // Symbol, value of its extra bits, their number.
    let mut runs: Vec<(u8, u32, u8)> = Vec::new();
    let mut at = 0;
    while at < all.len() {
        let length = all[at];
        let run = all[at..].iter().take_while(|other| **other == length).count();
        let taken = match (length, run) {
            (0, 11..) => {
                runs.push((18, run.min(138) as u32 - 11, 7));
                run.min(138)
            }
            (0, 3..) => {
                runs.push((17, run as u32 - 3, 3));
                run
            }
            (1.., 4..) => {
                runs.push((length, 0, 0));
                runs.push((16, (run - 1).min(6) as u32 - 3, 2));
                1 + (run - 1).min(6)
            }
            _ => {
                runs.push((length, 0, 0));
                1
            }
        };
        at += taken;
    }
    let mut counts = [0; 19];
    for (symbol, _, _) in &runs {
        counts[usize::from(*symbol)] += 1;
    }
    let lengths = huffman::lengths(&counts, 7);
    let codes = huffman::codes(&lengths);
    let code_count = ORDER.iter().rposition(|symbol| lengths[*symbol] > 0).map_or(4, |last| (last + 1).max(4));
    bits.put(symbol_count as u64 - 257, 5);
    bits.put(distance_count as u64 - 1, 5);
    bits.put(code_count as u64 - 4, 4);
    for symbol in &ORDER[..code_count] {
        bits.put(lengths[*symbol].into(), 3);
    }
    for (symbol, extra, extra_count) in runs {
        let code = codes[usize::from(symbol)];
        bits.put(u64::from(code.bits | extra << code.length), code.length + extra_count);
    }
}

/// Bits on their way into bytes, the first one lowest.
struct Bits<'a> {
    output: &'a mut Vec<u8>,
    /// Bytes of `output` that are written; what is behind them is room.
    length: usize,
    held: u64,
    count: u32,
}

impl<'a> Bits<'a> {
    fn new(output: &'a mut Vec<u8>) -> Self {
        let length = output.len();
        Bits { output, length, held: 0, count: 0 }
    }

    /// Makes room for so many bytes more.
    fn reserve(&mut self, bytes: usize) {
        if self.output.len() < self.length + bytes {
            self.output.resize(self.length + bytes, 0);
        }
    }

    /// At most 48 at once, into room that was reserved. Writes always, so that there is no branch to guess wrong.
    #[inline]
    fn put(&mut self, bits: u64, count: u8) {
        self.held |= bits << self.count;
        self.count += u32::from(count);
        if let Some(place) = self.output.get_mut(self.length..self.length + 8) {
            place.copy_from_slice(&self.held.to_le_bytes());
        }
        self.length += (self.count / 8) as usize;
        self.held >>= self.count & !7;
        self.count &= 7;
    }

    /// Fills the last byte up and gives back the room.
    fn finish(self) -> &'a mut Vec<u8> {
        let bytes = self.count.div_ceil(8) as usize;
        self.output.truncate(self.length);
        self.output.extend_from_slice(&self.held.to_le_bytes()[..bytes]);
        self.output
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    fn there_and_back(input: &[u8]) -> usize {
        let mut output = vec![1, 2, 3];
        let mut deflate = FastDeflate::new();
        // Twice, since the memory is used again.
        deflate.compress(input, &mut Vec::new());
        deflate.compress(input, &mut output);
        assert_eq!(output[..3], [1, 2, 3]);
        output.extend_from_slice(&crate::artifacts::deflate::END);
        let mut back = Vec::new();
        flate2::read::DeflateDecoder::new(&output[3..]).read_to_end(&mut back).unwrap();
        assert!(back == input);
        output.len()
    }

    #[test]
    fn every_length_and_distance_reads_back() {
        let mut state = 1u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let mut input: Vec<u8> = (0..33_000).map(|_| noise()).collect();
        for distance in [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 1024, 1025, 16_384, 24_577, 32_767, 32_768, 32_769] {
            for length in [3, 4, 7, 8, 9, 10, 11, 18, 19, 66, 67, 257, 258, 259, 600] {
                for _ in 0..length {
                    input.push(input[input.len() - distance]);
                }
                input.extend([noise(), noise(), noise()]);
            }
        }
        there_and_back(&input);
    }

    #[test]
    fn one_symbol_and_counts_like_fibonacci_get_codes_that_readers_take() {
        for length in [0, 1, 2, 8, 9, 10, 300, 70_000] {
            there_and_back(&vec![b'a'; length]);
        }
        // The worst for a limit of 15 bits: every count is the sum of the two before.
        let (mut one, mut two, mut input) = (1usize, 1usize, Vec::new());
        for byte in 0..20u8 {
            input.extend(std::iter::repeat_n([byte, byte ^ 0x55, byte.wrapping_mul(37)], one).flatten());
            (one, two) = (two, one + two);
        }
        there_and_back(&input);
    }

    proptest! {
        #[test]
        fn anything_reads_back(parts in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..40), 1usize..400), 0..40)) {
            let input: Vec<u8> = parts.iter().flat_map(|(bytes, times)| bytes.repeat(*times)).collect();
            there_and_back(&input);
        }
    }
}
