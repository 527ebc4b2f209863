//! The filters of one LSM store.

use std::collections::VecDeque;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, RealDisk};
use crate::fault::fault;
use crate::hash::KeyHash;
use crate::lsm::engine::{Link, Lsm};
use crate::lsm::memtable::Memtable;
use crate::lsm::merge::{self, MergeReport};
use crate::lsm::segment::{SegmentBuild, SegmentFilter};
use crate::math::{Bits, Rate};
use crate::reach::reached;
use crate::sync::{Mutex, unpoisoned};
use lsm_sieve_front::cf_filter::multi_lookup::multi_get;
use lsm_sieve_front::cf_filter::{self, CfFilter, lookup};
use lsm_sieve_front::engine::Engine;
use lsm_sieve_front::filter_options::FilterOptions;
use lsm_sieve_front::filters::Filters;
use lsm_sieve_front::intake::SegmentOrigin;
use lsm_sieve_front::opening::{FilterFolderError, FolderLock, Opening};
use lsm_sieve_front::options::FrontOptions;
use lsm_sieve_front::segment::SegmentId;
use lsm_sieve_front::view::Answer;

/// Merges that are remembered for [`LsmFilters::merges`].
const MERGES: usize = 64;

/// The filters of one LSM store. The [module](super) has the rules that the store must keep. Their
/// state and their maintenance are those of [`Filters`], to which it dereferences.
///
/// The store holds it, and calls [`LsmFilters::start`] when it is open and [`LsmFilters::close`]
/// before it closes.
pub struct LsmFilters {
    filters: Filters,
    cf: Arc<CfFilter>,
    link: Arc<Link>,
    merges: Mutex<VecDeque<MergeReport>>,
    /// Declared last: released when all is written.
    _lock: Option<FolderLock>,
}

impl LsmFilters {
    /// Opens the folder of filters, which is created if it does not exist. Memtables may take keys
    /// and segments may be built at once; until [`LsmFilters::start`] no key is denied.
    ///
    /// # Errors
    /// If the folder or the identity in it cannot be used. A filter that cannot be read is rebuilt
    /// instead.
    pub fn open(folder: &Path, options: &FilterOptions) -> Result<Self, FilterFolderError> {
        let lock = FolderLock::of(folder)?;
        Self::open_on(Arc::new(RealDisk), folder, options, Some(lock))
    }

    pub(crate) fn open_on(
        disk: Arc<dyn Disk>,
        folder: &Path,
        options: &FilterOptions,
        lock: Option<FolderLock>,
    ) -> Result<Self, FilterFolderError> {
        let _span = tracing::info_span!("open", path = %folder.display()).entered();
        let front = FrontOptions {
            unordered_writes: true,
            ..options.resolved()
        };
        let hash = options.get_hash();
        let (opening, cf) = Opening::of_one_key_space(disk, folder, &front, hash)?;
        let link = Arc::new(Link::new(options));
        let engine: Arc<dyn Engine> = Arc::<Link>::clone(&link);
        let filters = Filters::of_one_key_space(engine, (opening, &cf), front);
        Ok(Self {
            filters,
            cf,
            link,
            merges: Mutex::default(),
            _lock: lock,
        })
    }

    /// Starts maintenance, on a thread of its own. It loads and builds filters in the background.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start<L: Lsm>(&self, lsm: &Arc<L>) -> io::Result<()> {
        self.start_without_thread(lsm);
        self.filters.start_thread()
    }

    /// As [`LsmFilters::start`], but maintenance runs only when [`LsmFilters::maintain`] is called.
    pub fn start_without_thread<L: Lsm>(&self, lsm: &Arc<L>) {
        let weak = Arc::downgrade(lsm);
        self.link.connect(weak);
        self.filters.wakeup.notify();
    }

    /// One run of maintenance on this thread, if there is something to do: it loads, builds, saves
    /// and removes filters. Does nothing if maintenance has a thread of its own. Calls [`Lsm`], so
    /// the caller must hold no lock that those calls take. Does nothing if a run is under way.
    pub fn maintain(&self) {
        self.filters.maintain();
    }

    /// Saves the filters and ends maintenance. The store must still be able to list its segments.
    /// Without this, the next open reads the segments that were written since the last save.
    pub fn close(&self) {
        self.filters.stop_maintenance();
    }

    // ------------------------------------------------------------------ keys on their way in

    /// The filters for a new memtable.
    pub fn memtable(&self) -> Memtable {
        Memtable::new(Arc::clone(&self.cf), Arc::clone(&self.link))
    }

    /// Begins the filter of a segment that is about to be written.
    ///
    /// # Errors
    /// If the system has no randomness for an id.
    pub fn begin_segment(&self) -> io::Result<SegmentBuild> {
        let build = self
            .cf
            .intake()
            .segments()
            .begin(SegmentOrigin::Unknown, false);
        let id = match &build {
            Some(build) => build.id(),
            None => SegmentId::random()?,
        };
        self.link.begin(id);
        let segment = self.filters.registry.open(id);
        let link = Arc::clone(&self.link);
        Ok(SegmentBuild::new(id, build, segment, link))
    }

    /// Tells maintenance that segments were installed or removed.
    pub fn segments_changed(&self) {
        self.filters.wakeup.notify();
    }

    /// Tells of a merge whose keys were not seen by a [`SegmentBuild`]: these outputs hold no key
    /// that these inputs did not hold. Must be called before the outputs are installed. The inputs'
    /// filters answer for the outputs at once; maintenance rebuilds them if that pays.
    pub fn merged(&self, inputs: &[SegmentId], outputs: &[SegmentId]) -> MergeReport {
        self.await_outputs(outputs);
        let rate = self.cf.intake().segments().rate();
        let report = merge::merge(
            &self.filters.registry,
            self.filters.hasher.imprint(),
            rate.unwrap_or(Rate::ONE_PERCENT),
            self.filters.room(Bits::new(0)),
            inputs,
            outputs,
        );
        tracing::info!(
            inputs = inputs.len(),
            filter = ?report.filter,
            rate = report.predicted_rate,
            "segments were merged"
        );
        let mut merges = unpoisoned(self.merges.lock());
        if merges.len() == MERGES {
            merges.pop_front();
        }
        merges.push_back(report.clone());
        self.filters.wakeup.notify();
        report
    }

    /// They are not installed yet, and must not be taken for abandoned.
    fn await_outputs(&self, outputs: &[SegmentId]) {
        fault!(OutputsNotAwaited, return);
        reached!(OutputsAwaited, !outputs.is_empty());
        outputs.iter().for_each(|&id| self.link.begin(id));
    }

    /// The last merges that [`LsmFilters::merged`] was told of, oldest first.
    pub fn merges(&self) -> Vec<MergeReport> {
        unpoisoned(self.merges.lock()).iter().cloned().collect()
    }

    /// Must be held while keys arrive that no [`Memtable`] sees. Meanwhile no key is denied, and
    /// afterwards not until the new segments are covered.
    #[must_use = "the writes are announced for as long as it is held"]
    pub fn external_writes(&self) -> ExternalWrites {
        let is_announced = !self.link.mutated.announces_nothing();
        ExternalWrites {
            _announced: is_announced.then(|| self.cf.begin_external_writes()),
        }
    }

    // ------------------------------------------------------------------ lookups

    /// The value of a key: `None` if the filters rule it out, else what `lsm` reads.
    ///
    /// # Errors
    /// The errors of `lsm`.
    pub fn get<V, E>(
        &self,
        key: &[u8],
        lsm: impl FnOnce() -> Result<Option<V>, E>,
    ) -> Result<Option<V>, E> {
        lookup::get(&*self.cf, key, lsm)
    }

    /// The values of several keys at one moment, in their order. `lsm` reads the keys that it is
    /// given at one moment; it may be called twice.
    pub fn multi_get<V, E, K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        lsm: impl Fn(&[&[u8]]) -> Vec<Result<Option<V>, E>>,
    ) -> Vec<Result<Option<V>, E>> {
        multi_get(&self.cf, keys, lsm)
    }

    /// What the filters alone say of a key.
    pub fn answer(&self, key: &[u8]) -> Answer {
        lookup::answer(&*self.cf, key)
    }

    /// The hash of a key, for [`SegmentFilter::may_contain`].
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        self.filters.hasher.hash(key)
    }

    /// The filter of the segment that carries this id, for instance of each that an open finds.
    pub fn segment(&self, id: SegmentId) -> SegmentFilter {
        SegmentFilter::new(self.filters.registry.open(id))
    }
}

/// The state of the filters, and their maintenance.
impl Deref for LsmFilters {
    type Target = Filters;

    fn deref(&self) -> &Filters {
        &self.filters
    }
}

impl Drop for LsmFilters {
    fn drop(&mut self) {
        self.filters.stop_maintenance();
    }
}

impl std::fmt::Debug for LsmFilters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LsmFilters").finish_non_exhaustive()
    }
}

/// External writes that are under way; they end when this is dropped.
#[derive(Debug)]
pub struct ExternalWrites {
    _announced: Option<cf_filter::ExternalWrites>,
}
