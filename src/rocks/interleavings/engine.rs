//! An engine of one memtable and a list of tables.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::column::Column;
use super::super::coverage::Coverage;
use super::super::memtables::WriteTarget;
use super::column;
use crate::segment::SegmentId;
use crate::sync::Mutex;

pub(super) type Key = &'static [u8];

/// A table that was not there before has a number that was not there before.
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
    memtable: Option<(Arc<WriteTarget>, Vec<Key>)>,
    tables: Vec<Table>,
    next: u8,
}

/// The engine and the front of its one column family.
pub(super) struct Engine {
    pub(super) column: Arc<Column>,
    files: Mutex<Files>,
}

impl Engine {
    /// Empty, and its front knows it.
    pub(super) fn new() -> Arc<Self> {
        let engine = Self {
            column: column(),
            files: Mutex::default(),
        };
        let summary = Arc::clone(&engine.column.view().summary);
        let (epoch, nothing) = (engine.column.epoch(), HashSet::new());
        assert!(
            engine
                .column
                .publish(epoch, summary, Coverage::Complete, nothing)
        );
        Arc::new(engine)
    }

    fn files<T>(&self, work: impl FnOnce(&mut Files) -> T) -> T {
        work(&mut self.files.lock().unwrap())
    }

    /// The order of the capture: bind, hash, insert into the filters, then into the memtable.
    pub(super) fn put(&self, key: Key) {
        self.files(|files| {
            let bind = || (self.column.memtables().bind(), Vec::new());
            let (target, keys) = files.memtable.get_or_insert_with(bind);
            let hash = target.prepare(key);
            target.insert(hash);
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

    /// A table from outside.
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

    /// Looks into the engine, then asks the front.
    pub(super) fn look_up(&self, key: Key) {
        if self.contains(key) {
            assert!(
                !self.column.look_up(key).is_absent(),
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
