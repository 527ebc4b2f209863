//! Every call that takes a column family, by a handle, by name or in a batch. Each is made on a
//! second family whose keys differ from those of the default family: without transactions, and with
//! either kind of them.
//!
//! ```text
//!            default family   second family
//!   d00..        present            -        each: half of them in an SST, half in a memtable
//!   o00..           -            present
//!   b00..        present         present     each with a value of its own
//! ```
//!
//! The calls are in tables, one for each way to check them. [`public_methods`] lists the methods that exist,
//! and a test compares both: a new method needs a row.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

mod by_name;
mod engine;
mod iterators;
mod reads;
mod transactions;
mod writes;

use std::collections::BTreeSet;

use lsm_sieve::{Isolation, SieveDb, SieveOptions};
use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME as DEFAULT, Error, ErrorKind, TransactionDBOptions};
use tempfile::TempDir;

use crate::structure::public_methods;
use crate::support::model_db::{Model, cover, options, settle, sieve};
use crate::support::reads::Handle;

const OTHER: &str = "other";

/// A kind of database: how it isolates transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Optimistic,
    Locking,
}

const KINDS: [Kind; 3] = [Kind::Plain, Kind::Optimistic, Kind::Locking];

impl Kind {
    /// No call waits for a lock.
    fn sieve(self) -> SieveOptions {
        match self {
            Self::Plain => sieve(),
            Self::Optimistic => sieve().transactions(Isolation::Optimistic),
            Self::Locking => {
                let mut locks = TransactionDBOptions::default();
                locks.set_default_lock_timeout(0);
                locks.set_txn_lock_timeout(0);
                sieve().transactions(Isolation::locks(locks))
            }
        }
    }
}

/// A database with two families, and what they hold.
struct World {
    db: SieveDb,
    kind: Kind,
    default: Model,
    other: Model,
    home: TempDir,
}

/// Keys of each kind. Half of them are in an SST.
const EACH: usize = 12;

fn keys(sort: char) -> impl Iterator<Item = Vec<u8>> {
    (0..EACH).map(move |i| format!("{sort}{i:02}").into_bytes())
}

/// The sampled keys of each kind: one in an SST, one in a memtable.
const SAMPLE: [usize; 2] = [0, EACH - 1];

/// The sampled keys of each kind, and some that do not exist.
fn sampled_keys() -> impl Iterator<Item = Vec<u8>> {
    let sorts = ['d', 'o', 'b', 'n'].into_iter();
    sorts.flat_map(|sort| SAMPLE.map(|i| format!("{sort}{i:02}").into_bytes()))
}

impl World {
    fn new(kind: Kind) -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("db");
        let db = SieveDb::builder(path)
            .options(&options())
            .filters(&kind.sieve())
            .cfs([DEFAULT, OTHER])
            .open()
            .unwrap();
        let (default, other) = (Model::new(), Model::new());
        let mut world = Self {
            db,
            kind,
            default,
            other,
            home,
        };
        world.fill(0..EACH / 2);
        for family in [DEFAULT, OTHER] {
            world.db.flush_cf(&world.handle(family)).unwrap();
        }
        world.fill(EACH / 2..EACH);
        cover(&world.db);
        settle(&world.db);
        world
    }

    fn fill(&mut self, numbers: std::ops::Range<usize>) {
        for (family, sorts) in [(DEFAULT, ['d', 'b']), (OTHER, ['o', 'b'])] {
            for key in sorts.into_iter().flat_map(keys) {
                let number = String::from_utf8_lossy(&key[1..]);
                let number: usize = number.parse().unwrap();
                if numbers.contains(&number) {
                    let value = [family.as_bytes(), b"'s ", &key].concat();
                    self.db.put_cf(&self.handle(family), &key, &value).unwrap();
                    self.model(family).insert(key, value);
                }
            }
        }
    }

    fn model(&mut self, family: &str) -> &mut Model {
        match family {
            DEFAULT => &mut self.default,
            _ => &mut self.other,
        }
    }

    fn handle(&self, family: &str) -> Handle<'_> {
        self.db.cf_handle(family).unwrap()
    }

    /// The value of the second family under this key.
    fn of_other(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.other.get(key).cloned()
    }
}

/// All keys of all kinds, and some that do not exist.
fn all_keys() -> impl Iterator<Item = Vec<u8>> {
    ['d', 'o', 'b', 'n'].into_iter().flat_map(keys)
}

/// Rows of a table of calls with the same type of result.
macro_rules! call_rows {
    (|$on:ident, $cf:ident, $key:ident| $($method:ident($($argument:expr),*),)*) => {
        &[$((stringify!($method), |$on, $cf, $key| $on.$method($($argument),*)),)*]
    };
}
use call_rows;

fn kind_of<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// The calls in the tables, as `Type::method`.
fn table() -> BTreeSet<String> {
    let tables = [
        reads::names(),
        iterators::names(),
        writes::names(),
        transactions::names(),
        engine::names(),
        by_name::names(),
    ];
    let mut table = BTreeSet::new();
    for name in tables.into_iter().flatten() {
        assert!(table.insert(name.clone()), "{name} has two rows");
    }
    table
}

#[test]
fn every_method_that_takes_a_cf_has_a_row() {
    let (table, there) = (
        table(),
        public_methods::methods_that(public_methods::take_a_cf),
    );
    let missing: Vec<_> = there.difference(&table).collect();
    assert!(missing.is_empty(), "without a row: {missing:?}");
    // The other rows are of `rocksdb`'s database, to which ours dereferences.
    assert!(table.len() >= 75, "the search is broken: {}", table.len());
}

/// Prints how many calls were made in how many variants (`-- --nocapture` shows it).
#[expect(clippy::print_stdout, reason = "the test prints the table")]
fn report(what: &str, calls: usize, variants: usize) {
    assert!(variants >= calls, "{what}: a call was left out");
    println!("{{\"calls\":\"{what}\",\"methods\":{calls},\"variants\":{variants}}}");
}
