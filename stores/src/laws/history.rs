//! One random history of a store, from an empty folder on.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::laws::damage::{copy, copy_but, damage_filters, move_filters};
use crate::laws::random::Random;
use crate::laws::subject::{BoxError, Subject};

/// Keys of the small key space. As many more are never written.
const KEYS: u64 = 300;

/// Absent keys that are asked to see whether the filters deny any.
const ABSENT: u64 = 2_000;

/// Keys that a writer adds beside readers.
const BESIDE: u64 = 200;

/// A rule that a history broke, or a store that failed.
#[derive(Debug)]
pub(super) struct Broken {
    what: String,
    /// The last steps before it.
    steps: Vec<String>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.what)?;
        writeln!(f, "after these steps, the last at the end:")?;
        self.steps
            .iter()
            .try_for_each(|step| writeln!(f, "  {step}"))
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) operations: u64,
    pub(super) reads: u64,
    pub(super) crashes: u64,
    pub(super) reopens: u64,
    pub(super) damaged: u64,
    /// Savepoints that were restored.
    pub(super) restores: u64,
    /// Crashes within external writes.
    pub(super) within: u64,
    /// Older files of the store that were put back while it was closed.
    pub(super) put_back: u64,
    pub(super) absent: u64,
    pub(super) denied: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.reads += other.reads;
        self.crashes += other.crashes;
        self.reopens += other.reopens;
        self.damaged += other.damaged;
        self.restores += other.restores;
        self.within += other.within;
        self.put_back += other.put_back;
        self.absent += other.absent;
        self.denied += other.denied;
    }
}

/// How a store is opened. The number decides on what may change from one open to the next.
pub(super) type Open<'a, S> = &'a dyn Fn(&Path, u64) -> Result<S, BoxError>;

/// A store in a folder, and what readers know of it.
struct History<'a, S> {
    open: Open<'a, S>,
    /// The folder of the filters in that of the store, if the store's files may be put back.
    filters: Option<&'static str>,
    home: &'a Path,
    folder: PathBuf,
    /// Copies of the store's files.
    kept: Vec<PathBuf>,
    savepoints: Vec<u64>,
    random: Random,
    counts: Counts,
    steps: Vec<String>,
    /// Keys that were written, perhaps deleted since, perhaps lost in a crash.
    written: BTreeSet<u64>,
}

/// The bytes of a key: of different lengths, and not in the order of their numbers.
fn key(number: u64) -> Vec<u8> {
    let mut bytes = number.wrapping_mul(0x9e37_79b9).to_be_bytes()[4..].to_vec();
    bytes.extend(std::iter::repeat_n(b'k', (number % 11) as usize));
    bytes
}

/// A key that no history writes.
fn absent_key(number: u64) -> Vec<u8> {
    key((1 << 31) + number)
}

/// Runs one history in an empty folder.
pub(super) fn run<S: Subject>(
    open: Open<'_, S>,
    filters: Option<&'static str>,
    home: &Path,
    (seed, steps): (u64, u64),
) -> Result<Counts, Broken> {
    let mut history = History {
        open,
        filters,
        home,
        folder: home.join("0"),
        kept: Vec::new(),
        savepoints: Vec::new(),
        random: Random::new(seed),
        counts: Counts::default(),
        steps: Vec::new(),
        written: BTreeSet::new(),
    };
    let ran = history.run(steps);
    ran.map(|()| history.counts).map_err(|error| Broken {
        what: error.to_string(),
        steps: history
            .steps
            .split_off(history.steps.len().saturating_sub(40)),
    })
}

impl<S: Subject> History<'_, S> {
    fn run(&mut self, steps: u64) -> Result<(), BoxError> {
        let mut store = (self.open)(&self.folder, self.random.word())?;
        for step in 0..steps {
            store = match self.random.below(steps.max(20)) {
                0..2 => self.crash(store)?,
                2..4 => self.reopen(store)?,
                4..14 => self.write_externally(store)?,
                _ => {
                    self.step(&store)?;
                    store
                }
            };
            if step % 50 == 49 {
                self.write_beside_readers(&store, step)?;
            }
        }
        self.check(&store)?;
        self.prove_that_it_denies(&store)?;
        let store = self.reopen(store)?;
        self.prove_that_it_denies(&store)
    }

    fn note(&mut self, step: impl Into<String>) {
        self.counts.operations += 1;
        self.steps.push(step.into());
    }

    fn step(&mut self, store: &S) -> Result<(), BoxError> {
        match self.random.below(100) {
            0..66 => self.write(store),
            66..74 => {
                self.note("flush");
                store.flush()
            }
            74..79 => {
                self.note("merge");
                store.merge()
            }
            79..84 => self.ingest(store),
            84..88 => {
                let fails = self.random.below(3) == 0 && store.fail_scan(self.random.below(60));
                self.note(format!("rebuild the filters; a read fails: {fails}"));
                store.rebuild_filters();
                Ok(())
            }
            88..91 => {
                self.note("settle");
                settle(store)
            }
            _ => self.check(store),
        }
    }

    fn write(&mut self, store: &S) -> Result<(), BoxError> {
        let count = 1 + self.random.below(4);
        let entries: Vec<(u64, bool)> = (0..count)
            .map(|_| (self.random.below(KEYS), self.random.below(5) > 0))
            .collect();
        self.note(format!("write {entries:?}"));
        self.written
            .extend(entries.iter().map(|(number, _)| number));
        let batch: Vec<_> = entries.iter().map(|&(n, set)| (key(n), set)).collect();
        store.write(&batch)
    }

    fn ingest(&mut self, store: &S) -> Result<(), BoxError> {
        let first = self.random.below(KEYS);
        let count = 1 + self.random.below(8);
        self.note(format!("ingest {count} keys from {first}"));
        let numbers = first..(first + count).min(KEYS);
        self.written.extend(numbers.clone());
        store.ingest(&numbers.map(key).collect::<Vec<_>>())?;
        Ok(())
    }

    /// Takes a savepoint, or goes back to one and brings keys past the filters. It may crash
    /// meanwhile.
    fn write_externally(&mut self, store: S) -> Result<S, BoxError> {
        if self.random.below(2) == 0
            && let Some(savepoint) = store.savepoint()?
        {
            self.note(format!("savepoint {savepoint}"));
            self.savepoints.push(savepoint);
            return Ok(store);
        }
        let back = self.random.below(self.savepoints.len() as u64 + 1) as usize;
        let savepoint = self.savepoints.get(back).copied();
        let numbers: Vec<u64> = (0..4).map(|_| self.random.below(KEYS)).collect();
        let keys: Vec<_> = numbers.iter().copied().map(key).collect();
        let (crash_at, mut moment) = (self.random.below(7), 0);
        let copied = self.home.join(self.counts.crashes.to_string() + "-within");
        let mut meanwhile = || {
            if moment == crash_at {
                copy(&self.folder, &copied)?;
            }
            moment += 1;
            Ok(())
        };
        let restored = store.write_externally(savepoint, &keys, &mut meanwhile)?;
        let Some(restored) = restored else {
            return Ok(store);
        };
        self.written.extend(&numbers);
        self.counts.restores += u64::from(restored);
        self.note(format!(
            "external writes: {savepoint:?} restored: {restored}, then {numbers:?}"
        ));
        if crash_at >= moment {
            return Ok(store);
        }
        self.note(format!("crash after {crash_at} of them"));
        self.counts.crashes += 1;
        self.counts.within += 1;
        drop(store);
        self.folder = copied;
        self.open_again()
    }

    /// Keeps the files of the store, which is closed, or puts others back and leaves the filters.
    fn put_back(&mut self) -> Result<(), BoxError> {
        let Some(filters) = self.filters else {
            return Ok(());
        };
        if self.random.below(3) == 0 {
            let to = self.home.join(format!("kept-{}", self.kept.len()));
            copy_but(&self.folder, &to, filters)?;
            self.note(format!("the files are kept as {}", self.kept.len()));
            self.kept.push(to);
        }
        let which = self.random.below(4 * self.kept.len() as u64 + 1) as usize;
        if let Some(from) = self.kept.get(which) {
            self.counts.put_back += 1;
            let to = self.home.join(format!("back-{}", self.counts.put_back));
            copy_but(from, &to, filters)?;
            move_filters(&self.folder, &to, filters)?;
            self.folder = to;
            self.note(format!("the files {which} are put back"));
        }
        Ok(())
    }

    /// Closes the store and opens it again. Half of the time it crashes soon after: what was saved
    /// at the close is no longer all.
    fn reopen(&mut self, store: S) -> Result<S, BoxError> {
        drop(store);
        self.counts.reopens += 1;
        self.note("close");
        let store = self.open_again()?;
        if self.random.below(2) == 0 {
            return Ok(store);
        }
        // After one write alone, a store whose records come late is as it was at the close.
        let most = [1, 8][self.random.below(2) as usize];
        for _ in 0..1 + self.random.below(most) {
            self.write(&store)?;
        }
        self.crash(store)
    }

    /// Goes on with a copy of the store as it is on disk now.
    fn crash(&mut self, store: S) -> Result<S, BoxError> {
        self.counts.crashes += 1;
        self.note("crash");
        let copied = self.home.join(self.counts.crashes.to_string());
        copy(&self.folder, &copied)?;
        drop(store);
        self.folder = copied;
        self.open_again()
    }

    fn open_again(&mut self) -> Result<S, BoxError> {
        if self.random.below(4) == 0 {
            let damaged = damage_filters(&self.folder, &mut self.random)?;
            self.counts.damaged += damaged;
            self.note(format!("{damaged} filters damaged"));
        }
        self.put_back()?;
        let word = self.random.word();
        self.note(format!("open, {word}"));
        let store = (self.open)(&self.folder, word)?;
        if self.random.below(3) == 0 && store.fail_scan(self.random.below(60)) {
            self.note("a read of all keys fails");
        }
        self.check(&store)?;
        if self.random.below(2) == 0 {
            self.note("settle");
            settle(&store)?;
        }
        self.check(&store)?;
        Ok(store)
    }

    /// Holds the filters against the store.
    fn check(&mut self, store: &S) -> Result<(), BoxError> {
        for &number in &self.written {
            self.counts.reads += 1;
            is_found(
                store,
                &key(number),
                store.contains_past_filters(&key(number))?,
            )?;
        }
        for number in 0..20 {
            let key = absent_key(number);
            if store.contains(&key)? {
                return Err("a key is found that was never written".into());
            }
        }
        Ok(())
    }

    /// One writer adds keys beside two readers, who ask for those that they know of.
    fn write_beside_readers(&mut self, store: &S, step: u64) -> Result<(), BoxError> {
        self.note("write beside readers");
        self.counts.operations += BESIDE;
        let beside = Beside {
            store,
            first: step * BESIDE,
            written: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            is_done: AtomicBool::new(false),
        };
        let seeds = [self.random.word(), self.random.word()];
        let outcome = thread::scope(|scope| {
            let beside = &beside;
            let readers = seeds.map(|seed| scope.spawn(move || beside.read(seed)));
            let wrote = beside.write();
            beside.is_done.store(true, Ordering::Release);
            let read = readers.map(|reader| {
                let outcome = reader.join();
                outcome.unwrap_or_else(|_| Err("a reader panicked".into()))
            });
            read.into_iter().fold(wrote, Result::and)
        });
        self.counts.reads += beside.reads.into_inner();
        outcome
    }

    fn prove_that_it_denies(&mut self, store: &S) -> Result<(), BoxError> {
        store.flush()?;
        settle(store)?;
        let denied = (0..ABSENT).filter(|&number| store.is_denied(&absent_key(number)));
        let denied = denied.count() as u64;
        self.counts.absent += ABSENT;
        self.counts.denied += denied;
        // At one percent false positives, 40 of 2,000 are four standard deviations too many.
        if denied < ABSENT - ABSENT / 50 {
            return Err(format!("of {ABSENT} absent keys the filters deny only {denied}").into());
        }
        Ok(())
    }
}

/// Keys that one writer adds beside readers.
struct Beside<'a, S> {
    store: &'a S,
    first: u64,
    /// How many were written.
    written: AtomicU64,
    reads: AtomicU64,
    is_done: AtomicBool,
}

impl<S: Subject> Beside<'_, S> {
    fn key(&self, number: u64) -> Vec<u8> {
        key((1 << 30) + self.first + number)
    }

    fn write(&self) -> Result<(), BoxError> {
        for number in 0..BESIDE {
            self.store.write(&[(self.key(number), true)])?;
            self.written.store(number + 1, Ordering::Release);
            match number {
                70 => self.store.flush()?,
                110 => self.store.rebuild_filters(),
                150 => self.store.merge()?,
                _ => {}
            }
            is_found(self.store, &self.key(number), true)?;
        }
        Ok(())
    }

    fn read(&self, seed: u64) -> Result<(), BoxError> {
        let mut random = Random::new(seed);
        while !self.is_done.load(Ordering::Acquire) {
            let below = self.written.load(Ordering::Acquire);
            if below > 0 {
                // Mostly the last ones: filters that are fed late are right soon after.
                let most = 1 + random.below(below);
                let number = below - 1 - random.below(most);
                is_found(self.store, &self.key(number), true)?;
                self.reads.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

pub(super) fn settle(store: &impl Subject) -> Result<(), BoxError> {
    match store.settle() {
        true => Ok(()),
        false => Err("the filters do not come to cover the store".into()),
    }
}

/// Checks that a key is found and not denied if the store has it.
fn is_found(store: &impl Subject, key: &[u8], is_there: bool) -> Result<(), BoxError> {
    let (found, denied) = (store.contains(key)?, store.is_denied(key));
    if is_there && denied {
        return Err(format!("LOST: the filters deny {key:02x?}, which the store has").into());
    }
    if found != is_there {
        return Err(
            format!("key {key:02x?} is there: {is_there}; a read found it: {found}").into(),
        );
    }
    Ok(())
}
