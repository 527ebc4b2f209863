//! Kill -9 while records are written and moved: no update is lost, and no deleted record comes
//! back.
//!
//! See [`kills`](crate::support::history::kills). Here the child's third thread freezes, reorganises
//! (sometimes in part) and flushes all the time. The copy that a kill left is opened and compared
//! with the model; every other time it is reorganised to the end and compared again.

use std::collections::BTreeSet;
use std::ops::{AddAssign, ControlFlow};
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError};

use lsm_sieve_differential::{Batch, DifferentialStore, FilterChoice};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rocksdb::IteratorMode;

use super::model::{Failed, Model, check_now, key};
use super::{FIXED, TINY, engine, open};
use crate::support::history::child::report;
use crate::support::history::kills::kill_all;
use crate::support::history::world::{self, Task, WRITERS, run_child};

const KILLS: u64 = 50;
const KEYS: u64 = 600;

// ------------------------------------------------------------------ the steps of a writer

/// A change of one key: the number of its value, or none.
type Update = (u64, Option<u64>);

/// An endless stream of steps over the keys of one writer. A step is applied as a whole.
struct Script {
    random: StdRng,
    writer: u64,
}

impl Script {
    fn new(seed: u64, writer: u64) -> Self {
        let random = StdRng::seed_from_u64(seed ^ (writer << 56));
        Self { random, writer }
    }

    fn update(&mut self) -> Update {
        let writers = u64::from(WRITERS);
        let own = self.random.random_range(0..KEYS / writers);
        let number = self.random.random_range(0..1 << 40);
        let value = self.random.random_bool(0.7).then_some(number);
        (own * writers + self.writer, value)
    }
}

impl Iterator for Script {
    type Item = Vec<Update>;

    fn next(&mut self) -> Option<Vec<Update>> {
        let length = if self.random.random_bool(0.9) {
            1
        } else {
            self.random.random_range(2..30)
        };
        Some((0..length).map(|_| self.update()).collect())
    }
}

fn value(number: u64) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(8 + (number % 150) as usize, b'v');
    bytes
}

// ------------------------------------------------------------------ the child

/// The child half. Does nothing unless its parent started it.
#[test]
fn child() {
    run_child::<World>();
}

fn filter_of(folder: u64) -> FilterChoice {
    [FilterChoice::Scalable, TINY, FIXED][(folder % 3) as usize]
}

impl world::Store for DifferentialStore {
    type Step = Vec<Update>;
    type Writer = ();
    type Moment<'a> = ();

    fn open(task: &Task, _: &mut StdRng) -> Result<Self, Failed> {
        Ok(open(&task.path, filter_of(task.folder))?)
    }

    fn writer(_: &Task, _: u32) {}

    fn carry_out(&self, (): &mut (), step: &Vec<Update>, _: &mut Option<()>) -> Result<(), Failed> {
        match step.as_slice() {
            [(index, Some(number))] => self.put(key(*index), value(*number))?,
            [(index, None)] => self.delete(key(*index))?,
            several => self.write(&batch(several))?,
        }
        for &(index, _) in step {
            let last = step.iter().rev().find(|update| update.0 == index);
            let expected = last.and_then(|update| update.1).map(value);
            let found = self.get(key(index))?;
            if found != expected {
                return Err(format!("LOST while running: {index}: {found:?}").into());
            }
        }
        Ok(())
    }

    fn maintain(&self, wakeups: &Receiver<()>, mut random: StdRng) -> Result<(), Failed> {
        while wakeups.try_recv() != Err(TryRecvError::Disconnected) {
            match random.random_range(0..8) {
                0 => {
                    report("maintenance freezing");
                    self.freeze()?;
                }
                1 => {
                    report("maintenance flushing");
                    self.flush()?;
                }
                2..5 => {
                    let mut batches = random.random_range(1..20);
                    report("maintenance moving");
                    self.reorganize(|_| {
                        batches -= 1;
                        if batches > 0 {
                            ControlFlow::Continue(())
                        } else {
                            ControlFlow::Break(())
                        }
                    })?;
                }
                _ => {
                    report("maintenance moving");
                    self.reorganize(|_| ControlFlow::Continue(()))?;
                }
            }
            report("maintenance nothing");
        }
        Ok(())
    }
}

fn batch(updates: &[Update]) -> Batch {
    let mut batch = Batch::default();
    for &(index, number) in updates {
        match number {
            Some(number) => batch.put(key(index), value(number)),
            None => batch.delete(key(index)),
        }
    }
    batch
}

// ------------------------------------------------------------------ the parent

#[test]
fn kill_9_loses_no_update_and_brings_no_delete_back() {
    let totals = kill_all::<World>(KILLS);
    println!(
        r#"{{"part":"kills","of_a":"differential store","seed":{},"kills":{},"lost":0}}"#,
        totals.seed, totals.kills
    );
    assert!(totals.kills >= totals.asked);
    // Kills must come during moves, or the test shows nothing.
    let moving = totals.maintenance.get("moving").copied().unwrap_or(0);
    assert!(
        moving > totals.kills / 10 && totals.found.half_moved > 0,
        "{totals:?}"
    );
}

/// One store and all that it may hold.
struct World {
    filter: FilterChoice,
    /// All possible contents: each unacknowledged step is there with all its updates or with none.
    contents: Vec<Model>,
}

#[derive(Debug, Default)]
struct Found {
    /// Checks that found more than one generation.
    half_moved: u64,
}

impl AddAssign for Found {
    fn add_assign(&mut self, more: Self) {
        self.half_moved += more.half_moved;
    }
}

impl World {
    /// The content must be one of the possible ones, and is the only one from here on.
    fn settle(&mut self, found: &Model) -> Result<(), Failed> {
        if !self.contents.contains(found) {
            let differing = self.contents.iter();
            let differing = differing.map(|content| differing_keys(found, content));
            let least = differing.min_by_key(Vec::len).unwrap_or_default();
            return Err(format!("LOST, brought back, or torn: {}", least.join(", ")).into());
        }
        self.contents = vec![found.clone()];
        Ok(())
    }
}

impl world::World for World {
    type Step = Vec<Update>;
    type Store = DifferentialStore;
    type Found = Found;

    const CHILD: &'static str = "differential::crash::child";

    fn new(seed: u64) -> Self {
        Self {
            filter: filter_of(seed),
            contents: vec![Model::new()],
        }
    }

    fn settings(&self) -> String {
        format!("{:?}", self.filter)
    }

    fn steps(seed: u64, writer: u32) -> impl Iterator<Item = Vec<Update>> + Send {
        Script::new(seed, writer.into())
    }

    fn name(step: &Vec<Update>) -> &'static str {
        match step.as_slice() {
            [(_, Some(_))] => "put",
            [(_, None)] => "delete",
            _ => "batch",
        }
    }

    fn done(&mut self, step: &Vec<Update>) {
        let contents = self.contents.iter_mut();
        contents.for_each(|content| apply(content, step));
    }

    fn may_be_done(&mut self, step: &Vec<Update>) {
        let mut with_it = self.contents.clone();
        with_it.iter_mut().for_each(|content| apply(content, step));
        self.contents.append(&mut with_it);
    }

    fn check(&mut self, copy: &Path, _: bool, random: &mut StdRng) -> Result<Found, Failed> {
        let store = open(copy, self.filter)?;
        let model = store.scan::<&[u8]>(..).collect::<Result<_, _>>()?;
        self.settle(&model)?;
        check_now(&store, &model, KEYS)?;
        let half_moved = u64::from(store.extent()?.generations > 1);
        if random.random_bool(0.5) {
            store.reorganize(|_| ControlFlow::Continue(()))?;
            check_now(&store, &model, KEYS)?;
        }
        Ok(Found { half_moved })
    }

    /// Moves everything. Then the main file alone equals the model.
    fn end(&mut self, path: &Path) -> Result<(), Failed> {
        let store = open(path, self.filter)?;
        let done = store.reorganize(|_| ControlFlow::Continue(()))?;
        assert!(done.finished && store.extent()?.generations == 1);
        store.close()?;
        let names = rocksdb::DB::list_cf(&engine(), path)?;
        let bare = rocksdb::DB::open_cf(&engine(), path, names)?;
        let main = bare.cf_handle("main").ok_or("no main file")?;
        let records = bare.iterator_cf(main, IteratorMode::Start);
        let held = records.map(|record| record.map(|(key, value)| (key.into(), value.into())));
        self.settle(&held.collect::<Result<_, _>>()?)
    }
}

fn apply(content: &mut Model, updates: &[Update]) {
    for &(index, number) in updates {
        match number {
            Some(number) => _ = content.insert(key(index), value(number)),
            None => _ = content.remove(&key(index)),
        }
    }
}

/// The keys in which the two differ.
fn differing_keys(found: &Model, content: &Model) -> Vec<String> {
    let keys: BTreeSet<_> = found.keys().chain(content.keys()).collect();
    let differs = |key: &&Vec<u8>| found.get(*key) != content.get(*key);
    let name = |key: &Vec<u8>| String::from_utf8_lossy(key).into_owned();
    keys.into_iter().filter(differs).map(name).collect()
}
