//! Scans over bitmaps of atomic words. All loads are Relaxed: who may change a bitmap at the same time is
//! decided by the access rules of the callers, never by these orderings.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// First clear bit at or after `from`, below `limit`. At most `limit / 64 + 1` words are read.
#[must_use]
pub fn next_clear(words: &[AtomicU64], from: usize, limit: usize) -> Option<usize> {
    next(words, from, limit, |w| !w)
}

/// First set bit at or after `from`, below `limit`. At most `limit / 64 + 1` words are read.
#[must_use]
pub fn next_set(words: &[AtomicU64], from: usize, limit: usize) -> Option<usize> {
    next(words, from, limit, |w| w)
}

#[inline]
fn next(words: &[AtomicU64], from: usize, limit: usize, f: impl Fn(u64) -> u64) -> Option<usize> {
    if from >= limit {
        return None;
    }
    let mut i = from / 64;
    // Relaxed: see the module's documentation.
    let mut w = f(words[i].load(Relaxed)) & (!0 << (from % 64));
    loop {
        if w != 0 {
            let bit = i * 64 + w.trailing_zeros() as usize;
            return (bit < limit).then_some(bit);
        }
        i += 1;
        if i * 64 >= limit {
            return None;
        }
        // Relaxed: see the module's documentation.
        w = f(words[i].load(Relaxed));
    }
}

/// Calls `f(word index, mask)` for each word that the bits `start..end` touch.
#[inline]
pub fn for_each_mask(start: usize, end: usize, mut f: impl FnMut(usize, u64)) {
    let mut i = start;
    while i < end {
        let word = i / 64;
        let lo = i % 64;
        let hi = (end - word * 64).min(64);
        let mask = (if hi == 64 { !0 } else { (1u64 << hi) - 1 }) & (!0 << lo);
        f(word, mask);
        i = (word + 1) * 64;
    }
}

/// The lowest run of set bits of `word`, which is not 0: its first bit, its length, and the bits without it.
#[inline]
#[must_use]
pub fn first_run(word: u64) -> (u32, u32, u64) {
    debug_assert!(word != 0);
    let first = word.trailing_zeros();
    // The carry goes through the run and into the clear bit behind it, or out of the word.
    (first, (word >> first).trailing_ones(), word & word.wrapping_add(1 << first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quickcheck::quickcheck;

    fn words(bits: &[bool]) -> Vec<AtomicU64> {
        let mut v = vec![0u64; bits.len() / 64 + 1];
        for (i, &b) in bits.iter().enumerate() {
            v[i / 64] |= u64::from(b) << (i % 64);
        }
        v.into_iter().map(AtomicU64::new).collect()
    }

    #[test]
    fn a_full_word_is_one_run() {
        assert_eq!(first_run(!0), (0, 64, 0));
        assert_eq!(first_run(1 << 63), (63, 1, 0));
        assert_eq!(first_run(0b1101_1000), (3, 2, 0b1100_0000));
    }

    quickcheck! {
        fn scans_agree_with_a_linear_search(bits: Vec<bool>, from: usize) -> bool {
            let from = if bits.is_empty() { 0 } else { from % (bits.len() + 1) };
            let w = words(&bits);
            let naive = |v: bool| (from..bits.len()).find(|&i| bits[i] == v);
            next_set(&w, from, bits.len()) == naive(true) && next_clear(&w, from, bits.len()) == naive(false)
        }

        fn runs_of_a_word_are_its_set_bits(word: u64) -> bool {
            let (mut left, mut seen, mut end) = (word, 0u64, 0);
            while left != 0 {
                let (first, n, rest) = first_run(left);
                assert!(n > 0 && (seen == 0 || first > end), "runs are maximal");
                end = first + n;
                (first..end).for_each(|i| seen |= 1 << i);
                left = rest;
            }
            seen == word
        }

        fn masks_cover_exactly_the_range(a: u16, b: u16) -> bool {
            let (s, e) = (usize::from(a.min(b)) % 4096, usize::from(a.max(b)) % 4097);
            let mut seen = vec![false; 4160];
            for_each_mask(s, e, |w, m| for i in 0..64 { if m >> i & 1 == 1 { assert!(!seen[w * 64 + i]); seen[w * 64 + i] = true; } });
            seen.iter().enumerate().all(|(i, &x)| x == (i >= s && i < e))
        }
    }
}
