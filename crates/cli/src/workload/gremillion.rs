//! Gremillion's transactions (CACM 25(9), 1982), determined by a seed, and their work on a store that
//! keeps updated records in a differential file in front of a main file.
//!
//! Each transaction reads a record, and some then update it. The differential file is asked first.
//! Most records are not in it, so a filter saves the search.
//!
//! Records are drawn from a universe of such a size that 30,000 of them are *expected* to be read
//! (a run differs by a hundred or so). Then transactions are made updates, in random order, until
//! they touch exactly 7,000 records. So the filter has exactly 7,000 keys. This is the same as
//! updating with a fixed probability, under the condition that 7,000 records are updated.

use std::collections::HashSet;

use super::Watch;
use super::keys::{Distribution, scattered_key};
use super::random::{Random, scramble};
use super::replay::{Counts, ReplayError};
use super::store::{Space, Store, VALUE, WithFilters};
use crate::math::Items;

/// Transactions per run.
pub const TRANSACTIONS: u64 = 100_000;
/// Records that are read.
pub const ACCESSED: Items = Items::new(30_000);
/// Records that are updated.
pub const UPDATED: Items = Items::new(7_000);

/// How records are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Access {
    /// All records with equal probability.
    Uniform,
    /// Record k with probability proportional to (k + 1)^-exponent.
    Zipf {
        /// Above 0 and at most 1: with more, the universe would have millions of records.
        exponent: f64,
    },
}

/// The numbers of transactions and records; by default Gremillion's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Transactions per run.
    pub transactions: u64,
    /// Expected number of records read.
    pub accessed: Items,
    /// Exact number of records updated.
    pub updated: Items,
}

impl Default for Scale {
    fn default() -> Self {
        Self {
            transactions: TRANSACTIONS,
            accessed: ACCESSED,
            updated: UPDATED,
        }
    }
}

impl Scale {
    /// As many transactions, with the shares of records that Gremillion's have.
    pub fn of(transactions: u64) -> Self {
        let share = |records: Items| {
            let share = records.get() as f64 / TRANSACTIONS as f64;
            Items::new((share * transactions as f64) as u64)
        };
        Self {
            transactions,
            accessed: share(ACCESSED),
            updated: share(UPDATED),
        }
    }
}

impl Access {
    /// The name of the access pattern in reports.
    pub fn name(self) -> String {
        match self {
            Self::Uniform => "uniform".to_owned(),
            Self::Zipf { exponent } => format!("zipf {exponent}"),
        }
    }

    /// The smallest universe of which `scale.transactions` draws are expected to hit
    /// `scale.accessed` distinct records, ∑ 1 − (1 − p_i)^T, by bisection.
    ///
    /// # Panics
    /// If `scale.accessed` is not below `scale.transactions`, or the exponent is not in (0, 1].
    pub fn universe(self, scale: &Scale) -> u64 {
        let wanted = scale.accessed.get() as f64;
        assert!(
            scale.accessed.get() < scale.transactions,
            "fewer records are met than drawn"
        );
        let meets = |n| self.expected(n, scale.transactions) >= wanted;
        let (mut least, mut enough) = (1, scale.accessed.get().max(1));
        while !meets(enough) {
            least = enough;
            enough *= 2;
        }
        while least < enough {
            let middle = least + (enough - least) / 2;
            if meets(middle) {
                enough = middle;
            } else {
                least = middle + 1;
            }
        }
        enough
    }

    /// The expected number of distinct records among `draws` draws from `universe`.
    fn expected(self, universe: u64, draws: u64) -> f64 {
        let draws = draws as f64;
        let Self::Zipf { exponent } = self else {
            let records = universe as f64;
            return -records * (draws * (-1.0 / records).ln_1p()).exp_m1();
        };
        assert!(
            exponent > 0.0 && exponent <= 1.0,
            "a Zipf exponent lies in (0, 1] here, got {exponent}"
        );
        let weights: Vec<f64> = (1..=universe)
            .map(|rank| (rank as f64).powf(-exponent))
            .collect();
        let total: f64 = weights.iter().sum();
        let met = |weight: &f64| -(draws * (-weight / total).ln_1p()).exp_m1();
        weights.iter().map(met).sum()
    }

    const fn distribution(self) -> Distribution {
        match self {
            Self::Uniform => Distribution::Uniform,
            Self::Zipf { exponent } => Distribution::Zipf { exponent },
        }
    }
}

/// One transaction: reads a record and, if it is an update, then writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The record's key.
    pub key: [u8; 16],
    /// Whether it updates.
    pub updates: bool,
    /// Number of records updated before this transaction.
    pub updated_before: u32,
    /// Whether this record is one of them.
    pub modified_before: bool,
    /// Whether this record is updated at any time in this run.
    pub modified_ever: bool,
}

/// The transactions of a run.
#[derive(Clone, Debug)]
pub struct Script {
    transactions: Vec<Transaction>,
    accessed: Items,
}

impl Script {
    /// Draws a run over `universe` records, usually [`Access::universe`].
    pub fn draw(access: Access, universe: u64, scale: &Scale, seed: u64) -> Self {
        let length = usize::try_from(scale.transactions).unwrap_or(usize::MAX);
        let ids: Vec<u64> = access
            .distribution()
            .over(universe, scramble(seed))
            .take(length)
            .collect();
        let (updates, modified) = choose_updates(&ids, scale.updated, seed);
        let mut written = HashSet::new();
        let transactions = ids.iter().zip(updates).map(|(id, updates)| {
            let transaction = Transaction {
                key: scattered_key(*id),
                updates,
                updated_before: u32::try_from(written.len()).unwrap_or(u32::MAX),
                modified_before: written.contains(id),
                modified_ever: modified.contains(id),
            };
            if updates {
                written.insert(*id);
            }
            transaction
        });
        Self {
            transactions: transactions.collect(),
            accessed: Items::new(ids.iter().collect::<HashSet<_>>().len() as u64),
        }
    }

    /// All transactions, in order.
    pub fn transactions(&self) -> &[Transaction] {
        &self.transactions
    }

    /// The number of distinct records read.
    pub const fn accessed(&self) -> Items {
        self.accessed
    }

    /// The keys of the updated records, each once.
    pub fn modified(&self) -> impl Iterator<Item = [u8; 16]> {
        let first = |t: &&Transaction| t.updates && !t.modified_before;
        self.transactions.iter().filter(first).map(|t| t.key)
    }
}

/// Writes all records of the universe to the main file.
///
/// # Errors
/// The store's error, or the watch's.
pub fn fill<S: Store>(
    universe: u64,
    store: &mut S,
    watch: &mut impl Watch,
) -> Result<(), ReplayError<S::Error>> {
    for id in 0..universe {
        store
            .write(Space::Main, &scattered_key(id), &VALUE)
            .map_err(ReplayError::Store)?;
        watch.advance(1)?;
    }
    store.flush().map_err(ReplayError::Store)
}

/// Runs the transactions, and checks each lookup in the differential file.
///
/// # Errors
/// The store's error, or the watch's.
pub fn count<S: WithFilters>(
    script: &Script,
    store: &mut S,
    watch: &mut impl Watch,
) -> Result<Counts, ReplayError<S::Error>> {
    let mut counts = Counts::default();
    for transaction in script.transactions() {
        let key = &transaction.key;
        let ruled_out = store.rules_out(Space::Differential, key);
        let found = store
            .read(Space::Differential, key)
            .map_err(ReplayError::Store)?;
        counts.record(ruled_out, found, transaction.modified_before);
        counts.main_reads += u64::from(!found);
        if transaction.updates {
            store
                .write(Space::Differential, key, &VALUE)
                .map_err(ReplayError::Store)?;
        }
        watch.advance(1)?;
    }
    Ok(counts)
}

/// Runs the transactions without checks.
///
/// # Errors
/// The store's error, or the watch's.
pub fn run<S: Store>(
    script: &Script,
    store: &mut S,
    watch: &mut impl Watch,
) -> Result<(), ReplayError<S::Error>> {
    for transaction in script.transactions() {
        store
            .read_newest(&transaction.key)
            .map_err(ReplayError::Store)?;
        if transaction.updates {
            store
                .write(Space::Differential, &transaction.key, &VALUE)
                .map_err(ReplayError::Store)?;
        }
        watch.advance(1)?;
    }
    Ok(())
}

/// Marks transactions as updates, in random order, until they touch `updated` records or all
/// transactions are marked.
fn choose_updates(ids: &[u64], updated: Items, seed: u64) -> (Vec<bool>, HashSet<u64>) {
    let mut random = Random::new(scramble(!seed));
    let mut order: Vec<usize> = (0..ids.len()).collect();
    for last in (1..order.len()).rev() {
        let other = random.below(last as u64 + 1);
        order.swap(last, usize::try_from(other).unwrap_or(last));
    }
    let (mut updates, mut modified) = (vec![false; ids.len()], HashSet::new());
    for at in order {
        if modified.len() as u64 == updated.get() {
            break;
        }
        updates[at] = true;
        modified.insert(ids[at]);
    }
    (updates, modified)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale() -> Scale {
        Scale::default()
    }

    /// Expected values computed independently of this crate.
    #[test]
    fn universes_are_calibrated() {
        assert_eq!(Access::Uniform.universe(&scale()), 31_279);
        let skewed = Access::Zipf { exponent: 0.99 };
        let universe = skewed.universe(&scale());
        assert!((205_300..205_500).contains(&universe), "{universe}");
    }

    #[test]
    fn run_reads_about_30000_and_updates_exactly_7000_records() {
        for (access, updating) in [
            (Access::Uniform, 7_924.0),
            (Access::Zipf { exponent: 0.99 }, 15_700.0),
        ] {
            let universe = access.universe(&scale());
            let script = Script::draw(access, universe, &scale(), 5);
            assert_eq!(script.transactions().len(), 100_000);
            let accessed = script.accessed().get() as f64;
            assert!((accessed / 30_000.0 - 1.0).abs() < 0.01, "{accessed}");
            assert_eq!(script.modified().count(), 7_000);
            let updates = script.transactions().iter().filter(|t| t.updates).count();
            let off = updates as f64 / updating - 1.0;
            assert!(off.abs() < 0.05, "{updates} updates, {updating} expected");
        }
    }

    #[test]
    fn a_record_is_modified_from_its_first_update_on() {
        let script = Script::draw(Access::Uniform, 31_279, &scale(), 9);
        let mut written = HashSet::new();
        for transaction in script.transactions() {
            assert_eq!(transaction.updated_before as usize, written.len());
            assert_eq!(
                transaction.modified_before,
                written.contains(&transaction.key)
            );
            if transaction.updates {
                assert!(transaction.modified_ever);
                written.insert(transaction.key);
            }
        }
        let again = Script::draw(Access::Uniform, 31_279, &scale(), 9);
        assert_eq!(again.transactions(), script.transactions());
    }
}
