//! Questions for a prefix: is there a key that starts so? The twin of [`super::lookup`].
//!
//! A function of the column family answers if all keys that start with the bytes in question have
//! one prefix by it. If that prefix is in no filter, no such key exists.

use crate::cf_filter::auditor::Auditor;
use crate::cf_filter::lookup::Resolve;
use crate::cf_filter::{CfFilter, Lookups};
use crate::fault::fault;
use crate::hash::KeyHash;
use crate::ranges::Span;
use crate::rcu::Reading;
use crate::reach::reached;
use crate::stats::Event;
use crate::view::{CHUNK, PrefixProbe, View};

/// Whether a key may start with these bytes. False only if none does.
#[inline]
pub fn may_exist(filters: impl Resolve, start: &[u8]) -> bool {
    let denied = filters.with(|cf, reading| cf.lookups().deny_prefix(start, reading));
    !stands(filters, denied.flatten(), Span::SamePrefix(start))
}

/// Whether a key starts with these bytes: what the `engine` says, unless the filters say no.
#[inline]
pub fn exists<E>(
    filters: impl Resolve,
    start: &[u8],
    engine: impl FnOnce() -> Result<bool, E>,
) -> Result<bool, E> {
    decide(filters, may_exist(filters, start), engine)
}

/// Whether keys exist that the filters say `maybe` to: what the `engine` says, which is counted.
pub fn decide<E>(
    filters: impl Resolve,
    maybe: bool,
    engine: impl FnOnce() -> Result<bool, E>,
) -> Result<bool, E> {
    if !maybe {
        return Ok(false);
    }
    let exists = engine()?;
    filters.with(|cf, _| cf.lookups().record_prefix(exists));
    Ok(exists)
}

/// For each of these, whether a key may start so.
pub fn may_exist_many(cf: &CfFilter, starts: &[impl AsRef<[u8]>]) -> Vec<bool> {
    let mut maybe = vec![true; starts.len()];
    let mut sampled = Vec::new();
    for (chunk, starts) in starts.chunks(CHUNK).enumerate() {
        let first = chunk * CHUNK;
        let maybe = &mut maybe[first..first + starts.len()];
        cf.lookups()
            .probe_prefixes(starts, maybe, |at| sampled.push(first + at));
    }
    // The others, one by one: few, unless the filters are incomplete.
    for (maybe, start) in maybe.iter_mut().zip(starts) {
        *maybe = *maybe && may_exist(cf, start.as_ref());
    }
    for at in sampled {
        maybe[at] = !confirm(cf, Span::SamePrefix(starts[at].as_ref()));
    }
    maybe
}

/// Whether a key may be in this span. False only if none is.
#[inline]
pub fn span_may_exist(filters: impl Resolve, span: Span<'_>) -> bool {
    let denied = filters.with(|cf, reading| {
        let view = cf.lookups().view(reading);
        cf.lookups().deny_in_view(span, view)
    });
    !stands(filters, denied.flatten(), span)
}

/// Whether no key of this span has existed since the view of this edition was published.
pub fn is_empty_since(filters: impl Resolve, span: Span<'_>, edition: u64) -> bool {
    let denied = filters.with(|cf, reading| cf.lookups().deny_span(span, edition, reading));
    stands(filters, denied.flatten(), span)
}

/// How a prefix was denied.
enum Denied {
    Certainly,
    /// This answer is drawn for an audit.
    Sampled,
}

/// Whether there is a denial that stands.
#[inline]
fn stands(filters: impl Resolve, denied: Option<Denied>, span: Span<'_>) -> bool {
    denied.is_some_and(|denied| match denied {
        Denied::Certainly => true,
        Denied::Sampled => confirm(filters, span),
    })
}

/// Audits what was denied: false if the engine has such a key, and then all filters may be disabled.
#[cold]
fn confirm(filters: impl Resolve, span: Span<'_>) -> bool {
    // An audit reads the engine and may publish a new view, so no `Reading` may be open.
    let cf = filters.with(|cf, _| cf.shared()).flatten();
    cf.is_some_and(|cf| cf.audit_span_unless_throttled(span))
}

/// Seeks of an iterator that find something in a row, after which the next one probably does too: as
/// many as hits that make a thread skip the filters.
const SEEKS_FOUND: u32 = 32;

impl Lookups {
    /// After how many seeks in a row that find something an iterator no longer checks the filters,
    /// until one finds nothing.
    pub fn most_seeks_found(&self) -> u32 {
        if self.adaptive_hits() {
            SEEKS_FOUND
        } else {
            u32::MAX
        }
    }

    /// Counts what the engine said of a prefix that the filters did not deny.
    fn record_prefix(&self, exists: bool) {
        self.count(match exists {
            true => Event::PrefixFound,
            false => Event::PrefixFalsePositive,
        });
    }

    /// Asks all functions that can answer, and all filters.
    fn deny_prefix(&self, start: &[u8], reading: &Reading) -> Option<Denied> {
        let view = self.view(reading);
        let mut probes = self.prefixes().of_all(start);
        probes.find(|&(at, prefix)| view.check_prefix(self.probe(at, prefix)).is_some())?;
        Some(self.count_denied())
    }

    fn count_denied(&self) -> Denied {
        match self.sample().is_sampled(self.count(Event::PrefixAbsent)) {
            true => Denied::Sampled,
            false => Denied::Certainly,
        }
    }

    /// The probe for a prefix by the function at this place.
    pub fn probe<'p>(&'p self, at: usize, prefix: &'p [u8]) -> PrefixProbe<'p> {
        PrefixProbe {
            prefixes: self.prefixes(),
            at,
            prefix,
            hash: self.hasher().hash(prefix),
        }
    }

    /// Denies prefixes by the summary filter, their cache lines fetched together. The others stay
    /// `maybe`. Calls `sampled` with the indexes of the answers that are drawn for an audit.
    fn probe_prefixes(
        &self,
        starts: &[impl AsRef<[u8]>],
        maybe: &mut [bool],
        mut sampled: impl FnMut(usize),
    ) {
        self.with_view(|view| {
            if !view.coverage.is_complete() {
                return;
            }
            let mut hashes = [KeyHash::new(0); CHUNK];
            let mut places = [0; CHUNK];
            let mut count = 0;
            for (place, start) in starts.iter().enumerate() {
                let mut prefixes = self.prefixes().of_all(start.as_ref());
                let found = prefixes.find(|&(at, _)| view.summary_prefixes.has(at));
                let Some((_, prefix)) = found else { continue };
                hashes[count] = self.hasher().hash(prefix).for_summary();
                places[count] = place;
                view.summary.prefetch(hashes[count]);
                count += 1;
            }
            let mut passed = [true; CHUNK];
            let passed = &mut passed[..count];
            view.summary.contains_prefetched(&hashes[..count], passed);
            let denied = passed.iter().filter(|passed| !**passed).count();
            let ordinal = self.counters().add(Event::PrefixAbsent, denied as u64);
            let audited = self.sample().among(ordinal, denied);
            for (nth, at) in (0..count).filter(|&at| !passed[at]).enumerate() {
                maybe[places[at]] = false;
                if audited.contains(&nth) {
                    sampled(places[at]);
                }
            }
        });
    }

    /// Whether no key of a span exists, by the view of this edition, if that is still published.
    fn deny_span(&self, span: Span<'_>, edition: u64, reading: &Reading) -> Option<Denied> {
        let view = self.view(reading);
        match is_of_edition(view, edition) {
            true => self.deny_in_view(span, view),
            false => {
                reached!(IteratorOfEarlierView);
                None
            }
        }
    }

    /// Asks the ranges if they can answer, for they know more; else all functions that can.
    fn deny_in_view(&self, span: Span<'_>, view: &View) -> Option<Denied> {
        let probe = self.ranges().and_then(|ranges| ranges.probe(span));
        let is_denied = match probe.filter(|&probe| view.answers_range(probe)) {
            Some(probe) => view.check_range(self.hasher(), probe).is_some(),
            None => self.denies_prefix_of(span, view)?,
        };
        is_denied.then(|| self.count_denied())
    }

    /// Whether a view denies a prefix that all keys of a span have. `None` if none can be asked for.
    fn denies_prefix_of(&self, span: Span<'_>, view: &View) -> Option<bool> {
        let denies = |at, prefix| view.check_prefix(self.probe(at, prefix)).is_some();
        Some(match span {
            Span::SamePrefix(key) => {
                let (at, function) = self.prefixes().of_engine()?;
                denies(at, function.of(key)?)
            }
            // Under the reverse comparator, the first is the largest: no question for filters.
            Span::Closed(first, last) => {
                let mut prefixes = self.prefixes().of_all(first);
                let denies_all = |(at, prefix)| last.starts_with(prefix) && denies(at, prefix);
                first <= last && prefixes.any(denies_all)
            }
            Span::HalfOpen(first, end) => {
                let mut prefixes = self.prefixes().of_all(first);
                let denies_all = |(at, prefix)| is_bound_of(end, prefix) && denies(at, prefix);
                first <= end && prefixes.any(denies_all)
            }
        })
    }
}

/// Invariant 10, H83: an iterator reads the database as of its creation, so the filters answer it
/// only while the view from before its creation is still published.
fn is_of_edition(view: &View, edition: u64) -> bool {
    fault!(IteratorOfAnotherView, return true);
    view.edition == edition
}

impl CfFilter {
    /// Whether the engine, too, has no key with the prefix, or in the span, that was denied. True if
    /// audits are throttled. Must not be called while this thread is in a read of the filters.
    #[cold]
    fn audit_span_unless_throttled(&self, span: Span<'_>) -> bool {
        let lookups = &self.lookups;
        let (Span::SamePrefix(start) | Span::Closed(start, _) | Span::HalfOpen(start, _)) = span;
        let audit = |auditor: &Auditor| {
            let mut prefixes = lookups.prefixes().of_all(start);
            let denies = |&(at, prefix): &(usize, _)| {
                let probe = lookups.probe(at, prefix);
                lookups.with_view(|view| view.check_prefix(probe).is_some())
            };
            match prefixes.find(denies) {
                Some((at, prefix)) => auditor.audit_prefix(self, lookups.probe(at, prefix)),
                None => auditor.audit_span(self, span),
            }
        };
        let audit = || self.auditor.get().is_none_or(audit);
        self.throttle.run(audit).unwrap_or(true)
    }
}

/// Whether all keys from the prefix on that are below this key begin with the prefix.
fn is_bound_of(end: &[u8], prefix: &[u8]) -> bool {
    fault!(AnyUpperBoundTaken, return true);
    if end.starts_with(prefix) {
        return true;
    }
    // The least key that follows all with the prefix.
    match prefix.iter().rposition(|&byte| byte < u8::MAX) {
        Some(at) => end.len() == at + 1 && end[..at] == prefix[..at] && end[at] == prefix[at] + 1,
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::is_bound_of;

    #[test]
    fn upper_bound_within_or_right_behind_a_prefix_is_recognized() {
        let cases: [(&[u8], &[u8], bool); 9] = [
            (b"ab", b"ab", true),
            (b"abz", b"ab", true),
            (b"ac", b"ab", true),
            (b"aca", b"ab", false),
            (b"ad", b"ab", false),
            (b"b", b"a\xff", true),
            (b"b\x00", b"a\xff", false),
            (b"\xff\xff", b"\xff", true),
            (b"x", b"", true),
        ];
        for (end, prefix, is) in cases {
            assert_eq!(is_bound_of(end, prefix), is, "{end:?} {prefix:?}");
        }
    }
}
