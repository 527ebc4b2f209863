//! Look-ups: the filters first, then the engine.

use rocksdb::{AsColumnFamilyRef, DBPinnableSlice, DEFAULT_COLUMN_FAMILY_NAME, Error, ReadOptions};

use super::SieveDb;
use crate::planted::planted;
use crate::rocks::audit::Asked;
use crate::rocks::column::Column;
use crate::rocks::coverage::{Answer, Proof};
use crate::rocks::ffi;

/// What is found of several keys, in their order.
pub(super) type Values<V> = Vec<Result<Option<V>, Error>>;

impl SieveDb {
    /// The value of a key in the default column family.
    ///
    /// # Errors
    /// What RocksDB says.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        read(&self.default, key, || self.engine.get(key))
    }

    /// [`SieveDb::get`] with read options, which may carry a snapshot.
    ///
    /// # Errors
    /// What RocksDB says.
    #[inline]
    pub fn get_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        read(&self.default, key, || self.engine.get_opt(key, options))
    }

    /// The value of a key in a column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        self.read_cf(cf, key, || self.engine.get_cf(cf, key))
    }

    /// [`SieveDb::get_cf`] with read options, which may carry a snapshot.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        self.read_cf(cf, key, || self.engine.get_cf_opt(cf, key, options))
    }

    /// The value of a key in the default column family, without a copy.
    ///
    /// # Errors
    /// What RocksDB says.
    #[inline]
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let key = key.as_ref();
        read(&self.default, key, || self.engine.get_pinned(key))
    }

    /// [`SieveDb::get_pinned`] with read options, which may carry a snapshot.
    ///
    /// # Errors
    /// What RocksDB says.
    #[inline]
    pub fn get_pinned_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let key = key.as_ref();
        let ask = || self.engine.get_pinned_opt(key, options);
        read(&self.default, key, ask)
    }

    /// The value of a key in a column family, without a copy.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_pinned_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let key = key.as_ref();
        self.read_cf(cf, key, || self.engine.get_pinned_cf(cf, key))
    }

    /// [`SieveDb::get_pinned_cf`] with read options, which may carry a snapshot.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_pinned_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let key = key.as_ref();
        let ask = || self.engine.get_pinned_cf_opt(cf, key, options);
        self.read_cf(cf, key, ask)
    }

    /// The values of several keys of the default column family, in their order and as of one moment.
    /// The engine is asked once, for the keys that may be there; or again for all, if some were
    /// written meanwhile.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Values<Vec<u8>> {
        let keys: Vec<K> = keys.into_iter().collect();
        read_many(&self.default, &keys, |left| {
            match self.engine.cf_handle(DEFAULT_COLUMN_FAMILY_NAME) {
                Some(handle) => copied(self.fetch_many(&handle, left, false)),
                None => self.engine.multi_get(left),
            }
        })
    }

    /// [`SieveDb::multi_get`] with read options, which may carry a snapshot.
    pub fn multi_get_opt<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        options: &ReadOptions,
    ) -> Values<Vec<u8>> {
        let keys: Vec<K> = keys.into_iter().collect();
        let ask = |left: &[&[u8]]| self.engine.multi_get_opt(left, options);
        read_many(&self.default, &keys, ask)
    }

    /// The values of several keys, each of its column family, in their order and as of one moment.
    pub fn multi_get_cf<'b, W: AsColumnFamilyRef + 'b, K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = (&'b W, K)>,
    ) -> Values<Vec<u8>> {
        self.multi_get_cf_opt(keys, &ReadOptions::default())
    }

    /// [`SieveDb::multi_get_cf`] with read options, which may carry a snapshot.
    pub fn multi_get_cf_opt<'b, W: AsColumnFamilyRef + 'b, K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = (&'b W, K)>,
        options: &ReadOptions,
    ) -> Values<Vec<u8>> {
        let keys: Vec<(&W, K)> = keys.into_iter().collect();
        self.read_many_of(&keys, |left| {
            let left = left.iter().map(|&at| (keys[at].0, keys[at].1.as_ref()));
            self.engine.multi_get_cf_opt(left, options)
        })
    }

    /// The values of several keys of one column family, in their order and as of one moment, without
    /// a copy. `sorted_input` says that the keys are in the family's order.
    pub fn batched_multi_get_cf<'k, K: AsRef<[u8]> + ?Sized + 'k>(
        &self,
        cf: &impl AsColumnFamilyRef,
        keys: impl IntoIterator<Item = &'k K>,
        sorted_input: bool,
    ) -> Values<DBPinnableSlice<'_>> {
        self.read_many_cf(cf, keys, |left| self.fetch_many(cf, left, sorted_input))
    }

    /// [`SieveDb::batched_multi_get_cf`] with read options, which may carry a snapshot.
    pub fn batched_multi_get_cf_opt<'k, K: AsRef<[u8]> + ?Sized + 'k>(
        &self,
        cf: &impl AsColumnFamilyRef,
        keys: impl IntoIterator<Item = &'k K>,
        sorted_input: bool,
        options: &ReadOptions,
    ) -> Values<DBPinnableSlice<'_>> {
        self.read_many_cf(cf, keys, |left| {
            let left = left.iter().copied();
            self.engine
                .batched_multi_get_cf_opt(cf, left, sorted_input, options)
        })
    }

    /// Whether the filters can rule a key of the default column family out. The engine is entered only for
    /// an audit ([`SieveOptions::audit`](crate::SieveOptions::audit)), and [`Stats`](crate::Stats) count
    /// nothing but what is absent.
    pub fn answer(&self, key: impl AsRef<[u8]>) -> Answer {
        self.default.look_up(key.as_ref())
    }

    /// [`SieveDb::answer`] for a key of another column family.
    pub fn answer_cf(&self, cf: &impl AsColumnFamilyRef, key: impl AsRef<[u8]>) -> Answer {
        self.look_up_in(ffi::column_id(cf), key.as_ref())
    }

    /// False when a key of the default column family is certainly absent; otherwise RocksDB's own
    /// answer from memory, which may be true for an absent key.
    pub fn key_may_exist(&self, key: impl AsRef<[u8]>) -> bool {
        !self.answer(&key).is_absent() && self.engine.key_may_exist(key)
    }

    /// [`SieveDb::key_may_exist`] with read options.
    pub fn key_may_exist_opt(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> bool {
        !self.answer(&key).is_absent() && self.engine.key_may_exist_opt(key, options)
    }

    /// [`SieveDb::key_may_exist`] for a column family.
    pub fn key_may_exist_cf(&self, cf: &impl AsColumnFamilyRef, key: impl AsRef<[u8]>) -> bool {
        !self.answer_cf(cf, &key).is_absent() && self.engine.key_may_exist_cf(cf, key)
    }

    /// [`SieveDb::key_may_exist_cf`] with read options.
    pub fn key_may_exist_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> bool {
        !self.answer_cf(cf, &key).is_absent() && self.engine.key_may_exist_cf_opt(cf, key, options)
    }

    /// The value of a key as the engine says, past the filters.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_unfiltered(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.engine.get(key)
    }

    /// The value of a key of a column family as the engine says, past the filters.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_unfiltered_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.engine.get_cf(cf, key)
    }

    fn look_up_in(&self, id: u32, key: &[u8]) -> Answer {
        match self.columns.ask(id, key) {
            Some(Asked::Absent(proof)) => Answer::Absent(proof),
            Some(Asked::Doubted(proof)) => self.audit(id, key, proof),
            Some(Asked::Maybe | Asked::Likely | Asked::Spared) | None => Answer::Maybe,
        }
    }

    #[cold]
    fn audit(&self, id: u32, key: &[u8], proof: Proof) -> Answer {
        let column = self.columns.get(id);
        column.map_or(Answer::Maybe, |column| column.audit(key, proof))
    }

    pub(super) fn read_cf<V>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: &[u8],
        ask: impl Fn() -> Result<Option<V>, Error>,
    ) -> Result<Option<V>, Error> {
        let id = ffi::column_id(cf);
        let asked = match self.columns.ask_to_read(id, key) {
            Some(Asked::Absent(_)) => return Ok(None),
            Some(Asked::Doubted(proof)) if self.audit(id, key, proof).is_absent() => {
                return Ok(None);
            }
            Some(asked @ (Asked::Likely | Asked::Spared)) => {
                self.columns.with(id, |column| column.prefetch_tables(key));
                asked
            }
            _ => Asked::Maybe,
        };
        let value = ask().inspect_err(|_| {
            self.columns.with(id, Column::engine_failed);
        })?;
        let found = value.is_some();
        self.columns
            .with(id, |column| column.engine_answered(asked, found));
        Ok(value)
    }

    fn read_many_cf<'k, V, K: AsRef<[u8]> + ?Sized + 'k>(
        &self,
        cf: &impl AsColumnFamilyRef,
        keys: impl IntoIterator<Item = &'k K>,
        ask: impl Fn(&[&[u8]]) -> Values<V>,
    ) -> Values<V> {
        let keys: Vec<&[u8]> = keys.into_iter().map(AsRef::as_ref).collect();
        match self.columns.get(ffi::column_id(cf)) {
            Some(column) => read_many(&column, &keys, ask),
            None => ask(&keys),
        }
    }

    /// Asks the filters for keys of several families, then the engine (`ask`) for those at the indexes that
    /// they do not rule out.
    pub(super) fn read_many_of<V, W: AsColumnFamilyRef, K: AsRef<[u8]>>(
        &self,
        keys: &[(&W, K)],
        ask: impl Fn(&[usize]) -> Values<V>,
    ) -> Values<V> {
        let fronts = keys.iter().map(|(cf, _)| {
            let column = self.columns.get(ffi::column_id(*cf))?;
            let edition = column.edition();
            Some((column, edition))
        });
        let fronts: Vec<_> = fronts.collect();
        let front_of = |at: usize| fronts[at].as_ref();
        let key_of = |at: usize| keys[at].1.as_ref();
        let denied = |at: usize| {
            front_of(at).is_some_and(|(column, _)| column.look_up_to_read(key_of(at)).is_absent())
        };
        let mut left: Vec<usize> = (0..keys.len()).filter(|&at| !denied(at)).collect();
        let still = |left: &[usize]| {
            let mut others = (0..keys.len()).filter(|at| left.binary_search(at).is_err());
            others.all(|at| {
                let front = front_of(at);
                front.is_some_and(|(column, edition)| column.still_denies(&[key_of(at)], *edition))
            })
        };
        if left.is_empty() && !still(&left) && !planted!(DenialsOfManyMoments) {
            // Each was denied, but perhaps not all at one moment.
            left = (0..keys.len()).collect();
        }
        let answered = |at: usize, found| {
            if let Some((column, _)) = front_of(at) {
                column.engine_answered(Asked::Maybe, found);
            }
        };
        past_filters(keys.len(), left, still, ask, answered)
    }

    fn fetch_many(
        &self,
        cf: &impl AsColumnFamilyRef,
        keys: &[&[u8]],
        sorted: bool,
    ) -> Values<DBPinnableSlice<'_>> {
        // What a batch sets up costs more than it saves for one key.
        if let [one] = keys {
            return vec![self.engine.get_pinned_cf(cf, one)];
        }
        let keys = keys.iter().copied();
        self.engine.batched_multi_get_cf(cf, keys, sorted)
    }
}

fn copied(values: Values<DBPinnableSlice<'_>>) -> Values<Vec<u8>> {
    let copied = |value: Result<Option<DBPinnableSlice<'_>>, Error>| {
        value.map(|value| value.map(|value| value.to_vec()))
    };
    values.into_iter().map(copied).collect()
}

/// Asks the filters, then, unless they rule the key out, the engine.
#[inline]
pub(super) fn read<V>(
    column: &Column,
    key: &[u8],
    ask: impl Fn() -> Result<Option<V>, Error>,
) -> Result<Option<V>, Error> {
    match column.ask_to_read(key) {
        Asked::Absent(_) => Ok(None),
        asked => read_past(column, asked, key, ask),
    }
}

/// What the engine says unless an audit finds that the filters rule a key out by right; apart, so that a miss
/// sets up no frame for it.
#[inline(never)]
fn read_past<V>(
    column: &Column,
    asked: Asked,
    key: &[u8],
    ask: impl Fn() -> Result<Option<V>, Error>,
) -> Result<Option<V>, Error> {
    match asked {
        Asked::Doubted(proof) if column.audit(key, proof).is_absent() => return Ok(None),
        Asked::Likely | Asked::Spared => column.prefetch_tables(key),
        _ => {}
    }
    let value = ask().inspect_err(|_| column.engine_failed())?;
    column.engine_answered(asked, value.is_some());
    Ok(value)
}

/// Asks the filters of one family, then the engine for what they do not rule out.
pub(super) fn read_many<V, K: AsRef<[u8]>>(
    column: &Column,
    keys: &[K],
    ask: impl Fn(&[&[u8]]) -> Values<V>,
) -> Values<V> {
    let mut edition = column.edition();
    let left = column.ask_many(keys);
    if planted!(EditionTakenLate) {
        edition = column.edition();
    }
    let still = |left: &[usize]| {
        let denied = (0..keys.len()).filter(|at| left.binary_search(at).is_err());
        let denied: Vec<&[u8]> = denied.map(|at| keys[at].as_ref()).collect();
        column.still_denies(&denied, edition)
    };
    let ask = |left: &[usize]| {
        let left: Vec<&[u8]> = left.iter().map(|&at| keys[at].as_ref()).collect();
        ask(&left)
    };
    let answered = |_, found| column.engine_answered(Asked::Maybe, found);
    past_filters(keys.len(), left, still, ask, answered)
}

/// The values of so many keys, of which the filters let those at `left` by, ascending. The engine
/// is asked for these once, or for all again; what it found of each is reported (`answered`).
///
/// The answers are those of one moment, as the engine's own are: what the filters ruled out before
/// the engine was asked, they must `still` rule out after it. Otherwise a key was written between
/// the two, perhaps by a batch that took another away.
fn past_filters<V>(
    count: usize,
    mut left: Vec<usize>,
    still: impl FnOnce(&[usize]) -> bool,
    ask: impl Fn(&[usize]) -> Values<V>,
    answered: impl Fn(usize, bool),
) -> Values<V> {
    let mut values = Values::new();
    values.resize_with(count, || Ok(None));
    if left.is_empty() {
        return values;
    }
    let mut answers = ask(&left);
    if left.len() < count && !still(&left) {
        left = (0..count).collect();
        answers = ask(&left);
    }
    let counted = left.len() - usize::from(planted!(EngineReadCountedShort));
    for (nth, (at, answer)) in left.into_iter().zip(answers).enumerate() {
        if let Ok(value) = &answer
            && nth < counted
        {
            answered(at, value.is_some());
        }
        let at = if planted!(AnswersShifted) {
            (at + 1) % count
        } else {
            at
        };
        values[at] = answer;
    }
    values
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The summary is believed then; the answers are the same.
    #[test]
    fn a_key_is_denied_after_many_that_were_let_by() {
        let home = tempfile::tempdir().unwrap();
        let db = SieveDb::open_default(home.path()).unwrap();
        db.put("key", "value").unwrap();
        assert!(db.wait_until_known(Duration::from_secs(60)));
        let column = db.columns().all().remove(0);
        assert!(column.view().inventory.is_some());
        for let_by in 0..6 {
            assert!((0..let_by).all(|_| db.get("key").unwrap().is_some()));
            assert!((0..3).all(|_| db.get("absent").unwrap().is_none()));
        }
        assert_eq!((db.stats().found, db.stats().absent), (15, 18));
        // Of a view that knows nothing, the same.
        column.foreign_keys_arrived();
        assert!((0..6).all(|_| db.get("key").unwrap().is_some()));
    }
}
