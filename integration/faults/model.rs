//! What each key may hold: one version if its write was acknowledged, several if it was not.

use super::filter_check::Truth;
use super::workload::{Step, key, version};

/// The versions that each key may hold; `None` is "no value".
#[derive(Clone, Debug)]
pub(super) struct Model(Vec<Vec<Option<u32>>>);

impl Model {
    /// The model of an empty database of this many keys.
    pub(super) fn empty(keys: u32) -> Self {
        Self(vec![vec![None]; keys as usize])
    }

    /// A write of these keys was acknowledged.
    pub(super) fn set(&mut self, keys: impl Iterator<Item = u32>, version: Option<u32>) {
        keys.for_each(|key| self.0[key as usize] = vec![version]);
    }

    /// A write of these keys may have happened.
    pub(super) fn may_set(&mut self, keys: impl Iterator<Item = u32>, version: Option<u32>) {
        keys.for_each(|key| self.0[key as usize].push(version));
    }

    /// The step of this number was carried out.
    pub(super) fn done(&mut self, number: usize, step: Step) {
        self.set(step.keys(), step.outcome(number));
    }

    /// The step of this number may have been carried out.
    pub(super) fn may_be_done(&mut self, number: usize, step: Step) {
        self.may_set(step.keys(), step.outcome(number));
    }

    /// Whether a key may hold this value.
    pub(super) fn allows(&self, key: u32, held: Option<&[u8]>) -> bool {
        self.0[key as usize].contains(&held.and_then(version))
    }

    /// What a key may hold.
    pub(super) fn possible(&self, key: u32) -> &[Option<u32>] {
        &self.0[key as usize]
    }

    /// The first key with an impossible value.
    pub(super) fn wrong(&self, truth: &Truth) -> Option<u32> {
        let held = |index| truth.get(&key(index)).map(Vec::as_slice);
        (0..)
            .zip(&self.0)
            .map(|(key, _)| key)
            .find(|&key| !self.allows(key, held(key)))
    }
}
