//! Lookups of absent keys beside writers that never pause.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lsm_sieve_cli::workload::Watch;
use lsm_sieve_cli::workload::keys::{absent_key, scattered_key};
use lsm_sieve_cli::workload::random::Random;
use lsm_sieve_cli::workload::replay::ReplayError;
use lsm_sieve_cli::workload::stopwatch::Spent;
use lsm_sieve_cli::workload::store::VALUE;

/// Lookups that are timed together: their keys are made before.
const BURST: u64 = 1_000;
/// Writers count their keys in steps of this many.
const STEP: u64 = 1_000;
/// Time between two checks whether the user interrupts.
const PATIENCE: Duration = Duration::from_millis(100);

/// A store that threads share.
pub trait Shared: Sync {
    /// What can go wrong.
    type Error: std::error::Error + Send + 'static;

    /// Sets the value of a key.
    ///
    /// # Errors
    /// The store's.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Self::Error>;

    /// Whether there is such a key.
    ///
    /// # Errors
    /// The store's.
    fn has(&self, key: &[u8]) -> Result<bool, Self::Error>;

    /// Bits of the filters that lsm-sieve keeps in memory beside those of the SSTs.
    fn filter_bits(&self) -> u64;
}

/// What happened in one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Keys written since the start.
    pub keys: u64,
    /// Bits of the filters per key written, when the interval ended.
    pub bits_per_key: f64,
    /// CPU time of a lookup of an absent key: the mean over the interval.
    pub miss_cpu_ns: f64,
    /// Keys written in each second of the interval.
    pub writes_per_second: f64,
}

/// How a store is kept busy.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Keys to write.
    pub keys: u64,
    /// Threads that write them.
    pub writers: u64,
    /// Lookups in each second; `None` for as many as possible.
    pub lookups_per_second: Option<u64>,
    /// Time between two samples.
    pub interval: Duration,
}

impl Load {
    /// The time from the beginning of one burst of lookups to the next.
    fn period(self) -> Duration {
        let per_second = self.lookups_per_second.map(|lookups| lookups.max(1) as f64);
        per_second.map_or(Duration::ZERO, |lookups| {
            Duration::from_secs_f64(BURST as f64 / lookups)
        })
    }
}

/// What the threads of a run share.
#[derive(Default)]
struct Progress {
    written: AtomicU64,
    lookups: AtomicU64,
    lookup_ns: AtomicU64,
    found: AtomicU64,
    stop: AtomicBool,
}

impl Progress {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Tells the other threads to stop, also if its own fails.
struct StopAtEnd<'a>(&'a Progress);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Writes all keys at full speed, looks up absent keys beside, and takes samples. Returns them, the
/// time that the writes took, and how many lookups found a key: 0, unless the store is wrong.
///
/// # Errors
/// [`ReplayError`]; the store then holds what was written so far.
pub fn run<S: Shared>(
    store: &S,
    load: Load,
    watch: &mut impl Watch,
) -> Result<(Vec<Sample>, Duration, u64), ReplayError<S::Error>> {
    let progress = &Progress::default();
    let start = Instant::now();
    thread::scope(|scope| {
        let stop = StopAtEnd(progress);
        let writers: Vec<_> = (0..load.writers)
            .map(|first| scope.spawn(move || write(store, load, first, progress)))
            .collect();
        let reader = scope.spawn(|| look_up(store, load, progress));
        let mut samples = Vec::new();
        let mut sampler = Sampler::new(store, progress);
        let mut counted = 0;
        while !writers.iter().all(thread::ScopedJoinHandle::is_finished) && !reader.is_finished() {
            thread::sleep(PATIENCE.min(load.interval));
            let written = progress.written.load(Ordering::Relaxed);
            watch.advance(written - counted)?;
            counted = written;
            if sampler.since.elapsed() >= load.interval {
                samples.push(sampler.sample());
            }
        }
        for writer in writers {
            joined(writer.join()).map_err(ReplayError::Store)?;
        }
        let spent = start.elapsed();
        if sampler.keys < load.keys {
            samples.push(sampler.sample());
        }
        drop(stop);
        joined(reader.join()).map_err(ReplayError::Store)?;
        Ok((samples, spent, progress.found.load(Ordering::Relaxed)))
    })
}

fn joined<T>(result: thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Writes each id that is `first` more than a multiple of the number of writers.
fn write<S: Shared>(
    store: &S,
    load: Load,
    first: u64,
    progress: &Progress,
) -> Result<(), S::Error> {
    let mut counted = 0;
    for id in (first..load.keys).step_by(load.writers as usize) {
        store.put(&scattered_key(id), &VALUE)?;
        counted += 1;
        if counted == STEP {
            progress.written.fetch_add(counted, Ordering::Relaxed);
            counted = 0;
            if progress.is_stopped() {
                return Ok(());
            }
        }
    }
    progress.written.fetch_add(counted, Ordering::Relaxed);
    Ok(())
}

fn look_up<S: Shared>(store: &S, load: Load, progress: &Progress) -> Result<(), S::Error> {
    let mut random = Random::new(2);
    while !progress.is_stopped() {
        let begun = Instant::now();
        let absent = (0..BURST).map(|_| absent_key(&mut random));
        let absent: Vec<[u8; 16]> = absent.collect();
        let (found, spent) = Spent::on(|| {
            let mut keys = absent.iter();
            keys.try_fold(0, |found, key| Ok(found + u64::from(store.has(key)?)))
        });
        progress.found.fetch_add(found?, Ordering::Relaxed);
        let ns = u64::try_from(spent.cpu.as_nanos()).unwrap_or(u64::MAX);
        progress.lookup_ns.fetch_add(ns, Ordering::Relaxed);
        progress.lookups.fetch_add(BURST, Ordering::Relaxed);
        thread::sleep(load.period().saturating_sub(begun.elapsed()));
    }
    Ok(())
}

struct Sampler<'a, S> {
    store: &'a S,
    progress: &'a Progress,
    since: Instant,
    keys: u64,
    lookups: u64,
    lookup_ns: u64,
}

impl<'a, S: Shared> Sampler<'a, S> {
    fn new(store: &'a S, progress: &'a Progress) -> Self {
        Self {
            store,
            progress,
            since: Instant::now(),
            keys: 0,
            lookups: 0,
            lookup_ns: 0,
        }
    }

    /// Ends an interval and begins the next.
    fn sample(&mut self) -> Sample {
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Progress {
            written,
            lookups,
            lookup_ns,
            ..
        } = self.progress;
        let (keys, lookups, lookup_ns) = (now(written), now(lookups), now(lookup_ns));
        let sample = Sample {
            keys,
            bits_per_key: self.store.filter_bits() as f64 / keys.max(1) as f64,
            miss_cpu_ns: (lookup_ns - self.lookup_ns) as f64
                / (lookups - self.lookups).max(1) as f64,
            writes_per_second: (keys - self.keys) as f64 / self.since.elapsed().as_secs_f64(),
        };
        *self = Self {
            keys,
            lookups,
            lookup_ns,
            ..Self::new(self.store, self.progress)
        };
        sample
    }
}

#[cfg(feature = "rocksdb")]
impl Shared for rocksdb::DB {
    type Error = rocksdb::Error;

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), rocksdb::Error> {
        self.put(key, value)
    }

    fn has(&self, key: &[u8]) -> Result<bool, rocksdb::Error> {
        Ok(self.get_pinned(key)?.is_some())
    }

    fn filter_bits(&self) -> u64 {
        0
    }
}

#[cfg(feature = "rocksdb")]
impl Shared for lsm_sieve::SieveDb {
    type Error = rocksdb::Error;

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), rocksdb::Error> {
        (**self).put(key, value)
    }

    fn has(&self, key: &[u8]) -> Result<bool, rocksdb::Error> {
        Ok(self.get_pinned(key)?.is_some())
    }

    fn filter_bits(&self) -> u64 {
        let families = self.filters().health().cfs;
        families.iter().map(|family| family.memory.get()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::convert::Infallible;
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Set(Mutex<HashSet<Vec<u8>>>);

    impl Shared for Set {
        type Error = Infallible;

        fn put(&self, key: &[u8], _: &[u8]) -> Result<(), Infallible> {
            self.0.lock().unwrap().insert(key.to_vec());
            Ok(())
        }

        fn has(&self, key: &[u8]) -> Result<bool, Infallible> {
            Ok(self.0.lock().unwrap().contains(key))
        }

        fn filter_bits(&self) -> u64 {
            10 * self.0.lock().unwrap().len() as u64
        }
    }

    #[test]
    fn each_key_is_written_once_whatever_the_number_of_writers() {
        for writers in [1, 2, 3] {
            let store = Set::default();
            let load = Load {
                keys: 40_000,
                writers,
                lookups_per_second: (writers > 1).then_some(1_000_000),
                interval: Duration::from_millis(5),
            };
            let (samples, _, found) = run(&store, load, &mut ()).unwrap();
            assert_eq!(found, 0);
            assert_eq!(store.0.lock().unwrap().len(), 40_000);
            let last = samples.last().unwrap();
            assert_eq!((last.keys, last.bits_per_key), (40_000, 10.0));
            let keys: Vec<u64> = samples.iter().map(|sample| sample.keys).collect();
            assert!(keys.is_sorted(), "{keys:?}");
        }
    }
}
