//! A reader that moves while it is read: every way to read, at every request.

use crate::faulty::{Fault, Faulty, Verb};
use crate::world::{ROOT, World, checkpoint, flush, key, options, value};
use lsm_sieve_slatedb::slatedb::bytes::Bytes;
use lsm_sieve_slatedb::slatedb::{DbIterator, WriteBatch};
use lsm_sieve_slatedb::{Bucket, Options, SieveReader};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const NUMBERS: u64 = 160;

/// What a checkpoint has.
type Model = BTreeMap<[u8; 16], Bytes>;

/// A way to read all keys of one checkpoint.
#[derive(Clone, Copy, Debug)]
enum Door {
    GetMany,
    Pinned,
    Engine,
    Scan,
    Prefixes,
}

const DOORS: [Door; 5] = [
    Door::GetMany,
    Door::Pinned,
    Door::Engine,
    Door::Scan,
    Door::Prefixes,
];

impl Door {
    async fn read(self, reader: Arc<SieveReader>) -> Model {
        let keys: Vec<[u8; 16]> = (0..NUMBERS).map(key).collect();
        let pinned = reader.pinned();
        let mut found = Model::new();
        match self {
            Self::GetMany => {
                let values = reader.get_many(&keys).await.unwrap();
                let found = keys.into_iter().zip(values);
                return found
                    .filter_map(|(key, value)| Some((key, value?)))
                    .collect();
            }
            Self::Pinned | Self::Engine => {
                for key in keys {
                    let value = match self {
                        Self::Pinned => pinned.get(&key).await.unwrap(),
                        _ => pinned.engine().get(key).await.unwrap(),
                    };
                    found.extend(value.map(|value| (key, value)));
                }
            }
            Self::Scan => {
                let rows = pinned.engine().scan(..).await.unwrap();
                take_all(rows, &mut found).await;
            }
            Self::Prefixes => {
                let prefixes: BTreeSet<u8> = keys.iter().map(|key| key[0]).collect();
                for prefix in prefixes {
                    let rows = pinned.engine().scan_prefix([prefix], ..).await.unwrap();
                    take_all(rows, &mut found).await;
                }
            }
        }
        found
    }
}

async fn take_all(mut rows: DbIterator, found: &mut Model) {
    while let Some(row) = rows.next().await.unwrap() {
        found.insert(row.key.as_ref().try_into().unwrap(), row.value);
    }
}

/// A database whose checkpoints differ in most keys, and what the newest has.
struct Moving {
    world: World,
    model: Model,
    round: u64,
}

impl Moving {
    async fn new() -> Self {
        let world = World::new().await;
        let model = Model::new();
        let mut moving = Self {
            world,
            model,
            round: 0,
        };
        moving.advance().await;
        moving
    }

    /// Some keys come, some go, some get other values; then they are published.
    async fn advance(&mut self) {
        self.round += 1;
        let mut batch = WriteBatch::new();
        for number in 0..NUMBERS {
            let key = key(number);
            match (number + self.round) % 4 {
                0 => {
                    batch.delete(key);
                    self.model.remove(&key);
                }
                1 | 2 => {
                    let value = format!("{number} of {}", self.round);
                    batch.put(key, &value);
                    self.model.insert(key, value.into());
                }
                _ => {}
            }
        }
        self.world.db.write(batch).await.unwrap();
        flush(&self.world.db).await;
        self.world.publish().await;
    }

    async fn reader(&self, options: Options) -> (Arc<SieveReader>, Arc<Faulty>) {
        reader_apart(&self.world, options).await
    }
}

/// A reader whose requests are its own.
async fn reader_apart(world: &World, options: Options) -> (Arc<SieveReader>, Arc<Faulty>) {
    let store = Faulty::over(world.store.clone());
    let bucket = Bucket::open(ROOT, store.clone()).await.unwrap();
    let reader = SieveReader::open(bucket, options).await.unwrap();
    (Arc::new(reader), store)
}

/// A batch checked the filters of the checkpoint that it began in, and read the newest: of two keys
/// that were written at once it had one. Whatever is read as one is of one checkpoint.
#[tokio::test]
async fn reads_that_a_move_overtakes_end_in_the_checkpoint_that_they_began_in() {
    let mut moving = Moving::new().await;
    for door in DOORS {
        let mut overtaken = 0;
        for others in 0..4 {
            let (reader, store) = moving.reader(options().with_parallel(1)).await;
            store.hold_after(others, Fault::Hold, |verb, path| {
                verb == Verb::Get && path.ends_with(".sst")
            });
            let reading = tokio::spawn(door.read(reader.clone()));
            let is_held = store.holds(&reading).await;
            let before = moving.model.clone();
            moving.advance().await;
            assert!(reader.refresh().await.unwrap());
            // What begins now is of the new checkpoint, whatever still waits.
            store.heal();
            assert_eq!(door.read(reader.clone()).await, moving.model, "{door:?}");
            store.release();
            assert_eq!(reading.await.unwrap(), before, "{door:?} after {others}");
            overtaken += u64::from(is_held);
        }
        assert!(overtaken > 0, "{door:?} made no request");
    }
}

/// As after a compaction of deleted keys, the filters that are moved to deny keys that are there in
/// the checkpoint before.
#[tokio::test]
async fn keys_that_a_move_leaves_behind_are_found_by_reads_that_began_before_it() {
    let world = World::new().await;
    world.fill(0..40).await;
    let few = checkpoint(&world.db).await;
    world.fill(40..NUMBERS).await;
    world.publish().await;
    let many = checkpoint(&world.db).await;
    let all: Model = (0..NUMBERS).map(|i| (key(i), value(i))).collect();
    for (turn, door) in (0..).zip(DOORS) {
        world.point_current_at(1_000 + 2 * turn, &many).await;
        let (reader, store) = reader_apart(&world, options().with_parallel(1)).await;
        store.hold_after(0, Fault::Hold, |verb, path| {
            verb == Verb::Get && path.ends_with(".sst")
        });
        let reading = tokio::spawn(door.read(reader.clone()));
        assert!(store.holds(&reading).await, "{door:?}");
        world.point_current_at(1_001 + 2 * turn, &few).await;
        assert!(reader.refresh().await.unwrap());
        let denied = (40..NUMBERS).filter(|&i| reader.answer(&key(i)).is_absent());
        assert!(denied.count() > 90);
        store.release();
        assert_eq!(reading.await.unwrap(), all, "{door:?}");
        assert_eq!(door.read(reader).await.len(), 40, "{door:?}");
    }
}

/// Until a newer checkpoint and its filters are both there, all reads are of the one before.
#[tokio::test]
async fn a_move_that_is_held_at_any_request_shows_one_checkpoint() {
    let mut moving = Moving::new().await;
    let mut held = 0;
    for others in 0.. {
        let beside = if others % 2 == 0 { 0 } else { 5 };
        let (reader, store) = moving.reader(options().with_max_beside(beside)).await;
        // In memory before the store is held.
        for door in DOORS {
            assert_eq!(door.read(reader.clone()).await, moving.model);
        }
        let before = moving.model.clone();
        moving.advance().await;
        store.hold_after(others, Fault::Hold, |_, _| true);
        let moved = tokio::spawn({
            let reader = reader.clone();
            async move { reader.refresh().await }
        });
        let is_held = store.holds(&moved).await;
        if is_held {
            held += 1;
            for door in DOORS {
                let found = door.read(reader.clone()).await;
                assert_eq!(found, before, "{door:?} at request {others}");
            }
            assert_denials(&reader, &before);
        }
        store.release();
        assert!(moved.await.unwrap().unwrap());
        for door in DOORS {
            assert_eq!(door.read(reader.clone()).await, moving.model, "{door:?}");
        }
        assert_denials(&reader, &moving.model);
        if !is_held {
            break;
        }
    }
    assert!(held >= 5, "{held}");
}

/// No key is denied that is there, and keys that never were are denied.
fn assert_denials(reader: &SieveReader, model: &Model) {
    assert!(model.keys().all(|key| !reader.answer(key).is_absent()));
    let never = (90_000..90_100).map(key);
    assert!(never.filter(|key| reader.answer(key).is_absent()).count() > 80);
}

/// A reader that has moved keeps nothing of the checkpoints before.
#[tokio::test]
async fn a_checkpoint_that_was_left_is_dropped_once_nobody_reads_it() {
    let mut moving = Moving::new().await;
    let (reader, _) = moving.reader(options()).await;
    let held = reader.pinned();
    let mut left = vec![Arc::downgrade(&held)];
    for _ in 0..5 {
        moving.advance().await;
        assert!(reader.refresh().await.unwrap());
        left.push(Arc::downgrade(&reader.pinned()));
    }
    left.pop();
    let alive = || left.iter().filter(|one| one.strong_count() > 0).count();
    assert_eq!(alive(), 1, "only the one that is held");
    drop(held);
    assert_eq!(alive(), 0);
}

const LIMIT: Duration = Duration::from_millis(300);

/// No door denies a key.
async fn assert_stale(reader: &SieveReader) {
    let before = reader.stats();
    assert!(!reader.answer(&key(9_000)).is_absent());
    assert_eq!(reader.get(&key(9_001)).await.unwrap(), None);
    let many = [key(9_002), key(9_003)];
    assert_eq!(reader.get_many(&many).await.unwrap(), [None, None]);
    let after = reader.stats();
    assert_eq!(
        (after.stale, after.absent),
        (before.stale + 4, before.absent)
    );
}

/// A machine that is slow may need more than one refresh to deny a key in time.
async fn until_fresh(reader: &SieveReader) {
    while !reader.answer(&key(9_000)).is_absent() {
        reader.refresh().await.unwrap();
    }
}

/// A refresh whose answer took longer than the limit counted from its end, so that the reader
/// denied keys by what was published long before. What a refresh learns is as old as its question.
#[tokio::test]
async fn what_a_slow_refresh_learns_is_as_old_as_its_question() {
    let mut moving = Moving::new().await;
    let (reader, store) = moving.reader(options().with_max_staleness(LIMIT)).await;
    // Nothing is published; or a move is slow, at its beginning or later.
    for (name, moves) in [("current", false), ("current", true), (".manifest", true)] {
        until_fresh(&reader).await;
        if moves {
            moving.advance().await;
        }
        store.hold_after(0, Fault::HoldReply, move |verb, path| {
            verb == Verb::Get && path.ends_with(name)
        });
        let refresh = tokio::spawn({
            let reader = reader.clone();
            async move { reader.refresh().await }
        });
        assert!(store.holds(&refresh).await);
        tokio::time::sleep(LIMIT * 2).await;
        store.release();
        assert_eq!(refresh.await.unwrap().unwrap(), moves, "{name}");
        assert_stale(&reader).await;
    }
    until_fresh(&reader).await;
}

/// The same of the first look at what is published.
#[tokio::test]
async fn what_a_slow_open_learns_is_as_old_as_its_question() {
    let moving = Moving::new().await;
    for name in ["current", ".manifest", ".sieve"] {
        let store = Faulty::over(moving.world.store.clone());
        let bucket = Bucket::open(ROOT, store.clone()).await.unwrap();
        store.hold_after(0, Fault::HoldReply, move |verb, path| {
            verb == Verb::Get && path.ends_with(name)
        });
        let options = options().with_max_staleness(LIMIT);
        let open = tokio::spawn(async move { SieveReader::open(bucket, options).await });
        assert!(store.holds(&open).await);
        tokio::time::sleep(LIMIT * 2).await;
        store.release();
        let reader = open.await.unwrap().unwrap();
        assert_stale(&reader).await;
        until_fresh(&reader).await;
    }
}

/// A look that fails, or that finds what cannot be opened, confirms nothing.
#[tokio::test]
async fn a_refresh_that_fails_confirms_nothing() {
    let mut moving = Moving::new().await;
    let (reader, store) = moving.reader(options().with_max_staleness(LIMIT)).await;
    moving.advance().await;
    for name in ["current", ".manifest"] {
        tokio::time::sleep(LIMIT * 2).await;
        store.set(move |verb, path| {
            (verb == Verb::Get && path.ends_with(name)).then_some(Fault::Fail)
        });
        assert!(reader.refresh().await.is_err());
        store.heal();
        assert_stale(&reader).await;
    }
    until_fresh(&reader).await;
}
