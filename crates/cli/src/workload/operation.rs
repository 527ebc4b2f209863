//! Turns a trace of ids into operations.

use super::keys::trace_key;
use super::random::{Random, chosen};
use super::store::Space;

/// One step of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Look the id up; insert it if it is absent.
    Upsert(u64),
    /// Read the newest record: the differential file's if there is one, else the main file's.
    Read(u64),
    /// Write a newer record to the differential file.
    Update(u64),
}

impl Operation {
    /// The key of the operation.
    pub fn key(self) -> [u8; 8] {
        let (Self::Upsert(id) | Self::Read(id) | Self::Update(id)) = self;
        trace_key(id)
    }
}

/// How to interpret a trace, which has only ids and no operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Each id is looked up, and inserted if it is absent.
    Upsert,
    /// All ids exist in a main file; updates of some of them go to a differential file.
    Differential(Updates),
}

impl Mode {
    /// The mode's name on the command line and in reports.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Upsert => "upsert",
            Self::Differential(_) => "differential",
        }
    }

    /// The space whose lookups a filter can avoid.
    pub const fn filtered_space(&self) -> Space {
        match self {
            Self::Upsert => Space::Default,
            Self::Differential(_) => Space::Differential,
        }
    }

    /// The spaces that a database for this mode must have.
    pub const fn spaces(&self) -> &'static [Space] {
        match self {
            Self::Upsert => &[Space::Default],
            Self::Differential(_) => &[Space::Default, Space::Main, Space::Differential],
        }
    }
}

/// Which ids are ever updated, and how often an access to one of them is an update.
///
/// Gremillion ("Designing a Bloom filter for differential file access", CACM 25(9), 1982) has
/// 30,000 ids accessed and 7,000 of them updated. How often they are updated is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Updates {
    /// The share of ids that are ever updated, in [0, 1].
    pub of_ids: f64,
    /// The share of the accesses to such an id that are updates, in [0, 1].
    pub of_accesses: f64,
    /// Determines both choices.
    pub seed: u64,
}

impl Default for Updates {
    fn default() -> Self {
        Self {
            of_ids: 7_000.0 / 30_000.0,
            of_accesses: 0.5,
            seed: 1982,
        }
    }
}

impl Updates {
    /// Whether this access to `id` is an update.
    fn take(&self, id: u64, coin: &mut Random) -> bool {
        chosen(id, self.seed, self.of_ids) && coin.unit() < self.of_accesses
    }
}

/// Turns the ids of one trace into operations, in order.
#[derive(Clone, Debug)]
pub struct Reading {
    mode: Mode,
    coin: Random,
}

impl Reading {
    /// Starts at the beginning of a trace. Equal modes turn equal traces into equal operations.
    pub fn new(mode: Mode) -> Self {
        let seed = match mode {
            Mode::Upsert => 0,
            Mode::Differential(updates) => updates.seed,
        };
        Self {
            mode,
            coin: Random::new(seed),
        }
    }

    /// The operation of the next access, which is to this id.
    pub fn next(&mut self, id: u64) -> Operation {
        match self.mode {
            Mode::Upsert => Operation::Upsert(id),
            Mode::Differential(updates) if updates.take(id, &mut self.coin) => {
                Operation::Update(id)
            }
            Mode::Differential(_) => Operation::Read(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn updated(accesses: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut reading = Reading::new(Mode::Differential(Updates::default()));
        accesses
            .filter_map(|id| match reading.next(id) {
                Operation::Update(id) => Some(id),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn about_7000_of_30000_ids_are_ever_updated() {
        let accesses = (0..20).flat_map(|_| 0..30_000);
        let updates = updated(accesses);
        let ids: HashSet<u64> = updates.iter().copied().collect();
        assert!((6_700..7_300).contains(&ids.len()), "{}", ids.len());
        let share = updates.len() as f64 / (20.0 * ids.len() as f64);
        assert!((0.48..0.52).contains(&share), "{share}");
    }

    #[test]
    fn same_accesses_give_the_same_updates() {
        assert_eq!(updated(0..10_000), updated(0..10_000));
    }
}
