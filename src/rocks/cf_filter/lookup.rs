//! A point lookup, from the key to the value. [`super::multi_lookup`] does the same for many keys.
//!
//! ```text
//! key ── 1 fast probe of the summary filter ── absent ───────────────────────────────► not found
//!            │ maybe, or not worth trying
//!        2 the predictor's plan
//!            ├─ AllFilters   summary, uncovered SSTs, segment and memtable filters ── absent ─► not found
//!            ├─ SummaryOnly  summary ── absent ──────────────────────────────────────► not found
//!            └─ EngineOnly
//!            │ maybe
//!        3 prefetch of the segment filters that the engine is about to check
//!        4 the engine
//!        5 feedback to the counters and the predictor
//! ```
//!
//! One *absent* in 8,192 is audited: the engine is read all the same (see [`crate::rocks::audit`]).

use super::CfFilter;
use crate::filter::{Simd, WithSimd, dispatch};
use crate::hash::KeyHash;
use crate::predictor::{Outcome, Plan};
use crate::rcu::Reading;
use crate::rocks::coverage::{AbsenceProof, Answer};
use crate::stats::{Event, Stats};
use crate::threads::OwnSlot;

/// The value of one key, as RocksDB returns it.
pub(crate) type ReadResult<V> = Result<Option<V>, rocksdb::Error>;

/// What the filters say of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verdict {
    /// It is absent.
    Absent(AbsenceProof),
    /// It is absent, and this answer is drawn for an audit.
    AbsentSampled(AbsenceProof),
    /// It may be there.
    Maybe,
    /// It passed the summary filter; segment filters were not checked.
    MaybeBySummary,
    /// No filter was checked.
    NotConsulted,
}

/// Where a lookup finds the filters of its column family.
pub(crate) trait Resolve: Copy {
    /// The filters, for as long as the read goes on; `None` if the column family has none.
    fn resolve<'r>(&'r self, reading: &'r Reading) -> Option<&'r CfFilter>;

    /// Calls `act` with the filters. `act` must be short and publish nothing.
    #[inline]
    fn with<R>(self, act: impl FnOnce(&CfFilter, &Reading) -> R) -> Option<R> {
        let reading = Reading::begin();
        self.resolve(&reading).map(|filters| act(filters, &reading))
    }
}

impl Resolve for &CfFilter {
    #[inline(always)]
    fn resolve<'r>(&'r self, _: &'r Reading) -> Option<&'r CfFilter> {
        Some(self)
    }
}

/// The value of a key: from the filters if they say *absent*, else from the `engine`.
#[inline]
pub(crate) fn get<V>(
    filters: impl Resolve,
    key: &[u8],
    engine: impl FnOnce() -> ReadResult<V>,
) -> ReadResult<V> {
    // 1. Most absent keys end here: one cache line of the summary filter, no lock.
    match dispatch(FastProbe(filters), key) {
        Fast::Absent => Ok(None),
        fast => get_slow(filters, key, fast, engine),
    }
}

/// The rest of [`get`]: a function of its own, so that a miss sets up no stack frame for it.
#[inline(never)]
fn get_slow<V>(
    filters: impl Resolve,
    key: &[u8],
    fast: Fast,
    engine: impl FnOnce() -> ReadResult<V>,
) -> ReadResult<V> {
    // 2. As many filters as the thread's last lookups make worth checking.
    let verdict = filters.with(|cf, reading| {
        let mut probe = match fast {
            Fast::AbsentSampled(proof) => return Verdict::AbsentSampled(proof),
            Fast::Maybe(hash) => Probe::passed(key, hash),
            Fast::Absent | Fast::NotTried => Probe::new(key),
        };
        let verdict = cf.check(cf.plan(), &mut probe, reading);
        // 3. They arrive while the engine is on its way to them.
        if let Verdict::MaybeBySummary | Verdict::NotConsulted = verdict {
            cf.prefetch_segment_filters(&mut probe, reading);
        }
        verdict
    });
    let Some(verdict) = verdict else {
        return engine();
    };
    if is_confirmed(filters, verdict, key) {
        return Ok(None);
    }
    // 4.
    let value = engine();
    // 5.
    filters.with(|cf, _| cf.record(verdict, value.as_ref().map(Option::is_some)));
    value
}

/// What the filters alone say of a key.
pub(crate) fn answer(filters: impl Resolve, key: &[u8]) -> Answer {
    match check_all(filters, key) {
        Some(Verdict::Absent(proof)) => Answer::Absent(proof),
        Some(verdict @ Verdict::AbsentSampled(proof)) if is_confirmed(filters, verdict, key) => {
            Answer::Absent(proof)
        }
        _ => Answer::Maybe,
    }
}

/// Whether the filters rule a key out, for a read whose values come from the engine otherwise. The
/// plan is the predictor's, but the summary filter is checked at least.
pub(crate) fn rules_out(filters: impl Resolve, key: &[u8]) -> bool {
    let verdict = filters.with(|cf, reading| {
        let plan = match cf.plan() {
            Plan::EngineOnly => Plan::SummaryOnly,
            plan => plan,
        };
        cf.check(plan, &mut Probe::new(key), reading)
    });
    verdict.is_some_and(|verdict| is_confirmed(filters, verdict, key))
}

/// What all filters say of a key, whatever the predictor says; not audited.
pub(crate) fn check_all(filters: impl Resolve, key: &[u8]) -> Option<Verdict> {
    filters.with(|cf, reading| cf.check(Plan::AllFilters, &mut Probe::new(key), reading))
}

/// Whether a verdict is *absent*, and stands if it is audited.
#[inline]
fn is_confirmed(filters: impl Resolve, verdict: Verdict, key: &[u8]) -> bool {
    match verdict {
        Verdict::Absent(_) => true,
        Verdict::AbsentSampled(_) => {
            // An audit takes long, and may end in another view: not within a reading.
            let cf = filters.with(|cf, _| cf.shared()).flatten();
            cf.is_some_and(|cf| cf.audit_if_due(key))
        }
        Verdict::Maybe | Verdict::MaybeBySummary | Verdict::NotConsulted => false,
    }
}

/// What the fast probe found.
#[derive(Clone, Copy)]
pub(super) enum Fast {
    /// The key is absent.
    Absent,
    /// The key is absent, and this answer is drawn for an audit.
    AbsentSampled(AbsenceProof),
    /// The key with this hash passed the summary filter.
    Maybe(KeyHash),
    /// Nothing was probed.
    NotTried,
}

/// The fast probe of the summary filter, unless the thread expects a hit: no call, no lock, no fence.
pub(super) struct FastProbe<R>(pub(super) R);

impl<R: Resolve> WithSimd<&[u8]> for FastProbe<R> {
    type Output = Fast;

    #[inline(always)]
    fn with_simd(self, simd: impl Simd, key: &[u8]) -> Fast {
        self.probe(simd, key).unwrap_or_else(not_tried)
    }
}

/// Cold, because the compiler inlines the probe of the summary filter only into code that it takes for
/// hot, and would take these exits for likely.
#[cold]
#[inline(never)]
fn not_tried() -> Fast {
    Fast::NotTried
}

impl<R: Resolve> FastProbe<R> {
    #[inline(always)]
    fn probe(self, simd: impl Simd, key: &[u8]) -> Option<Fast> {
        let slot = OwnSlot::known()?;
        let reading = Reading::begin_at_once(slot)?;
        let cf = self.0.resolve(&reading)?;
        let thread = cf.counters.known(slot)?;
        if thread.predictor.expects_hit() {
            return None;
        }
        let hash = cf.hasher.at_once(key)?;
        let view = cf.view.get(&reading);
        let Ok(proof) = view.probe_fast(simd, hash)? else {
            return Some(Fast::Maybe(hash));
        };
        let ordinal = thread.add(Event::Absent, 1);
        Some(match cf.sample.is_sampled(ordinal) {
            true => Fast::AbsentSampled(proof),
            false => Fast::Absent,
        })
    }
}

/// A key, and what is known of it: its hash is computed once.
struct Probe<'k> {
    key: &'k [u8],
    hash: Option<KeyHash>,
    /// Whether the summary filter was probed and said *maybe*.
    passed_summary: bool,
}

impl<'k> Probe<'k> {
    fn new(key: &'k [u8]) -> Self {
        Self {
            key,
            hash: None,
            passed_summary: false,
        }
    }

    /// A key that passed the fast probe.
    fn passed(key: &'k [u8], hash: KeyHash) -> Self {
        Self {
            key,
            hash: Some(hash),
            passed_summary: true,
        }
    }
}

impl CfFilter {
    /// What the filters alone say of a key.
    #[cfg(test)]
    pub(crate) fn answer(&self, key: &[u8]) -> Answer {
        answer(self, key)
    }

    /// Which filters this thread's next lookup should check.
    pub(super) fn plan(&self) -> Plan {
        let slot = OwnSlot::known().filter(|_| self.spares_hits);
        slot.map_or(Plan::AllFilters, |slot| {
            self.counters.predictor(slot).plan()
        })
    }

    /// Checks the filters of a plan, and counts an *absent*.
    fn check(&self, plan: Plan, probe: &mut Probe<'_>, reading: &Reading) -> Verdict {
        if plan == Plan::EngineOnly {
            return Verdict::NotConsulted;
        }
        let view = self.view.get(reading);
        let hash = *probe
            .hash
            .get_or_insert_with(|| self.hasher.hash(probe.key));
        let passed = probe.passed_summary || view.passes_summary(hash);
        if passed && plan == Plan::SummaryOnly && view.has_segment_filters() {
            return Verdict::MaybeBySummary;
        }
        let Some(proof) = view.check(passed, hash, probe.key) else {
            return Verdict::Maybe;
        };
        self.record_outcome(if passed {
            Outcome::FalsePositive
        } else {
            Outcome::Miss
        });
        match self.sample.is_sampled(self.count(Event::Absent)) {
            true => Verdict::AbsentSampled(proof),
            false => Verdict::Absent(proof),
        }
    }

    /// Prefetches the lines of the segment filters that the engine will check for a key. Not while
    /// the thread's keys are in memtables.
    fn prefetch_segment_filters(&self, probe: &mut Probe<'_>, reading: &Reading) {
        let Some(slot) = OwnSlot::known() else {
            return;
        };
        let predictor = self.counters.predictor(slot);
        let expected = predictor.expects_segment_reads();
        if expected == Some(false) {
            return;
        }
        let view = self.view.get(reading);
        let hash = *probe
            .hash
            .get_or_insert_with(|| self.hasher.hash(probe.key));
        let reads = expected.unwrap_or_else(|| {
            let reads = view.reads_segments(hash);
            predictor.record_segment_reads(reads);
            reads
        });
        if reads {
            view.prefetch_segment_filters(hash, probe.key);
        }
    }

    /// Counts what the engine said of a key that the filters did not rule out: whether it found it.
    pub(crate) fn record(&self, verdict: Verdict, found: Result<bool, &rocksdb::Error>) {
        let not_consulted = matches!(verdict, Verdict::NotConsulted);
        let event = match found {
            Ok(true) => Some(Event::Found),
            Ok(false) if not_consulted => Some(Event::NotConsulted),
            Ok(false) if self.is_complete() => Some(Event::FalsePositive),
            Ok(false) => Some(Event::Uncovered),
            Err(_) => None,
        };
        if let Some(event) = event {
            self.count(event);
        }
        self.record_outcome(match found {
            Ok(true) => Outcome::Hit,
            Ok(false) if not_consulted => Outcome::Miss,
            _ => Outcome::FalsePositive,
        });
    }

    pub(super) fn record_outcome(&self, outcome: Outcome) {
        if let Some(slot) = OwnSlot::known() {
            self.counters.predictor(slot).record(outcome);
        }
    }

    /// Counts one event; returns its ordinal in this thread's slot.
    pub(crate) fn count(&self, event: Event) -> u64 {
        self.counters.add(event, 1)
    }

    pub(crate) fn stats(&self) -> Stats {
        self.counters.stats()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::OwnSlot;
    use crate::math::{Items, Rate};
    use crate::rocks::{SieveDb, SieveOptions};

    const LIMIT: Duration = Duration::from_secs(60);

    /// A database with one key in a table and one in a memtable.
    fn filled(home: &std::path::Path, sieve: &SieveOptions) -> SieveDb {
        let mut options = rocksdb::Options::default();
        options.create_if_missing(true);
        let open = || SieveDb::open(&options, sieve, home).unwrap();
        let db = open();
        db.put("in a table", "value").unwrap();
        db.flush().unwrap();
        // What fed the filter of a memtable that is flushed is known to be in a table a moment later.
        drop(db);
        let db = open();
        db.put("in a memtable", "value").unwrap();
        assert!(db.wait_for_maintenance(LIMIT));
        db
    }

    fn wait_for_segment_filters(db: &SieveDb) {
        let cf_filter = db.cf_filters().all().remove(0);
        let started = Instant::now();
        while cf_filter.view().segment_filters.is_none() {
            assert!(started.elapsed() < LIMIT);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A database of one SST, and absent keys: some that the summary filter denies, and some that only
    /// the segment filters do.
    fn with_absent_keys(home: &std::path::Path) -> (SieveDb, [Vec<[u8; 4]>; 2]) {
        let sieve = SieveOptions::default()
            .rate(Rate::new(0.2).unwrap())
            .expected_keys(Items::new(20_000));
        let mut options = rocksdb::Options::default();
        options.create_if_missing(true);
        let open = || SieveDb::open(&options, &sieve, home).unwrap();
        let db = open();
        (0..20_000_u32).for_each(|key| db.put(key.to_be_bytes(), "value").unwrap());
        // Nothing is left to be made then, and no view to be shown in the place of this one.
        drop(db);
        let db = open();
        assert!(db.wait_for_maintenance(LIMIT));
        wait_for_segment_filters(&db);
        let cf_filter = db.cf_filters().all().remove(0);
        let (view, hasher) = (cf_filter.view(), cf_filter.hasher);
        let absent = (1 << 31..(1 << 31) + 10_000_u32).map(u32::to_be_bytes);
        let (denied, passing): (Vec<_>, Vec<_>) =
            absent.partition(|key| !view.passes_summary(hasher.hash(key)));
        let passing = passing.into_iter();
        let again = passing.filter(|key| view.answer(hasher.hash(key), key).is_absent());
        let again: Vec<_> = again.collect();
        assert!(again.len() > 100, "{}", again.len());
        (db, [denied, again])
    }

    /// Without the segment filters, an absent key costs a read of the engine now and then, and each
    /// hit saves the probes.
    #[test]
    fn segment_filters_are_skipped_after_eight_passing_hits() {
        let home = tempfile::tempdir().unwrap();
        let (db, [_, passing]) = with_absent_keys(home.path());
        let absent = passing[0];
        let default = db.cf_handle("default").unwrap();
        let reads: [&dyn Fn([u8; 4]) -> bool; 4] = [
            &|key| db.get(key).unwrap().is_some(),
            &|key| db.get_cf(&default, key).unwrap().is_some(),
            &|key| db.multi_get([key]).remove(0).unwrap().is_some(),
            &|key| {
                db.multi_get_cf([(&default, key)])
                    .remove(0)
                    .unwrap()
                    .is_some()
            },
        ];
        for read in reads {
            let entered = || db.stats().false_positives;
            assert!(!read(absent));
            for believed in [false, true] {
                let before = entered();
                assert!((0..7 + u32::from(believed)).all(|key| read(key.to_be_bytes())));
                assert!(!read(absent));
                assert_eq!(entered() - before, u64::from(believed));
            }
            // The engine did not find it.
            let before = entered();
            assert!(!read(absent) && entered() == before);
            assert!((0..8_u32).all(|key| read(key.to_be_bytes())));
            assert!(
                db.filter_answer(absent).is_absent(),
                "asked for itself it gets one"
            );
        }
    }

    /// The engine tells of the others once all were asked.
    #[test]
    fn batch_with_a_false_positive_keeps_all_filters_checked() {
        let home = tempfile::tempdir().unwrap();
        let (db, [_, passing]) = with_absent_keys(home.path());
        let batch = (0..20_u32).map(u32::to_be_bytes).chain([passing[0]]);
        let found = db.multi_get(batch).into_iter().map(Result::unwrap);
        assert_eq!(found.flatten().count(), 20);
        assert!(db.get(passing[1]).unwrap().is_none());
        assert_eq!(db.stats().false_positives, 0);
    }

    /// What the summary denies says nothing of what it lets by.
    #[test]
    fn misses_between_hits_keep_the_summary_only_plan() {
        let home = tempfile::tempdir().unwrap();
        let (db, [denied, passing]) = with_absent_keys(home.path());
        for (key, absent) in (0..8_u32).zip(denied) {
            assert!(db.get(key.to_be_bytes()).unwrap().is_some());
            assert!(db.get(absent).unwrap().is_none());
        }
        assert_eq!(db.stats().false_positives, 0);
        assert!(db.get(passing[0]).unwrap().is_none());
        assert_eq!(db.stats().false_positives, 1);
    }

    /// Whether the engine's tables are foretold to be asked after so many reads of a key that is there.
    fn foretold_after(db: &SieveDb, reads: u32, key: &str) -> Option<bool> {
        assert!((0..reads).all(|_| db.get(key).unwrap().is_some()));
        let cf_filter = db.cf_filters().all().remove(0);
        let slot = OwnSlot::known().unwrap();
        cf_filter.counters.predictor(slot).expects_segment_reads()
    }

    /// Of a thread's keys that are all there, one in 32 tells where they are.
    #[test]
    fn segment_reads_are_expected_if_the_last_hits_were_in_ssts() {
        let home = tempfile::tempdir().unwrap();
        let db = filled(home.path(), &SieveOptions::default());
        wait_for_segment_filters(&db);
        assert_eq!(foretold_after(&db, 31, "in a table"), Some(false));
        assert_eq!(foretold_after(&db, 1, "in a table"), None);
        assert_eq!(foretold_after(&db, 1, "in a table"), Some(true));
        assert_eq!(foretold_after(&db, 32, "in a memtable"), Some(false));
        assert_eq!(foretold_after(&db, 32, "in a table"), Some(true));
    }

    /// RocksDB's own filters are not at hand.
    #[test]
    fn segment_reads_are_expected_only_with_segment_filters() {
        let home = tempfile::tempdir().unwrap();
        let db = filled(home.path(), &SieveOptions::default().segment_rate(None));
        assert_eq!(foretold_after(&db, 33, "in a table"), Some(false));
    }
}
