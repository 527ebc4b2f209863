//! The answers to a batch of keys of several column families are those of one moment: where the filters
//! that denied a key are replaced while RocksDB is asked for the others, it is asked for all keys again.
//!
//! Each way to replace the filters of one column family is tested in `lsm-sieve-front`.

use std::cell::Cell;
use std::time::Duration;

use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, Options};

use crate::db::reads::read_many_of;
use crate::{SieveDb, SieveOptions};

const THERE: &[u8] = b"there";
const DENIED: &[u8] = b"denied";
const LIMIT: Duration = Duration::from_secs(60);

/// The other family's filters stay as they are.
#[test]
fn batch_over_families_is_asked_again_when_filters_of_one_change() {
    type Change = fn(&SieveDb);
    let changes: [(&str, Change); 2] = [
        ("replaced", |db| {
            let cf_filter = db.cf_filters().all().remove(1);
            cf_filter.external_writes_happened();
            let is_denied = || {
                db.filters()
                    .answer_cf(&db.cf_handle("other").unwrap(), DENIED)
            };
            assert!(db.filters().wait_until_complete(LIMIT) && is_denied().is_absent());
        }),
        ("dropped", |db| db.drop_cf("other").unwrap()),
    ];
    for (change, replace) in changes {
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let db = SieveDb::builder(home.path())
            .options(&options)
            .filters(&SieveOptions::default().adaptive_hits(false))
            .cfs(["other"])
            .open()
            .unwrap();
        db.put(THERE, "value").unwrap();
        assert!(db.filters().wait_until_complete(LIMIT));
        let cfs = [DEFAULT_COLUMN_FAMILY_NAME, "other"].map(|name| db.cf_handle(name));
        let [default, other] = cfs.map(Option::unwrap);
        let asked = Cell::new(0);
        let keys = [(&default, THERE), (&other, DENIED)];
        let answers = read_many_of(db.cf_filters(), &keys, |left| {
            if asked.replace(asked.get() + 1) == 0 {
                assert_eq!(left, [0]);
                replace(&db);
            }
            let read = |&at: &usize| db.get_unfiltered_cf(keys[at].0, keys[at].1);
            left.iter().map(read).collect()
        });
        assert_eq!(asked.get(), 2, "{change}");
        let there = answers.into_iter().map(|answer| answer.unwrap().is_some());
        assert!(there.eq([true, false]), "{change}");
    }
}
