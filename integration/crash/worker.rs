//! The child: it opens, works and closes, over and over, until it is killed.
//!
//! Two writers carry out their workloads and report each step once the engine has acknowledged it. A
//! third thread calls maintenance meanwhile. Each writer also reads its own keys, which no other
//! thread changes. A report is one line on the standard output that starts with `@`.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use lsm_sieve::{Engine, FilterSize, SieveDb, Snapshot};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rocksdb::{
    AsColumnFamilyRef, ErrorKind, IngestExternalFileOptions, Options, ReadOptions,
    SnapshotWithThreadMode, SstFileWriter, WriteBatch, WriteOptions,
};

use super::model::Model;
use super::random_options::RandomOptions;
use super::workload::{self, Change, FAMILIES, Step, TEMPORARY, WRITERS, Workload};
use crate::support::binding::given;

pub(super) type Failed = Box<dyn Error + Send + Sync>;

/// The task of a child.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) setup: u64,
    pub(super) seed: u64,
    /// Work without the plugin.
    pub(super) plain: bool,
    /// The database. A folder for SST files to ingest is made beside it.
    pub(super) path: PathBuf,
}

impl Task {
    pub(super) const VARIABLE: &str = "LSM_SIEVE_CRASH_CHILD";

    pub(super) fn to_text(&self) -> String {
        let (setup, seed, plain) = (self.setup, self.seed, self.plain);
        format!("{setup} {seed} {plain} {}", self.path.display())
    }

    pub(super) fn from_text(text: &str) -> Option<Self> {
        let mut words = text.splitn(4, ' ');
        Some(Self {
            setup: words.next()?.parse().ok()?,
            seed: words.next()?.parse().ok()?,
            plain: words.next()?.parse().ok()?,
            path: words.next()?.into(),
        })
    }
}

/// Reports to the parent. A child without a parent exits.
pub(super) fn report(line: &str) {
    let line = format!("@{line}\n");
    if std::io::stdout().write_all(line.as_bytes()).is_err() {
        std::process::exit(1);
    }
}

/// The database, with the plugin or without.
enum Store {
    Sieve(Box<SieveDb>),
    Plain(Box<Engine>),
}

macro_rules! on {
    ($store:expr, $db:ident => $call:expr) => {
        match $store {
            Store::Sieve($db) => $call,
            Store::Plain($db) => $call,
        }
    };
}

/// Works until killed.
pub(super) fn run(task: &Task) -> Result<(), Failed> {
    let setup = RandomOptions::new(task.setup);
    let mut random = StdRng::seed_from_u64(task.seed ^ 0x5e55);
    let mut writers: Vec<Writer> = (0..WRITERS).map(|n| Writer::new(task, n)).collect();
    loop {
        report("open");
        let store = if task.plain {
            Store::Plain(Box::new(setup.open_plain(&task.path)?))
        } else {
            let sieve = setup.sieve(random.random());
            Store::Sieve(Box::new(setup.open(&task.path, &sieve)?))
        };
        report("opened");
        // As many short sessions as long ones, so that a close often finds maintenance busy.
        let most: u64 = 1 << random.random_range(1..11);
        let length = random.random_range(most / 2..=most);
        session(&store, &setup, &mut writers, length, random.random())?;
        report("close");
        drop(store);
        report("closed");
    }
}

fn session(
    store: &Store,
    setup: &RandomOptions,
    writers: &mut [Writer],
    length: u64,
    seed: u64,
) -> Result<(), Failed> {
    // It follows the work, not the clock.
    let (wakeup, wakeups) = sync_channel(1);
    thread::scope(|scope| {
        let maintenance = scope.spawn(move || maintain(store, &wakeups, seed));
        let threads: Vec<_> = writers
            .iter_mut()
            .map(|writer| {
                let wakeup = wakeup.clone();
                scope.spawn(move || writer.work(store, setup, length, &wakeup))
            })
            .collect();
        drop(wakeup);
        for thread in threads {
            thread.join().map_err(|_| "a writer panicked")??;
        }
        maintenance
            .join()
            .map_err(|_| "the maintenance thread panicked")?
    })
}

fn maintain(store: &Store, wakeups: &Receiver<()>, seed: u64) -> Result<(), Failed> {
    let mut random = StdRng::seed_from_u64(seed);
    while wakeups.recv().is_ok() {
        let Store::Sieve(db) = store else { continue };
        match random.random_range(0..10) {
            0..3 => {
                report("maintenance consolidate");
                // It may fail while a family is dropped. Then it is tried again.
                drop(db.filters().consolidate());
            }
            3..5 => {
                report("maintenance set rate");
                db.filters()
                    .set_filter_size(FilterSize::rate(random.random_range(0.0005..0.2))?);
            }
            5..7 => {
                report("maintenance wait");
                _ = db.filters().wait_until_complete(Duration::from_millis(50));
            }
            7 => {
                report("maintenance with engine");
                db.with_engine_untracked(|engine| engine.latest_sequence_number());
            }
            8 => {
                report("maintenance inspect");
                drop(db.filters().inspect());
            }
            _ => _ = db.filters().wait_for_maintenance(Duration::from_millis(5)),
        }
        report("maintenance nothing");
    }
    Ok(())
}

/// One writer, over all sessions of its process.
struct Writer {
    number: u32,
    workload: Workload,
    done: u64,
    known: Model,
    /// The folder for SST files to ingest.
    ingest_folder: PathBuf,
}

/// A snapshot of either store.
enum Moment<'a> {
    Sieve(Snapshot<'a>),
    Plain(SnapshotWithThreadMode<'a, Engine>),
}

impl<'a> Moment<'a> {
    fn of(store: &'a Store) -> Self {
        match store {
            Store::Sieve(db) => Self::Sieve(db.snapshot()),
            Store::Plain(db) => Self::Plain(db.snapshot()),
        }
    }

    fn options(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        match self {
            Self::Sieve(snapshot) => options.set_snapshot(snapshot),
            Self::Plain(snapshot) => options.set_snapshot(snapshot),
        }
        options
    }
}

/// A snapshot and the values of its keys.
struct Held<'a> {
    moment: Moment<'a>,
    family: usize,
    values: Vec<(u32, Option<Vec<u8>>)>,
}

impl Writer {
    fn new(task: &Task, number: u32) -> Self {
        Self {
            number,
            workload: Workload::new(task.seed, number),
            done: 0,
            known: Model::unknown(),
            ingest_folder: task
                .path
                .with_file_name(format!("ingest-{}-{number}", task.seed)),
        }
    }

    fn work(
        &mut self,
        store: &Store,
        setup: &RandomOptions,
        length: u64,
        wakeup: &SyncSender<()>,
    ) -> Result<(), Failed> {
        let mut held = None;
        for at in 0..length {
            let Some(step) = self.workload.next() else {
                break;
            };
            self.carry_out(store, setup, &step, &mut held)?;
            self.known.apply(&step);
            self.done += 1;
            report(&format!("done {} {}", self.number, self.done));
            if at % 100 == 50 {
                _ = wakeup.try_send(());
            }
        }
        Ok(())
    }

    fn carry_out<'a>(
        &self,
        store: &'a Store,
        setup: &RandomOptions,
        step: &Step,
        held: &mut Option<Held<'a>>,
    ) -> Result<(), Failed> {
        match step {
            Step::Write(family, key, change) if setup.unlogged != Some(*family) => {
                write(store, *family, *key, *change)?;
            }
            Step::Write(..) | Step::Batch(_) | Step::RemoveRange(..) => {
                write_batches(store, setup, step)?;
            }
            Step::Ingest { family, moved, .. } => {
                self.ingest(store, setup, *family, *moved, step)?
            }
            Step::Read(family, key) => self.read(store, *family, *key)?,
            Step::Snapshot(family, key) => match held.take() {
                Some(held) => release(store, &held)?,
                None => *held = Some(take(store, *family, *key)?),
            },
            Step::Flush(family) => {
                let family = handle(store, FAMILIES[*family])?;
                on!(store, db => db.flush_cf(&family))?;
            }
            Step::Compact(family) => {
                let family = handle(store, FAMILIES[*family])?;
                on!(store, db => db.compact_range_cf(&family, None::<&[u8]>, None::<&[u8]>));
            }
            Step::CreateOrDropCf(number) => create_or_drop_cf(store, setup, *number)?,
        }
        Ok(())
    }

    fn ingest(
        &self,
        store: &Store,
        setup: &RandomOptions,
        family: usize,
        moved: bool,
        step: &Step,
    ) -> Result<(), Failed> {
        std::fs::create_dir_all(&self.ingest_folder)?;
        let file = self.ingest_folder.join(format!("{}.sst", self.done));
        let options = setup.options();
        let mut table = SstFileWriter::create(&options);
        table.open(&file)?;
        for (_, key, change) in step.changes() {
            if let Change::Set(number) = change {
                table.put(workload::key(key), workload::value(number))?;
            }
        }
        table.finish()?;
        let mut how = IngestExternalFileOptions::default();
        how.set_move_files(moved);
        let family = handle(store, FAMILIES[family])?;
        // With atomic flushes RocksDB may find a filled memtable between its flush and the
        // ingestion. It then returns an error and has changed nothing.
        loop {
            let done =
                on!(store, db => db.ingest_external_file_cf_opts(&family, &how, vec![&file]));
            match done {
                Err(error) if error.kind() == ErrorKind::TryAgain => {}
                done => return Ok(done?),
            }
        }
    }

    /// No other thread writes this key, so `SieveDb` must agree with the engine.
    fn read(&self, store: &Store, family: usize, key: u32) -> Result<(), Failed> {
        let Store::Sieve(db) = store else {
            return Ok(());
        };
        let cf = handle(store, FAMILIES[family])?;
        let bytes = workload::key(key);
        let answer = db.filters().answer_cf(&cf, &bytes);
        let filtered = db.get_cf(&cf, &bytes)?;
        let engine = db.get_unfiltered_cf(&cf, &bytes)?;
        let known = self.known.possible(family, key);
        let held = engine.as_deref().and_then(workload::number);
        let lost = filtered != engine
            || (answer.is_absent() && engine.is_some())
            || !(known.is_empty() || known.contains(&held));
        if lost {
            let filtered = filtered.as_deref().map(workload::number);
            return Err(format!(
                "LOST while running: family {family} key {key}: {answer:?}, filtered {filtered:?}, \
                 engine {held:?}, expected one of {known:?}"
            )
            .into());
        }
        Ok(())
    }
}

fn handle<'a>(store: &'a Store, name: &str) -> Result<impl AsColumnFamilyRef + use<'a>, Failed> {
    on!(store, db => db.cf_handle(name)).ok_or_else(|| format!("no family {name:?}").into())
}

fn write(store: &Store, family: usize, key: u32, change: Change) -> Result<(), Failed> {
    let family = handle(store, FAMILIES[family])?;
    let key = workload::key(key);
    match change {
        Change::Set(number) => on!(store, db => db.put_cf(&family, key, workload::value(number)))?,
        Change::Add(number) => {
            on!(store, db => db.merge_cf(&family, key, workload::value(number)))?
        }
        Change::Remove => on!(store, db => db.delete_cf(&family, key))?,
    }
    Ok(())
}

/// One batch for the families with a log, one for the family without.
fn write_batches(store: &Store, setup: &RandomOptions, step: &Step) -> Result<(), Failed> {
    for logged in [true, false] {
        let mut batch = WriteBatch::default();
        fill(&mut batch, store, step, |family| {
            (setup.unlogged != Some(family)) == logged
        })?;
        if batch.is_empty() {
            continue;
        }
        let mut how = WriteOptions::default();
        how.disable_wal(!logged);
        let engine: &Engine = on!(store, db => db);
        engine.write_opt(given(&mut batch), &how)?;
    }
    Ok(())
}

fn fill(
    batch: &mut WriteBatch,
    store: &Store,
    step: &Step,
    wanted: impl Fn(usize) -> bool,
) -> Result<(), Failed> {
    if let Step::RemoveRange(family, keys) = step {
        if wanted(*family) {
            let cf = handle(store, FAMILIES[*family])?;
            batch.delete_range_cf(&cf, workload::key(keys.start), workload::key(keys.end));
        }
        return Ok(());
    }
    for (family, key, change) in step.changes() {
        if !wanted(family) {
            continue;
        }
        let cf = handle(store, FAMILIES[family])?;
        let key = workload::key(key);
        match change {
            Change::Set(number) => batch.put_cf(&cf, key, workload::value(number)),
            Change::Add(number) => batch.merge_cf(&cf, key, workload::value(number)),
            Change::Remove => batch.delete_cf(&cf, key),
        }
    }
    Ok(())
}

fn take(store: &Store, family: usize, key: u32) -> Result<Held<'_>, Failed> {
    let cf = handle(store, FAMILIES[family])?;
    let moment = Moment::of(store);
    let mut values = Vec::new();
    // The range of the other writer may follow. Its keys are read at the snapshot too. An iterator
    // reads the engine, past the filters.
    for number in key..key + 8 {
        let key = workload::key(number);
        let mut found = on!(store, db => db.raw_iterator_cf_opt(&cf, moment.options()));
        found.seek(&key);
        found.status()?;
        let found = found.item().filter(|(there, _)| *there == &key[..]);
        values.push((number, found.map(|(_, value)| value.to_vec())));
    }
    Ok(Held {
        moment,
        family,
        values,
    })
}

fn release(store: &Store, held: &Held<'_>) -> Result<(), Failed> {
    let cf = handle(store, FAMILIES[held.family])?;
    for (key, value) in &held.values {
        let at = held.moment.options();
        let found = on!(store, db => db.get_cf_opt(&cf, workload::key(*key), &at))?;
        if found != *value {
            let family = held.family;
            return Err(format!(
                "LOST in a snapshot: family {family} key {key}: {found:?}, was {value:?}"
            )
            .into());
        }
    }
    Ok(())
}

/// Creates a family with some keys. The next call adds to it or drops it.
fn create_or_drop_cf(store: &Store, setup: &RandomOptions, number: u64) -> Result<(), Failed> {
    let there = on!(store, db => db.cf_handle(TEMPORARY).is_some());
    if there && number.is_multiple_of(2) {
        on!(store, db => db.drop_cf(TEMPORARY))?;
        if number.is_multiple_of(4) {
            return Ok(());
        }
    }
    if on!(store, db => db.cf_handle(TEMPORARY).is_none()) {
        let options: Options = setup.options();
        match store {
            Store::Sieve(db) => db.create_cf(TEMPORARY, &options)?,
            Store::Plain(db) => db.create_cf(TEMPORARY, &options)?,
        }
    }
    let family = handle(store, TEMPORARY)?;
    let first = (number % 1_000) as u32;
    for key in first..first + 60 {
        on!(store, db => db.put_cf(&family, workload::key(key), workload::value(number)))?;
    }
    if number.is_multiple_of(3) {
        on!(store, db => db.flush_cf(&family))?;
    }
    Ok(())
}
