//! The fronts of a database's column families, by RocksDB's id of each.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use super::column::Column;
use crate::math::Rate;

/// All fronts.
pub(crate) struct Columns {
    by_id: ArcSwap<Vec<Option<Arc<Column>>>>,
    change: Mutex<()>,
    summary_rate: ArcSwap<Rate>,
}

impl Columns {
    pub(crate) fn new(summary_rate: Rate) -> Self {
        Self {
            by_id: ArcSwap::default(),
            change: Mutex::new(()),
            summary_rate: ArcSwap::from_pointee(summary_rate),
        }
    }

    /// The front of a column family, if it has one.
    pub(crate) fn get(&self, id: u32) -> Option<Arc<Column>> {
        self.by_id.load().get(id as usize).cloned().flatten()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Column>> {
        self.by_id.load().iter().flatten().cloned().collect()
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
        let _one_at_a_time = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let mut columns = Vec::clone(&self.by_id.load());
        change(&mut columns);
        self.by_id.store(Arc::new(columns));
    }

    /// The rate that summaries are made for.
    pub(crate) fn summary_rate(&self) -> Rate {
        **self.summary_rate.load()
    }

    pub(crate) fn set_summary_rate(&self, rate: Rate) {
        self.summary_rate.store(Arc::new(rate));
    }
}
