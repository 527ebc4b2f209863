//! The answers to a batch of keys are those of one moment: where the filters that denied a key are replaced while
//! the engine is asked for the others, it is asked for all keys again.
//!
//! Here each way to replace them is tried alone. A key is denied before the change and after it, so that nothing
//! but the edition of the view tells.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, Options, SstFileWriter, WriteBatch, WriteOptions};

use crate::filter::Scalable;
use crate::hash::{HashId, KeyHasher, Seed};
use crate::math::{Bits, Items};
use crate::rocks::SieveDb;
use crate::rocks::db::reads::read_many_of;
use crate::rocks::hooks::JustOpened as _;
use crate::rocks::{Engine, SieveOptions, hooks};
use lsm_sieve_front::audit::Distrust as _;
use lsm_sieve_front::cf_filter::CfFilter;
use lsm_sieve_front::cf_filter::multi_lookup::multi_get;
use lsm_sieve_front::key_range::KeyRange;
use lsm_sieve_front::prefix::PrefixSet;
use lsm_sieve_front::segment::Registry;
use lsm_sieve_front::sorted_runs::WithRange;
use lsm_sieve_front::view::{Coverage, View};

const THERE: &[u8] = b"there";
const DENIED: &[u8] = b"denied";
const LIMIT: Duration = Duration::from_secs(60);

/// A database and the filters of its one family; no maintenance changes them but what a test does.
struct Scene {
    engine: Engine,
    cf_filter: Arc<CfFilter>,
    registry: Arc<Registry>,
    home: tempfile::TempDir,
}

fn hasher() -> KeyHasher {
    KeyHasher::new(HashId::Xxh3, Seed::from_bytes([6; 16]))
}

fn sieve() -> SieveOptions {
    SieveOptions::default().adaptive_hits(false)
}

/// A summary of these keys.
fn summary(keys: &[&[u8]]) -> Arc<Scalable> {
    let options = sieve().resolved().summary(Items::new(0), Bits::new(0));
    let summary = Scalable::new(hasher().imprint().for_summary(), options);
    for key in keys {
        summary.insert(hasher().hash(key).for_summary());
    }
    Arc::new(summary)
}

/// A table without a filter of its own that has neither key.
fn beside(first: &[u8], last: &[u8]) -> Coverage {
    let range = KeyRange::new(first, last);
    Coverage::all_but(vec![WithRange {
        filter: None,
        range: Some(&range),
    }])
}

impl Scene {
    /// The summary speaks for all tables; there is a key in one, and nothing in a memtable.
    fn new() -> Self {
        let registry = Arc::new(Registry::new(hasher()));
        let cf_filter = CfFilter::new(
            DEFAULT_COLUMN_FAMILY_NAME,
            hasher(),
            Arc::clone(&registry),
            Arc::default(),
            &sieve().resolved(),
            (summary(&[]), HashSet::new(), PrefixSet::default()),
        );
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_disable_auto_compactions(true);
        hooks::install(&options, Arc::clone(&cf_filter), &hooks::HOOKS);
        let cfs = [(DEFAULT_COLUMN_FAMILY_NAME, options.clone())];
        let path = home.path().join("db");
        let scene = Self {
            engine: Engine::open_cf_with_opts(&options, path, cfs).unwrap(),
            cf_filter,
            registry,
            home,
        };
        scene.publish(scene.summary(), Coverage::Complete);
        scene.engine.put(THERE, "value").unwrap();
        scene.engine.flush().unwrap();
        scene
    }

    fn summary(&self) -> Arc<Scalable> {
        self.cf_filter.view().summary
    }

    fn publish(&self, summary: Arc<Scalable>, coverage: Coverage) {
        let (epoch, covered) = (self.cf_filter.epoch(), HashSet::new());
        assert!(self.cf_filter.publish(epoch, summary, coverage, covered));
    }

    fn compact(&self) {
        self.engine.flush().unwrap();
        self.engine.compact_range::<&[u8], &[u8]>(None, None);
    }

    fn denies(&self, key: &[u8]) -> bool {
        self.cf_filter.answer(key).is_absent()
    }

    /// Asks for both keys. How often the engine is asked, when `change` comes between the filters and it.
    fn asked_beside(&self, change: impl Fn(&Self)) -> usize {
        let asked = Cell::new(0);
        assert!(self.denies(DENIED) && !self.denies(THERE));
        let answers = multi_get(&self.cf_filter, &[THERE, DENIED], |keys| {
            if asked.replace(asked.get() + 1) == 0 {
                assert_eq!(keys, [THERE]);
                change(self);
            } else {
                assert_eq!(keys, [THERE, DENIED]);
            }
            keys.iter().map(|key| self.engine.get(key)).collect()
        });
        let there = answers.into_iter().map(|answer| answer.unwrap().is_some());
        assert!(there.eq([true, false]));
        asked.get()
    }
}

/// A new field of it is a new way to change what readers are told, and needs a test here.
#[test]
fn view_has_no_other_fields() {
    let View {
        summary: _,
        // Follows from the summary.
        summary_prefixes: _,
        coverage: _,
        edition: _,
    } = Scene::new().cf_filter.view();
}

#[test]
fn batch_is_asked_once_beside_what_readers_cannot_tell_apart() {
    let scene = Scene::new();
    assert_eq!(scene.asked_beside(|_| ()), 1);
    let lists_tables = |scene: &Scene| {
        let id = lsm_sieve_front::segment::SegmentId::from_bytes([1; 16]);
        let (epoch, covered) = (scene.cf_filter.epoch(), HashSet::from([id]));
        let (summary, all) = (scene.summary(), Coverage::Complete);
        assert!(scene.cf_filter.publish(epoch, summary, all, covered));
    };
    assert_eq!(scene.asked_beside(lists_tables), 1);
    assert_eq!(scene.asked_beside(|scene| scene.engine.flush().unwrap()), 1);
    let fed_anew = |scene: &Scene| assert!(scene.cf_filter.feed(vec![scene.summary()]));
    assert_eq!(Scene::new().asked_beside(fed_anew), 1);
}

/// A way to replace filters.
type Change = (&'static str, fn(&Scene));

#[test]
fn batch_is_asked_again_when_the_summary_is_replaced() {
    let changes: [Change; 2] = [
        ("consolidated", |scene| {
            scene.publish(summary(&[THERE]), Coverage::Complete);
        }),
        ("dropped", |scene| assert!(scene.cf_filter.drop_summary())),
    ];
    for (change, replace) in changes {
        let scene = Scene::new();
        assert_eq!(scene.asked_beside(replace), 2, "{change}");
        assert_eq!(scene.denies(DENIED), change == "consolidated");
    }
}

/// Of the same summary.
#[test]
fn batch_is_asked_again_when_coverage_changes() {
    let publish = |scene: &Scene, coverage| scene.publish(scene.summary(), coverage);
    let scene = Scene::new();
    let changes: [Change; 3] = [
        ("a table is uncovered", |scene| {
            scene.publish(scene.summary(), beside(b"a", b"b"));
        }),
        ("another one", |scene| {
            scene.publish(scene.summary(), beside(b"x", b"y"));
        }),
        ("it is covered", |scene| {
            scene.publish(scene.summary(), Coverage::Complete);
        }),
    ];
    for (change, replace) in changes {
        assert_eq!(scene.asked_beside(replace), 2, "{change}");
        assert!(scene.denies(DENIED), "{change}");
    }
    // Unknown for a while.
    let announced = |scene: &Scene| {
        drop(scene.cf_filter.begin_external_writes());
        publish(scene, Coverage::Complete);
    };
    assert_eq!(scene.asked_beside(announced), 2);
    assert!(scene.denies(DENIED));
}

#[test]
fn batch_is_asked_again_when_nothing_is_denied_any_more() {
    let changes: [Change; 3] = [
        ("external writes", |scene| {
            scene.cf_filter.external_writes_happened();
        }),
        ("given up", |scene| scene.cf_filter.disable()),
        ("retired", |scene| scene.cf_filter.retire()),
    ];
    for (change, replace) in changes {
        let scene = Scene::new();
        assert_eq!(scene.asked_beside(replace), 2, "{change}");
        assert!(!scene.denies(DENIED), "{change}");
    }
}

/// No view is published then: the filter is asked once more.
#[test]
fn batch_is_asked_again_when_the_filter_of_an_uncovered_table_goes() {
    let scene = Scene::new();
    let segments = scene.registry.ids().into_iter();
    let spanning = segments.map(|id| WithRange {
        filter: Some(scene.registry.open(id)),
        range: None,
    });
    scene.publish(scene.summary(), Coverage::all_but(spanning.collect()));
    let before = scene.cf_filter.edition();
    let distrust = |scene: &Scene| scene.registry.distrust();
    assert_eq!(scene.asked_beside(distrust), 2);
    assert!(!scene.denies(DENIED) && scene.cf_filter.edition() == before);
}

/// A key that does something when it is looked at.
struct Watched<'a>(&'static [u8], &'a dyn Fn());

impl AsRef<[u8]> for Watched<'_> {
    fn as_ref(&self) -> &[u8] {
        self.1();
        self.0
    }
}

#[test]
fn batch_is_asked_again_when_filters_change_while_they_deny() {
    let scene = Scene::new();
    let before = scene.cf_filter.edition();
    let asked = Cell::new(0);
    std::thread::scope(|scope| {
        let (begin, begun) = channel();
        let (cf_filter, anew) = (&scene.cf_filter, summary(&[THERE]));
        scope.spawn(move || {
            begun.recv().unwrap();
            let (epoch, nothing) = (cf_filter.epoch(), HashSet::new());
            // The view is replaced, and then it waits for those who are in the old one.
            assert!(cf_filter.publish(epoch, anew, Coverage::Complete, nothing));
        });
        let replace = || {
            if scene.cf_filter.edition() == before {
                begin.send(()).unwrap();
            }
            let began = Instant::now();
            while scene.cf_filter.edition() == before {
                assert!(began.elapsed() < LIMIT, "it has the old edition");
                std::thread::yield_now();
            }
        };
        let keys = [THERE, DENIED].map(|key| Watched(key, &replace));
        let answers = multi_get(&scene.cf_filter, &keys, |keys| {
            asked.set(asked.get() + 1);
            keys.iter().map(|key| scene.engine.get(key)).collect()
        });
        assert_eq!(answers.len(), 2);
    });
    assert_eq!(asked.get(), 2);
}

/// A record that is under one of two keys at every moment, and is moved there and back while the engine is asked.
struct Moved<'a>(&'a Scene);

const HOME: &[u8] = b"home";
const AWAY: &[u8] = b"away";

impl Moved<'_> {
    fn go(&self, from: &[u8], to: &[u8]) {
        let mut batch = WriteBatch::default();
        batch.delete(from);
        batch.put(to, "record");
        let engine = &self.0.engine;
        let handle = engine.handle().unwrap();
        hooks::write(engine, &handle, &batch, &WriteOptions::default()).unwrap();
    }

    /// Asks for both keys, of which the filters deny one, before and after. `leave` and `come_back` are all that
    /// happens meanwhile; the engine is asked between them.
    fn is_seen_once(&self, leave: impl Fn(), come_back: impl Fn()) {
        let Self(scene) = self;
        let first = Cell::new(true);
        assert!(scene.denies(AWAY) && !scene.denies(HOME));
        let answers = multi_get(&scene.cf_filter, &[HOME, AWAY], |keys| {
            let moves = first.replace(false);
            if moves {
                leave();
            }
            let answers = keys.iter().map(|key| scene.engine.get(key)).collect();
            if moves {
                come_back();
            }
            answers
        });
        assert!(scene.denies(AWAY), "else the edition tells nothing");
        let found = answers.into_iter().filter_map(Result::unwrap);
        assert_eq!(found.count(), 1, "a batch was torn");
    }
}

#[test]
fn record_that_comes_back_before_a_consolidation_is_seen_once() {
    let scene = Scene::new();
    let record = Moved(&scene);
    scene.engine.put(HOME, "record").unwrap();
    let come_back = || {
        record.go(AWAY, HOME);
        let anew = summary(&[THERE, HOME]);
        assert!(scene.cf_filter.feed(vec![Arc::clone(&anew)]));
        scene.compact();
        scene.publish(anew, Coverage::Complete);
    };
    record.is_seen_once(|| record.go(HOME, AWAY), come_back);
}

/// No memtable has the other key, and the summary never hears of it.
#[test]
fn record_that_is_ingested_under_another_key_is_seen() {
    let scene = Scene::new();
    let record = Moved(&scene);
    scene.engine.put(HOME, "record").unwrap();
    let leave = || {
        let file = scene.home.path().join("away.sst");
        let options = Options::default();
        let mut writer = SstFileWriter::create(&options);
        writer.open(&file).unwrap();
        writer.put(AWAY, "record").unwrap();
        writer.finish().unwrap();
        let _announced = scene.cf_filter.begin_external_writes();
        scene.engine.ingest_external_file(vec![file]).unwrap();
        scene.engine.delete(HOME).unwrap();
    };
    let come_back = || {
        scene.engine.put(HOME, "record").unwrap();
        let cf = scene.engine.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
        let end = [AWAY, b"+"].concat();
        scene.engine.delete_range_cf(&cf, AWAY, &end).unwrap();
        scene.compact();
        scene.publish(scene.summary(), Coverage::Complete);
    };
    record.is_seen_once(leave, come_back);
}

/// The other family's filters stay as they are.
#[test]
fn batch_over_families_is_asked_again_when_filters_of_one_change() {
    type Change = fn(&SieveDb);
    let changes: [(&str, Change); 2] = [
        ("replaced", |db| {
            let cf_filter = db.cf_filters().all().remove(1);
            cf_filter.external_writes_happened();
            assert!(db.wait_until_complete(LIMIT) && cf_filter.answer(DENIED).is_absent());
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
            .filters(&sieve())
            .cfs(["other"])
            .open()
            .unwrap();
        db.put(THERE, "value").unwrap();
        assert!(db.wait_until_complete(LIMIT));
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
