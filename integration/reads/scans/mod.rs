//! Scans: an iterator of a filtered database shows row by row what it shows without filters.
//!
//! `LSM_SIEVE_SEED` repeats the random histories, and `LSM_SIEVE_SCAN_HISTORIES` sets how many there
//! are.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(clippy::print_stdout, reason = "long runs say what they found")]

mod point_reads;
mod scan;
mod twins;

use lsm_sieve::SieveDb;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rocksdb::{
    ColumnFamilyDescriptor, DB, DEFAULT_COLUMN_FAMILY_NAME as DEFAULT, Direction, IteratorMode,
    ReadOptions, SliceTransform,
};

use self::scan::{How, Mode, Shown, Step};
use self::twins::{
    Extractor, Filtered, Pair, Policy, Scans, Setting, Twins, compared, key, opened, plain, sieve,
    with_bounds,
};
use crate::support::model_db::{PATIENCE, cover, options, settle};

/// Every kind of iterator over two databases.
fn every_scan_is_the_same(pair: Pair<'_>, random: &mut StdRng) {
    for mode in Mode::ALL {
        for (lower, upper) in [(false, false), (true, false), (false, true), (true, true)] {
            for is_tailing in [false, true] {
                let how = How {
                    is_tailing,
                    ..with_bounds(mode, lower, upper, random)
                };
                let mut scans = pair.scan(how);
                (0..8).for_each(|_| scans.walk(random));
            }
        }
    }
}

/// Those under which all rows are the same. With a policy, RocksDB skips SSTs by prefixes of an
/// extractor that no filter of ours can name; there are no such prefixes in ours.
fn settings() -> impl Iterator<Item = Setting> {
    let of = |extractor| Policy::ALL.map(|policy| Setting { extractor, policy });
    let all = Extractor::ALL.into_iter().flat_map(of);
    all.filter(|setting| setting.extractor != Extractor::Unnamed || !setting.policy.builds())
}

fn report() {
    println!("{{\"rows_compared\":{},\"different\":0}}", compared());
}

/// Without a filter policy, seven of ten published programs with a fixed prefix, a plain seek showed
/// the rows of one prefix, or none. RocksDB asked our filters of SSTs for the prefix of the seek, and
/// skipped these SSTs; it has no filters of its own there.
#[test]
fn a_scan_without_a_filter_policy_shows_every_row() {
    let extracting = || {
        let mut options = options();
        options.set_prefix_extractor(SliceTransform::create_fixed_prefix(4));
        options
    };
    let home = tempfile::tempdir().unwrap();
    let fill = |db: &DB| {
        for number in (0..1_000).filter(|number| number % 10 != 5) {
            db.put(format!("{number:04}"), "value").unwrap();
        }
        db.flush().unwrap();
    };
    let rows = |db: &DB, end: Option<&str>| {
        let mut read = ReadOptions::default();
        if let Some(end) = end {
            read.set_iterate_upper_bound(end);
        }
        let from = IteratorMode::From(b"0005", Direction::Forward);
        db.iterator_opt(from, read).map(Result::unwrap).count()
    };
    let new = opened(&extracting(), &sieve(), &home.path().join("new"));
    fill(&new);
    let path = home.path().join("adopted");
    let plain = DB::open(&extracting(), &path).unwrap();
    fill(&plain);
    let expected = [rows(&plain, None), rows(&plain, Some("0405"))];
    assert_eq!(expected, [895, 360]);
    drop(plain);
    let adopted = opened(&extracting(), &sieve(), &path);
    for db in [new, adopted] {
        assert!(db.filters().wait_until_complete(PATIENCE));
        for _ in 0..2 {
            assert_eq!([rows(&db, None), rows(&db, Some("0405"))], expected);
            db.compact_range(None::<&[u8]>, None::<&[u8]>);
        }
    }
}

/// `Next` behind `SeekForPrev` missed rows of the prefix. There, RocksDB's own iterator is at an
/// entry before the prefix. To turn, it seeks each SST for that entry's prefix, in which filters
/// have it skip SSTs with rows of ours. With a policy, plain RocksDB misses them too.
#[test]
fn next_behind_seek_for_prev_shows_the_rows_of_plain_rocksdb() {
    for policy in Policy::ALL {
        let extractor = Extractor::Fixed;
        let twins = Twins::new(Setting { extractor, policy });
        for keys in [["aab1", "aac2"], ["aac1", "aac3"]] {
            for key in keys {
                twins.both(|db| db.put(key, "value").unwrap());
            }
            twins.flush();
        }
        let mut scans = twins.scan(How::unbounded(Mode::SamePrefixInTotalOrder));
        let shown = scans.step(Step::SeekForPrev(b"aac1".to_vec()));
        assert_eq!(shown.key(), Some(&b"aac1"[..]));
        let next = scans.step(Step::Next);
        if !policy.builds() {
            assert_eq!(next.key(), Some(&b"aac2"[..]));
            assert_eq!(scans.step(Step::Next).key(), Some(&b"aac3"[..]));
        }
    }
}

#[test]
fn every_scan_of_a_new_database_shows_the_rows_of_plain_rocksdb() {
    let mut random = StdRng::seed_from_u64(1);
    for setting in settings() {
        let twins = Twins::new(setting);
        twins.fill(&mut random);
        every_scan_is_the_same(twins.pair(), &mut random);
        twins.compact();
        twins.write(&mut random);
        every_scan_is_the_same(twins.pair(), &mut random);
    }
    report();
}

#[test]
fn every_scan_of_an_adopted_database_shows_the_rows_of_plain_rocksdb() {
    let mut random = StdRng::seed_from_u64(2);
    for setting in settings() {
        let twins = Twins::adopted(setting, &mut random);
        every_scan_is_the_same(twins.pair(), &mut random);
        twins.fill(&mut random);
        every_scan_is_the_same(twins.pair(), &mut random);
        twins.compact();
        every_scan_is_the_same(twins.pair(), &mut random);
    }
    report();
}

/// What an SST is asked depends on the policy that it was written under, and on that of the open.
#[test]
fn every_scan_after_a_change_of_the_policy_shows_the_rows_of_plain_rocksdb() {
    let mut random = StdRng::seed_from_u64(3);
    for extractor in [Extractor::Fixed, Extractor::NotIdempotent] {
        for first in Policy::ALL {
            for policy in Policy::ALL {
                let twins = Twins::new(Setting {
                    extractor,
                    policy: first,
                });
                twins.fill(&mut random);
                let twins = twins.reopened(Setting { extractor, policy });
                every_scan_is_the_same(twins.pair(), &mut random);
            }
        }
    }
    report();
}

/// Keys of one or two bytes have no prefix by it: the filter of their SST is one of keys alone, and
/// RocksDB asks it for prefixes all the same.
#[test]
fn every_scan_after_a_change_of_the_extractor_shows_the_rows_of_plain_rocksdb() {
    let mut random = StdRng::seed_from_u64(4);
    for (extractor, changes) in [
        (Extractor::None, ["fixed:3", "capped:2"]),
        (Extractor::Fixed, ["nullptr", "fixed:2"]),
        (Extractor::Custom, ["fixed:3", "nullptr"]),
    ] {
        for policy in [Policy::None, Policy::Unbuilt] {
            let twins = Twins::new(Setting { extractor, policy });
            let write_short = |random: &mut StdRng| {
                for _ in 0..20 {
                    let short = key(random);
                    let short = &short[..short.len().min(2)];
                    twins.both(|db| db.put(short, "short").unwrap());
                }
                twins.flush();
            };
            write_short(&mut random);
            for change in changes {
                twins.both(|db| db.set_options(&[("prefix_extractor", change)]).unwrap());
                write_short(&mut random);
                every_scan_is_the_same(twins.pair(), &mut random);
                twins.fill(&mut random);
                every_scan_is_the_same(twins.pair(), &mut random);
            }
            let extractor = Extractor::Fixed;
            let twins = twins.reopened(Setting { extractor, policy });
            every_scan_is_the_same(twins.pair(), &mut random);
        }
    }
    report();
}

#[test]
fn every_scan_of_a_reader_shows_the_rows_of_plain_rocksdb() {
    let mut random = StdRng::seed_from_u64(5);
    for extractor in [Extractor::Fixed, Extractor::NotIdempotent] {
        for policy in [Policy::None, Policy::Bloom] {
            let setting = Setting { extractor, policy };
            let twins = Twins::new(setting);
            twins.fill(&mut random);
            // A reader has the filters that are stored by then.
            twins.settle();
            let options = setting.options();
            let path = |name| twins.home.path().join(name);
            let reader = || {
                let builder = SieveDb::builder(path("filtered"));
                builder.options(&options).filters(&setting.sieve())
            };
            let check = |plain: &DB, filtered: &Filtered, random: &mut StdRng| {
                assert!(filtered.filters().wait_for_maintenance(PATIENCE));
                let pair = Pair {
                    setting,
                    plain,
                    filtered,
                };
                every_scan_is_the_same(pair, random);
            };
            let secondary = reader().secondary(path("messages of filtered"));
            let messages = path("messages of plain");
            let cfs = || [ColumnFamilyDescriptor::new(DEFAULT, options.clone())];
            let of_plain = path("plain");
            let plain = DB::open_cf_descriptors_as_secondary(&options, &of_plain, &messages, cfs())
                .unwrap();
            check(&plain, &secondary.open_as().unwrap(), &mut random);
            twins.flush();
            let plain =
                DB::open_cf_descriptors_read_only(&options, &of_plain, cfs(), false).unwrap();
            let read_only = reader().read_only(false).open_as().unwrap();
            check(&plain, &read_only, &mut random);
        }
    }
    report();
}

/// Iterators that are held while the database changes. One that is held over a compaction may go on
/// to skip SSTs that are gone: RocksDB has their filters, and we do not. So with a policy all are
/// given up before a compaction.
#[test]
fn random_histories_of_iterators_show_the_rows_of_plain_rocksdb() {
    let variable = |name| std::env::var(name).map(|text| text.parse().unwrap());
    let seed = variable("LSM_SIEVE_SEED").unwrap_or_else(|_| rand::rng().next_u64());
    let histories = variable("LSM_SIEVE_SCAN_HISTORIES").unwrap_or(12);
    println!("LSM_SIEVE_SEED={seed}");
    let settings: Vec<Setting> = settings().collect();
    for number in 0..histories {
        let mut random = StdRng::seed_from_u64(seed.wrapping_add(number));
        let setting = *settings.choose(&mut random).unwrap();
        let twins = Twins::new(setting);
        twins.fill(&mut random);
        let mut held: Vec<Scans<'_>> = Vec::new();
        for _ in 0..400 {
            match random.random_range(0..100) {
                0..25 => twins.write(&mut random),
                25..28 => twins.flush(),
                28 => twins.ingest(&mut random),
                29 => {
                    if setting.policy.builds() {
                        held.clear();
                    }
                    twins.compact();
                }
                30..40 => {
                    let mode = *Mode::ALL.choose(&mut random).unwrap();
                    let bounds = (random.random_bool(0.5), random.random_bool(0.5));
                    let how = How {
                        is_tailing: random.random_ratio(1, 6),
                        ..with_bounds(mode, bounds.0, bounds.1, &mut random)
                    };
                    held.truncate(5);
                    held.insert(0, twins.scan(how));
                }
                action if !held.is_empty() => {
                    let at = random.random_range(0..held.len());
                    let scans = &mut held[at];
                    match action {
                        40..45 if !scans.how.is_tailing => scans.refresh(),
                        45..50 => scans.move_bounds(&mut random),
                        _ => {}
                    }
                    scans.walk(&mut random);
                }
                _ => {}
            }
        }
    }
    report();
}

/// The iterators of a transaction are RocksDB's own, over the engine without the handle.
#[test]
fn scans_of_a_transaction_show_the_rows_of_plain_rocksdb() {
    let mut random = StdRng::seed_from_u64(6);
    for extractor in Extractor::ALL {
        let policy = Policy::None;
        let setting = Setting { extractor, policy };
        let home = tempfile::tempdir().unwrap();
        let plain = plain(&setting.options(), &home.path().join("plain"));
        let sieve = sieve().transactions(lsm_sieve::Isolation::Optimistic);
        let filtered = home.path().join("filtered");
        let filtered = SieveDb::open(&setting.options(), &sieve, filtered).unwrap();
        for _ in 0..3 {
            for _ in 0..40 {
                let key = key(&mut random);
                plain.put(&key, "value").unwrap();
                filtered.put(&key, "value").unwrap();
            }
            plain.flush().unwrap();
            filtered.flush().unwrap();
        }
        cover(&filtered);
        settle(&filtered);
        let transaction = filtered.transaction().unwrap();
        for _ in 0..50 {
            let target = key(&mut random);
            for direction in [Direction::Forward, Direction::Reverse] {
                let mode = || IteratorMode::From(&target, direction);
                let of_plain: Vec<_> = plain.iterator(mode()).map(Result::unwrap).collect();
                let rows = transaction.iterator(mode()).map(Result::unwrap);
                assert_eq!(rows.collect::<Vec<_>>(), of_plain, "{setting:?} {target:?}");
            }
        }
    }
}

/// The bound of a backward seek is within its span, and that of a forward seek is not.
#[test]
fn a_backward_seek_from_a_key_behind_an_absent_prefix_shows_this_key() {
    let extractor = Extractor::Fixed;
    let policy = Policy::None;
    let twins = Twins::new(Setting { extractor, policy });
    for key in ["aa1", "ac", "ae1"] {
        twins.both(|db| db.put(key, "value").unwrap());
    }
    twins.flush();
    for (lower, target, shown) in [
        ("ab", "ac", Some("ac")),
        ("ab", "ab", None),
        ("ac", "ac", Some("ac")),
        ("ad", "ad9", None),
    ] {
        let mut scans = twins.scan(How {
            lower: Some(lower.into()),
            ..How::unbounded(Mode::TotalOrder)
        });
        let found = scans.step(Step::SeekForPrev(target.into()));
        assert_eq!(found.key(), shown.map(str::as_bytes), "{lower} {target}");
        scans.step(Step::Next);
    }
    assert!(
        twins.filtered.filters().stats().prefixes_absent >= 2,
        "the filters are asked"
    );
}

/// A view that is newer than an iterator says nothing of its rows, until it is refreshed.
#[test]
fn a_refreshed_iterator_asks_the_filters_again() {
    let extractor = Extractor::Fixed;
    let policy = Policy::None;
    let twins = Twins::new(Setting { extractor, policy });
    let write = |key: &str| twins.both(|db| db.put(key, "value").unwrap());
    write("aaa");
    twins.flush();
    let mut scans = twins.scan(How::unbounded(Mode::SamePrefix));
    let mut answered = || {
        let before = twins.filtered.filters().stats().prefixes_absent;
        for number in 100..200 {
            let shown = scans.step(Step::Seek(format!("{number}").into_bytes()));
            assert_eq!(shown, Shown::End);
        }
        let answered = twins.filtered.filters().stats().prefixes_absent - before;
        (answered, scans.step(Step::Refresh)).0
    };
    assert_eq!(answered(), 100);
    write("aab");
    twins.flush();
    answered();
    assert_eq!(answered(), 100);
}
