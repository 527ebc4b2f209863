//! Whether the filters of a database are believed: until one is refuted, and then not again.
//!
//! What one audit refuted, others may be as wrong: a fault of memory, of the disk or of this crate
//! does not stop at one key. So all filters of the database fall at once, before the audited read
//! returns:
//!
//! 1. no front rules anything out, and every table's filter is dropped (memory);
//! 2. the identity file is renamed, durably (disk): with it goes the seed, without which each stored
//!    filter is one of another database.
//!
//! The rename needs no room on the disk and no format of its own, and a version of this crate that
//! knows nothing of audits obeys it as well. The next open makes a new seed and, from the tables'
//! raw keys, new filters. Within the process there is no way back: the memory and the code that lied
//! would judge themselves.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::audit::Refutation;
use super::column::Column;
use super::shelf::Shelf;
use crate::segment::Registry;
use crate::sync::unpoisoned;

/// The trust in all filters of one database.
#[derive(Debug)]
pub(crate) struct Trust {
    registry: Arc<Registry>,
    /// `None` where no file may be changed.
    shelf: Option<Arc<Shelf>>,
    fronts: Mutex<Vec<Weak<Column>>>,
    lost: OnceLock<Refutation>,
}

impl Trust {
    pub(crate) fn new(registry: Arc<Registry>, shelf: Option<Arc<Shelf>>) -> Self {
        Self {
            registry,
            shelf,
            fronts: Mutex::default(),
            lost: OnceLock::new(),
        }
    }

    /// Binds a front to the fate of all.
    pub(crate) fn cover(&self, front: &Arc<Column>) {
        let mut fronts = unpoisoned(self.fronts.lock());
        fronts.retain(|front| front.strong_count() > 0);
        fronts.push(Arc::downgrade(front));
        if self.lost().is_some() {
            front.give_up();
        }
    }

    /// What ended the trust, if something did.
    pub(crate) fn lost(&self) -> Option<&Refutation> {
        self.lost.get()
    }

    /// Ends it. When this returns, nothing is ruled out any more, here or after the next open.
    ///
    /// Must not be called within a read of a published value: it waits for them.
    pub(crate) fn lose(&self, refutation: Refutation) {
        // Held to the end: who comes second returns when all is done, as well.
        let fronts = unpoisoned(self.fronts.lock());
        if self.lost().is_some() {
            return;
        }
        self.registry.distrust();
        fronts
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|front| front.give_up());
        let noted = self.shelf.as_ref().is_some_and(|shelf| shelf.disown());
        tracing::error!(
            family = %refutation.family,
            key_hash = %format_args!("{:016x}", refutation.key_hash),
            seed_id = %format_args!("{:016x}", refutation.seed_id),
            noted,
            "an audit found a key that a filter had ruled out; every look-up goes to the engine, \
             reopen the database to make all filters anew, and report this"
        );
        let _first = self.lost.set(Refutation {
            noted,
            ..refutation
        });
    }
}
