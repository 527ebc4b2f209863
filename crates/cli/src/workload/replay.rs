//! Runs a trace against a store, once to count the results and once to time it.
//!
//! Counting checks every lookup with the filters, the store and the engine, which would distort the
//! times. Timing runs only the workload. So these are two runs over two new databases. The time to
//! read and decompress the trace does not count.
//!
//! ```text
//! observed rate = false positives / (false positives + true negatives)
//! ```
//!
//! Only lookups of absent records count in the rate: over all lookups it would be too low, since
//! lookups of present keys have no false positives.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher};

use super::keys::trace_key;
use super::operation::{Mode, Operation, Reading};
use super::stopwatch::Spent;
use super::store::{Space, Store, VALUE, WithFilters};
use super::trace::TraceError;
use super::{Interrupted, Watch};

/// Ids decoded at a time, before the clock starts.
const CHUNK_IDS: usize = 1 << 14;

/// Why a replay did not reach its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError<E: std::error::Error + 'static> {
    /// The trace cannot be read any further.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The store failed.
    #[error("the store failed in the middle of the replay")]
    Store(#[source] E),
    /// The watch stopped it.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// Counts of the lookups that the filters can answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Lookups in the filtered space.
    pub lookups: u64,
    /// Lookups for which the engine has no record.
    pub misses: u64,
    /// Lookups that the filters passed on to the engine.
    pub engine_reads: u64,
    /// Lookups that the filters answered.
    pub engine_reads_avoided: u64,
    /// Misses that the filters passed on to the engine.
    pub false_positives: u64,
    /// Lookups of written records that the filters, the store or the engine answered *absent*. Must
    /// be 0.
    pub false_negatives: u64,
    /// Reads of the main file because the differential file had no record; 0 in other modes.
    pub main_reads: u64,
}

impl Counts {
    /// False positives / (false positives + true negatives); 0 if there was no miss.
    pub fn observed_rate(&self) -> f64 {
        if self.misses == 0 {
            0.0
        } else {
            self.false_positives as f64 / self.misses as f64
        }
    }

    /// Counts one lookup, given the answers of the filters and the store and whether the record is
    /// present.
    pub(crate) fn record(&mut self, ruled_out: bool, read: bool, present: bool) {
        self.lookups += 1;
        self.misses += u64::from(!present);
        self.engine_reads += u64::from(!ruled_out);
        self.engine_reads_avoided += u64::from(ruled_out);
        self.false_positives += u64::from(!ruled_out && !present);
        self.false_negatives += u64::from(present && (ruled_out || !read));
    }
}

/// Replays `ids` and checks every lookup with the filters, the store and the engine.
///
/// # Errors
/// [`ReplayError`]; the store then holds what was replayed so far.
pub fn count<S: WithFilters>(
    ids: impl Iterator<Item = Result<u64, TraceError>>,
    mode: Mode,
    store: &mut S,
    watch: &mut impl Watch,
) -> Result<Counts, ReplayError<S::Error>> {
    let mut counter = Counter {
        store,
        written: IdSet::default(),
        counts: Counts::default(),
    };
    in_chunks(ids, mode, watch, |operations| {
        operations.iter().try_for_each(|&step| counter.step(step))
    })?;
    Ok(counter.counts)
}

type IdSet = HashSet<u64, BuildHasherDefault<DefaultHasher>>;

/// A counted replay, with its own set of written ids. The engine also reads its files through
/// filters, so its misses are checked against this set.
struct Counter<'a, S> {
    store: &'a mut S,
    written: IdSet,
    counts: Counts,
}

impl<S: WithFilters> Counter<'_, S> {
    fn step(&mut self, step: Operation) -> Result<(), S::Error> {
        match step {
            Operation::Upsert(id) => {
                if !self.look_up(Space::Default, id)? {
                    self.write(Space::Default, id)?;
                }
            }
            Operation::Read(id) => {
                if !self.look_up(Space::Differential, id)? {
                    self.counts.main_reads += 1;
                    let lost = !self.store.read_newest(&trace_key(id))?;
                    self.counts.false_negatives += u64::from(lost);
                }
            }
            Operation::Update(id) => self.write(Space::Differential, id)?,
        }
        Ok(())
    }

    fn look_up(&mut self, space: Space, id: u64) -> Result<bool, S::Error> {
        let key = trace_key(id);
        let ruled_out = self.store.rules_out(space, &key);
        let read = self.store.read(space, &key)?;
        let engine_has = self.store.read_past(space, &key)?;
        let present = engine_has || self.written.contains(&id);
        self.counts.record(ruled_out, read && engine_has, present);
        Ok(present)
    }

    fn write(&mut self, space: Space, id: u64) -> Result<(), S::Error> {
        self.written.insert(id);
        self.store.write(space, &trace_key(id), &VALUE)
    }
}

/// Replays `ids` and measures the time spent in the store, without that of reading the trace. Also
/// returns how many lookups found their record.
///
/// # Errors
/// [`ReplayError`]; the store then holds what was replayed so far.
pub fn time<S: Store>(
    ids: impl Iterator<Item = Result<u64, TraceError>>,
    mode: Mode,
    store: &mut S,
    watch: &mut impl Watch,
) -> Result<(Spent, u64), ReplayError<S::Error>> {
    let (mut spent, mut found) = (Spent::default(), 0);
    in_chunks(ids, mode, watch, |operations| {
        let mut steps = operations.iter();
        let (done, time) = Spent::on(|| {
            steps.try_fold(0, |found, &step| {
                Ok(found + u64::from(run_one(step, store)?))
            })
        });
        spent += time;
        found += done?;
        Ok(())
    })?;
    Ok((spent, found))
}

/// Does an operation; returns whether it looked a record up and found it.
fn run_one<S: Store>(step: Operation, store: &mut S) -> Result<bool, S::Error> {
    let key = step.key();
    match step {
        Operation::Upsert(_) => Ok(!store.create(&key, &VALUE)?),
        Operation::Read(_) => store.read_newest(&key),
        Operation::Update(_) => {
            store.write(Space::Differential, &key, &VALUE)?;
            Ok(false)
        }
    }
}

/// Writes every distinct id to the main file: the state before a differential replay.
///
/// # Errors
/// [`ReplayError`]; the store then holds what was loaded so far.
pub fn load_main<S: Store>(
    ids: impl Iterator<Item = Result<u64, TraceError>>,
    store: &mut S,
    watch: &mut impl Watch,
) -> Result<u64, ReplayError<S::Error>> {
    let mut loaded = IdSet::default();
    for (seen, id) in ids.enumerate() {
        let id = id?;
        if loaded.insert(id) {
            store
                .write(Space::Main, &trace_key(id), &VALUE)
                .map_err(ReplayError::Store)?;
        }
        if (seen + 1).is_multiple_of(CHUNK_IDS) {
            watch.advance(CHUNK_IDS as u64)?;
        }
    }
    store.flush().map_err(ReplayError::Store)?;
    Ok(loaded.len() as u64)
}

fn in_chunks<E: std::error::Error + 'static>(
    mut ids: impl Iterator<Item = Result<u64, TraceError>>,
    mode: Mode,
    watch: &mut impl Watch,
    mut run: impl FnMut(&[Operation]) -> Result<(), E>,
) -> Result<(), ReplayError<E>> {
    let mut reading = Reading::new(mode);
    let mut operations = Vec::with_capacity(CHUNK_IDS);
    loop {
        operations.clear();
        for id in ids.by_ref().take(CHUNK_IDS) {
            operations.push(reading.next(id?));
        }
        if operations.is_empty() {
            return Ok(());
        }
        run(&operations).map_err(ReplayError::Store)?;
        watch.advance(operations.len() as u64)?;
    }
}

#[cfg(test)]
mod tests {
    use super::super::operation::Updates;
    use super::super::store::map::Map;
    use super::*;

    const DIFFERENTIAL: Mode = Mode::Differential(Updates {
        of_ids: 0.5,
        of_accesses: 0.5,
        seed: 1,
    });

    fn trace(ids: impl IntoIterator<Item = u64>) -> impl Iterator<Item = Result<u64, TraceError>> {
        ids.into_iter().map(Ok)
    }

    #[test]
    fn upsert_misses_each_id_once() {
        let mut store = Map::default();
        let counts = count(trace([1, 2, 1, 3, 2, 1]), Mode::Upsert, &mut store, &mut ()).unwrap();
        let expected = Counts {
            lookups: 6,
            misses: 3,
            engine_reads: 3,
            engine_reads_avoided: 3,
            ..Counts::default()
        };
        assert_eq!(counts, expected);
        assert_eq!(store.len(Space::Default), 3);
    }

    #[test]
    fn absent_key_answered_maybe_is_a_false_positive() {
        let mut store = Map::default();
        store.let_through.insert(trace_key(2).to_vec());
        let counts = count(trace([1, 2, 1, 2]), Mode::Upsert, &mut store, &mut ()).unwrap();
        assert_eq!((counts.misses, counts.false_positives), (2, 1));
        assert_eq!(counts.observed_rate(), 0.5);
        assert_eq!(
            counts.engine_reads + counts.engine_reads_avoided,
            counts.lookups
        );
    }

    #[test]
    fn present_key_answered_absent_is_a_false_negative() {
        let mut store = Map::default();
        store.lost.insert(trace_key(2).to_vec());
        let counts = count(trace([1, 2, 1, 2]), Mode::Upsert, &mut store, &mut ()).unwrap();
        assert_eq!((counts.misses, counts.false_negatives), (2, 1));
    }

    #[test]
    fn differential_miss_reads_the_main_file() {
        let ids = || trace((0..20).flat_map(|_| 0..1000));
        let mut store = Map::default();
        assert_eq!(load_main(ids(), &mut store, &mut ()).unwrap(), 1000);
        assert_eq!((store.len(Space::Main), store.flushes), (1000, 1));
        let counts = count(ids(), DIFFERENTIAL, &mut store, &mut ()).unwrap();
        assert_eq!(counts.main_reads, counts.misses);
        assert_eq!((counts.false_negatives, counts.false_positives), (0, 0));
        assert!(
            (4_500..5_500).contains(&(20_000 - counts.lookups)),
            "{counts:?}"
        );
        assert!((400..600).contains(&store.len(Space::Differential)));
    }

    #[test]
    fn timed_replay_stores_the_same_records() {
        let ids = || trace((0..50_000).map(|i| i * i % 1009));
        let (mut counted, mut timed) = (Map::default(), Map::default());
        count(ids(), Mode::Upsert, &mut counted, &mut ()).unwrap();
        let (spent, found) = time(ids(), Mode::Upsert, &mut timed, &mut ()).unwrap();
        assert!(!spent.wall.is_zero());
        assert_eq!(found, 50_000 - timed.len(Space::Default) as u64);
        assert_eq!(counted.len(Space::Default), timed.len(Space::Default));
    }

    #[test]
    fn a_flawed_trace_ends_the_replay_with_its_error() {
        let empty = || Err(TraceError::Empty { path: "t".into() });
        let ids = trace([1]).chain(std::iter::once_with(empty));
        let end = count(ids, Mode::Upsert, &mut Map::default(), &mut ());
        assert!(matches!(
            end,
            Err(ReplayError::Trace(TraceError::Empty { .. }))
        ));
    }

    struct Stop;

    impl Watch for Stop {
        fn advance(&mut self, _steps: u64) -> Result<(), Interrupted> {
            Err(Interrupted)
        }
    }

    #[test]
    fn a_stopped_replay_gives_no_counts() {
        let stopped = count(trace([1]), Mode::Upsert, &mut Map::default(), &mut Stop);
        assert!(matches!(stopped, Err(ReplayError::Interrupted(_))));
    }
}
