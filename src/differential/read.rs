//! Reading: the generations that may hold the key, newest first, then the main file.
//!
//! A read of an unmodified record costs the filters and one look into the main file: no lock, no
//! reference count. What it does to the list of generations is over before the engine is entered,
//! so that a slow disk keeps nobody from changing the list; a main file read after that may be newer
//! than the list, never older.

use std::ops::RangeBounds;
use std::sync::Arc;

use rocksdb::ReadOptions;

use super::error::DifferentialError;
use super::generation::Generation;
use super::options::FilterChoice;
use super::record::Record;
use super::scan::Scan;
use super::snapshot::Snapshot;
use super::store::{DifferentialStore, Generations};
use crate::stats::Event;

type Value = Result<Option<Vec<u8>>, DifferentialError>;

impl DifferentialStore {
    /// The value of a key.
    ///
    /// # Errors
    /// When a file cannot be read, or a record in it is damaged.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, DifferentialError> {
        let key = key.as_ref();
        let searched = self.view.with(|generations| {
            let first = generations.iter().position(|file| file.may_contain(key))?;
            Some((Arc::clone(generations), first))
        });
        let how = Sight::of_now(&self.reading);
        match searched {
            None if self.absence_stands(key) => self.read_main(key, how),
            None => self.read(&self.generations(), key, how),
            Some((generations, first)) => self.read(&generations[first..], key, how),
        }
    }

    /// The values of several keys, in their order. Each file is asked once, for the keys that may
    /// be there. The values need not be of one moment; a [`Snapshot`]'s are.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Vec<u8>>, DifferentialError>> {
        self.read_many(&self.generations(), keys, Sight::of_now(&self.reading))
    }

    /// Whether the filters send a read of the key to the differential file first. When false, no
    /// generation has a record of it.
    pub fn may_be_modified(&self, key: impl AsRef<[u8]>) -> bool {
        let key = key.as_ref();
        let asked = |files: &Generations| files.iter().any(|file| file.may_contain(key));
        self.view.with(asked)
    }

    /// Whether the differential file has a record of the key, be it a delete; past the filters.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn is_modified(&self, key: impl AsRef<[u8]>) -> Result<bool, DifferentialError> {
        Ok(self.recorded(key.as_ref())?.is_some())
    }

    /// The value of a key as the files say, past the filters; nothing is counted.
    ///
    /// # Errors
    /// As [`DifferentialStore::get`].
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

    /// All records as they are now, whatever is written or moved from here on.
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot::new(self)
    }

    /// The records of a range of keys as they are now, ascending; `..` for all. What is written or
    /// moved while the scan goes on is not noticed. Filters are not asked.
    pub fn scan<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan<'_> {
        self.snapshot().into_scan(range)
    }

    /// Reads the newest file that has a record of the key.
    pub(super) fn read(
        &self,
        generations: &[Arc<Generation>],
        key: &[u8],
        how: Sight<'_>,
    ) -> Result<Option<Vec<u8>>, DifferentialError> {
        let mut event = Event::Absent;
        for generation in generations {
            if !generation.lets_by(key) {
                continue;
            }
            if let Some(record) = generation.read(key, how.own)? {
                self.counters.add(Event::Found, 1);
                return Ok(record);
            }
            event = after_a_search_in_vain(event, generation);
        }
        let ordinal = self.counters.add(event, 1);
        if self.doubts(event, ordinal) && !self.stand_or_rest(generations, key, how.own) {
            return self.read(generations, key, how);
        }
        self.read_main(key, how)
    }

    /// Counts a read that no generation was searched for; false when an audit of it found a record.
    fn absence_stands(&self, key: &[u8]) -> bool {
        let ordinal = self.counters.add(Event::Absent, 1);
        !self.draws(ordinal) || self.stand_or_rest(&self.generations(), key, &self.reading)
    }

    /// Whether to audit a read that counts as this event, with this ordinal. Fronts have audited their
    /// denials by then, a fixed filter has not.
    fn doubts(&self, event: Event, ordinal: u64) -> bool {
        let fixed = matches!(self.options.filter, FilterChoice::Fixed { .. });
        fixed && matches!(event, Event::Absent) && self.draws(ordinal)
    }

    fn draws(&self, ordinal: u64) -> bool {
        self.sample.draws(ordinal)
    }

    /// [`DifferentialStore::denials_stand`], or audits rest.
    fn stand_or_rest(
        &self,
        generations: &[Arc<Generation>],
        key: &[u8],
        options: &ReadOptions,
    ) -> bool {
        let audit = || self.denials_stand(generations, key, options);
        self.pace.run(audit).unwrap_or(true)
    }

    /// Whether an audit finds no record that all filters rule out. A filter that ruled one out does
    /// so no more.
    fn denials_stand(
        &self,
        generations: &[Arc<Generation>],
        key: &[u8],
        options: &ReadOptions,
    ) -> bool {
        self.counters.add(Event::Audited, 1);
        let stands = |file: &Arc<Generation>| file.denial_stands(key, options);
        let stand = generations.iter().all(stands);
        if !stand {
            self.counters.add(Event::Refuted, 1);
        }
        stand
    }

    #[inline]
    fn read_main(&self, key: &[u8], how: Sight<'_>) -> Result<Option<Vec<u8>>, DifferentialError> {
        if !self.main.lets_by(key) {
            return Ok(None);
        }
        let value = self.main.read(key, how.main);
        let value = value.map_err(DifferentialError::read("main"))?;
        Ok(value.map(|value| value.to_vec()))
    }

    /// [`DifferentialStore::read`] for several keys, file by file.
    pub(super) fn read_many<K: AsRef<[u8]>>(
        &self,
        generations: &[Arc<Generation>],
        keys: impl IntoIterator<Item = K>,
        how: Sight<'_>,
    ) -> Vec<Value> {
        let keys: Vec<K> = keys.into_iter().collect();
        let mut looks: Vec<Look<'_>> = keys.iter().map(|key| Look::new(key.as_ref())).collect();
        for generation in generations {
            let mut asked = open_looks(&mut looks, |keys| generation.indexes_let_by(keys));
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
            let doubted = self.doubts(look.event, ordinal);
            if doubted && !self.stand_or_rest(generations, look.key, how.own) {
                look.value = Some(self.read(generations, look.key, how));
            }
        }
        let mut asked = open_looks(&mut looks, |keys| self.main.indexes_let_by(keys));
        let answers = self.main.read_many(&keys_of(&asked), how.main);
        for (look, answer) in asked.iter_mut().zip(answers) {
            let answer = answer.map_err(DifferentialError::read("main"));
            look.value = Some(answer.map(|value| value.map(|value| value.to_vec())));
        }
        let values = looks.into_iter().map(|look| look.value);
        values.map(|value| value.unwrap_or(Ok(None))).collect()
    }
}

/// How the store's own files are read, and how a main file is that may be another database's.
#[derive(Clone, Copy)]
pub(super) struct Sight<'a> {
    pub(super) own: &'a ReadOptions,
    pub(super) main: &'a ReadOptions,
}

impl<'a> Sight<'a> {
    fn of_now(options: &'a ReadOptions) -> Self {
        Self {
            own: options,
            main: options,
        }
    }
}

/// What a read counts as that was `event` before this generation was searched in vain: a search
/// is unnecessary only if no filter was at a loss.
fn after_a_search_in_vain(event: Event, generation: &Generation) -> Event {
    match event {
        Event::Uncovered => event,
        _ if generation.is_complete() => Event::FalsePositive,
        _ => Event::Uncovered,
    }
}

/// One of several keys that are looked up together; it is open until it has a value. One that
/// failed counts as nothing.
struct Look<'a> {
    key: &'a [u8],
    value: Option<Value>,
    event: Event,
}

impl<'a> Look<'a> {
    fn new(key: &'a [u8]) -> Self {
        Self {
            key,
            value: None,
            event: Event::Absent,
        }
    }
}

/// The open ones whose keys a filter lets by; it gives their indexes, ascending.
fn open_looks<'l, 'a>(
    looks: &'l mut [Look<'a>],
    let_by: impl FnOnce(&[&[u8]]) -> Vec<usize>,
) -> Vec<&'l mut Look<'a>> {
    let mut open: Vec<&mut Look<'a>> = looks
        .iter_mut()
        .filter(|look| look.value.is_none())
        .collect();
    let keys: Vec<&[u8]> = open.iter().map(|look| look.key).collect();
    let mut asked = let_by(&keys).into_iter().peekable();
    let mut at = 0;
    open.retain(|_| {
        let asked = asked.next_if_eq(&at).is_some();
        at += 1;
        asked
    });
    open
}

fn keys_of<'a>(looks: &[&mut Look<'a>]) -> Vec<&'a [u8]> {
    looks.iter().map(|look| look.key).collect()
}
