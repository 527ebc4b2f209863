//! The settings of a case: the options of the engine, as texts, and those of `SieveDb`.

use std::num::NonZeroU64;

use lsm_sieve::{FilterSize, HashId, Isolation, Items, SieveOptions};
use lsm_sieve_cli::workload::random::Random;
use rocksdb::{Options, TransactionDBOptions};
use serde::{Deserialize, Serialize};

use super::keys::KeySettings;
use super::model::FAMILIES;
use super::option_strings::{self, OptionStrings};

/// Everything that is fixed before the first step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    pub keys: KeySettings,
    #[serde(rename = "front")]
    pub filters: FilterSettings,
    pub database: OptionStrings,
    pub families: [OptionStrings; FAMILIES.len()],
    #[serde(default)]
    transactions: bool,
    /// Transactions that lock their keys, instead of optimistic ones.
    #[serde(default)]
    locks: bool,
}

/// The precision of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    Rate(f64),
    BitsPerKey(f64),
}

impl Precision {
    fn size(self) -> Result<FilterSize, String> {
        let size = match self {
            Self::Rate(rate) => FilterSize::rate(rate),
            Self::BitsPerKey(bits) => FilterSize::bits_per_key(bits),
        };
        size.map_err(|error| error.to_string())
    }
}

/// The options of `SieveDb`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FilterSettings {
    pub summary: Precision,
    /// `None` leaves RocksDB its own filters.
    pub segments: Option<Precision>,
    pub expected_keys: u64,
    pub budget_bits: Option<u64>,
    /// SipHash-1-3 instead of XXH3.
    pub keyed: bool,
    #[serde(default)]
    pub speed_over_memory: bool,
    #[serde(default)]
    hashes_in_memory: Option<NonZeroU64>,
    /// The index of a family without filters; never the first.
    #[serde(default)]
    #[serde(rename = "left_out")]
    pub excluded_cf: Option<usize>,
    #[serde(default)]
    #[serde(rename = "spares_hits")]
    pub adaptive_hits: bool,
}

impl Settings {
    pub fn draw(random: &mut Random) -> Self {
        let writes = *random.pick(&option_strings::WRITES);
        let database = option_strings::draw_database(random, writes);
        Self {
            keys: KeySettings::draw(random),
            filters: FilterSettings::draw(random),
            families: FAMILIES.map(|_| option_strings::draw_family(random, writes)),
            database,
            transactions: random.one_in(2),
            locks: random.one_in(2),
        }
    }

    /// Whether there are transactions. They do not work with unordered writes.
    pub fn has_transactions(&self) -> bool {
        self.transactions && !self.is_unordered()
    }

    pub fn has_locks(&self) -> bool {
        self.has_transactions() && self.locks
    }

    /// These options with this case's kind of transactions.
    pub fn with_transactions(&self, sieve: &SieveOptions) -> SieveOptions {
        let sieve = sieve.clone();
        if self.has_locks() {
            return sieve.transactions(Isolation::locks(TransactionDBOptions::default()));
        }
        if self.has_transactions() {
            return sieve.transactions(Isolation::Optimistic);
        }
        sieve
    }

    pub fn is_unordered(&self) -> bool {
        let mut database = self.database.iter();
        database.any(|text| text == option_strings::UNORDERED_WRITE)
    }

    /// The same settings, for many threads that read beside flushes.
    pub fn for_concurrent_reads(mut self) -> Self {
        self.database
            .retain(|text| text != option_strings::ATOMIC_FLUSH);
        self
    }

    /// RocksDB's options of a family. Those of the database are included.
    pub fn family(&self, family: usize) -> Result<Options, rocksdb::Error> {
        let own = &self.families[family];
        option_strings::parse(&[&self.database[..], own].concat())
    }

    /// Whether a family sorts its keys from last to first.
    pub fn is_reversed(&self, family: usize) -> bool {
        self.says(family, "ReverseBytewise")
    }

    /// Whether a family has a prefix extractor. Its iterators then cross prefixes only if told to.
    pub fn has_prefixes(&self, family: usize) -> bool {
        self.says(family, "prefix_extractor")
    }

    fn says(&self, family: usize, word: &str) -> bool {
        self.families[family].iter().any(|text| text.contains(word))
    }
}

/// A rate from one half to one in ten thousand, in millionths: such a short decimal is the same
/// number when read from a case file.
pub fn draw_rate(random: &mut Random) -> f64 {
    const MILLION: f64 = 1e6;
    (0.5 * 2e-4_f64.powf(random.unit()) * MILLION).round() / MILLION
}

impl Precision {
    fn draw(random: &mut Random) -> Self {
        if random.one_in(2) {
            Self::Rate(draw_rate(random))
        } else {
            Self::BitsPerKey(1.0 + random.below(64) as f64)
        }
    }
}

impl FilterSettings {
    pub fn draw(random: &mut Random) -> Self {
        const BUDGETS: [u64; 5] = [0, 511, 4_096, 40_000, 1 << 22];
        Self {
            summary: Precision::draw(random),
            segments: (!random.one_in(4)).then(|| Precision::draw(random)),
            expected_keys: 1 << random.below(13),
            budget_bits: random.one_in(4).then(|| *random.pick(&BUDGETS)),
            keyed: random.one_in(3),
            speed_over_memory: random.one_in(3),
            hashes_in_memory: random
                .one_in(2)
                .then(|| NonZeroU64::MIN.saturating_add(50 + random.below(400))),
            excluded_cf: random
                .one_in(4)
                .then(|| 1 + random.index(FAMILIES.len() - 1)),
            adaptive_hits: random.one_in(4),
        }
    }

    /// The options of `SieveDb`, or what is wrong with them.
    pub fn options(&self) -> Result<SieveOptions, String> {
        let mut options = SieveOptions::default()
            .filter_size(self.summary.size()?)
            .segment_filters(self.segments.map(Precision::size).transpose()?)
            .expected_keys(Items::new(self.expected_keys))
            .speed_over_memory(self.speed_over_memory)
            .adaptive_hits(self.adaptive_hits)
            .hash(if self.keyed {
                HashId::SipHash13
            } else {
                HashId::Xxh3
            });
        if let Some(hashes) = self.hashes_in_memory {
            options = options.build_memory(8 * hashes.get());
        }
        if let Some(bits) = self.budget_bits {
            // The budget for filters: the fixed memory of the families is added.
            let overhead = options.memory_for(Items::new(0)).overhead.get();
            let overhead = overhead * FAMILIES.len() as u64;
            options = options.memory_budget(overhead.saturating_add(bits) / 8);
        }
        if let Some(family) = self.excluded_cf {
            options = options.exclude_cfs(FAMILIES.get(family).copied());
        }
        Ok(options)
    }
}

impl Settings {
    /// Every variant with one option less, or with the default `SieveDb` options.
    pub fn simpler(&self) -> Vec<Self> {
        let plain = FilterSettings::default();
        let mut simpler = Vec::new();
        if self.filters != plain {
            simpler.push(Self {
                filters: plain,
                ..self.clone()
            });
        }
        if self.transactions {
            simpler.push(Self {
                transactions: false,
                ..self.clone()
            });
        }
        if self.locks {
            simpler.push(Self {
                locks: false,
                ..self.clone()
            });
        }
        for at in 0..self.database.len() {
            let mut less = self.clone();
            less.database.remove(at);
            simpler.push(less);
        }
        for family in 0..self.families.len() {
            for at in 0..self.families[family].len() {
                let mut less = self.clone();
                less.families[family].remove(at);
                simpler.push(less);
            }
        }
        simpler
    }
}

impl Default for FilterSettings {
    /// One percent, and stages small enough that a case fills some.
    fn default() -> Self {
        Self {
            summary: Precision::Rate(0.01),
            segments: Some(Precision::Rate(0.01)),
            expected_keys: 64,
            budget_bits: None,
            keyed: false,
            speed_over_memory: false,
            hashes_in_memory: None,
            excluded_cf: None,
            adaptive_hits: false,
        }
    }
}
