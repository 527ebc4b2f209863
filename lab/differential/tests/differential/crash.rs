//! Kill -9 while records are written and moved: no update is lost, and no deleted record comes
//! back.
//!
//! As in the crash tests of `SieveDb`, a child works until it is killed and reports each
//! acknowledged step. Its steps are fixed by its seed, so the parent knows what they wrote. Here a
//! third thread of the child freezes, reorganises (sometimes in part) and flushes all the time.
//! After a kill the folder is copied. The copy is opened and compared with the model; every other
//! time it is reorganised to the end and compared again. The original goes on as it was left.
//!
//! `LSM_SIEVE_KILLS` and `LSM_SIEVE_SEED` as there.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write as _};
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use lsm_sieve_differential::{Batch, DifferentialStore, FilterChoice};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rocksdb::IteratorMode;

use super::model::{Failed, Model, check_now, key};
use super::{FIXED, TINY, engine, open};
use crate::support::database_files::copy;
use crate::support::environment::number_from;

const KILLS: u64 = 300;
const LANES: u64 = 2;
const KILLS_A_FOLDER: u64 = 25;
const WRITERS: u64 = 2;
const KEYS: u64 = 600;
/// A child that prints nothing for this long hangs.
const SILENCE: Duration = Duration::from_secs(60);
const CHILD: &str = "LSM_SIEVE_DIFFERENTIAL_CHILD";

const FILTERS: [FilterChoice; 3] = [FilterChoice::Scalable, TINY, FIXED];

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
        let own = self.random.random_range(0..KEYS / WRITERS);
        let number = self.random.random_range(0..1 << 40);
        let value = self.random.random_bool(0.7).then_some(number);
        (own * WRITERS + self.writer, value)
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
    let Some(task) = std::env::var(CHILD).ok() else {
        return;
    };
    if let Err(error) = work(&task) {
        report(&format!("failed {error}"));
        std::process::exit(1);
    }
}

/// Prints a line in one piece. Without a parent the child exits.
fn report(line: &str) {
    let line = format!("@{line}\n");
    if std::io::stdout().write_all(line.as_bytes()).is_err() {
        std::process::exit(1);
    }
}

fn work(task: &str) -> Result<(), Failed> {
    let [seed, filter, path] = task.splitn(3, ' ').collect::<Vec<_>>()[..] else {
        return Err("no task".into());
    };
    let (seed, filter): (u64, usize) = (seed.parse()?, filter.parse()?);
    let mut random = StdRng::seed_from_u64(!seed);
    let mut writers: Vec<(Script, u64)> = (0..WRITERS).map(|n| (Script::new(seed, n), 0)).collect();
    loop {
        report("open");
        let store = open(Path::new(path), FILTERS[filter])?;
        report("opened");
        let steps = 1 << random.random_range(2..11);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let (store, over, seed) = (&store, &over, random.random());
            let mover = scope.spawn(move || keep_moving(store, over, seed));
            let threads: Vec<_> = (0..)
                .zip(&mut writers)
                .map(|(number, writer)| {
                    scope.spawn(move || carry_out(store, number, writer, steps))
                })
                .collect();
            let ends = threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| "a panic")?);
            let end = ends.collect::<Result<(), Failed>>();
            over.store(true, Ordering::SeqCst);
            mover.join().map_err(|_| "the mover panicked")?.and(end)
        })?;
        report("close");
        drop(store);
        report("closed");
    }
}

fn carry_out(
    store: &DifferentialStore,
    number: u64,
    (script, done): &mut (Script, u64),
    steps: usize,
) -> Result<(), Failed> {
    for step in script.by_ref().take(steps) {
        match step.as_slice() {
            [(index, Some(number))] => store.put(key(*index), value(*number))?,
            [(index, None)] => store.delete(key(*index))?,
            several => store.write(&batch(several))?,
        }
        *done += 1;
        report(&format!("done {number} {done}"));
        for &(index, _) in &step {
            let last = step.iter().rev().find(|update| update.0 == index);
            let expected = last.and_then(|update| update.1).map(value);
            let found = store.get(key(index))?;
            if found != expected {
                return Err(format!("LOST while running: {index}: {found:?}").into());
            }
        }
    }
    Ok(())
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

fn keep_moving(store: &DifferentialStore, over: &AtomicBool, seed: u64) -> Result<(), Failed> {
    let mut random = StdRng::seed_from_u64(seed);
    while !over.load(Ordering::SeqCst) {
        match random.random_range(0..8) {
            0 => {
                report("keep freezing");
                store.freeze()?;
            }
            1 => {
                report("keep flushing");
                store.flush()?;
            }
            2..5 => {
                let mut batches = random.random_range(1..20);
                report("keep moving");
                store.reorganize(|_| {
                    batches -= 1;
                    if batches > 0 {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                })?;
            }
            _ => {
                report("keep moving");
                store.reorganize(|_| ControlFlow::Continue(()))?;
            }
        }
        report("keep nothing");
    }
    Ok(())
}

// ------------------------------------------------------------------ the parent

#[test]
fn kill_9_loses_no_update_and_brings_no_delete_back() {
    let kills = number_from("LSM_SIEVE_KILLS").unwrap_or(KILLS);
    let seed = number_from("LSM_SIEVE_SEED").unwrap_or_else(rand::random);
    println!("{kills} kills, LSM_SIEVE_SEED={seed}");
    let left = AtomicU64::new(kills);
    let census = thread::scope(|scope| {
        let left = &left;
        let lanes = (0..LANES).map(|lane| scope.spawn(move || run_lane(seed ^ (lane << 60), left)));
        let lanes: Vec<_> = lanes.collect();
        let mut sum = Census::default();
        for lane in lanes {
            match lane.join().unwrap() {
                Ok(part) => sum.add(&part),
                Err(error) => panic!("LSM_SIEVE_SEED={seed}: {error}"),
            }
        }
        sum
    });
    println!("{census:#?}");
    println!(
        r#"{{"part":"kills","of_a":"differential store","seed":{seed},"kills":{},"lost":0}}"#,
        census.kills
    );
    assert!(census.kills >= kills);
    // Kills must come during moves, or the test shows nothing.
    let moving = census.stages.get("moving").copied().unwrap_or(0);
    assert!(
        moving > census.kills / 10 && census.half_moved > 0,
        "{census:?}"
    );
}

/// What was done, and when the kills came.
#[derive(Debug, Default)]
struct Census {
    kills: u64,
    checks: u64,
    /// Checks that found more than one generation.
    half_moved: u64,
    stages: BTreeMap<String, u64>,
}

impl Census {
    fn add(&mut self, more: &Self) {
        self.kills += more.kills;
        self.checks += more.checks;
        self.half_moved += more.half_moved;
        for (stage, count) in &more.stages {
            *self.stages.entry(stage.clone()).or_default() += count;
        }
    }
}

fn run_lane(seed: u64, left: &AtomicU64) -> Result<Census, Failed> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut census = Census::default();
    while left.load(Ordering::Relaxed) > 0 {
        let home = tempfile::tempdir()?;
        let seed = random.random();
        let mut folder = Folder::new(seed, home.path());
        if let Err(error) = folder.run(left, &mut census) {
            let kept = home.keep();
            let kept = kept.display();
            return Err(format!("{error}\n  folder seed {seed}, kept in {kept}").into());
        }
    }
    Ok(census)
}

/// One store and all that it may hold.
struct Folder {
    random: StdRng,
    filter: usize,
    home: PathBuf,
    /// All possible contents: each unacknowledged step is there with all its updates or with none.
    worlds: Vec<Model>,
}

impl Folder {
    fn new(seed: u64, home: &Path) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        Self {
            filter: random.random_range(0..FILTERS.len()),
            random,
            home: home.to_owned(),
            worlds: vec![Model::new()],
        }
    }

    fn run(&mut self, left: &AtomicU64, census: &mut Census) -> Result<(), Failed> {
        for _ in 0..KILLS_A_FOLDER {
            // Kills nest: the next child may start on a folder that was not checked.
            for _ in 0..self.random.random_range(1..=3) {
                self.run_and_kill(census)?;
                census.kills += 1;
                let one_less = |left: u64| left.checked_sub(1);
                _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
            }
            self.check(census)?;
            if left.load(Ordering::Relaxed) == 0 {
                break;
            }
        }
        self.check_the_end()
    }

    fn store(&self) -> PathBuf {
        self.home.join("store")
    }

    fn run_and_kill(&mut self, census: &mut Census) -> Result<(), Failed> {
        let seed = self.random.random();
        let task = format!("{seed} {} {}", self.filter, self.store().display());
        let life = live(&task, &mut self.random)?;
        *census.stages.entry(life.stage).or_default() += 1;
        for (writer, done) in (0..).zip(life.done) {
            let mut script = Script::new(seed, writer);
            let acknowledged: Vec<_> = script.by_ref().take(done as usize).flatten().collect();
            self.worlds
                .iter_mut()
                .for_each(|world| apply(world, &acknowledged));
            // The next step may have begun, and may have been acknowledged but not yet reported.
            let next = script.next().unwrap_or_default();
            let mut with_next = self.worlds.clone();
            with_next.iter_mut().for_each(|world| apply(world, &next));
            self.worlds.append(&mut with_next);
        }
        Ok(())
    }

    /// The content must be one of the possible ones, and is the only one from here on.
    fn settle(&mut self, found: &Model) -> Result<(), Failed> {
        if !self.worlds.contains(found) {
            let apart = self.worlds.iter().map(|world| differing_keys(found, world));
            let least = apart.min_by_key(Vec::len).unwrap_or_default();
            return Err(format!("LOST, brought back, or torn: {}", least.join(", ")).into());
        }
        self.worlds = vec![found.clone()];
        Ok(())
    }

    /// Checks a copy, so that the original stays as the kill left it.
    fn check(&mut self, census: &mut Census) -> Result<(), Failed> {
        if !self.store().exists() {
            return self.settle(&Model::new());
        }
        let copied = self.home.join("copy");
        copy(&self.store(), &copied);
        let store = open(&copied, FILTERS[self.filter])?;
        let model = store.scan::<&[u8]>(..).collect::<Result<_, _>>()?;
        self.settle(&model)?;
        check_now(&store, &model, KEYS)?;
        census.checks += 1;
        census.half_moved += u64::from(store.extent()?.generations > 1);
        if self.random.random_bool(0.5) {
            store.reorganize(|_| ControlFlow::Continue(()))?;
            check_now(&store, &model, KEYS)?;
        }
        drop(store);
        Ok(std::fs::remove_dir_all(copied)?)
    }

    /// Moves everything. Then the main file alone equals the model.
    fn check_the_end(&mut self) -> Result<(), Failed> {
        let store = open(&self.store(), FILTERS[self.filter])?;
        let done = store.reorganize(|_| ControlFlow::Continue(()))?;
        assert!(done.finished && store.extent()?.generations == 1);
        store.close()?;
        let names = rocksdb::DB::list_cf(&engine(), self.store())?;
        let bare = rocksdb::DB::open_cf(&engine(), self.store(), names)?;
        let main = bare.cf_handle("main").ok_or("no main file")?;
        let records = bare.iterator_cf(main, IteratorMode::Start);
        let held = records.map(|record| record.map(|(key, value)| (key.into(), value.into())));
        self.settle(&held.collect::<Result<_, _>>()?)
    }
}

fn apply(world: &mut Model, updates: &[Update]) {
    for &(index, number) in updates {
        match number {
            Some(number) => _ = world.insert(key(index), value(number)),
            None => _ = world.remove(&key(index)),
        }
    }
}

/// The keys in which the two differ.
fn differing_keys(found: &Model, world: &Model) -> Vec<String> {
    let keys: BTreeSet<_> = found.keys().chain(world.keys()).collect();
    let differs = |key: &&Vec<u8>| found.get(*key) != world.get(*key);
    let name = |key: &Vec<u8>| String::from_utf8_lossy(key).into_owned();
    keys.into_iter().filter(differs).map(name).collect()
}

/// What a child did last, and the steps that each writer reported.
struct Life {
    lines: u64,
    stage: String,
    done: [u64; WRITERS as usize],
}

impl Life {
    fn note(&mut self, line: &str) -> Result<(), Failed> {
        // The test runner may have printed the start of the line.
        let Some((_, line)) = line.split_once('@') else {
            return Ok(());
        };
        self.lines += 1;
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["done", writer, done] => self.done[writer.parse::<usize>()?] = done.parse()?,
            ["failed", ..] => return Err(line.into()),
            [.., stage] => (*stage).clone_into(&mut self.stage),
            [] => {}
        }
        Ok(())
    }
}

/// Starts a child, kills it a little after some lines, and returns what it printed.
fn live(task: &str, random: &mut StdRng) -> Result<Life, Failed> {
    let mut child = Command::new(std::env::current_exe()?)
        .args([
            "--exact",
            "differential::crash::child",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CHILD, task)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let most = 1 << random.random_range(2..12);
    let lines = match random.random_range(0..10) {
        0 => 0,
        1 => 1,
        _ => random.random_range(2..most),
    };
    let later =
        Duration::from_micros(random.random_range(0..if lines < 2 { 40_000 } else { 5_000 }));
    let mut life = Life {
        lines: 0,
        stage: "start".to_owned(),
        done: [0; WRITERS as usize],
    };
    let outcome = watch(&mut child, lines, later, &mut life);
    // It may have ended by itself, after printing the reason.
    child.kill()?;
    let status = child.wait()?;
    for line in outcome? {
        life.note(&line)?;
    }
    if status.signal() != Some(9) {
        return Err(format!("a child was not killed but ended with {status}").into());
    }
    Ok(life)
}

/// Reads the lines of a child until it is to be killed. Returns the rest of its lines.
fn watch(
    child: &mut Child,
    most: u64,
    later: Duration,
    life: &mut Life,
) -> Result<Receiver<String>, Failed> {
    let output = child.stdout.take().ok_or("a child without output")?;
    let (send, lines) = channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        lines.try_for_each(|line| send.send(line))
    });
    while life.lines < most {
        match lines.recv_timeout(SILENCE) {
            Ok(line) => life.note(&line)?,
            Err(RecvTimeoutError::Timeout) => return Err("a child hangs".into()),
            Err(RecvTimeoutError::Disconnected) => return Ok(lines),
        }
    }
    let deadline = Instant::now() + later;
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        match lines.recv_timeout(left) {
            Ok(line) => life.note(&line)?,
            Err(_) => break,
        }
    }
    Ok(lines)
}
