//! Many threads on one database: each key has one writer and many readers, while a background thread flushes,
//! compacts, consolidates, copies and creates families.
//!
//! The order of threads cannot be repeated, so a case has no steps. A failure can only be shrunk by
//! its settings.

mod background;
mod reader;
mod versions;
mod writer;

use std::path::Path;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use lsm_sieve::SieveDb;
use lsm_sieve_cli::workload::random::Random;
use lsm_sieve_cli::workload::{Interrupted, Watch};
use serde::{Deserialize, Serialize};

use super::case::{Failure, Target};
use super::check::{Checked, Tally, Violation};
use super::checker::Checker;
use super::closed_db;
use super::keys::KeySpace;
use super::model::{FAMILIES, Model};
use super::settings::Settings;
use super::watchdog::Heartbeat;
use background::Background;
use reader::Reader;
use versions::Versions;
use writer::Writer;

/// Reads of one reader until a case ends.
const READS: u64 = 300_000;

/// How often to check whether all threads have ended.
const POLL: Duration = Duration::from_millis(5);

/// Operations of one writer that also end the case: each read of a vector memtable sorts all its
/// entries.
const WRITES: u64 = 3_000_000;

/// The settings of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Concurrent {
    seed: u64,
    threads: usize,
    settings: Settings,
}

/// A case has no steps: the operations are drawn from the seed as it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoStep {}

impl Target for Concurrent {
    type Step = NoStep;

    fn run(
        &self,
        _steps: &[NoStep],
        home: &Path,
        tally: &mut Tally,
        watch: &mut impl Watch,
    ) -> Result<(), Failure> {
        watch.advance(1)?;
        *tally += self.work(home, watch)?;
        Ok(())
    }

    fn simpler(&self) -> Vec<Self> {
        let settings = self.settings.simpler().into_iter();
        settings
            .map(|settings| Self {
                settings,
                ..self.clone()
            })
            .collect()
    }
}

/// State that the threads share.
struct Shared<'a> {
    db: &'a SieveDb,
    settings: &'a Settings,
    keys: &'a KeySpace,
    versions: Versions,
    /// Families that are never dropped.
    families: usize,
    /// Not with unordered writes: a write may become visible in an older snapshot.
    snapshots_stay: bool,
    /// Whether some writes skip the log. A checkpoint may then hold a write without the one before.
    unlogged: bool,
    /// The factor by which external writes are rarer, if there are any: during them, and until
    /// maintenance has listed the SSTs, every answer is *maybe*.
    external_write_interval: Option<u64>,
    /// Shared by threads that ingest, exclusive for a checkpoint. A checkpoint has the logged
    /// writes up to its end. Ingested SSTs are in no log, and it has only those from before its
    /// list of files.
    ingesting: RwLock<()>,
    over: AtomicBool,
}

/// Ends the work of all threads when one is done, or has failed.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Concurrent {
    pub fn draw(random: &mut Random, threads: usize) -> Self {
        let mut settings = Settings::draw(random).for_concurrent_reads();
        // At least one key for each writer.
        settings.keys.count += threads;
        Self {
            seed: random.word(),
            threads,
            settings,
        }
    }

    fn work(&self, home: &Path, watch: &mut impl Watch) -> Result<Tally, Failure> {
        let settings = &self.settings;
        let keys = KeySpace::new(&settings.keys);
        let sieve = settings.filters.options().map_err(Violation::other);
        let db = sieve
            .and_then(|sieve| closed_db::open(settings, &sieve, &home.join("db"), &Model::new(0)))
            .map_err(Failure::at(0))?;
        let families = FAMILIES.len() - 1;
        let mut random = Random::new(self.seed);
        let shared = Shared {
            db: &db,
            settings,
            keys: &keys,
            versions: Versions::new(families, keys.len()),
            families,
            snapshots_stay: !settings.is_unordered(),
            unlogged: random.one_in(2),
            external_write_interval: *random.pick(&[Some(1), Some(16), Some(256), None]),
            ingesting: RwLock::default(),
            over: AtomicBool::new(false),
        };
        let mut tally = shared.work(random, self.threads, home, watch)?;
        tally.opened += 1;
        Ok(tally)
    }
}

type Worked = Result<Tally, Violation>;

impl Shared<'_> {
    fn work(
        &self,
        mut random: Random,
        threads: usize,
        home: &Path,
        watch: &mut impl Watch,
    ) -> Result<Tally, Failure> {
        let writers = (threads / 2).max(1);
        let readers = (threads - writers).max(1);
        thread::scope(|scope| {
            let mut workers: Vec<ScopedJoinHandle<'_, Worked>> = Vec::new();
            for index in 0..writers {
                let (random, heartbeat) = (Random::new(random.word()), Heartbeat::of("a writer"));
                workers.push(
                    scope.spawn(move || self.write(index, writers, random, home, &heartbeat)),
                );
            }
            for _ in 0..readers {
                let (random, heartbeat) = (Random::new(random.word()), Heartbeat::of("a reader"));
                workers.push(scope.spawn(move || self.read(random, &heartbeat)));
            }
            let (random, heartbeat) = (
                Random::new(random.word()),
                Heartbeat::of("the background thread"),
            );
            workers.push(scope.spawn(move || self.work_in_background(random, home, &heartbeat)));
            let watched = self.watch(&workers, watch);
            let worked = workers.into_iter().map(|worker| {
                let panicked = |_| Err(Violation::other("a thread panicked"));
                worker.join().unwrap_or_else(panicked)
            });
            // All results are collected, so that the first violation is found, whichever thread it
            // came from.
            let worked: Vec<Worked> = worked.collect();
            let mut sum = Tally::default();
            for worked in worked {
                sum += worked.map_err(Failure::at(0))?;
            }
            watched?;
            Ok(sum)
        })
    }

    /// Waits until all threads have ended. Each has a heartbeat of its own: that of their case beats as
    /// long as they run, and says nothing about them.
    fn watch(
        &self,
        workers: &[ScopedJoinHandle<'_, Worked>],
        watch: &mut impl Watch,
    ) -> Result<(), Interrupted> {
        let _over = Over(&self.over);
        while !workers.iter().all(ScopedJoinHandle::is_finished) {
            watch.advance(0)?;
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Whether to use the bare engine, on average once in this many times.
    fn uses_bare_engine(&self, random: &mut Random, one_in: u64) -> bool {
        self.external_write_interval
            .is_some_and(|external_write_interval| random.one_in(external_write_interval * one_in))
    }

    fn checker(&self) -> Checker<'_> {
        Checker::new(self.db, self.settings, self.keys)
    }

    /// Steps until the case is over, or one step says that it was the last. That, an error, or a
    /// panic ends the other threads' work too.
    fn until_over(
        &self,
        heartbeat: &Heartbeat,
        mut step: impl FnMut() -> Result<bool, Violation>,
    ) -> Checked {
        let over = Over(&self.over);
        while !self.over.load(Ordering::SeqCst) {
            if step()? {
                break;
            }
            heartbeat.beat();
        }
        drop(over);
        Ok(())
    }

    fn write(
        &self,
        index: usize,
        writers: usize,
        random: Random,
        home: &Path,
        heartbeat: &Heartbeat,
    ) -> Worked {
        let from = index * self.keys.len() / writers;
        let mut writer = Writer {
            shared: self,
            checker: self.checker(),
            random,
            from,
            count: (index + 1) * self.keys.len() / writers - from,
            path: home.join(format!("ingested-{index}.sst")),
            tally: Tally::default(),
        };
        self.until_over(heartbeat, || {
            writer.step()?;
            Ok(writer.tally.operations >= WRITES)
        })?;
        Ok(writer.tally)
    }

    fn read(&self, random: Random, heartbeat: &Heartbeat) -> Worked {
        let mut reader = Reader {
            shared: self,
            checker: self.checker(),
            random,
            tally: Tally::default(),
        };
        self.until_over(heartbeat, || {
            reader.step()?;
            Ok(reader.tally.reads >= READS)
        })?;
        Ok(reader.tally)
    }

    fn work_in_background(&self, random: Random, home: &Path, heartbeat: &Heartbeat) -> Worked {
        let mut background = Background {
            shared: self,
            checker: self.checker(),
            random,
            home,
            tally: Tally::default(),
        };
        self.until_over(heartbeat, || background.step().map(|()| false))?;
        Ok(background.tally)
    }
}
