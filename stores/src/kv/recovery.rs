//! The records by which a stored filter is known to hold every key of the store.
//!
//! ```text
//! key            value
//! "position"     the name of the store's state: 8 random bytes, then the number of the commit
//! "base"         the state that the journal begins after, and the first entry that is left
//! "j" + number   the name of the state after this commit, then 8 bytes for each new key's hash
//! ```
//!
//! Only a journal has entries. Its commits come one at a time and are numbered without a gap. A
//! filter that has the keys of the base, or of the state of an entry, lacks only keys of later
//! entries. So these are added, up to the position. If one is missing, or the last is not the
//! position's, all keys are read, and a journal begins whose base is no filter's. When a filter has
//! been stored for a later state, that becomes the base, and the entries up to it are removed, a few
//! in each commit. No number is used twice, whatever the recovery of a run: the base keeps the last
//! one when there is no position.

use std::collections::HashSet;

use crate::fault::fault;
use crate::hash::KeyHash;
use crate::kv::store::{Record, Store};
use crate::reach::reached;
use lsm_sieve_front::segment::SegmentId;

#[cfg(test)]
#[cfg(not(interleave))]
mod tests;

/// How a stored filter is known to hold every key, after a restart. The [module](super) compares
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// No stored filter is trusted. Each open reads all keys.
    Scan,
    /// A filter is trusted if the store is in the state that it was saved for.
    Position,
    /// As [`Recovery::Position`]; and if not, the hashes of the keys that came since are added.
    /// Writes come one at a time.
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

/// The state that a journal begins after.
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

    /// The base of a journal that begins after this commit and that no stored filter can begin.
    fn of_no_filter(commit: u64, oldest: u64) -> Self {
        let mut name = [0; NAME];
        name[NAME - NUMBER..].copy_from_slice(&commit.to_be_bytes());
        Self {
            state: State(SegmentId::from_bytes(name)),
            oldest,
        }
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
pub(super) struct Commits {
    recovery: Recovery,
    /// The number of the last commit that is known to have succeeded.
    last: u64,
    /// With a journal: a later one may have succeeded.
    is_in_doubt: bool,
    /// Whether the records that were given last name a state.
    has_named: bool,
    base: Base,
    /// The base that the store has.
    stored: Option<Base>,
}

/// What the records say of the stored filter when a store is opened.
pub(super) struct Opened {
    pub(super) commits: Commits,
    /// The state that the store is in, and the hashes that the filter lacks. `None` if the filter
    /// cannot be completed.
    pub(super) trusted: Option<(State, Vec<KeyHash>)>,
    /// The state that the store is in, if it has a name.
    pub(super) position: Option<State>,
}

impl Commits {
    /// Reads the records of a store whose stored filter has the keys of the states `covered`.
    pub(super) fn open<S: Store>(
        store: &S,
        recovery: Recovery,
        covered: &HashSet<SegmentId>,
    ) -> Result<Opened, S::Error> {
        let (position, stored) = (State::read(store)?, Base::read(store)?);
        let numbers = [position, stored.map(|base| base.state)];
        let last = numbers.into_iter().flatten().map(State::commit).max();
        let last = last.unwrap_or(0);
        let missing = match (recovery, position) {
            (Recovery::Scan, _) | (_, None) => None,
            (_, Some(position)) if covered.contains(&position.id()) => {
                reached!(StoredStateFound);
                Some(Vec::new())
            }
            (Recovery::Position, _) => {
                reached!(StateOfNoFilter, !covered.is_empty());
                None
            }
            (Recovery::Journal, Some(position)) => {
                let missing = missing(store, stored, position, covered)?;
                reached!(JournalReplayed, missing.is_some());
                reached!(JournalIncomplete, missing.is_none());
                missing
            }
        };
        let mut oldest = stored.map_or(last.saturating_add(1), |base| base.oldest);
        fault!(EarlierJournalKept, oldest = last.saturating_add(1));
        let mut commits = Self {
            recovery,
            last,
            is_in_doubt: false,
            has_named: false,
            base: Base::of_no_filter(last, oldest),
            stored,
        };
        let trusted = position.zip(missing);
        if let (Some((state, _)), Some(stored)) = (&trusted, stored) {
            // The journal begins after a state that the filter has, or goes on.
            commits.base = match covered.contains(&state.id()) {
                true => Base {
                    state: *state,
                    oldest,
                },
                false => stored,
            };
        }
        fault!(
            OldBaseKept,
            if let Some(stored) = stored {
                commits.base = stored;
            }
        );
        Ok(Opened {
            commits,
            trusted,
            position,
        })
    }

    pub(super) fn keeps_hashes(&self) -> bool {
        self.recovery == Recovery::Journal
    }

    /// A filter that has the keys of this state has been stored.
    pub(super) fn filter_stored(&mut self, state: SegmentId) {
        let state = State(state);
        // With the same commit as the base, the filter may be from before external writes.
        if self.base.state.commit() < state.commit() {
            self.base.state = state;
        }
    }

    /// The records of the next commit, which brings keys with these hashes. It is in doubt until
    /// [`Commits::succeeded`].
    pub(super) fn next(&mut self, hashes: &[KeyHash]) -> Vec<Record> {
        if self.recovery == Recovery::Scan {
            return Vec::new();
        }
        let was_in_doubt = self.is_in_doubt;
        reached!(CommitInDoubt, was_in_doubt);
        self.is_in_doubt = self.keeps_hashes();
        fault!(CommitsNeverInDoubt, self.is_in_doubt = false);
        let number = self.last.checked_add(1).filter(|_| !was_in_doubt);
        let state = number.and_then(State::new);
        self.has_named = state.is_some();
        let Some(state) = state else {
            return self.invalidate();
        };
        let mut records = vec![put(POSITION, state.encode())];
        if self.keeps_hashes() {
            records.push(put(&entry_key(state.commit()), encoded(state, hashes)));
            let oldest = self.base.next_oldest();
            if self.stored != Some(self.base) || self.base.oldest < oldest {
                let base = Base {
                    oldest,
                    ..self.base
                };
                records.push(put(BASE, base.encode()));
                let removed = self.base.oldest..oldest;
                records.extend(removed.map(|commit| delete(&entry_key(commit))));
            }
        }
        records
    }

    /// The records that [`Commits::next`] gave were committed.
    pub(super) fn succeeded(&mut self) {
        if self.has_named {
            self.last = self.last.saturating_add(1);
            self.is_in_doubt = false;
        }
        if self.has_named && self.keeps_hashes() {
            self.base.oldest = self.base.next_oldest();
            self.stored = Some(self.base);
        }
    }

    /// If a commit is in doubt: goes on from the state that the store is in, if it can be read.
    pub(super) fn resume(&mut self, store: &impl Store) {
        if self.is_in_doubt && self.recovery != Recovery::Scan {
            match State::read(store) {
                Ok(Some(position)) => {
                    reached!(DoubtfulCommitTookPlace, position.commit() > self.last);
                    self.last = self.last.max(position.commit());
                }
                // It did not succeed, or it had no position.
                Ok(None) => {}
                Err(_) => {
                    fault!(UnreadableRecordsAreNone, {
                        self.is_in_doubt = false;
                    });
                    return;
                }
            }
            self.is_in_doubt = false;
        }
    }

    /// The records of a commit that makes the next open distrust every filter stored so far.
    pub(super) fn invalidate(&mut self) -> Vec<Record> {
        if self.is_in_doubt {
            // The commit may have succeeded, so its number is not used again.
            self.last = self.last.saturating_add(1);
        }
        self.base = Base::of_no_filter(self.last, self.base.oldest);
        // Stored again with the next commit, in case this one fails.
        self.stored = None;
        vec![delete(POSITION), put(BASE, self.base.encode())]
    }
}

/// The hashes of the entries from the base to the position; `None` if they do not complete a filter
/// that has the keys of these states.
fn missing<S: Store>(
    store: &S,
    base: Option<Base>,
    position: State,
    covered: &HashSet<SegmentId>,
) -> Result<Option<Vec<KeyHash>>, S::Error> {
    let Some(Base { state, .. }) = base else {
        return Ok(None);
    };
    let mut is_known = covered.contains(&state.id());
    let mut last = state;
    let mut missing = Vec::new();
    let first = state.commit().saturating_add(1);
    for commit in first..=position.commit() {
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
        last = state;
    }
    fault!(AnyFilterCompleted, is_known = true);
    let is_whole = last == position;
    Ok((is_whole && is_known).then_some(missing))
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
