//! One generation of the differential file: its records and its filter.

use std::sync::atomic::{AtomicBool, Ordering};

use rocksdb::ReadOptions;
use rocksdb::properties::{CUR_SIZE_ALL_MEM_TABLES, ESTIMATE_NUM_KEYS, LIVE_SST_FILES_SIZE};

use super::error::DifferentialError;
use super::options::FilterChoice;
use super::record::{self, Record};
use lsm_sieve::CfReader;
use lsm_sieve_classics::filter::{Kind, Shape, Stage, StageError};
use lsm_sieve_filter::hash::KeyHasher;
use lsm_sieve_filter::math::{Bits, Items};
use lsm_sieve_support::fault::fault;

/// A generation. Its filter has every key that was ever written to it, including deleted ones.
pub(super) struct Generation {
    number: u64,
    family: CfReader,
    fixed: Option<Fixed>,
}

/// A filter of fixed size, used in place of the filters of the column family.
struct Fixed {
    hasher: KeyHasher,
    stage: Stage,
    /// An audit found a false negative. The filter answers *maybe* from then on.
    is_distrusted: AtomicBool,
}

impl Fixed {
    fn new(choice: FilterChoice, family: &CfReader) -> Result<Option<Self>, StageError> {
        let (FilterChoice::Fixed { bits, probes }, Some(hasher)) = (choice, family.hasher()) else {
            return Ok(None);
        };
        let shape = Shape {
            kind: Kind::Standard,
            bits,
            probes,
            groups: 0,
        };
        let stage = Stage::new(shape)?;
        Ok(Some(Self {
            hasher,
            stage,
            is_distrusted: AtomicBool::new(false),
        }))
    }

    #[inline]
    fn may_contain(&self, key: &[u8]) -> bool {
        self.stage.may_contain(self.hasher.hash(key)) || self.is_distrusted.load(Ordering::Acquire)
    }

    fn disable(&self, generation: u64) {
        self.is_distrusted.store(true, Ordering::Release);
        tracing::error!(
            generation,
            "an audit found a record that the filter had ruled out; reads of this generation skip \
             its filter until the store is opened again and rebuilds it: report this"
        );
    }
}

impl Generation {
    /// An empty generation.
    pub(super) fn new(
        number: u64,
        family: CfReader,
        choice: FilterChoice,
    ) -> Result<Self, StageError> {
        let fixed = Fixed::new(choice, &family)?;
        Ok(Self {
            number,
            family,
            fixed,
        })
    }

    /// Inserts every key into a fixed filter again. The filters of the column family need no help.
    pub(super) fn recover(&self) -> Result<(), rocksdb::Error> {
        fault!(FixedFilterNotRefilled, return Ok(()));
        if self.fixed.is_none() {
            return Ok(());
        }
        let mut records = self.family.iterate(ReadOptions::default());
        records.seek_to_first();
        while let Some(key) = records.key() {
            self.expect(key);
            records.next();
        }
        fault!(RefillStopsShort, return Ok(()));
        records.status()
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn family(&self) -> &CfReader {
        &self.family
    }

    /// Inserts a key into a fixed filter. Call this before the key's record is written.
    pub(super) fn expect(&self, key: &[u8]) {
        if let Some(Fixed { hasher, stage, .. }) = &self.fixed {
            stage.insert(hasher.hash(key));
        }
    }

    /// False only if the filter rules the key out.
    #[inline]
    pub(super) fn may_contain(&self, key: &[u8]) -> bool {
        match &self.fixed {
            Some(fixed) => fixed.may_contain(key),
            None => self.family.may_contain(key),
        }
    }

    /// False only if the filter rules the key out. The filters of the column family audit a sample
    /// of these answers; for a fixed filter the store does. Do not call this within a read of a
    /// published value.
    pub(super) fn may_contain_audited(&self, key: &[u8]) -> bool {
        match &self.fixed {
            Some(fixed) => fixed.may_contain(key),
            None => self.family.may_contain_audited(key),
        }
    }

    /// Audits a negative: true if there is no record that the filter rules out.
    pub(super) fn audit_negative(&self, key: &[u8], options: &ReadOptions) -> bool {
        let Some(fixed) = &self.fixed else {
            return self.family.audit_negative(key);
        };
        // The filter gets a key before its record is written. So if the record is found here, the
        // filter must have the key by now.
        let found = matches!(self.family.fetch(key, options), Ok(Some(_)));
        if found && !fixed.may_contain(key) {
            fixed.disable(self.number);
        }
        !found
    }

    /// Ascending indexes of the keys that pass the filter.
    pub(super) fn candidate_indexes(&self, keys: &[&[u8]]) -> Vec<usize> {
        match &self.fixed {
            Some(fixed) => {
                let indexes = 0..keys.len();
                indexes.filter(|&at| fixed.may_contain(keys[at])).collect()
            }
            None => self.family.candidate_indexes(keys),
        }
    }

    /// Whether the filter has the keys of all records.
    pub(super) fn is_complete(&self) -> bool {
        self.fixed.is_some() || self.family.is_complete()
    }

    /// Reads a key without its filter; `None` if there is no record.
    pub(super) fn fetch(
        &self,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Record<Vec<u8>>>, DifferentialError> {
        self.understand(key, self.family.fetch(key, options))
    }

    /// Reads a key that passed the filter.
    pub(super) fn read(
        &self,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Record<Vec<u8>>>, DifferentialError> {
        self.understand(key, self.family.read(key, options))
    }

    /// [`Generation::read`] for several keys.
    pub(super) fn read_many(
        &self,
        keys: &[&[u8]],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Record<Vec<u8>>>, DifferentialError>> {
        let values = self.family.read_many(keys, options);
        let understood = keys.iter().zip(values);
        understood
            .map(|(key, bytes)| self.understand(key, bytes))
            .collect()
    }

    fn understand<B: AsRef<[u8]>>(
        &self,
        key: &[u8],
        bytes: Result<Option<B>, rocksdb::Error>,
    ) -> Result<Option<Record<Vec<u8>>>, DifferentialError> {
        let Some(bytes) = bytes.map_err(DifferentialError::read("differential"))? else {
            return Ok(None);
        };
        let record = self.decode(key, bytes.as_ref())?;
        Ok(Some(record.map(<[u8]>::to_vec)))
    }

    /// Decodes the record of a key.
    pub(super) fn decode<'a>(
        &self,
        key: &[u8],
        bytes: &'a [u8],
    ) -> Result<Record<&'a [u8]>, DifferentialError> {
        record::decode(bytes).map_err(|reason| DifferentialError::Damaged {
            generation: self.number,
            key: key.iter().map(|byte| format!("{byte:02x}")).collect(),
            reason,
        })
    }

    /// Whether there is no record now.
    pub(super) fn is_empty(&self) -> Result<bool, DifferentialError> {
        let mut records = self.family.iterate(ReadOptions::default());
        records.seek_to_first();
        let empty = !records.valid();
        records
            .status()
            .map_err(DifferentialError::read("differential"))?;
        Ok(empty)
    }

    /// Approximate number of keys, the size of the filter, and its false-positive rate.
    pub(super) fn filter(&self) -> Result<(Items, Bits, f64), DifferentialError> {
        let (items, size, rate) = match &self.fixed {
            Some(Fixed { stage, .. }) => {
                (stage.estimated_items(), stage.size(), stage.observed_rate())
            }
            None => self.family.summary(),
        };
        // Takes the smaller estimate: the engine counts every update of a key, and a filter without
        // a clear bit estimates infinitely many keys.
        let entries = self.family.property(ESTIMATE_NUM_KEYS);
        let entries = entries.map_err(DifferentialError::read("differential"))?;
        Ok((items.min(Items::new(entries)), size, rate))
    }

    /// Bytes of memtables and SSTs.
    pub(super) fn bytes(&self) -> Result<u64, DifferentialError> {
        let bytes = |name| self.family.property(name);
        let sum = bytes(CUR_SIZE_ALL_MEM_TABLES)
            .and_then(|memory| Ok(memory.saturating_add(bytes(LIVE_SST_FILES_SIZE)?)));
        sum.map_err(DifferentialError::read("differential"))
    }
}

#[cfg(test)]
mod tests {
    use crate::{DifferentialOptions, DifferentialStore, FilterChoice};
    use lsm_sieve::SieveOptions;
    use lsm_sieve_filter::math::{Bits, Probes};

    #[test]
    fn a_fixed_filter_that_lost_a_bit_is_found_out_and_asked_no_more() {
        const ONE_IN: u32 = 16;
        const KEY: &[u8] = b"key";
        let mut engine = rocksdb::Options::default();
        engine.create_if_missing(true);
        let options = DifferentialOptions {
            filters: SieveOptions::default().audit(ONE_IN),
            filter: FilterChoice::Fixed {
                bits: Bits::new(1 << 12),
                probes: Probes::new(3),
            },
            ..DifferentialOptions::default()
        };
        let reads: [fn(&DifferentialStore) -> Vec<u8>; 4] = [
            |store| store.get(KEY).unwrap().unwrap(),
            |store| store.multi_get([KEY]).remove(0).unwrap().unwrap(),
            |store| store.snapshot().get(KEY).unwrap().unwrap(),
            |store| {
                let mut values = store.snapshot().multi_get([KEY]);
                values.remove(0).unwrap().unwrap()
            },
        ];
        for (kind, read) in reads.iter().enumerate() {
            let home = tempfile::tempdir().unwrap();
            let store = DifferentialStore::open(&engine, &options, home.path()).unwrap();
            store.load([(KEY, b"old")]).unwrap();
            store.put(KEY, b"new").unwrap();
            assert_eq!(read(&store), b"new");
            let generations = store.generations();
            let fixed = generations[0].fixed.as_ref().unwrap();
            fixed.stage.clear_one_bit();
            assert!(!store.may_be_modified(KEY), "it lies");
            let right = (0..8 * ONE_IN).any(|_| read(&store) == b"new");
            assert!(right, "no audit in time: {kind}");
            assert!(store.may_be_modified(b"anything"));
            for _ in 0..100 {
                assert_eq!(read(&store), b"new");
            }
            assert_eq!(store.stats().false_negatives, 1);
        }
    }
}
