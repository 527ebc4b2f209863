//! Whether the filters of a database are trusted: until a false negative is found, and then never
//! again.
//!
//! If one filter was wrong, others may be as wrong: a fault of memory, of the disk or of this crate
//! does not stop at one key. So all filters of the database are distrusted at once, before the
//! audited read returns:
//!
//! 1. no column family answers absent, and every segment filter is dropped (memory);
//! 2. the identity file is renamed, durably (disk). With it goes the seed, and without the seed
//!    each stored filter belongs to another database.
//!
//! The rename needs no space on the disk and no format of its own, and a version of this crate that
//! knows nothing of audits obeys it as well. The next open creates a new seed and builds new
//! filters from the raw keys of the segments. Within the process there is no way back: the memory and
//! the code that were wrong would judge themselves.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use crate::filter_store::FilterStore;
use crate::segment::Registry;
use crate::sync::unpoisoned;

/// Proof that a filter denied a key that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FalseNegative {
    /// The column family.
    pub cf: String,
    /// The key's hash under the secret seed.
    pub key_hash: u64,
    /// Which seed that was; it does not reveal the seed.
    pub seed_id: u64,
    /// Whether the folder of filters records this, so that the next open rebuilds all filters. If
    /// false, the disk refused: remove the folder before the database is opened again.
    pub noted: bool,
}

/// Filters that can be disabled.
pub trait Distrust: std::fmt::Debug + Send + Sync {
    /// From now on they answer *maybe*. Waits for reads of their published values.
    fn disable(&self);
}

/// The trust in all filters of one database.
#[derive(Debug)]
pub struct Trust {
    registry: Arc<Registry>,
    /// `None` if no file may be changed.
    filter_store: Option<Arc<FilterStore>>,
    filters: Mutex<Vec<Weak<dyn Distrust>>>,
    lost: OnceLock<FalseNegative>,
}

impl Trust {
    pub(crate) fn new(registry: Arc<Registry>, filter_store: Option<Arc<FilterStore>>) -> Self {
        Self {
            registry,
            filter_store,
            filters: Mutex::default(),
            lost: OnceLock::new(),
        }
    }

    /// Adds a column family whose filters are disabled when the trust is lost.
    pub(crate) fn cover(&self, new: &Arc<impl Distrust + 'static>) {
        let mut filters = unpoisoned(self.filters.lock());
        filters.retain(|filter| filter.strong_count() > 0);
        let new: Arc<dyn Distrust> = Arc::clone(new) as _;
        filters.push(Arc::downgrade(&new));
        if self.lost().is_some() {
            new.disable();
        }
    }

    /// The false negative that ended the trust, if there was one.
    pub(crate) fn lost(&self) -> Option<&FalseNegative> {
        self.lost.get()
    }

    /// Distrusts all filters. When this returns, no key is answered absent, neither now nor after
    /// the next open.
    ///
    /// Must not be called within a read of a published value, because it waits for such reads.
    pub(crate) fn revoke(&self, false_negative: FalseNegative) {
        // Held to the end: a second caller also returns only when all is done.
        let filters = unpoisoned(self.filters.lock());
        if self.lost().is_some() {
            return;
        }
        self.registry.distrust();
        filters
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|filter| filter.disable());
        let noted = self
            .filter_store
            .as_ref()
            .is_some_and(|filter_store| filter_store.distrust_stored());
        tracing::error!(
            cf = %false_negative.cf,
            key_hash = %format_args!("{:016x}", false_negative.key_hash),
            seed_id = %format_args!("{:016x}", false_negative.seed_id),
            noted,
            "an audit found a key that the filters had denied: all lookups go to the engine; open the \
             database again to rebuild all filters, and report this"
        );
        let _first = self.lost.set(FalseNegative {
            noted,
            ..false_negative
        });
    }
}
