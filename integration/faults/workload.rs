//! The steps on a database or a store, and the content after each.
//!
//! A writing step is one batch: after a power cut all of it is there or nothing. Its values are the
//! number of the step, so that a value tells which write it is from.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::target::{OwnStep, Target};
use crate::support::history::check::Entries;
use crate::support::history::model::{Change, Write};

/// Keys that are read. The last ones are never written.
pub(super) const KEYS_READ: u32 = 300;

pub(super) fn key(index: u32) -> Vec<u8> {
    format!("key-{index:05}").into_bytes()
}

/// The version, followed by bytes that do not compress.
pub(super) fn value(version: u64, padding: usize) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(version);
    let mut bytes = version.to_le_bytes().to_vec();
    bytes.extend((0..padding).map(|_| random.random::<u8>()));
    bytes
}

/// The version in a value.
pub(super) fn version(value: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*value.first_chunk()?))
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
    /// A step that only this kind of target has.
    Own(OwnStep),
}

/// How many keys a writing step spans.
const SPAN: u32 = 60;

impl Step {
    /// The writes of the step of this number; none for a step that does not write.
    pub(super) fn writes(self, number: usize) -> impl Iterator<Item = Write> {
        let (first, stride, change) = match self {
            Self::Write { first, .. } => (first, 3, Change::Set(number as u64)),
            Self::Delete { first } => (first, 7, Change::Remove),
            _ => (KEYS_READ, 1, Change::Remove),
        };
        spanned(first, stride).map(move |key| (0, key, change))
    }
}

/// The key and the value that a write leaves.
pub(super) fn update((_, index, change): Write, padding: usize) -> (Vec<u8>, Option<Vec<u8>>) {
    let value = match change {
        Change::Set(version) => Some(value(version, padding)),
        Change::Add(_) | Change::Remove => None,
    };
    (key(index), value)
}

/// The keys of a span from the first one, with this stride.
pub(super) fn spanned(first: u32, stride: usize) -> impl Iterator<Item = u32> {
    (first..(first + SPAN).min(KEYS_READ)).step_by(stride)
}

/// The content before the first writing step and after each.
pub(super) fn states(target: Target) -> Vec<Entries> {
    let mut states = vec![Entries::new()];
    for (number, step) in target.steps().into_iter().enumerate() {
        let mut next = states[states.len() - 1].clone();
        for write in step.writes(number) {
            match update(write, target.padding()) {
                (key, Some(value)) => _ = next.insert(key, value),
                (key, None) => _ = next.remove(&key),
            }
        }
        states.push(next);
    }
    states
}
