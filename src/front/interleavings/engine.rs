//! A model engine of one memtable and a list of SSTs.

use std::collections::HashSet;
use std::sync::Arc;

use super::cf_filter;
use crate::front::cf_filter::CfFilter;
use crate::front::memtables::FilterSet;
use crate::front::view::Coverage;
use crate::segment::SegmentId;
use crate::sync::Mutex;

pub(super) type Key = &'static [u8];

/// A new SST has a new number.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) number: u8,
    pub(super) keys: Vec<Key>,
}

impl Table {
    pub(super) fn id(&self) -> SegmentId {
        SegmentId::from_bytes([self.number; 16])
    }
}

#[derive(Default)]
struct Files {
    memtable: Option<(Arc<FilterSet>, Vec<Key>)>,
    tables: Vec<Table>,
    next: u8,
}

/// The engine and the filters of its one column family.
pub(super) struct Engine {
    pub(super) cf_filter: Arc<CfFilter>,
    files: Mutex<Files>,
}

impl Engine {
    /// An empty engine whose filters are complete.
    pub(super) fn new() -> Arc<Self> {
        let engine = Self {
            cf_filter: cf_filter(),
            files: Mutex::default(),
        };
        let summary = Arc::clone(&engine.cf_filter.view().summary);
        let (epoch, nothing) = (engine.cf_filter.epoch(), HashSet::new());
        assert!(
            engine
                .cf_filter
                .publish(epoch, summary, Coverage::Complete, nothing)
        );
        Arc::new(engine)
    }

    fn files<T>(&self, work: impl FnOnce(&mut Files) -> T) -> T {
        work(&mut self.files.lock().unwrap())
    }

    /// The order of memtable capture: bind, hash, insert into the filters, then into the memtable.
    pub(super) fn put(&self, key: Key) {
        self.files(|files| {
            let bind = || (self.cf_filter.memtables().bind(), Vec::new());
            let (target, keys) = files.memtable.get_or_insert_with(bind);
            let hash = target.prepare(key);
            target.insert(hash, key);
            keys.push(key);
        });
    }

    pub(super) fn flush(&self) {
        self.files(|files| {
            if let Some((target, keys)) = files.memtable.take() {
                target.seal();
                files.push(keys);
            }
        });
    }

    /// Ingests an SST.
    pub(super) fn ingest(&self, key: Key) {
        self.files(|files| files.push(vec![key]));
    }

    pub(super) fn tables(&self) -> Vec<Table> {
        self.files(|files| files.tables.clone())
    }

    fn contains(&self, key: Key) -> bool {
        self.files(|files| {
            let memtable = files.memtable.iter().map(|(_, keys)| keys);
            let tables = files.tables.iter().map(|table| &table.keys);
            memtable.chain(tables).any(|keys| keys.contains(&key))
        })
    }

    /// Reads the engine, then checks the filters.
    pub(super) fn read_and_check(&self, key: Key) {
        if self.contains(key) {
            assert!(
                !self.cf_filter.answer(key).is_absent(),
                "a key was lost: {key:?}"
            );
        }
    }
}

impl Files {
    fn push(&mut self, keys: Vec<Key>) {
        self.next += 1;
        let number = self.next;
        self.tables.push(Table { number, keys });
    }
}
