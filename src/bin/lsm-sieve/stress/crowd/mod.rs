//! Many threads on one database: each key has one writer, all keys have all readers, and a keeper
//! flushes, compacts, consolidates, copies and makes families meanwhile.
//!
//! The order of threads is nobody's to repeat, so a case is not shortened: its seed and its settings
//! are what is known of a failure.

mod keeper;
mod reader;
mod versions;
mod writer;

use std::ops::AddAssign;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};

use lsm_sieve::SieveDb;
use lsm_sieve::workload::random::Random;
use serde::Serialize;

use super::closed;
use super::ground::Ground;
use super::keys::KeySpace;
use super::model::{FAMILIES, Model};
use super::settings::Settings;
use super::verdict::{Checked, Tally, Violation};
use super::watchdog::{Pulse, Watchdog};
use keeper::Keeper;
use reader::Reader;
use versions::Versions;
use writer::Writer;

/// Reads of one reader until a case is over.
const READS: u64 = 300_000;

/// What could be said of the keys that were read, from the versions before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Certain {
    pub(super) must_exist: u64,
    pub(super) must_not_exist: u64,
    pub(super) either: u64,
}

impl AddAssign for Certain {
    fn add_assign(&mut self, other: Self) {
        self.must_exist += other.must_exist;
        self.must_not_exist += other.must_not_exist;
        self.either += other.either;
    }
}

/// What the threads share.
struct Crowd<'a> {
    db: &'a SieveDb,
    settings: &'a Settings,
    keys: &'a KeySpace,
    versions: Versions,
    /// Families that are always there.
    families: usize,
    /// Not with unordered writes: a write may come to an older snapshot.
    snapshots_stay: bool,
    /// Whether some writes pass the log. A checkpoint may then hold a write without the one before.
    unlogged: bool,
    /// Keys come past the front so much more seldom, if they do: while they come, and until upkeep
    /// has looked at the tables, nothing is ruled out.
    calm: Option<u64>,
    over: AtomicBool,
}

/// Ends the work of all when one is done, or has failed.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The settings of a seed.
pub(super) fn settings(seed: u64) -> Settings {
    let mut settings = Settings::draw(&mut Random::new(!seed));
    settings.keys.count += 64;
    settings
}

/// One case: as many threads as asked for, half of them writers, and the keeper.
pub(super) fn run(
    seed: u64,
    threads: usize,
    home: &Path,
    dog: &Watchdog,
) -> Result<(Tally, Certain), Violation> {
    let home = tempfile::Builder::new().prefix("crowd-").tempdir_in(home)?;
    let settings = settings(seed);
    let keys = KeySpace::new(&settings.keys);
    let front = settings.front.options().map_err(Violation::other)?;
    let db = closed::open(&settings, &front, &home.path().join("db"), &Model::new(0))?;
    let families = FAMILIES.len() - 1;
    let crowd = Crowd {
        db: &db,
        settings: &settings,
        keys: &keys,
        versions: Versions::new(families, keys.len()),
        families,
        snapshots_stay: !settings
            .database
            .iter()
            .any(|text| text == "unordered_write=true"),
        unlogged: seed.is_multiple_of(2),
        calm: [Some(1), Some(16), Some(256), None][Random::new(seed).index(4)],
        over: AtomicBool::new(false),
    };
    let (mut tally, certain) = crowd.work(seed, threads, home.path(), dog)?;
    tally.opened += 1;
    Ok((tally, certain))
}

type Worked = Result<(Tally, Certain), Violation>;

impl Crowd<'_> {
    fn work(&self, seed: u64, threads: usize, home: &Path, dog: &Watchdog) -> Worked {
        let writers = (threads / 2).max(1);
        let readers = (threads - writers).max(1);
        let mut random = Random::new(seed);
        thread::scope(|scope| {
            let mut workers: Vec<ScopedJoinHandle<'_, Worked>> = Vec::new();
            for index in 0..writers {
                let (random, pulse) = (Random::new(random.word()), dog.pulse("a writer"));
                workers.push(scope.spawn(move || self.write(index, writers, random, home, &pulse)));
            }
            for _ in 0..readers {
                let (random, pulse) = (Random::new(random.word()), dog.pulse("a reader"));
                workers.push(scope.spawn(move || self.read(random, &pulse)));
            }
            let (random, pulse) = (Random::new(random.word()), dog.pulse("the keeper"));
            workers.push(scope.spawn(move || self.keep(random, home, &pulse)));
            let worked = workers.into_iter().map(|worker| {
                let panicked = |_| Err(Violation::other("a thread panicked"));
                worker.join().unwrap_or_else(panicked)
            });
            // All of them, so that the first violation is found whosever it is.
            let worked: Vec<Worked> = worked.collect();
            let mut sum = (Tally::default(), Certain::default());
            for worked in worked {
                let (tally, certain) = worked?;
                sum.0 += tally;
                sum.1 += certain;
            }
            Ok(sum)
        })
    }

    /// Whether to go past the front, once in about so many times.
    fn is_foreign(&self, random: &mut Random, one_in: u64) -> bool {
        self.calm.is_some_and(|calm| random.one_in(calm * one_in))
    }

    fn ground(&self) -> Ground<'_> {
        Ground::new(self.db, self.settings, self.keys)
    }

    /// Steps until all is over; an error, or a panic, ends the others' work too.
    fn until_over(&self, pulse: &Pulse, mut step: impl FnMut() -> Checked) -> Checked {
        let over = Over(&self.over);
        while !self.over.load(Ordering::SeqCst) {
            step()?;
            pulse.beat();
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
        pulse: &Pulse,
    ) -> Worked {
        let from = index * self.keys.len() / writers;
        let mut writer = Writer {
            crowd: self,
            ground: self.ground(),
            random,
            from,
            count: (index + 1) * self.keys.len() / writers - from,
            path: home.join(format!("ingested-{index}.sst")),
            tally: Tally::default(),
        };
        self.until_over(pulse, || writer.step())?;
        Ok((writer.tally, Certain::default()))
    }

    fn read(&self, random: Random, pulse: &Pulse) -> Worked {
        let mut reader = Reader {
            crowd: self,
            ground: self.ground(),
            random,
            tally: Tally::default(),
            certain: Certain::default(),
        };
        self.until_over(pulse, || {
            reader.step()?;
            if reader.tally.reads >= READS {
                self.over.store(true, Ordering::SeqCst);
            }
            Ok(())
        })?;
        Ok((reader.tally, reader.certain))
    }

    fn keep(&self, random: Random, home: &Path, pulse: &Pulse) -> Worked {
        let mut keeper = Keeper {
            crowd: self,
            ground: self.ground(),
            random,
            home,
            tally: Tally::default(),
        };
        self.until_over(pulse, || keeper.step())?;
        Ok((keeper.tally, Certain::default()))
    }
}
