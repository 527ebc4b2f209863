//! The fronts of a database's column families, by RocksDB's id of each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::column::Column;
use crate::math::Rate;
use crate::rcu::Published;

/// All fronts.
pub(crate) struct Columns {
    by_id: Published<Vec<Option<Arc<Column>>>>,
    change: Mutex<()>,
    summary_rate: Mutex<Rate>,
}

impl Columns {
    pub(crate) fn new(summary_rate: Rate) -> Self {
        Self {
            by_id: Published::new(Vec::new()),
            change: Mutex::new(()),
            summary_rate: Mutex::new(summary_rate),
        }
    }

    /// Calls `read` with the front of a column family, if it has one. `read` must be short: it is
    /// for look-ups, which pay for no reference count.
    #[inline]
    pub(crate) fn with<R>(&self, id: u32, read: impl FnOnce(&Column) -> R) -> Option<R> {
        self.by_id
            .with(|columns| Some(read(columns.get(id as usize)?.as_ref()?)))
    }

    /// The front of a column family, if it has one, to be kept.
    pub(crate) fn get(&self, id: u32) -> Option<Arc<Column>> {
        self.by_id
            .with(|columns| columns.get(id as usize).cloned().flatten())
    }

    pub(crate) fn all(&self) -> Vec<Arc<Column>> {
        self.by_id
            .with(|columns| columns.iter().flatten().cloned().collect())
    }

    pub(crate) fn insert(&self, id: u32, column: Arc<Column>) {
        self.change(|columns| {
            let index = id as usize;
            if columns.len() <= index {
                columns.resize(index + 1, None);
            }
            columns[index] = Some(column);
        });
    }

    pub(crate) fn remove(&self, name: &str) {
        self.change(|columns| {
            for slot in columns.iter_mut() {
                slot.take_if(|column| column.name() == name);
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Option<Arc<Column>>>)) {
        let _one_at_a_time = lock(&self.change);
        let mut columns = self.by_id.with(Vec::clone);
        change(&mut columns);
        self.by_id.publish(columns);
    }

    /// The rate that summaries are made for.
    pub(crate) fn summary_rate(&self) -> Rate {
        *lock(&self.summary_rate)
    }

    pub(crate) fn set_summary_rate(&self, rate: Rate) {
        *lock(&self.summary_rate) = rate;
    }
}

/// What these locks guard is whole between operations, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
