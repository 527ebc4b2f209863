//! How the filters are, in figures that cost next to nothing: for a dashboard.

use super::column::Column;
use super::{FilterMemory, SieveDb};
use crate::math::{Bits, Items};
use crate::planted::planted;
use crate::stats::Stats;

/// The state of all filters at a glance. It is told without reading a filter or a table, so it may be
/// asked every second; [`SieveDb::inspect`] reads them all, and says more.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Health {
    /// What the filters take, those that memtables feed and those of all SSTs, and their fronts.
    pub memory: FilterMemory,
    /// The most that all of it may be, if that is set.
    pub budget: Option<Bits>,
    /// Segments that are known: the live SSTs, those that are being written, and a few that went a moment ago.
    pub known_segments: usize,
    /// Whether an audit refuted a filter: nothing is ruled out until the database is opened again.
    pub refuted: bool,
    /// One for each column family.
    pub families: Vec<FamilyHealth>,
}

/// The state of one column family's front.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FamilyHealth {
    /// Its name.
    pub name: String,
    /// Distinct keys of the summary.
    pub keys: Items,
    /// Stages that the summary has grown to; one when it was just consolidated.
    pub stages: usize,
    /// What the summary and the filters of the latest memtables take.
    pub memory: Bits,
    /// What the front takes beside filters: counters, lists of tables, and the objects of its hooks.
    pub front: Bits,
    /// The chance that the summary lets an absent key by, computed from its keys; 1 where the budget
    /// has no room for it.
    pub predicted_rate: f64,
    /// Live tables that the summary does not speak for; `None`: not known, and nothing is ruled out.
    pub uncovered: Option<usize>,
    /// How many of these stay so until they are compacted: they are from a RocksDB before 6.24, which wrote no
    /// id to bind filters to, and this is a secondary or is open to read only. Else a file is known by its name
    /// for as long as the database is open.
    pub without_id: usize,
    /// Whether the tables' filters are asked where the summary says *maybe*.
    pub looks_twice: bool,
    /// What the filters did so far.
    pub stats: Stats,
}

impl SieveDb {
    /// The state of all filters at a glance.
    pub fn health(&self) -> Health {
        let columns = self.columns().all();
        if planted!(HealthWakes) {
            columns.iter().for_each(|column| column.wake());
        }
        let families: Vec<_> = columns.iter().map(|column| column.health()).collect();
        Health {
            memory: FilterMemory {
                summary: families.iter().map(|family| family.memory).sum(),
                segments: self.registry().size(),
                fronts: families.iter().map(|family| family.front).sum(),
            },
            budget: self.budget(),
            known_segments: self.registry().count(),
            refuted: self.refutation().is_some(),
            families,
        }
    }
}

impl Column {
    fn health(&self) -> FamilyHealth {
        let view = self.view();
        FamilyHealth {
            name: self.name().to_owned(),
            keys: view.summary.items(),
            stages: view.summary.stages(),
            memory: self.size(),
            front: self.size_beside_filters(),
            predicted_rate: view.summary.predicted_rate(),
            uncovered: view.uncovered(),
            without_id: view.without_id(),
            looks_twice: view.inventory.is_some(),
            stats: self.stats(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rocksdb::Options;

    use super::*;
    use crate::SieveOptions;

    const LIMIT: Duration = Duration::from_secs(60);
    const KEYS: u64 = 5_000;

    fn open(folder: &std::path::Path, sieve: &SieveOptions) -> SieveDb {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        SieveDb::open_cf(&options, sieve, folder, ["users"]).unwrap()
    }

    #[test]
    fn it_says_what_an_inspection_says() {
        let home = tempfile::tempdir().unwrap();
        let budget = Bits::from_bytes(1 << 20);
        let db = open(home.path(), &SieveOptions::default().memory_budget(budget));
        let users = db.cf_handle("users").unwrap();
        for key in 0..KEYS {
            db.put_cf(&users, key.to_be_bytes(), b"value").unwrap();
        }
        db.flush_cf(&users).unwrap();
        assert!(db.wait_until_covered(LIMIT) && db.wait_until_known(LIMIT));
        assert!(db.get_cf(&users, b"absent").unwrap().is_none());

        let (health, inspection) = (db.health(), db.inspect().unwrap());
        assert_eq!((health.budget, health.refuted), (Some(budget), false));
        let filters = inspection
            .columns
            .iter()
            .flat_map(|column| &column.segments);
        let bits = filters.filter_map(|segment| Some(segment.filter.as_ref()?.bits));
        assert_eq!(health.memory.segments.get(), bits.sum::<u64>());
        assert!(health.memory.segments.get() > 0);
        let memory: u64 = health
            .families
            .iter()
            .map(|family| family.memory.get())
            .sum();
        assert_eq!(health.memory.summary.get(), memory);

        let column = &inspection.columns[1];
        let family = &health.families[1];
        assert_eq!((&*family.name, &*column.name), ("users", "users"));
        assert!(family.memory.get() >= column.summary.bits);
        assert_eq!(family.keys.get(), column.summary.keys);
        assert_eq!(family.stages, column.summary.stages);
        assert_eq!(family.predicted_rate, column.summary.predicted_rate);
        assert_eq!(family.uncovered, Some(0));
        assert!(family.looks_twice);
        assert_eq!(family.stats.lookups(), 1);
    }

    /// Else whoever watches would hide that a wake-up was forgotten.
    #[test]
    fn reports_wake_nothing() {
        let home = tempfile::tempdir().unwrap();
        let db = open(home.path(), &SieveOptions::default());
        db.put(b"key", b"value").unwrap();
        let bell = db.shared_bell();
        let at_rest = || {
            let passes = bell.passes();
            std::thread::sleep(Duration::from_millis(1_500));
            bell.passes() == passes
        };
        while !at_rest() {}
        let passes = bell.passes();
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(300) {
            assert_eq!(db.health().families.len(), 2);
            let _ = (db.stats(), db.stats_cf("users"), db.scrubbed());
            assert!(!db.answer(b"key").is_absent());
            assert_eq!(db.inspect().unwrap().columns.len(), 2);
            assert_eq!(db.refutation(), None);
        }
        assert_eq!(bell.passes(), passes);
    }

    #[test]
    fn it_tells_of_a_summary_without_room_and_of_a_front_that_gave_up() {
        let home = tempfile::tempdir().unwrap();
        let sieve = SieveOptions::default().memory_budget(Bits::new(0));
        let db = open(home.path(), &sieve);
        let none = db.health();
        assert_eq!(none.memory.summary, Bits::new(0));
        assert_eq!(none.families[0].predicted_rate, 1.0);
        db.columns().all()[0].give_up();
        assert_eq!(db.health().families[0].uncovered, None);
    }
}
