//! The database of a child, with the plugin or without, and the steps on it.
//!
//! A writer also reads its own keys, which no other thread changes.

use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use lsm_sieve::{FilterSize, RocksDb, SieveDb, Snapshot};
use rand::RngExt as _;
use rand::rngs::StdRng;
use rocksdb::{
    AsColumnFamilyRef, ErrorKind, IngestExternalFileOptions, Options, ReadOptions,
    SnapshotWithThreadMode, SstFileWriter, WriteBatch, WriteOptions,
};

use super::random_options::RandomOptions;
use super::workload::{self, FAMILIES, Step, TEMPORARY};
use crate::support::binding::given;
use crate::support::history::Failed;
use crate::support::history::child::report;
use crate::support::history::model::{Change, Model};
use crate::support::history::world::{self, Task};

/// An open database.
pub(super) struct Store {
    setup: RandomOptions,
    db: Db,
}

enum Db {
    Sieve(Box<SieveDb>),
    Plain(Box<RocksDb>),
}

macro_rules! on {
    ($store:expr, $db:ident => $call:expr) => {
        match &$store.db {
            Db::Sieve($db) => $call,
            Db::Plain($db) => $call,
        }
    };
}

/// One writer, over all sessions of its process.
pub(super) struct Writer {
    done: u64,
    known: Model,
    /// The folder for SST files to ingest, beside the database.
    ingest_folder: PathBuf,
}

/// A snapshot of either store.
enum Moment<'a> {
    Sieve(Snapshot<'a>),
    Plain(SnapshotWithThreadMode<'a, RocksDb>),
}

impl<'a> Moment<'a> {
    fn of(store: &'a Store) -> Self {
        match &store.db {
            Db::Sieve(db) => Self::Sieve(db.snapshot()),
            Db::Plain(db) => Self::Plain(db.snapshot()),
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
pub(super) struct Held<'a> {
    moment: Moment<'a>,
    family: usize,
    values: Vec<(u32, Option<Vec<u8>>)>,
}

impl world::Store for Store {
    type Step = Step;
    type Writer = Writer;
    type Moment<'a> = Held<'a>;

    fn open(task: &Task, random: &mut StdRng) -> Result<Self, Failed> {
        let setup = RandomOptions::new(task.folder);
        let db = if task.plain {
            Db::Plain(Box::new(setup.open_plain(&task.path)?))
        } else {
            let sieve = setup.sieve(random.random());
            Db::Sieve(Box::new(setup.open(&task.path, &sieve)?))
        };
        Ok(Self { setup, db })
    }

    fn writer(task: &Task, number: u32) -> Writer {
        let ingest_folder = format!("ingest-{}-{number}", task.seed);
        Writer {
            done: 0,
            known: Model::unknown(),
            ingest_folder: task.path.with_file_name(ingest_folder),
        }
    }

    fn carry_out<'a>(
        &'a self,
        writer: &mut Writer,
        step: &Step,
        moment: &mut Option<Held<'a>>,
    ) -> Result<(), Failed> {
        match step {
            Step::Write(family, key, change) if self.setup.unlogged != Some(*family) => {
                write(self, *family, *key, *change)?;
            }
            Step::Write(..) | Step::Batch(_) | Step::RemoveRange(..) => write_batches(self, step)?,
            Step::Ingest { family, moved, .. } => writer.ingest(self, *family, *moved, step)?,
            Step::Read(family, key) => writer.read(self, *family, *key)?,
            Step::Snapshot(family, key) => match moment.take() {
                Some(held) => release(self, &held)?,
                None => *moment = Some(take(self, *family, *key)?),
            },
            Step::Flush(family) => {
                let family = handle(self, FAMILIES[*family])?;
                on!(self, db => db.flush_cf(&family))?;
            }
            Step::Compact(family) => {
                let family = handle(self, FAMILIES[*family])?;
                on!(self, db => db.compact_range_cf(&family, None::<&[u8]>, None::<&[u8]>));
            }
            Step::CreateOrDropCf(number) => create_or_drop_cf(self, *number)?,
        }
        writer.known.apply(step.changes());
        writer.done += 1;
        Ok(())
    }

    fn maintain(&self, wakeups: &Receiver<()>, mut random: StdRng) -> Result<(), Failed> {
        while wakeups.recv().is_ok() {
            let Db::Sieve(db) = &self.db else { continue };
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
}

impl Writer {
    fn ingest(&self, store: &Store, family: usize, moved: bool, step: &Step) -> Result<(), Failed> {
        std::fs::create_dir_all(&self.ingest_folder)?;
        let file = self.ingest_folder.join(format!("{}.sst", self.done));
        let options = store.setup.options();
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
        let Db::Sieve(db) = &store.db else {
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
fn write_batches(store: &Store, step: &Step) -> Result<(), Failed> {
    for logged in [true, false] {
        let mut batch = WriteBatch::default();
        fill(&mut batch, store, step, |family| {
            (store.setup.unlogged != Some(family)) == logged
        })?;
        if batch.is_empty() {
            continue;
        }
        let mut how = WriteOptions::default();
        how.disable_wal(!logged);
        let engine: &RocksDb = on!(store, db => db);
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
fn create_or_drop_cf(store: &Store, number: u64) -> Result<(), Failed> {
    let there = on!(store, db => db.cf_handle(TEMPORARY).is_some());
    if there && number.is_multiple_of(2) {
        on!(store, db => db.drop_cf(TEMPORARY))?;
        if number.is_multiple_of(4) {
            return Ok(());
        }
    }
    if on!(store, db => db.cf_handle(TEMPORARY).is_none()) {
        let options: Options = store.setup.options();
        on!(store, db => db.create_cf(TEMPORARY, &options))?;
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
