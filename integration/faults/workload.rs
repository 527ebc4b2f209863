//! The steps on a database or a store, and the content after each.
//!
//! A writing step is one batch: after a power cut all of it is there or nothing. Its values are the
//! number of the step, so that a value tells which write it is from.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::filter_check::Truth;

/// Keys that are read. The last ones are never written.
pub(super) const KEYS_READ: u32 = 300;

pub(super) fn key(index: u32) -> Vec<u8> {
    format!("key-{index:05}").into_bytes()
}

/// The version, followed by bytes that do not compress.
pub(super) fn value(version: u32, padding: usize) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(version.into());
    let mut bytes = version.to_le_bytes().to_vec();
    bytes.extend((0..padding).map(|_| random.random::<u8>()));
    bytes
}

/// The version in a value.
pub(super) fn version(value: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*value.first_chunk()?))
}

/// What the steps work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A `SieveDb`.
    SieveDb,
    /// A differential store.
    Differential,
    /// A differential store whose logs end every few records, while those are moved.
    Moves,
}

impl Target {
    /// Its name in the recorded figures and on the command line of a child.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::SieveDb => "Front",
            Self::Differential => "Differential",
            Self::Moves => "Moves",
        }
    }

    /// Bytes of a value beyond its version.
    pub(super) fn padding(self) -> usize {
        match self {
            Self::SieveDb | Self::Differential => 60,
            Self::Moves => 4_000,
        }
    }
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Put every third key of a span, synced or not.
    Write {
        first: u32,
        synced: bool,
    },
    /// Delete every seventh key of a span.
    Delete {
        first: u32,
    },
    Flush,
    Read,
    Reopen,
    /// Only for a `SieveDb`, as the next two.
    Compact,
    Consolidate,
    /// Wait for a maintenance run.
    Settle,
    /// Only for a differential store, as the next three.
    Freeze,
    /// Reorganise, and stop after a batch.
    MoveSome,
    MoveAll,
    /// Load every third key of a span into the main file. All of them have newer records.
    LoadBeneath {
        first: u32,
    },
}

/// How many keys a writing step spans.
const SPAN: u32 = 60;

impl Step {
    /// The keys that a step writes; none for a step that does not.
    pub(super) fn keys(self) -> impl Iterator<Item = u32> {
        let (first, stride) = match self {
            Self::Write { first, .. } => (first, 3),
            Self::Delete { first } => (first, 7),
            _ => (KEYS_READ, 1),
        };
        spanned(first, stride)
    }

    /// The value of its keys after the step of this number.
    pub(super) fn outcome(self, number: usize) -> Option<u32> {
        matches!(self, Self::Write { .. }).then(|| u32::try_from(number).unwrap())
    }
}

/// The keys of a span from the first one, with this stride.
pub(super) fn spanned(first: u32, stride: usize) -> impl Iterator<Item = u32> {
    (first..(first + SPAN).min(KEYS_READ)).step_by(stride)
}

/// All steps, in order. Each writing step is one batch.
pub(super) fn steps(target: Target) -> Vec<Step> {
    use Step::{
        Compact, Consolidate, Delete, Flush, Freeze, LoadBeneath, MoveAll, MoveSome, Read, Reopen,
        Settle, Write,
    };
    let write = |first| Write {
        first,
        synced: first % 2 == 0,
    };
    let again = |first| Write {
        first,
        synced: true,
    };
    let delete = |first| Delete { first };
    let beneath = LoadBeneath { first: 0 };
    match target {
        Target::SieveDb => [
            [write(0), write(1), Flush, write(50), Flush],
            [write(2), Flush, Settle, Read, Compact],
            [delete(3), write(90), Flush, Consolidate, Read],
            [write(100), Reopen, Read, write(151), Flush],
            [delete(90), Settle, Flush, Compact, Settle],
            [write(20), Read, Reopen, Consolidate, Read],
        ]
        .concat(),
        Target::Differential => [
            [write(0), write(1), Flush, write(50), MoveAll],
            [write(2), delete(3), Freeze, write(91), Read],
            [MoveSome, write(100), delete(90), Read, Reopen],
            [delete(20), MoveSome, Flush, write(151), Read],
            [MoveAll, delete(100), Freeze, write(40), MoveSome],
            [write(41), MoveAll, Read, Reopen, Read],
        ]
        .concat(),
        // Each write is made durable before anything else is written, except for the same keys
        // again. Then RocksDB keeps an earlier state, whichever logs it loses, and a cut takes only
        // moves.
        Target::Moves => [
            [write(0), write(60), write(120), write(2), MoveAll],
            [Reopen, delete(60), Flush, write(0), write(60)],
            [write(120), write(180), write(2), write(62), MoveAll],
            [Reopen, write(0), write(60), MoveSome, write(120)],
            [beneath, Read, Read, Freeze, write(1)],
            [write(1), Read, Read, again(1), MoveAll],
            [write(0), write(60), MoveSome, write(120), beneath],
            [Read, Freeze, write(61), write(61), Read],
        ]
        .concat(),
    }
}

/// The content before the first writing step and after each.
pub(super) fn states(target: Target) -> Vec<Truth> {
    let mut states = vec![Truth::new()];
    for (number, step) in steps(target).into_iter().enumerate() {
        let mut next = states[states.len() - 1].clone();
        for index in step.keys() {
            match step.outcome(number) {
                Some(version) => _ = next.insert(key(index), value(version, target.padding())),
                None => _ = next.remove(&key(index)),
            }
        }
        states.push(next);
    }
    states
}
