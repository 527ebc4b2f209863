//! The kinds of filter that can be recommended: their parts, the sizes of these, and the cache
//! lines that a lookup touches.
//!
//! A filter of counters is a partitioned filter with counters instead of bits, so the number of
//! places comes from the same formulas and only the width differs. A filter that consists of
//! several filters is sized as that filter sizes its parts.

use crate::math::{
    Bits, Items, MAX_PROBES, Probes, Rate, blocked, classic, fill, hash_coding, partitioned,
    ribbon, smallest_fitting, standard, window,
};
use serde::Serialize;

/// A kind of filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// All bits of a key are in one cache line.
    Blocked,
    /// k probes anywhere in the filter.
    Standard,
    /// k slices with one probe in each.
    Partitioned,
    /// k distinct bits anywhere in the filter.
    Classic,
    /// Static: built from all keys at once; takes no further keys.
    Ribbon,
    /// k slices of 4-bit counters; keys can be removed.
    Counting,
    /// k slices of 16-bit counters; estimates the frequency of a key.
    Spectral,
    /// Two spectral filters, the second for half of the keys (recurring minimum).
    Recurring,
    /// A half-empty table of truncated hash codes.
    HashCoding,
    /// Four blocked generations over a sliding window; the keys are those of the window.
    Sliding,
    /// Two standard filters; the second holds removed keys, a tenth of all.
    Composite,
}

/// A filter of fixed size, alone or as a part of another filter.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) bits: Bits,
    pub(super) probes: Probes,
    /// Mean number of cache lines that a miss touches when the part is full.
    pub(super) lines: f64,
}

pub(super) const LINE_BITS: u64 = blocked::LINE_BITS;

const GENERATIONS: u32 = 4;
const ITEMS_A_REMOVAL: u64 = 10;
/// Share of empty cells in a table of codes. It keeps lookups short.
const EMPTY: f64 = 0.5;

impl Design {
    /// All kinds: sets, filters of counters, and filters that consist of several.
    pub const ALL: [Self; 11] = [
        Self::Blocked,
        Self::Standard,
        Self::Partitioned,
        Self::Classic,
        Self::Ribbon,
        Self::HashCoding,
        Self::Counting,
        Self::Spectral,
        Self::Recurring,
        Self::Sliding,
        Self::Composite,
    ];

    /// Whether it can be a stage of a scalable filter.
    pub fn grows(self) -> bool {
        use Design::{Blocked, Classic, Counting, Partitioned, Spectral, Standard};
        matches!(
            self,
            Blocked | Standard | Partitioned | Classic | Counting | Spectral
        )
    }

    /// The advantages and disadvantages of the kind.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Blocked => {
                "one cache line per stage for hits and misses, at the cost of more bits"
            }
            Self::Standard => "the fewest bits; a miss stops at the first clear bit",
            Self::Partitioned => "each key sets k distinct bits; takes as many bits as standard",
            Self::Classic => "like standard, a little better below some hundred bits",
            Self::Ribbon => {
                "about seven tenths of the bits of standard; static: built from all keys at \
                 once, takes no further keys"
            }
            Self::Counting => "inserted keys can be removed, for four times the bits",
            Self::Spectral => "estimates how often a key was inserted, up to 65,535 times",
            Self::Recurring => "more exact than spectral, but can also estimate too low",
            Self::HashCoding => {
                "hash coding of Bloom's paper, 1970, for comparison; refuses keys when full"
            }
            Self::Sliding => {
                "forgets keys that left the window: four generations, three of them full"
            }
            Self::Composite => {
                "removes a tenth of the keys permanently, and denies other keys at the same \
                 rate: its answer must not replace a lookup"
            }
        }
    }

    /// Bits of one place: a bit or a counter.
    const fn width(self) -> u64 {
        match self {
            Self::Counting => 4,
            Self::Spectral | Self::Recurring => 16,
            _ => 1,
        }
    }

    /// The parts of the smallest filter for these items and this rate, with `probes` probes if
    /// given. `None` if no such filter exists.
    pub(super) fn parts(
        self,
        items: Items,
        rate: Rate,
        probes: Option<Probes>,
    ) -> Option<Vec<Part>> {
        let part = |items, rate| self.part(items, rate, probes);
        let share = |of: u64| Items::new(items.get().div_ceil(of));
        match self {
            Self::Recurring => Some(vec![part(items, rate)?, part(share(2), rate)?]),
            Self::Composite => Some(vec![
                part(items, rate)?,
                part(share(ITEMS_A_REMOVAL), rate)?,
            ]),
            Self::Sliding => {
                let held = share(u64::from(GENERATIONS) - 1);
                let one = part(held, window::share(rate, GENERATIONS))?;
                Some(vec![one; GENERATIONS as usize])
            }
            _ => Some(vec![part(items, rate)?]),
        }
    }

    /// How many of the parts every miss probes.
    pub(super) fn probed(self) -> usize {
        match self {
            Self::Recurring | Self::Composite => 1,
            _ => usize::MAX,
        }
    }

    fn part(self, items: Items, rate: Rate, probes: Option<Probes>) -> Option<Part> {
        let (bits, probes) = match (self, probes) {
            (Self::HashCoding, None | Some(ONE)) => return table(items, rate),
            (Self::Ribbon, probes) => {
                return slots(items, rate)
                    .filter(|part| probes.is_none_or(|probes| probes == part.probes));
            }
            (_, Some(probes)) => (self.bits_with(items, rate, probes)?, probes),
            (_, None) => self.smallest(items, rate)?,
        };
        let lines = self.lines(bits, probes, items);
        Some(Part {
            bits,
            probes,
            lines,
        })
    }

    fn smallest(self, items: Items, rate: Rate) -> Option<(Bits, Probes)> {
        match self {
            Self::Standard | Self::Composite => Some(standard::size(items, rate)),
            Self::Classic => Some(classic::size(items, rate)),
            Self::Blocked | Self::Sliding => {
                let (pattern, lines) = blocked::size(items, rate)?;
                let bits = Bits::new(lines.checked_mul(LINE_BITS)?);
                Some((bits, pattern.probes()))
            }
            Self::Partitioned | Self::Counting | Self::Spectral | Self::Recurring => {
                let (slice, slices) = partitioned::size(items, rate);
                let bits = slice.get().checked_mul(self.unit(slices)?)?;
                Some((Bits::new(bits), slices))
            }
            Self::HashCoding | Self::Ribbon => None,
        }
    }

    /// The fewest bits with `probes` probes, by bisection: the rate falls as the bits grow.
    fn bits_with(self, items: Items, wanted: Rate, probes: Probes) -> Option<Bits> {
        const MOST_PLACES_A_KEY: u64 = 4_096;
        let unit = self.unit(probes)?;
        let fits = |units: u64| {
            let bits = Bits::new(units.saturating_mul(unit));
            self.rate(bits, probes, items) <= wanted.get()
        };
        let most = items.get().checked_mul(MOST_PLACES_A_KEY * self.width())?;
        let units = smallest_fitting(1..=most.div_ceil(unit) + 1, fits)?;
        units.checked_mul(unit).map(Bits::new)
    }

    /// The number that the bits must be a multiple of; `None` if the kind cannot have `probes`
    /// probes.
    fn unit(self, probes: Probes) -> Option<u64> {
        if !(1..=MAX_PROBES).contains(&probes.get()) {
            return None;
        }
        match self {
            Self::Standard | Self::Classic | Self::Composite => Some(1),
            Self::Blocked | Self::Sliding => pattern(probes).map(|_| LINE_BITS),
            Self::Partitioned | Self::Counting | Self::Spectral | Self::Recurring => {
                Some(u64::from(probes.get()) * self.width())
            }
            Self::HashCoding | Self::Ribbon => None,
        }
    }

    /// The false-positive rate of one part.
    fn rate(self, bits: Bits, probes: Probes, items: Items) -> f64 {
        match self {
            Self::Standard | Self::Composite => standard::rate_corrected(bits, probes, items),
            Self::Classic => classic::rate(bits, probes, items),
            Self::Blocked | Self::Sliding => {
                let lines = bits.get() / LINE_BITS;
                pattern(probes).map_or(1.0, |pattern| blocked::rate(pattern, lines, items))
            }
            _ => partitioned::rate(self.slice(bits, probes), probes, items),
        }
    }

    /// The places of one slice.
    fn slice(self, bits: Bits, slices: Probes) -> Bits {
        Bits::new(bits.get() / (u64::from(slices.get().max(1)) * self.width()))
    }

    /// Mean number of cache lines that are read until a clear place is found. At a fill of f these
    /// are (1 − f^k)/(1 − f) probes; in a filter of few lines, several fall on the same line.
    fn lines(self, bits: Bits, probes: Probes, items: Items) -> f64 {
        let clear = match self {
            Self::Blocked | Self::Sliding => return 1.0,
            Self::Standard | Self::Composite => standard::clear_chance(bits, probes),
            Self::Classic => classic::clear_chance(bits, probes),
            _ => partitioned::clear_chance(self.slice(bits, probes)),
        };
        let fill = fill::expected(clear, items);
        let probed = if fill < 1.0 {
            (1.0 - fill::matching(fill, probes)) / (1.0 - fill)
        } else {
            f64::from(probes.get())
        };
        let lines = bits.get().div_ceil(LINE_BITS) as f64;
        lines * (1.0 - (1.0 - 1.0 / lines).powf(probed))
    }
}

const ONE: Probes = Probes::new(1);

/// A table of codes: as many cells per word as fit, and no cell across two words. It has at least
/// two cells, one to fill and one to stay empty.
fn table(items: Items, rate: Rate) -> Option<Part> {
    let code_bits = hash_coding::code_bits(EMPTY, rate).max(1);
    let cells_a_word = u64::from(u64::BITS).checked_div(u64::from(code_bits) + 1)?;
    let cells = items.get().max(1).checked_mul(2)?;
    let words = cells.checked_add(cells_a_word.checked_sub(1)?)? / cells_a_word;
    Some(Part {
        bits: Bits::new(words.checked_mul(u64::from(u64::BITS))?),
        probes: ONE,
        lines: hash_coding::steps(EMPTY, code_bits),
    })
}

/// A static stage. A probe reads two consecutive blocks of its first columns.
fn slots(items: Items, rate: Rate) -> Option<Part> {
    Some(Part {
        bits: lsm_sieve_filter::filter::Stage::ribbon_size(items, rate)?,
        probes: Probes::new(ribbon::slot_parts(rate)? / ribbon::PARTS),
        lines: 2.0,
    })
}

/// The pattern with `probes` probes and the fewest groups.
fn pattern(probes: Probes) -> Option<blocked::Pattern> {
    [2, 4]
        .into_iter()
        .find_map(|groups| blocked::Pattern::find(groups, probes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{
        Composite, CounterWidth, Counting, HashCoding, Kind, RecurringMinimum, Sliding,
        SlidingOptions, Spectral, Stage, Turn,
    };
    use lsm_sieve_filter::filter::naive;

    /// The size of the filter that this crate makes.
    fn real(design: Design, items: Items, rate: Rate) -> Bits {
        let stage = |kind| Stage::with_rate(kind, items, rate).unwrap().size();
        let wide = CounterWidth::Sixteen;
        match design {
            Design::Blocked => stage(Kind::Blocked),
            Design::Standard => stage(Kind::Standard),
            Design::Partitioned => stage(Kind::Partitioned),
            Design::Classic => stage(Kind::Classic),
            Design::Ribbon => {
                let hashes = naive::hashes(1).take(items.get() as usize);
                let stage = lsm_sieve_filter::filter::Stage::ribbon(hashes.collect(), rate);
                stage.unwrap().size()
            }
            Design::Counting => Counting::with_rate(items, rate).unwrap().size(),
            Design::Spectral => Spectral::with_rate(items, rate, wide).unwrap().size(),
            Design::Recurring => {
                let filter = RecurringMinimum::with_rate(items, rate, wide);
                filter.unwrap().size()
            }
            Design::HashCoding => HashCoding::with_rate(items, rate).unwrap().size(),
            Design::Sliding => {
                let options = SlidingOptions {
                    kind: Kind::Blocked,
                    rate,
                    items: Items::new(items.get().div_ceil(3)),
                    generations: 4,
                    turn: Turn::Count,
                };
                let window = Sliding::new(options).unwrap();
                window.generations().map(|stage| stage.size()).sum()
            }
            Design::Composite => {
                let removals = (Items::new(items.get().div_ceil(10)), rate);
                let set = Composite::with_rates(Kind::Standard, (items, rate), removals);
                set.unwrap().size()
            }
        }
    }

    #[test]
    fn sizes_are_those_of_the_filters() {
        for design in Design::ALL {
            for (items, rate) in [(20_000, 0.1), (50_000, 0.01), (50_000, 1e-5)] {
                let (items, rate) = (Items::new(items), Rate::new(rate).unwrap());
                let parts = design.parts(items, rate, None).unwrap();
                let bits: u64 = parts.iter().map(|part| part.bits.get()).sum();
                let real = real(design, items, rate).get() as f64;
                // Slices are rounded up to whole words.
                let ratio = real / bits as f64;
                assert!((1.0..1.01).contains(&ratio), "{design:?}: {ratio}");
            }
        }
    }

    #[test]
    fn a_table_for_few_keys_is_the_smallest_there_is() {
        for items in [0, 1, 2].map(Items::new) {
            let parts = Design::HashCoding.parts(items, Rate::ONE_PERCENT, None);
            let real = real(Design::HashCoding, items, Rate::ONE_PERCENT);
            assert_eq!(parts.unwrap()[0].bits, real, "{items:?}");
        }
    }

    #[test]
    fn a_table_has_one_probe_and_no_other_number() {
        let (items, rate) = (Items::new(1_000), Rate::ONE_PERCENT);
        let with = |probes| Design::HashCoding.parts(items, rate, Some(Probes::new(probes)));
        assert!(with(1).is_some() && with(2).is_none());
        let strict = Rate::new(1e-30).unwrap();
        assert!(Design::HashCoding.parts(items, strict, None).is_none());
    }
}
