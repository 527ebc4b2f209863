//! The one line that a look-up waits for, found first and looked at later, so that who looks chooses with what.

use super::lens::Lens;
use super::{Blocked, for_pattern};
use crate::bits::{Line, Words};
use crate::hash::KeyHash;
use crate::math::blocked::Pattern;

impl Blocked {
    /// Where this key's bits are; `None` if the line lay outside.
    #[inline(always)]
    pub(in crate::filter) fn spot(self, words: &Words, hash: KeyHash) -> Option<Spot<'_>> {
        Some(Spot {
            line: words.get(self.line(hash))?,
            pattern: self.pattern,
            hash,
        })
    }
}

/// The one line of a filter that tells whether it may contain a key.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'a> {
    line: &'a Line,
    pattern: Pattern,
    hash: KeyHash,
}

impl Spot<'_> {
    /// Whether the filter may contain the key.
    #[inline(always)]
    pub(crate) fn is_taken(self, lens: impl Lens) -> bool {
        for_pattern!(self.pattern, contains_by(lens, self.line, self.hash))
    }
}

#[inline(always)]
fn contains_by<const GROUPS: usize, const EACH: u32>(
    lens: impl Lens,
    line: &Line,
    hash: KeyHash,
) -> bool {
    lens.contains::<GROUPS, EACH>(line, hash)
}

#[cfg(test)]
mod tests {
    use super::super::lens::{ByWords, Lens};
    use super::*;
    use crate::filter::naive::hashes;

    fn a_spot_says_what_the_filter_says_through(lens: impl Lens) {
        for pattern in Pattern::ALL {
            let filter = Blocked { lines: 20, pattern };
            let words = Words::zeroed(20 * 8).unwrap();
            hashes(1)
                .take(600)
                .for_each(|hash| _ = filter.insert(&words, hash));
            let mut taken = 0;
            for hash in hashes(1).take(600).chain(hashes(2).take(2_000)) {
                let said = filter.spot(&words, hash).unwrap().is_taken(lens);
                assert_eq!(
                    said,
                    filter.may_contain(&words, hash),
                    "{pattern:?}: {hash:?}"
                );
                taken += usize::from(said);
            }
            assert!((600..2_600).contains(&taken), "{pattern:?}: {taken}");
        }
    }

    #[test]
    fn a_spot_says_what_the_filter_says() {
        a_spot_says_what_the_filter_says_through(ByWords);
        #[cfg(all(target_arch = "x86_64", not(interleave)))]
        if let Some(avx2) = super::super::lens::ByAvx2::where_it_runs() {
            a_spot_says_what_the_filter_says_through(avx2);
        }
    }
}
