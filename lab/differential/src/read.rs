//! Reads: first the generations that may have the key, newest first, then the main file.
//!
//! A read of an unmodified record costs the filter probes and one read of the main file. It takes
//! no lock and no reference count. It is done with the list of generations before it enters the
//! engine, so a slow disk does not delay a change of the list. The main file is read after that: it
//! may be newer than the list, never older.

use std::sync::Arc;

use rocksdb::ReadOptions;

use super::error::DifferentialError;
use super::generation::Generation;
use super::options::FilterChoice;
use super::read_options::StoreReadOptions;
use super::record::Record;
use super::snapshot::Snapshot;
use super::store::{DifferentialStore, Generations};
use lsm_sieve_front::stats::Event;

type Value = Result<Option<Vec<u8>>, DifferentialError>;

impl DifferentialStore {
    /// Reads the value of a key.
    ///
    /// # Errors
    /// If a file cannot be read or a record in it is damaged.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, DifferentialError> {
        let key = key.as_ref();
        let searched = self.view.with(|generations| {
            let first = generations.iter().position(|file| file.may_contain(key))?;
            Some((Arc::clone(generations), first))
        });
        let how = StoreReadOptions::of_now(&self.reading);
        match searched {
            None if self.absence_stands(key) => self.read_main(key, how),
            None => self.read(&self.generations(), key, how),
            Some((generations, first)) => self.read(&generations[first..], key, how),
        }
    }

    /// Reads the values of several keys, in their order. Each file is read once, for the keys that
    /// may be in it. The values need not all be of the same point in time; those of a [`Snapshot`]
    /// are.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Vec<u8>>, DifferentialError>> {
        self.read_many(
            &self.generations(),
            keys,
            StoreReadOptions::of_now(&self.reading),
        )
    }

    /// Whether the filters send a read of the key to the differential file first. If false, no
    /// generation has a record of it.
    pub fn may_be_modified(&self, key: impl AsRef<[u8]>) -> bool {
        let key = key.as_ref();
        let asked = |files: &Generations| files.iter().any(|file| file.may_contain(key));
        self.view.with(asked)
    }

    /// Whether the differential file has a record of the key, which may be a delete. Does not use
    /// the filters.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn is_modified(&self, key: impl AsRef<[u8]>) -> Result<bool, DifferentialError> {
        Ok(self.recorded(key.as_ref())?.is_some())
    }

    /// Reads the value of a key without the filters. No counter changes.
    ///
    /// # Errors
    /// The same as [`DifferentialStore::get`].
    pub fn get_unfiltered(
        &self,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>, DifferentialError> {
        let key = key.as_ref();
        if let Some(record) = self.recorded(key)? {
            return Ok(record);
        }
        let value = self.main.fetch(key, &self.reading);
        let value = value.map_err(DifferentialError::read("main"))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn recorded(&self, key: &[u8]) -> Result<Option<Record<Vec<u8>>>, DifferentialError> {
        for generation in self.generations().iter() {
            if let Some(record) = generation.fetch(key, &self.reading)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// All records as they are now. Later writes and reorganisations do not change it.
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot::new(self)
    }

    /// Reads the newest file that has a record of the key.
    pub(super) fn read(
        &self,
        generations: &[Arc<Generation>],
        key: &[u8],
        how: StoreReadOptions<'_>,
    ) -> Result<Option<Vec<u8>>, DifferentialError> {
        let mut event = Event::Absent;
        for generation in generations {
            if !generation.may_contain_audited(key) {
                continue;
            }
            if let Some(record) = generation.read(key, how.own)? {
                self.counters.add(Event::Found, 1);
                return Ok(record);
            }
            event = after_a_search_in_vain(event, generation);
        }
        let ordinal = self.counters.add(event, 1);
        if self.is_audit_due(event, ordinal) && !self.audit_negatives(generations, key, how.own) {
            return self.read(generations, key, how);
        }
        self.read_main(key, how)
    }

    /// Counts a read for which no generation was searched. False if an audit of it found a record.
    fn absence_stands(&self, key: &[u8]) -> bool {
        let ordinal = self.counters.add(Event::Absent, 1);
        !self.is_sampled(ordinal) || self.audit_negatives(&self.generations(), key, &self.reading)
    }

    /// Whether to audit a read with this event and ordinal. The filters of a column family have
    /// already audited their negatives by then; a fixed filter has not.
    fn is_audit_due(&self, event: Event, ordinal: u64) -> bool {
        let fixed = matches!(self.options.filter, FilterChoice::Fixed { .. });
        fixed && matches!(event, Event::Absent) && self.is_sampled(ordinal)
    }

    fn is_sampled(&self, ordinal: u64) -> bool {
        self.sample.is_sampled(ordinal)
    }

    /// [`DifferentialStore::denials_stand`]; true without an audit while audits are throttled.
    fn audit_negatives(
        &self,
        generations: &[Arc<Generation>],
        key: &[u8],
        options: &ReadOptions,
    ) -> bool {
        let audit = || self.denials_stand(generations, key, options);
        self.throttle.run(audit).unwrap_or(true)
    }

    /// Audits a negative: true if there is no record that all filters rule out. A filter that did
    /// rule one out is disabled.
    fn denials_stand(
        &self,
        generations: &[Arc<Generation>],
        key: &[u8],
        options: &ReadOptions,
    ) -> bool {
        self.counters.add(Event::Audited, 1);
        let stands = |file: &Arc<Generation>| file.audit_negative(key, options);
        let stand = generations.iter().all(stands);
        if !stand {
            self.counters.add(Event::FalseNegative, 1);
        }
        stand
    }

    #[inline]
    fn read_main(
        &self,
        key: &[u8],
        how: StoreReadOptions<'_>,
    ) -> Result<Option<Vec<u8>>, DifferentialError> {
        if !self.main.may_contain_audited(key) {
            return Ok(None);
        }
        let value = self.main.read(key, how.main);
        let value = value.map_err(DifferentialError::read("main"))?;
        Ok(value.map(|value| value.to_vec()))
    }

    /// [`DifferentialStore::read`] for several keys, one file at a time.
    pub(super) fn read_many<K: AsRef<[u8]>>(
        &self,
        generations: &[Arc<Generation>],
        keys: impl IntoIterator<Item = K>,
        how: StoreReadOptions<'_>,
    ) -> Vec<Value> {
        let keys: Vec<K> = keys.into_iter().collect();
        let mut looks: Vec<PendingLookup<'_>> = keys
            .iter()
            .map(|key| PendingLookup::new(key.as_ref()))
            .collect();
        for generation in generations {
            let mut asked = open_lookups(&mut looks, |keys| generation.candidate_indexes(keys));
            let answers = generation.read_many(&keys_of(&asked), how.own);
            for (look, answer) in asked.iter_mut().zip(answers) {
                look.event = match answer {
                    Ok(None) => after_a_search_in_vain(look.event, generation),
                    _ => Event::Found,
                };
                look.value = answer.transpose();
            }
        }
        for look in &mut looks {
            if matches!(look.value, Some(Err(_))) {
                continue;
            }
            let ordinal = self.counters.add(look.event, 1);
            let doubted = self.is_audit_due(look.event, ordinal);
            if doubted && !self.audit_negatives(generations, look.key, how.own) {
                look.value = Some(self.read(generations, look.key, how));
            }
        }
        let mut asked = open_lookups(&mut looks, |keys| self.main.candidate_indexes(keys));
        let answers = self.main.read_many(&keys_of(&asked), how.main);
        for (look, answer) in asked.iter_mut().zip(answers) {
            let answer = answer.map_err(DifferentialError::read("main"));
            look.value = Some(answer.map(|value| value.map(|value| value.to_vec())));
        }
        let values = looks.into_iter().map(|look| look.value);
        values.map(|value| value.unwrap_or(Ok(None))).collect()
    }
}

/// The event of a read, which was `event` before, after a search of this generation that found
/// nothing. Such a search counts as unnecessary only if all filters were complete.
fn after_a_search_in_vain(event: Event, generation: &Generation) -> Event {
    match event {
        Event::Uncovered => event,
        _ if generation.is_complete() => Event::FalsePositive,
        _ => Event::Uncovered,
    }
}

/// One of several keys that are looked up together. It is open until it has a value. A lookup that
/// failed is not counted.
struct PendingLookup<'a> {
    key: &'a [u8],
    value: Option<Value>,
    event: Event,
}

impl<'a> PendingLookup<'a> {
    fn new(key: &'a [u8]) -> Self {
        Self {
            key,
            value: None,
            event: Event::Absent,
        }
    }
}

/// The open lookups whose keys pass a filter; `passed` returns their indexes, ascending.
fn open_lookups<'l, 'a>(
    looks: &'l mut [PendingLookup<'a>],
    passed: impl FnOnce(&[&[u8]]) -> Vec<usize>,
) -> Vec<&'l mut PendingLookup<'a>> {
    let mut open: Vec<&mut PendingLookup<'a>> = looks
        .iter_mut()
        .filter(|look| look.value.is_none())
        .collect();
    let keys: Vec<&[u8]> = open.iter().map(|look| look.key).collect();
    let mut asked = passed(&keys).into_iter().peekable();
    let mut at = 0;
    open.retain(|_| {
        let asked = asked.next_if_eq(&at).is_some();
        at += 1;
        asked
    });
    open
}

fn keys_of<'a>(looks: &[&mut PendingLookup<'a>]) -> Vec<&'a [u8]> {
    looks.iter().map(|look| look.key).collect()
}
