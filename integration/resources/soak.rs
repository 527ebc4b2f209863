//! The files and the memory of a database's filters do not grow with its age: nothing of dropped
//! families and dead SSTs stays.
//!
//! Each step overwrites the same few keys, flushes, compacts, and creates and drops a column family
//! of a new name. After each step the resources are counted. The maximum of the second half of all
//! steps must be about that of the first. The steps run in a process of their own, whose memory no
//! other test changes: once without a pause, and once with the database reopened at each step.
//!
//! `LSM_SIEVE_SOAK_STEPS=1000` makes a long run.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(clippy::print_stdout, reason = "long runs say what they found")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use lsm_sieve::SieveDb;
use lsm_sieve_format::format::{self, Subject};

use crate::support::database_files::{stamps, summaries};
use crate::support::environment::number_from;
use crate::support::model_db::{
    Dice, Model, check_reads, key, open, options, settle, verify_finds_every_key,
};

const STEPS: u64 = 60;
const KEYS: u64 = 1_000;
const KEYS_A_STEP: u64 = 100;
const KEYS_OF_A_FAMILY: u64 = 20;
const STEPS_A_SUMMARY: u64 = 5;

/// Tells the child what to do: the number of steps, and whether it reopens the database at each.
const CHILD: &str = "LSM_SIEVE_SOAK_CHILD";

/// The counted resources, each with the slack of the second half above five fourths of the first.
const COUNTED: [(&str, u64); 6] = [
    ("files", 8),
    ("file_bytes", 64 << 10),
    ("stored_ids", 12),
    ("known_segments", 12),
    ("filter_bytes", 64 << 10),
    ("resident_bytes", 32 << 20),
];

type Counts = [u64; COUNTED.len()];

#[test]
fn filters_of_an_open_database_stop_growing() {
    soak("open");
}

#[test]
fn filters_of_a_reopened_database_stop_growing() {
    soak("reopened");
}

fn soak(mode: &str) {
    let steps = number_from("LSM_SIEVE_SOAK_STEPS").unwrap_or(STEPS);
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "resources::soak::child",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CHILD, format!("{steps} {mode}"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    let found = said
        .lines()
        .filter_map(|line| line.find('{').map(|at| &line[at..]));
    found.for_each(|line| println!("{line}"));
    let complaint = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}\n{complaint}");
}

/// The child half of the harness. Does nothing unless its parent started it.
#[test]
fn child() {
    let Ok(task) = std::env::var(CHILD) else {
        return;
    };
    let (steps, mode) = task.split_once(' ').unwrap();
    let steps: u64 = steps.parse().unwrap();
    assert!(steps >= 20, "too few to tell one half from the other");
    let began = Instant::now();
    let counted = live(steps, mode == "reopened");
    let (first, second) = counted.split_at(counted.len() / 2);
    let halves = [most(first), most(second)];
    let figures = COUNTED.iter().zip(halves[0]).zip(halves[1]);
    let figures =
        figures.map(|(((name, _), first), second)| format!(r#""{name}":[{first},{second}]"#));
    println!(
        r#"{{"part":"soak","mode":"{mode}","steps":{steps},{},"seconds":{:.1}}}"#,
        figures.collect::<Vec<_>>().join(","),
        began.elapsed().as_secs_f64()
    );
    for ((name, slack), at) in COUNTED.iter().zip(0..) {
        let [first, second] = halves.map(|half| half[at]);
        let limit = first + first / 4 + slack;
        assert!(second <= limit, "{name} grew from {first} to {second}");
    }
}

fn most(counted: &[Counts]) -> Counts {
    let larger = |one: Counts, other: &Counts| std::array::from_fn(|at| one[at].max(other[at]));
    counted.iter().fold(Counts::default(), larger)
}

/// Takes this many steps. Returns the counts after each.
fn live(steps: u64, reopens: bool) -> Vec<Counts> {
    let home = tempfile::tempdir().unwrap();
    let mut db = open(home.path());
    let (mut model, mut dice) = (Model::new(), Dice(7));
    let mut counted = Vec::new();
    for step in 0..steps {
        write(&db, &mut model, &mut dice);
        db.flush().unwrap();
        db.compact_range::<&[u8], &[u8]>(None, None);
        let family = format!("family-{step}");
        db.create_cf(&family, &options()).unwrap();
        let handle = db.cf_handle(&family).unwrap();
        for i in 0..KEYS_OF_A_FAMILY {
            db.put_cf(&handle, key(i), "value").unwrap();
        }
        db.flush_cf(&handle).unwrap();
        if step % 2 == 0 {
            // Otherwise it is dropped while its filters are being stored.
            settle(&db);
        }
        drop(handle);
        db.drop_cf(&family).unwrap();
        if step % STEPS_A_SUMMARY == 0 {
            // This stores the summary of an open database.
            db.filters().consolidate().unwrap();
        }
        if reopens {
            drop(db);
            db = open(home.path());
        }
        // A dead file is removed by the second maintenance run that finds it dead.
        (0..2).for_each(|_| settle(&db));
        counted.push(count(&db, home.path()));
    }
    check_reads(&db, &model);
    verify_finds_every_key(&db);
    counted
}

fn write(db: &SieveDb, model: &mut Model, dice: &mut Dice) {
    for _ in 0..KEYS_A_STEP {
        let key = key(10 + dice.below(KEYS));
        if dice.below(8) == 0 {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            db.put(&key, "value").unwrap();
            model.insert(key, b"value".to_vec());
        }
    }
}

fn count(db: &SieveDb, home: &Path) -> Counts {
    let filters = home.join("sieve");
    let files = stamps(&filters, "");
    let covered = |file: &std::path::PathBuf| {
        let summary = format::decode(&fs::read(file).unwrap()).unwrap();
        match summary.subject {
            Subject::Summary { covered, .. } => covered.len() as u64,
            Subject::Segment(_) => unreachable!("it is a summary"),
        }
    };
    let health = db.filters().health();
    let memory = health.memory.summary + health.memory.segments;
    [
        files.len() as u64,
        files.values().map(|(_, length, ..)| length).sum(),
        summaries(&filters).iter().map(covered).sum(),
        health.known_segments as u64,
        memory.get() / 8,
        resident_bytes(),
    ]
}

/// Memory of this process; 0 if the system does not tell.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let resident = lines.find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = resident.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.unwrap_or_default() << 10
}
