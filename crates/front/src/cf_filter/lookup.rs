//! A point lookup, from the key to the value. [`super::multi_lookup`] does the same for many keys.
//!
//! ```text
//! key ── 1 fast probe of the summary filter ── absent ───────────────────────────────► not found
//!            │ maybe, or not probed
//!        2 the predictor's plan
//!            ├─ Probe        summary, uncovered segments ── absent ───────────────────► not found
//!            └─ EngineOnly
//!            │ maybe
//!        3 prefetch of the segment filters that the engine will probe
//!        4 the engine
//!        5 feedback to the counters and the predictor
//! ```
//!
//! By default, at most one *absent* in 8,192 is audited: the engine is read all the same (see
//! [`crate::audit`]).

use crate::cf_filter::{CfFilter, Lookups};
use crate::filter::{Simd, WithSimd, dispatch};
use crate::hash::KeyHash;
use crate::predictor::{Outcome, Plan};
use crate::rcu::Reading;
use crate::reach::reached;
use crate::segment::segment_probes;
use crate::stats::Event;
pub use crate::threads::OwnSlot;
use crate::view::{AbsenceProof, Answer};

/// What the filters say of a key.
#[derive(Clone, Copy, Debug)]
pub enum Verdict {
    /// The key is absent.
    Absent(AbsenceProof),
    /// The key is absent, and this answer is drawn for an audit.
    AbsentSampled(AbsenceProof),
    /// The key may exist.
    Maybe,
    /// No filter was checked.
    NotConsulted,
}

/// Where a lookup finds the filters of its column family.
pub trait Resolve: Copy {
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
pub fn get<V, E>(
    filters: impl Resolve,
    key: &[u8],
    engine: impl FnOnce() -> Result<Option<V>, E>,
) -> Result<Option<V>, E> {
    // 1. Most absent keys end here: one cache line of the summary filter, no lock.
    match dispatch(FastProbe(filters), key) {
        Fast::Absent(_) => Ok(None),
        fast => get_slow(filters, key, fast, engine),
    }
}

/// The rest of [`get`]: a function of its own, so that a miss sets up no stack frame for it.
#[inline(never)]
fn get_slow<V, E>(
    filters: impl Resolve,
    key: &[u8],
    fast: Fast,
    engine: impl FnOnce() -> Result<Option<V>, E>,
) -> Result<Option<V>, E> {
    // 2. The plan depends on the results of this thread's last lookups.
    let verdict = filters.with(|cf, reading| {
        let lookups = cf.lookups();
        let mut probe = match fast {
            Fast::AbsentSampled(proof) => return Verdict::AbsentSampled(proof),
            Fast::Maybe(hash) => Probe::passed(key, hash),
            Fast::Absent(_) | Fast::NotTried => Probe::new(key),
        };
        let verdict = lookups.check(lookups.plan(), &mut probe, reading);
        // 3. The cache lines arrive while the engine reads its memtables.
        if let Verdict::Maybe | Verdict::NotConsulted = verdict {
            lookups.prefetch_segment_filters(&mut probe, reading);
        }
        verdict
    });
    let Some(verdict) = verdict else {
        return engine();
    };
    if confirm(filters, verdict, key) {
        return Ok(None);
    }
    // 4. The engine.
    let probes = segment_probes();
    let value = engine();
    // 5. Feedback.
    filters.with(|cf, _| {
        cf.lookups().record(verdict, found(&value));
        cf.lookups()
            .record_segment_probes(segment_probes() != probes);
    });
    value
}

/// Whether the engine found a key; `None` if it could not read.
pub(super) fn found<V, E>(value: &Result<Option<V>, E>) -> Option<bool> {
    value.as_ref().ok().map(Option::is_some)
}

/// The answer of all filters for a key. The engine is read only if the answer is due for an audit.
pub fn answer(filters: impl Resolve, key: &[u8]) -> Answer {
    match check_all(filters, key) {
        Some(Verdict::Absent(proof)) => Answer::Absent(proof),
        Some(verdict @ Verdict::AbsentSampled(proof)) if confirm(filters, verdict, key) => {
            Answer::Absent(proof)
        }
        _ => Answer::Maybe,
    }
}

/// Whether the filters prove a key absent. For reads that do not go through [`get`]: the caller
/// reads the engine itself. The predictor is not asked, but learns of a miss.
pub fn rules_out(filters: impl Resolve, key: &[u8]) -> bool {
    answer(filters, key).is_absent()
}

/// The verdict of all filters on a key. The predictor is not asked, but learns of a miss. The caller
/// must audit an [`Verdict::AbsentSampled`].
pub fn check_all(filters: impl Resolve, key: &[u8]) -> Option<Verdict> {
    filters.with(|cf, reading| {
        let mut probe = Probe::new(key);
        cf.lookups().check(Plan::Probe, &mut probe, reading)
    })
}

/// Whether a key is absent. Audits an [`Verdict::AbsentSampled`]: false if the engine has the key,
/// and then all filters may be disabled.
#[inline]
fn confirm(filters: impl Resolve, verdict: Verdict, key: &[u8]) -> bool {
    match verdict {
        Verdict::Absent(_) => true,
        Verdict::AbsentSampled(_) => {
            // An audit reads the engine and may publish a new view, so no `Reading` may be open.
            let cf = filters.with(|cf, _| cf.shared()).flatten();
            cf.is_some_and(|cf| cf.audit_unless_throttled(key))
        }
        Verdict::Maybe | Verdict::NotConsulted => false,
    }
}

/// What the fast probe found.
#[derive(Clone, Copy)]
pub enum Fast {
    /// The key is absent.
    Absent(AbsenceProof),
    /// The key is absent, and this answer is drawn for an audit.
    AbsentSampled(AbsenceProof),
    /// The key with this hash passed the summary filter.
    Maybe(KeyHash),
    /// Nothing was probed.
    NotTried,
}

/// The fast probe of the summary filter, unless the thread expects a hit: no call, no lock, no fence.
pub(crate) struct FastProbe<R>(pub R);

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
        let slot = OwnSlot::taken()?;
        let reading = Reading::try_begin(slot)?;
        let lookups = &self.0.resolve(&reading)?.lookups;
        let thread = lookups.counters().own(slot)?;
        if thread.predictor.expects_hit() {
            return None;
        }
        let hash = lookups.hasher().try_hash(key)?;
        let view = lookups.view(&reading);
        let proof = match view.probe_fast(simd, hash)? {
            Answer::Absent(proof) => proof,
            Answer::Maybe => return Some(Fast::Maybe(hash)),
        };
        let ordinal = thread.add(Event::Absent, 1);
        Some(match lookups.sample().is_sampled(ordinal) {
            true => Fast::AbsentSampled(proof),
            false => Fast::Absent(proof),
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
}

impl Lookups {
    /// Which filters this thread's next lookup should check.
    pub(super) fn plan(&self) -> Plan {
        let slot = OwnSlot::taken().filter(|_| self.adaptive_hits());
        slot.map_or(Plan::Probe, |slot| self.counters().predictor(slot).plan())
    }

    /// Checks the filters of a plan, and counts an *absent*.
    fn check(&self, plan: Plan, probe: &mut Probe<'_>, reading: &Reading) -> Verdict {
        if plan == Plan::EngineOnly {
            reached!(FiltersSkipped);
            return Verdict::NotConsulted;
        }
        let view = self.view(reading);
        let hash = *probe
            .hash
            .get_or_insert_with(|| self.hasher().hash(probe.key));
        let passed = probe.passed_summary || view.passes_summary(hash);
        let Some(proof) = view.check(passed, hash, probe.key) else {
            return Verdict::Maybe;
        };
        self.record_outcome(Outcome::Miss);
        match self.sample().is_sampled(self.count(Event::Absent)) {
            true => Verdict::AbsentSampled(proof),
            false => Verdict::Absent(proof),
        }
    }

    /// Prefetches the cache lines of the segment filters that the engine will probe for a key. Does
    /// nothing if this thread's last lookups ended in memtables.
    fn prefetch_segment_filters(&self, probe: &mut Probe<'_>, reading: &Reading) {
        let Some(slot) = OwnSlot::taken() else {
            return;
        };
        if !self.counters().predictor(slot).expects_segment_probes() {
            return;
        }
        if let Some(filters) = self.prefetched(reading) {
            let hash = *probe
                .hash
                .get_or_insert_with(|| self.hasher().hash(probe.key));
            let filters = filters.candidates(probe.key);
            filters.for_each(|filter| filter.chain.prefetch(hash));
        }
    }

    /// Tells the predictor whether the engine probed a segment filter for the last lookup.
    fn record_segment_probes(&self, probed: bool) {
        if let Some(slot) = OwnSlot::taken() {
            self.counters()
                .predictor(slot)
                .record_segment_probes(probed);
        }
    }

    /// Counts what the engine said of a key that the filters did not rule out: whether it found it,
    /// or `None` if the read failed.
    pub fn record(&self, verdict: Verdict, found: Option<bool>) {
        let not_consulted = matches!(verdict, Verdict::NotConsulted);
        let event = match found {
            Some(true) if not_consulted => Some(Event::FoundUnchecked),
            Some(true) => Some(Event::Found),
            Some(false) if not_consulted => Some(Event::NotConsulted),
            Some(false) if self.is_complete() => Some(Event::FalsePositive),
            Some(false) => Some(Event::Uncovered),
            None => None,
        };
        reached!(FalsePositive, matches!(event, Some(Event::FalsePositive)));
        if let Some(event) = event {
            self.count(event);
        }
        self.record_outcome(match found {
            Some(true) => Outcome::Hit,
            _ => Outcome::Miss,
        });
    }
}
