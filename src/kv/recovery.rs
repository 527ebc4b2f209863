//! The records by which a stored filter is known to hold every key of the store.
//!
//! ```text
//! key            value
//! "position"     the name of the store's state: 8 random bytes, then the number of the commit
//! "base"         a state that a stored filter has the keys of, and the first entry left
//! "j" + number   the name of the state after this commit, then 8 bytes for each new key's hash
//! ```
//!
//! Only a journal needs the last two. Its commits come one at a time and are numbered without a
//! gap. A filter that has the keys of the base, or of the state of an entry after it, lacks only
//! keys of later entries. So these are added, up to the position. If one is missing, all keys are
//! read. When a filter has been stored for a later state, that becomes the base, and the entries up
//! to it are removed, a few in each commit.

use std::collections::HashSet;

use crate::fault::fault;
use crate::hash::KeyHash;
use crate::kv::store::{Record, Store};
use crate::segment::SegmentId;

/// How a stored filter is known to hold every key, after a restart. The [module](super) compares
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// It is not: all keys are read at each open.
    Scan,
    /// If the store is in the state in which the filter was saved.
    Position,
    /// By the hashes of the keys that came since the filter was saved. Writes come one at a time.
    Journal,
}

const POSITION: &[u8] = b"position";
const BASE: &[u8] = b"base";
const ENTRY: u8 = b'j';

/// Entries that a commit removes at most.
const REMOVED_AT_ONCE: u64 = 64;

/// Bytes of a state's name, of a commit's number and of a hash.
const NAME: usize = 16;
const NUMBER: usize = 8;

/// The name of a state of the store: of the one after a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(SegmentId);

impl State {
    /// A new name; `None` if the system has no randomness.
    fn new(commit: u64) -> Option<Self> {
        let mut bytes = *SegmentId::random().ok()?.as_bytes();
        fault!(StateNamedByNumber, bytes = [0; NAME]);
        bytes[NAME - NUMBER..].copy_from_slice(&commit.to_be_bytes());
        Some(Self(SegmentId::from_bytes(bytes)))
    }

    /// The state that the store is in, if its last commit named one.
    pub(super) fn read<S: Store>(store: &S) -> Result<Option<Self>, S::Error> {
        let value = store.record(POSITION)?;
        Ok(value.and_then(|bytes| Self::decode(&bytes)))
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; NAME] = bytes.try_into().ok()?;
        Some(Self(SegmentId::from_bytes(bytes)))
    }

    /// The name, which binds a filter to the state.
    pub(super) fn id(self) -> SegmentId {
        self.0
    }

    fn commit(self) -> u64 {
        let [.., n0, n1, n2, n3, n4, n5, n6, n7] = *self.0.as_bytes();
        u64::from_be_bytes([n0, n1, n2, n3, n4, n5, n6, n7])
    }

    fn encode(self) -> Vec<u8> {
        self.0.as_bytes().to_vec()
    }
}

/// A state that a stored filter has all keys of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Base {
    state: State,
    /// Entries before this number were removed.
    oldest: u64,
}

impl Base {
    fn read<S: Store>(store: &S) -> Result<Option<Self>, S::Error> {
        let value = store.record(BASE)?;
        Ok(value.and_then(|bytes| Self::decode(&bytes)))
    }

    /// A base for a journal that begins after this commit: no filter is ever stored for its state.
    fn of_no_filter(commit: u64) -> Option<Self> {
        Some(Self {
            state: State::new(commit)?,
            oldest: commit.saturating_add(1),
        })
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (state, oldest) = bytes.split_at_checked(NAME)?;
        Some(Self {
            state: State::decode(state)?,
            oldest: u64::from_be_bytes(oldest.try_into().ok()?),
        })
    }

    fn encode(self) -> Vec<u8> {
        let mut bytes = self.state.encode();
        bytes.extend(self.oldest.to_be_bytes());
        bytes
    }

    /// The first entry that is left after another commit.
    fn next_oldest(self) -> u64 {
        let until = self.state.commit().saturating_add(1);
        until.min(self.oldest.saturating_add(REMOVED_AT_ONCE))
    }
}

/// What the records of the next commit depend on.
#[derive(Debug)]
pub(super) struct Journal {
    recovery: Recovery,
    /// The number of the last commit that is known to have succeeded.
    commit: u64,
    /// A later one may have succeeded.
    is_unsure: bool,
    base: Option<Base>,
    /// The base that the store has.
    stored: Option<Base>,
}

/// A stored filter's part in a store that was opened.
pub(super) struct Opened {
    pub(super) journal: Journal,
    /// The state that the store is in.
    pub(super) position: Option<State>,
    /// The hashes that the filter lacks; `None` if that is not known.
    pub(super) missing: Option<Vec<KeyHash>>,
}

impl Journal {
    /// Reads the records of a store whose stored filter has the keys of the states `covered`.
    pub(super) fn open<S: Store>(
        store: &S,
        recovery: Recovery,
        covered: &HashSet<SegmentId>,
    ) -> Result<Opened, S::Error> {
        let position = match recovery {
            Recovery::Scan => None,
            Recovery::Position | Recovery::Journal => State::read(store)?,
        };
        let base = match recovery {
            Recovery::Scan | Recovery::Position => None,
            Recovery::Journal => Base::read(store)?,
        };
        let last = position.or(base.map(|base| base.state));
        let commit = last.map_or(0, State::commit);
        let mut journal = Self {
            recovery,
            commit,
            is_unsure: false,
            base: base.or_else(|| Base::of_no_filter(commit)),
            stored: base,
        };
        let missing = match position {
            None => None,
            Some(position) if covered.contains(&position.id()) => {
                journal.filter_stored(position.id());
                Some(Vec::new())
            }
            Some(position) => journal.missing_until(store, position, covered)?,
        };
        Ok(Opened {
            journal,
            position,
            missing,
        })
    }

    fn missing_until<S: Store>(
        &self,
        store: &S,
        position: State,
        covered: &HashSet<SegmentId>,
    ) -> Result<Option<Vec<KeyHash>>, S::Error> {
        let Some(Base { state, .. }) = self.base else {
            return Ok(None);
        };
        let mut is_known = covered.contains(&state.id());
        let mut missing = Vec::new();
        for commit in state.commit() + 1..=position.commit() {
            let entry = store.record(&entry_key(commit))?;
            fault!(
                JournalGapAccepted,
                if entry.is_none() {
                    continue;
                }
            );
            let Some((state, hashes)) = entry.as_deref().and_then(decoded) else {
                return Ok(None);
            };
            is_known |= covered.contains(&state.id());
            missing.extend(hashes);
        }
        fault!(AnyFilterCompleted, is_known = true);
        Ok(is_known.then_some(missing))
    }

    pub(super) fn keeps_hashes(&self) -> bool {
        self.recovery == Recovery::Journal
    }

    /// A filter that has the keys of this state has been stored.
    pub(super) fn filter_stored(&mut self, state: SegmentId) {
        let state = State(state);
        // One of the same number came before external writes, or before the journal began.
        let newer = |base: Base| base.state.commit() < state.commit();
        if self.keeps_hashes() && self.base.is_none_or(newer) {
            let first = state.commit().saturating_add(1);
            let oldest = self.base.map_or(first, |base| base.oldest);
            self.base = Some(Base { state, oldest });
        }
    }

    /// The records of the next commit, which brings keys with these hashes.
    pub(super) fn next(&mut self, hashes: &[KeyHash]) -> Vec<Record> {
        if self.recovery == Recovery::Scan {
            return Vec::new();
        }
        let number = self.commit.checked_add(1).filter(|_| !self.is_unsure);
        let Some(state) = number.and_then(State::new) else {
            self.is_unsure = true;
            return self.forget();
        };
        let mut records = vec![put(POSITION, state.encode())];
        if self.keeps_hashes() {
            records.push(put(&entry_key(state.commit()), encoded(state, hashes)));
            if let Some(base) = self.base.filter(|&base| self.is_unsettled(base)) {
                let oldest = base.next_oldest();
                records.push(put(BASE, Base { oldest, ..base }.encode()));
                let removed = (base.oldest..oldest).map(|commit| delete(&entry_key(commit)));
                records.extend(removed);
            }
        }
        records
    }

    /// Whether the store has another base, or entries before this one.
    fn is_unsettled(&self, base: Base) -> bool {
        self.stored != Some(base) || base.oldest < base.next_oldest()
    }

    /// The records that [`Journal::next`] gave were committed.
    pub(super) fn committed(&mut self) {
        if self.is_unsure {
            return;
        }
        self.commit = self.commit.saturating_add(1);
        if let Some(base) = &mut self.base {
            base.oldest = base.next_oldest();
        }
        self.stored = self.base;
    }

    /// It is not known whether they were.
    pub(super) fn failed(&mut self) {
        self.is_unsure = true;
    }

    /// After a failed commit: goes on from the state that the store is in, if it can be read.
    pub(super) fn resume(&mut self, store: &impl Store) {
        if self.is_unsure && self.recovery != Recovery::Scan {
            match State::read(store) {
                Ok(Some(position)) => self.commit = position.commit(),
                // No commit has named a state since this number.
                Ok(None) => {}
                Err(_) => return,
            }
            self.is_unsure = false;
        }
    }

    /// The records of a commit after which no stored filter has all keys.
    pub(super) fn forget(&mut self) -> Vec<Record> {
        let oldest = self.base.map(|base| base.oldest);
        let base = Base::of_no_filter(self.commit);
        self.base = base.map(|base| Base {
            oldest: oldest.unwrap_or(base.oldest),
            ..base
        });
        // Stored again with the next commit, in case this one fails.
        self.stored = None;
        let base = self.base.filter(|_| self.keeps_hashes());
        let base = base.map_or_else(|| delete(BASE), |base| put(BASE, base.encode()));
        vec![delete(POSITION), base]
    }
}

/// The records after which no state has a name.
pub(super) fn forgotten() -> [Record; 2] {
    [delete(POSITION), delete(BASE)]
}

fn put(key: &[u8], value: Vec<u8>) -> Record {
    Record::Put {
        key: key.to_vec(),
        value,
    }
}

fn delete(key: &[u8]) -> Record {
    Record::Delete { key: key.to_vec() }
}

fn entry_key(commit: u64) -> Vec<u8> {
    std::iter::once(ENTRY).chain(commit.to_be_bytes()).collect()
}

fn encoded(state: State, hashes: &[KeyHash]) -> Vec<u8> {
    let hashes = hashes.iter().map(|hash| hash.get().to_be_bytes());
    let mut bytes = state.encode();
    bytes.extend(hashes.flatten());
    bytes
}

/// An entry's state and hashes.
fn decoded(bytes: &[u8]) -> Option<(State, Vec<KeyHash>)> {
    let (state, hashes) = bytes.split_at_checked(NAME)?;
    let (hashes, rest) = hashes.as_chunks::<NUMBER>();
    let state = State::decode(state).filter(|_| rest.is_empty())?;
    let hash = |bytes: &[u8; NUMBER]| KeyHash::new(u64::from_be_bytes(*bytes));
    Some((state, hashes.iter().map(hash).collect()))
}
