//! Random false negatives: how many reads it takes until an audit finds each, and that it stays
//! found.
//!
//! `LSM_SIEVE_LIES=1000` makes a long run. `LSM_SIEVE_SEED=n` repeats one, except for the secrets
//! of the databases. The last line printed is a JSON object with the figures.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::path::Path;
use std::time::Instant;

use lsm_sieve::{Items, SieveDb};
use rocksdb::Options;
use serde_json::json;

use super::false_negatives::filters;
use crate::support::damage::without_keys;
use crate::support::database_files::{sidecars, summaries};
use crate::support::environment::number_from;
use crate::support::model_db::{
    Dice, Model, always_filtered, cover, fill, key, options, settle, verify_finds_every_key,
};

/// Injected false negatives of an ordinary run.
const FALSE_NEGATIVES: u64 = 8;

/// Keys of one SST.
const KEYS: u64 = 40;

/// Which filters lack their keys.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Faulty {
    Summary,
    Both,
}

/// A database, its faulty filters, and its audit rate.
#[derive(Clone, Copy, Debug)]
struct Case {
    faulty: Faulty,
    ssts: u64,
    one_in: u32,
}

impl Case {
    fn draw(dice: &mut Dice) -> Self {
        let faulty = [Faulty::Summary, Faulty::Both];
        Self {
            faulty: faulty[dice.below(2) as usize],
            ssts: 1 + dice.below(20),
            one_in: [1, 4, 16, 64][dice.below(4) as usize],
        }
    }

    /// The mean number of reads of one key until one is audited.
    fn expected(&self) -> u64 {
        u64::from(self.one_in)
    }

    fn open(&self, settings: &Options, path: &Path) -> SieveDb {
        let sieve = always_filtered().expected_keys(Items::new(400));
        SieveDb::open(settings, &sieve.audit(self.one_in), path).unwrap()
    }

    fn write(&self, settings: &Options, path: &Path) -> Model {
        let db = self.open(settings, path);
        let mut model = Model::new();
        for sst in 0..self.ssts {
            for i in 0..KEYS {
                let number = 4 + i * self.ssts + sst;
                fill(&db, &mut model, number..number + 1);
            }
            db.flush().unwrap();
        }
        cover(&db);
        settle(&db);
        model
    }

    fn inject(&self, path: &Path) {
        let folder = filters(path);
        summaries(&folder)
            .iter()
            .for_each(|file| without_keys(file));
        if self.faulty == Faulty::Both {
            sidecars(&folder).iter().for_each(|file| without_keys(file));
        }
    }

    /// Injects the false negative, reads one key until it is found, then reads all keys.
    fn run(&self, dice: &mut Dice) -> Outcome {
        let home = tempfile::tempdir().unwrap();
        let mut settings = options();
        settings.set_disable_auto_compactions(true);
        let model = self.write(&settings, home.path());
        self.inject(home.path());
        let db = self.open(&settings, home.path());
        settle(&db);
        let wanted = key(4 + dice.below(self.ssts * KEYS));
        let until_found = (1..=16 * self.expected()).find(|_| db.get(&wanted).unwrap().is_some());
        assert!(until_found.is_none() || db.filters().false_negative().is_some());
        let mut lost = lost(&db, &model);
        drop(db);
        let db = self.open(&settings, home.path());
        lost += self::lost(&db, &model);
        cover(&db);
        settle(&db);
        lost += self::lost(&db, &model);
        verify_finds_every_key(&db);
        assert_eq!(db.filters().false_negative(), None, "{self:?}");
        Outcome { until_found, lost }
    }
}

/// The outcome of one false negative.
struct Outcome {
    /// Reads of one key until it was found.
    until_found: Option<u64>,
    /// Wrong reads after that.
    lost: u64,
}

fn lost(db: &SieveDb, model: &Model) -> u64 {
    let wrong = model
        .iter()
        .filter(|(key, value)| db.get(key).unwrap().as_ref() != Some(*value));
    wrong.count() as u64
}

#[test]
fn every_injected_false_negative_is_found_in_time_and_stays_found() {
    let count = number_from("LSM_SIEVE_LIES").unwrap_or(FALSE_NEGATIVES);
    let seed = number_from("LSM_SIEVE_SEED").unwrap_or_else(rand::random);
    println!("{count} false negatives, LSM_SIEVE_SEED={seed}");
    assert!(count > 0, "nothing to find");
    let start = Instant::now();
    let mut dice = Dice(seed);
    let (mut found, mut reads, mut expected, mut lost) = (0, 0, 0, 0);
    for _ in 0..count {
        let case = Case::draw(&mut dice);
        let outcome = case.run(&mut dice);
        found += u64::from(outcome.until_found.is_some());
        reads += outcome.until_found.unwrap_or_default();
        expected += case.expected();
        lost += outcome.lost;
    }
    let figures = json!({
        "part": "audit",
        "seed": seed,
        "lies_injected": count,
        "lies_found": found,
        "reads_until_found": reads,
        "reads_expected": expected,
        "lost_reads_after": lost,
        "seconds": start.elapsed().as_secs(),
    });
    println!("{figures}");
    assert_eq!((found, lost), (count, 0), "LSM_SIEVE_SEED={seed}");
}
