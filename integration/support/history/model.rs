//! What each key may hold: one number if its write was acknowledged, the old or the new one if not.

use std::collections::HashMap;

use super::Failed;

/// What happens to one key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Set(u64),
    Add(u64),
    Remove,
}

impl Change {
    fn of(self, held: &[Option<u64>]) -> Vec<Option<u64>> {
        match self {
            Self::Set(number) => vec![Some(number)],
            Self::Remove => vec![None],
            Self::Add(more) => {
                let sum = |held: &Option<u64>| Some(held.unwrap_or(0).wrapping_add(more));
                held.iter().map(sum).collect()
            }
        }
    }
}

/// A change of a key in a column family.
pub(crate) type Write = (usize, u32, Change);

/// The possible numbers of every key; `None` is "no value".
#[derive(Clone, Debug)]
pub(crate) struct Model {
    start: Vec<Option<u64>>,
    possible: HashMap<(usize, u32), Vec<Option<u64>>>,
}

impl Model {
    /// The model of an empty database.
    pub(crate) fn empty() -> Self {
        Self {
            start: vec![None],
            possible: HashMap::new(),
        }
    }

    /// The model of an unknown database: a key is known once it was written.
    pub(crate) fn unknown() -> Self {
        Self {
            start: Vec::new(),
            possible: HashMap::new(),
        }
    }

    /// What a key may hold. An empty list means that it is unknown.
    pub(crate) fn possible(&self, family: usize, key: u32) -> &[Option<u64>] {
        self.possible.get(&(family, key)).unwrap_or(&self.start)
    }

    pub(crate) fn allows(&self, family: usize, key: u32, held: Option<u64>) -> bool {
        self.possible(family, key).contains(&held)
    }

    /// The writes were acknowledged.
    pub(crate) fn apply(&mut self, writes: impl IntoIterator<Item = Write>) {
        for (family, key, change) in writes {
            let held = self.slot(family, key);
            *held = change.of(held);
        }
    }

    /// The writes were begun: they may have happened, in whole or, here, in part.
    pub(crate) fn may_apply(&mut self, writes: impl IntoIterator<Item = Write>) {
        for (family, key, change) in writes {
            let held = self.slot(family, key);
            for number in change.of(held) {
                if !held.contains(&number) {
                    held.push(number);
                }
            }
        }
    }

    /// This key was read.
    pub(crate) fn settle(&mut self, family: usize, key: u32, held: Option<u64>) {
        self.possible.insert((family, key), vec![held]);
    }

    /// Acknowledged writes to these keys must be there; unacknowledged ones may be.
    pub(crate) fn check(
        &self,
        family: usize,
        mut keys: impl Iterator<Item = u32>,
        held: impl Fn(u32) -> Option<u64>,
    ) -> Result<(), Failed> {
        let Some(key) = keys.find(|&key| !self.allows(family, key, held(key))) else {
            return Ok(());
        };
        let (held, possible) = (held(key), self.possible(family, key));
        Err(format!(
            "an acknowledged write is gone: family {family} key {key} holds {held:?}, expected \
             one of {possible:?}"
        )
        .into())
    }

    fn slot(&mut self, family: usize, key: u32) -> &mut Vec<Option<u64>> {
        let start = &self.start;
        let slot = self.possible.entry((family, key));
        slot.or_insert_with(|| start.clone())
    }
}
