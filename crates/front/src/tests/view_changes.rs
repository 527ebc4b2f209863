//! The answers to a batch of keys are those of one moment: where the filters that denied a key are
//! replaced while the engine is asked for the others, it is asked for all keys again.
//!
//! Here each way to replace them is tried alone. A key is denied before the change and after it, so
//! that only the edition of the view tells.

use std::cell::Cell;
use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::memory_lsm::{Store, Stored};
use crate::audit::Distrust as _;
use crate::cf_filter::CfFilter;
use crate::cf_filter::multi_lookup::multi_get;
use crate::filter::Scalable;
use crate::key_range::KeyRange;
use crate::math::{Bits, Items};
use crate::options::FrontOptions;
use crate::segment::SegmentId;
use crate::sorted_runs::WithRange;
use crate::view::{Coverage, View};

const THERE: &[u8] = b"there";
const DENIED: &[u8] = b"denied";
const LIMIT: Duration = Duration::from_secs(60);

fn options() -> FrontOptions {
    FrontOptions {
        adaptive_hits: false,
        ..super::default_options()
    }
}

/// A segment without a filter of its own that has neither key.
fn beside(first: &[u8], last: &[u8]) -> Coverage {
    let range = KeyRange::new(first, last);
    Coverage::all_but(vec![WithRange {
        filter: None,
        range: Some(&range),
    }])
}

/// A store and its filters; no maintenance changes them but what a test does.
struct Scene(Store);

impl Scene {
    /// The summary speaks for all segments; there is a key in one, and nothing in a memtable.
    fn new() -> Self {
        let scene = Self(Store::open_without_thread(Stored::new(), &options()));
        scene.publish(scene.summary(), Coverage::Complete);
        scene.0.put(THERE, b"value");
        scene.0.flush();
        scene
    }

    fn cf_filter(&self) -> &Arc<CfFilter> {
        self.0.cf_filter()
    }

    fn summary(&self) -> Arc<Scalable> {
        self.cf_filter().view().summary
    }

    /// Another summary filter, of these keys.
    fn summary_of(&self, keys: &[&[u8]]) -> Arc<Scalable> {
        let hasher = self.cf_filter().hasher();
        let options = options().summary(Items::new(0), Bits::new(0));
        let summary = Scalable::new(hasher.imprint().for_summary(), options);
        for key in keys {
            summary.insert(hasher.hash(key).for_summary());
        }
        Arc::new(summary)
    }

    fn publish(&self, summary: Arc<Scalable>, coverage: Coverage) {
        let (listed, covered) = (self.cf_filter().list(|| ()), HashSet::new());
        assert!(
            self.cf_filter()
                .publish(&listed, summary, coverage, covered)
        );
    }

    fn compact(&self) {
        self.0.flush();
        self.0.compact();
    }

    fn denies(&self, key: &[u8]) -> bool {
        self.cf_filter().answer(key).is_absent()
    }

    /// What the store has of these keys, whatever the filters say.
    fn found(&self, keys: &[&[u8]]) -> Vec<Result<Option<()>, Infallible>> {
        let found = keys.iter().map(|key| Ok(self.0.has(key).then_some(())));
        found.collect()
    }

    /// Asks for both keys. How often the store is asked, when `change` comes between the filters and
    /// it.
    fn asked_beside(&self, change: impl Fn(&Self)) -> usize {
        let asked = Cell::new(0);
        assert!(self.denies(DENIED) && !self.denies(THERE));
        let before = self.cf_filter().stats();
        let answers = multi_get(self.cf_filter(), &[THERE, DENIED], |keys| {
            if asked.replace(asked.get() + 1) == 0 {
                assert_eq!(keys, [THERE]);
                change(self);
            } else {
                assert_eq!(keys, [THERE, DENIED]);
            }
            self.found(keys)
        });
        let there = answers.into_iter().map(|answer| answer.unwrap().is_some());
        assert!(there.eq([true, false]));
        // What was denied is counted once.
        let stats = self.cf_filter().stats();
        assert_eq!(stats.absent - before.absent, 1);
        assert_eq!(stats.lookups() - before.lookups(), 2);
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
        ranges: _,
        coverage: _,
        edition: _,
    } = Scene::new().cf_filter().view();
}

#[test]
fn batch_is_asked_once_beside_changes_that_readers_cannot_see() {
    let scene = Scene::new();
    assert_eq!(scene.asked_beside(|_| ()), 1);
    let lists_segments = |scene: &Scene| {
        let id = SegmentId::from_bytes([1; 16]);
        let (listed, covered) = (scene.cf_filter().list(|| ()), HashSet::from([id]));
        let (summary, all) = (scene.summary(), Coverage::Complete);
        let cf_filter = scene.cf_filter();
        assert!(cf_filter.publish(&listed, summary, all, covered));
    };
    assert_eq!(scene.asked_beside(lists_segments), 1);
    assert_eq!(scene.asked_beside(|scene| scene.0.flush()), 1);
    let fed_anew = |scene: &Scene| assert!(scene.cf_filter().feed(vec![scene.summary()]));
    assert_eq!(Scene::new().asked_beside(fed_anew), 1);
}

/// A way to replace filters.
type Change = (&'static str, fn(&Scene));

#[test]
fn batch_is_asked_again_when_the_summary_is_replaced() {
    let changes: [Change; 2] = [
        ("consolidated", |scene| {
            scene.publish(scene.summary_of(&[THERE]), Coverage::Complete);
        }),
        ("dropped", |scene| assert!(scene.cf_filter().drop_summary())),
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
    let scene = Scene::new();
    let changes: [Change; 3] = [
        ("a segment is uncovered", |scene| {
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
        drop(scene.cf_filter().begin_external_writes());
        scene.publish(scene.summary(), Coverage::Complete);
    };
    assert_eq!(scene.asked_beside(announced), 2);
    assert!(scene.denies(DENIED));
}

#[test]
fn batch_is_asked_again_when_nothing_is_denied_any_more() {
    let changes: [Change; 3] = [
        ("external writes", |scene| {
            scene.cf_filter().external_writes_happened();
        }),
        ("disabled", |scene| scene.cf_filter().disable()),
        ("retired", |scene| scene.cf_filter().retire()),
    ];
    for (change, replace) in changes {
        let scene = Scene::new();
        assert_eq!(scene.asked_beside(replace), 2, "{change}");
        assert!(!scene.denies(DENIED), "{change}");
    }
}

/// No view is published then: the filter is checked once more.
#[test]
fn batch_is_asked_again_when_the_filter_of_an_uncovered_segment_goes() {
    let scene = Scene::new();
    let registry = &scene.0.filters.registry;
    let segments = registry.ids().into_iter();
    let spanning = segments.map(|id| WithRange {
        filter: Some(registry.open(id)),
        range: None,
    });
    scene.publish(scene.summary(), Coverage::all_but(spanning.collect()));
    let before = scene.cf_filter().lookups().edition();
    let distrust = |scene: &Scene| scene.0.filters.registry.distrust();
    assert_eq!(scene.asked_beside(distrust), 2);
    assert!(!scene.denies(DENIED) && scene.cf_filter().lookups().edition() == before);
}

/// None was denied, so no two answers can be of different moments.
#[test]
fn batch_of_which_no_key_was_denied_is_asked_once() {
    let scene = Scene::new();
    let asked = Cell::new(0);
    let answers = multi_get(scene.cf_filter(), &[THERE, THERE], |keys| {
        asked.set(asked.get() + 1);
        scene.publish(scene.summary_of(&[THERE]), Coverage::Complete);
        scene.found(keys)
    });
    assert_eq!((answers.len(), asked.get()), (2, 1));
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
fn batch_is_asked_again_when_filters_change_while_they_are_probed() {
    let scene = Scene::new();
    let before = scene.cf_filter().lookups().edition();
    let asked = Cell::new(0);
    std::thread::scope(|scope| {
        let (begin, begun) = channel();
        let (cf_filter, anew) = (scene.cf_filter(), scene.summary_of(&[THERE]));
        scope.spawn(move || {
            begun.recv().unwrap();
            let (listed, nothing) = (cf_filter.list(|| ()), HashSet::new());
            // The view is replaced, and then it waits for those who are in the old one.
            assert!(cf_filter.publish(&listed, anew, Coverage::Complete, nothing));
        });
        let replace = || {
            if cf_filter.lookups().edition() == before {
                begin.send(()).unwrap();
            }
            let began = Instant::now();
            while cf_filter.lookups().edition() == before {
                assert!(began.elapsed() < LIMIT, "it has the old edition");
                std::thread::yield_now();
            }
        };
        let keys = [THERE, DENIED].map(|key| Watched(key, &replace));
        let answers = multi_get(cf_filter, &keys, |keys| {
            asked.set(asked.get() + 1);
            scene.found(keys)
        });
        assert_eq!(answers.len(), 2);
    });
    assert_eq!(asked.get(), 2);
}

const HOME: &[u8] = b"home";
const AWAY: &[u8] = b"away";

/// A record is under one of two keys at every moment, and is moved there and back while the store is
/// asked for both. The filters deny one of them, before and after. `leave` and `come_back` are all
/// that happens meanwhile; the store is asked between them.
fn assert_record_is_seen_once(scene: &Scene, leave: impl Fn(), come_back: impl Fn()) {
    let first = Cell::new(true);
    assert!(scene.denies(AWAY) && !scene.denies(HOME));
    let answers = multi_get(scene.cf_filter(), &[HOME, AWAY], |keys| {
        let moves = first.replace(false);
        if moves {
            leave();
        }
        let answers = scene.found(keys);
        if moves {
            come_back();
        }
        answers
    });
    assert!(scene.denies(AWAY), "else the edition tells nothing");
    let found = answers.into_iter().filter_map(Result::unwrap);
    assert_eq!(found.count(), 1, "a batch was torn");
}

#[test]
fn record_that_comes_back_before_a_consolidation_is_seen_once() {
    let scene = Scene::new();
    scene.0.put(HOME, b"record");
    let come_back = || {
        scene.0.move_record(AWAY, HOME);
        let anew = scene.summary_of(&[THERE, HOME]);
        assert!(scene.cf_filter().feed(vec![Arc::clone(&anew)]));
        scene.compact();
        scene.publish(anew, Coverage::Complete);
    };
    let leave = || scene.0.move_record(HOME, AWAY);
    assert_record_is_seen_once(&scene, leave, come_back);
}

/// No memtable has the other key, and the summary never hears of it.
#[test]
fn record_that_is_ingested_under_another_key_is_seen_once() {
    let scene = Scene::new();
    scene.0.put(HOME, b"record");
    let leave = || {
        scene.0.ingest(&[(AWAY.to_vec(), b"record".to_vec())]);
        scene.0.delete(HOME);
    };
    let come_back = || {
        scene.0.put(HOME, b"record");
        scene.0.delete(AWAY);
        scene.compact();
        scene.publish(scene.summary(), Coverage::Complete);
    };
    assert_record_is_seen_once(&scene, leave, come_back);
}
