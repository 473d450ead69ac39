//! Prefix codes as deflate wants them: limited in length, canonical, bits reversed.

/// One symbol's code.
#[derive(Clone, Copy, Default)]
pub(super) struct Code {
    /// The first bit lowest.
    pub bits: u32,
    /// 0: the symbol does not occur.
    pub length: u8,
}

/// The code length of every symbol that occurs, none above `limit`. A code that has to exist but would be empty, or hold one
/// symbol, gets a second one: some readers refuse incomplete codes.
pub(super) fn lengths<const N: usize>(counts: &[u32; N], limit: u8) -> [u8; N] {
    let mut lengths = [0; N];
    let mut used: Vec<(u32, u16)> =
        counts.iter().zip(0..).filter(|(count, _)| **count > 0).map(|(count, symbol)| (*count, symbol)).collect();
    if used.len() < 2 {
        let only = used.first().map_or(0, |(_, symbol)| usize::from(*symbol));
        lengths[only] = 1;
        lengths[if only == 0 { 1 } else { 0 }] = 1;
        return lengths;
    }
    used.sort_unstable();
    let mut depths = depths(&used.iter().map(|(count, _)| *count).collect::<Vec<u32>>());
    shorten(&mut depths, limit);
    for ((_, symbol), depth) in used.iter().zip(depths) {
        lengths[usize::from(*symbol)] = depth;
    }
    lengths
}

/// The depths in a Huffman tree of counts sorted upward: two queues, leaves and joined nodes, both in order.
fn depths(counts: &[u32]) -> Vec<u8> {
    let leaves = counts.len();
    let mut weights: Vec<u64> = counts.iter().map(|count| u64::from(*count)).collect();
    let mut parents = vec![0usize; 2 * leaves - 1];
    let (mut leaf, mut joined) = (0, leaves);
    for node in leaves..2 * leaves - 1 {
        let mut weight = 0;
        for _ in 0..2 {
            let is_leaf = leaf < leaves && (joined >= node || weights[leaf] <= weights[joined]);
            let next = if is_leaf { &mut leaf } else { &mut joined };
            weight += weights[*next];
            parents[*next] = node;
            *next += 1;
        }
        weights.push(weight);
    }
    let mut depths = vec![0u8; 2 * leaves - 1];
    for node in (0..2 * leaves - 2).rev() {
        depths[node] = depths[parents[node]].saturating_add(1);
    }
    depths.truncate(leaves);
    depths
}

/// Brings depths, longest first, below the limit, keeping the code complete: what is cut off above is paid for by the
/// rarest symbols that still have room.
fn shorten(depths: &mut [u8], limit: u8) {
    let whole = 1u64 << limit;
    let mut taken: u64 = 0;
    for depth in depths.iter_mut() {
        *depth = (*depth).min(limit);
        taken += whole >> *depth;
    }
    while taken > whole {
        // The first that has room is the rarest one.
        let Some(depth) = depths.iter_mut().find(|depth| **depth < limit) else { return };
        *depth += 1;
        taken -= whole >> *depth;
    }
    // What was freed too much goes to the most frequent.
    for depth in depths.iter_mut().rev() {
        while *depth > 1 && taken + (whole >> *depth) <= whole {
            taken += whole >> *depth;
            *depth -= 1;
        }
    }
}

/// Canonical codes for these lengths.
pub(super) fn codes<const N: usize>(lengths: &[u8; N]) -> [Code; N] {
    let mut next = [0u32; 17];
    for length in lengths {
        next[usize::from(*length) + 1] += u32::from(*length > 0);
    }
    let mut first = 0;
    for entry in &mut next[1..] {
        first = (first + *entry) << 1;
        *entry = first;
    }
    let mut codes = [Code::default(); N];
    for (code, length) in codes.iter_mut().zip(lengths) {
        if *length > 0 {
            let place = &mut next[usize::from(*length)];
            *code = Code { bits: place.reverse_bits() >> (32 - u32::from(*length)), length: *length };
            *place += 1;
        }
    }
    codes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2^15 for a complete code.
    fn kraft(lengths: &[u8]) -> u32 {
        lengths.iter().filter(|length| **length > 0).map(|length| 1 << (15 - length)).sum()
    }

    #[test]
    fn frequent_symbols_get_short_codes_and_codes_are_canonical() {
        let lengths = lengths(&[0, 50, 10, 20, 5, 0], 15);
        assert_eq!(lengths, [0, 1, 3, 2, 3, 0]);
        let codes = codes(&lengths);
        assert_eq!(codes.map(|code| code.bits), [0, 0b0, 0b011, 0b01, 0b111, 0]);
    }

    proptest! {
        #[test]
        fn every_code_is_complete_and_within_its_limit(counts in prop::collection::vec(prop_oneof![Just(0u32), 1u32..10, 1u32..1_000_000], 30)) {
            let counts: [u32; 30] = counts.try_into().unwrap();
            for limit in [7, 15] {
                let lengths = lengths(&counts, limit);
                prop_assert!(lengths.iter().all(|length| *length <= limit));
                prop_assert!(counts.iter().zip(lengths).all(|(count, length)| *count == 0 || length > 0));
                prop_assert_eq!(kraft(&lengths), 1 << 15);
            }
        }
    }
}
