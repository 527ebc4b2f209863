//! The steps of a case on a differential store, and how they are drawn.

use lsm_sieve_cli::workload::random::Random;
use serde::{Deserialize, Serialize};

/// Neighbouring keys by rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(super) from: usize,
    pub(super) count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Api {
    Get,
    Multi,
    Unfiltered,
    Modified,
    Snapshot,
    SnapshotMulti,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Step {
    Put {
        key: usize,
        number: u64,
    },
    Delete {
        key: usize,
    },
    Batch(Vec<(usize, Option<u64>)>),
    /// Loads every second key into the main file.
    Load {
        keys: Run,
        number: u64,
    },
    Read {
        keys: Run,
        api: Api,
    },
    Scan {
        keys: Run,
        now: bool,
    },
    Snapshot,
    Freeze,
    /// Stopped after this many batches, or not.
    Reorganize {
        stop_after: Option<u64>,
    },
    /// Checks whether a reorganisation is due, by this number of records, and reorganises if so.
    IfDue {
        records: u64,
    },
    Flush,
    Consolidate,
    Cover,
    Checkpoint,
    Reopen,
    /// The model receives a put, the store does not. Never drawn.
    #[serde(rename = "lie")]
    LoseWrite {
        key: usize,
    },
}

impl Step {
    /// Draws a step on this many keys. One step in `other_interval` is neither a read nor a write.
    pub(super) fn draw(random: &mut Random, keys: usize, other_interval: u64) -> Self {
        let run = |random: &mut Random, most: usize| Run {
            from: random.index(keys),
            count: 1 + random.index(most),
        };
        let key = |random: &mut Random| random.index(keys) & !1;
        if random.one_in(other_interval) {
            return match random.below(40) {
                0..=7 => Self::Freeze,
                8..=11 => Self::Reorganize { stop_after: None },
                12..=15 => Self::Reorganize {
                    stop_after: Some(random.below(4)),
                },
                16..=17 => Self::IfDue {
                    records: random.below(2 * keys as u64),
                },
                18..=22 => Self::Flush,
                23..=26 => Self::Load {
                    keys: run(random, 100),
                    number: random.word(),
                },
                27..=29 => Self::Cover,
                30 => Self::Consolidate,
                31 => Self::Checkpoint,
                32..=35 => Self::Reopen,
                _ => Self::Snapshot,
            };
        }
        match random.below(20) {
            0..=7 => Self::Put {
                key: key(random),
                number: random.word(),
            },
            8..=9 => Self::Delete { key: key(random) },
            10 => {
                let length = random.index(20);
                let update = |random: &mut Random| {
                    let number = (!random.one_in(4)).then(|| random.word());
                    (key(random), number)
                };
                Self::Batch((0..length).map(|_| update(random)).collect())
            }
            11 => Self::Scan {
                keys: run(random, 200),
                now: random.one_in(2),
            },
            _ => Self::Read {
                keys: run(random, 64),
                api: *random.pick(&[
                    Api::Get,
                    Api::Multi,
                    Api::Unfiltered,
                    Api::Modified,
                    Api::Snapshot,
                    Api::SnapshotMulti,
                ]),
            },
        }
    }
}
