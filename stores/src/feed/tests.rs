//! A feed in memory: a model of a store with positions, whose feed loses, repeats and groups its
//! changes.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::disk::{Disk, MemoryDisk};
use crate::math::Items;
use lsm_sieve_front::filter_options::FilterOptions;

/// Small, so that keys come and go. Keys from here on are never put.
const KEYS: u32 = 400;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn open(disk: &MemoryDisk, feed: u64) -> Follower {
    open_with(disk, feed, &FilterOptions::default())
}

fn open_with(disk: &MemoryDisk, feed: u64, options: &FilterOptions) -> Follower {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Follower::open_on(disk, Path::new("/filter"), feed, options, None).unwrap()
}

/// The keys that a store has at each of its positions.
struct Model(Vec<BTreeSet<u32>>);

impl Model {
    fn new() -> Self {
        Self(vec![BTreeSet::new()])
    }

    fn newest(&self) -> u64 {
        self.0.len() as u64 - 1
    }

    fn at(&self, position: u64) -> &BTreeSet<u32> {
        &self.0[usize::try_from(position).unwrap()]
    }

    fn write(&mut self, rng: &mut StdRng) {
        let mut keys = self.at(self.newest()).clone();
        for _ in 0..rng.random_range(1..4) {
            let key = rng.random_range(0..KEYS);
            if rng.random_ratio(2, 3) {
                keys.insert(key);
            } else {
                keys.remove(&key);
            }
        }
        self.0.push(keys);
    }

    /// The keys that the positions after one, up to another, brought.
    fn brought(&self, after: u64, position: u64) -> BTreeSet<u32> {
        let brought = |position| self.at(position).difference(self.at(position - 1));
        (after + 1..=position).flat_map(brought).copied().collect()
    }

    fn snapshot(&self, follower: &mut Follower, position: u64) {
        let snapshot = follower.snapshot(Items::new(0));
        for number in self.at(position) {
            snapshot.insert(&key(*number));
        }
        follower.install(snapshot, position);
    }

    fn apply(&self, follower: &mut Follower, after: u64, position: u64) -> Result<(), FeedError> {
        let brought = self.brought(after, position);
        follower.apply(after, position, brought.into_iter().map(key))
    }

    /// Applies changes that were applied before, one by one or many at once, in any order; some
    /// of them go on to positions that are new.
    fn repeat(&self, follower: &mut Follower, rng: &mut StdRng) {
        for _ in 0..rng.random_range(1..5) {
            let so_far = follower.position().unwrap();
            let after = rng.random_range(0..=so_far);
            let to = rng.random_range(after..=self.newest());
            self.apply(follower, after, to).unwrap();
            assert_eq!(follower.position(), Some(to.max(so_far)));
        }
    }
}

/// Reads at all kinds of positions; returns how many keys were denied of those that never were.
fn check(model: &Model, filter: &FeedFilter, rng: &mut StdRng) -> u32 {
    for _ in 0..20 {
        let number = rng.random_range(0..KEYS);
        let at_least = rng.random_range(0..=model.newest() + 1);
        let denied = filter.is_absent(&key(number), at_least);
        // The position is at least that, and the key was not there at it.
        let is_right = || {
            let position = filter.position().unwrap();
            position >= at_least && !model.at(position).contains(&number)
        };
        assert!(
            !denied || is_right(),
            "{number} at {at_least} of {}, followed to {:?}",
            model.newest(),
            filter.position()
        );
    }
    let at_least = filter.position().unwrap_or(0);
    let never = (KEYS..KEYS + 20).filter(|number| filter.is_absent(&key(*number), at_least));
    u32::try_from(never.count()).unwrap()
}

fn history(seed: u64) -> (u32, u32) {
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut disk, mut model, mut feed) = (MemoryDisk::new(), Model::new(), 1);
    let mut follower = open(&disk, feed);
    let (mut denied, mut asked) = (0, 0);
    for _ in 0..300 {
        let (newest, position) = (model.newest(), follower.position());
        match (rng.random_range(0..21), position) {
            (0..8, _) => model.write(&mut rng),
            (8..10, None) => {
                let at = rng.random_range(newest.saturating_sub(3)..=newest);
                model.snapshot(&mut follower, at);
            }
            // As many at once as there are, or fewer; some of them once more.
            (8..14, Some(position)) if position < newest => {
                let to = rng.random_range(position + 1..=newest);
                let after = position - rng.random_range(0..=position.min(2));
                model.apply(&mut follower, after, to).unwrap();
                assert_eq!(follower.position(), Some(to));
            }
            (14, Some(position)) if position < newest => {
                // One change is lost.
                let after = position + 1;
                let hole = FeedError::Hole { after, position };
                assert_eq!(model.apply(&mut follower, after, newest), Err(hole));
                assert_eq!(follower.position(), None);
                let refused = model.apply(&mut follower, after, newest);
                assert_eq!(refused, Err(FeedError::NoSnapshot { after }));
            }
            (15, Some(_)) => {
                // The feed says that it lost changes.
                follower.distrust();
                assert_eq!(follower.position(), None);
            }
            (16, Some(_)) => {
                // Perhaps an older one.
                let at = rng.random_range(newest.saturating_sub(3)..=newest);
                model.snapshot(&mut follower, at);
            }
            (17, Some(_)) => assert!(follower.save()),
            (20, Some(_)) => model.repeat(&mut follower, &mut rng),
            (18, _) => {
                let filter = follower.filter();
                drop(follower);
                assert!((0..2 * KEYS).all(|number| !filter.is_absent(&key(number), 0)));
                let cuts: Vec<_> = disk.after_power_cut(rng.random()).collect();
                disk = cuts[rng.random_range(0..cuts.len())].clone();
                follower = open(&disk, feed);
            }
            (19, _) if rng.random_ratio(1, 5) => {
                // Restored from a backup: other keys at the same positions.
                drop(follower);
                feed += 1;
                model = Model::new();
                (0..newest).for_each(|_| model.write(&mut rng));
                follower = open(&disk, feed);
                assert_eq!(follower.position(), None);
            }
            _ => {}
        }
        if follower.position().is_some() {
            asked += 20;
        }
        denied += check(&model, &follower.filter(), &mut rng);
    }
    (denied, asked)
}

#[test]
fn no_key_is_denied_that_was_there_since_a_position() {
    let (mut denied, mut asked) = (0, 0);
    for seed in 0..200 {
        let (more, of) = history(seed);
        denied += more;
        asked += of;
    }
    assert!(
        denied * 100 >= asked * 97,
        "{denied} of {asked} keys that never were are denied"
    );
}

#[test]
fn a_saved_filter_is_followed_from_its_position() {
    let disk = MemoryDisk::new();
    let mut follower = open(&disk, 3);
    assert!(!follower.save(), "there is nothing to save");
    let snapshot = follower.snapshot(Items::new(1_000));
    (0..1_000).for_each(|number| snapshot.insert(&key(number)));
    follower.install(snapshot, 50);
    follower.apply(50, 51, [key(1_000)]).unwrap();
    assert!(follower.save());
    follower.apply(51, 60, [key(1_001)]).unwrap();
    drop(follower);

    let mut follower = open(&disk, 3);
    assert_eq!(follower.position(), Some(51));
    let filter = follower.filter();
    assert!(!filter.is_absent(&key(5_000), 52));
    follower.apply(51, 60, [key(1_001)]).unwrap();
    assert!((0..1_002).all(|number| !filter.is_absent(&key(number), 60)));
    let denied = (5_000..6_000).filter(|number| filter.is_absent(&key(*number), 60));
    assert!(denied.count() > 970);
    assert_eq!(open(&disk, 4).position(), None, "it is another feed's");
}

#[test]
fn a_filter_that_changed_in_memory_is_not_saved() {
    let disk = MemoryDisk::new();
    let mut follower = open(&disk, 1);
    let snapshot = follower.snapshot(Items::new(0));
    (0..1_000).for_each(|number| snapshot.insert(&key(number)));
    follower.install(snapshot, 1);
    assert!(follower.save());
    let followed = |filter: &FeedFilter| filter.0.followed.with(Option::clone).unwrap();
    followed(&follower.filter()).filter.clear_one_bit();
    assert!(!follower.save());
    assert_eq!(follower.position(), None);
    drop(follower);
    assert_eq!(open(&disk, 1).position(), None);
}

/// The state of the memory as the filter was taken is what the first save compares with.
#[test]
fn a_filter_that_changed_before_its_first_save_is_not_saved() {
    let disk = MemoryDisk::new();
    let mut follower = open(&disk, 1);
    let snapshot = follower.snapshot(Items::new(0));
    (0..1_000).for_each(|number| snapshot.insert(&key(number)));
    follower.install(snapshot, 1);
    let followed = follower.filter().0.followed.with(Option::clone).unwrap();
    followed.filter.clear_one_bit();
    assert!(!follower.save());
    assert_eq!(follower.position(), None);
}

/// Changes that were lost may have been lost before the last save.
#[test]
fn a_distrusted_filter_does_not_come_back() {
    let disk = MemoryDisk::new();
    let mut follower = open(&disk, 1);
    follower.install(follower.snapshot(Items::new(0)), 5);
    assert!(follower.save());
    follower.distrust();
    for disk in disk.after_power_cut(1) {
        assert_eq!(open(&disk, 1).position(), None);
    }
}

/// Each further stage costs a lookup a cache line.
#[test]
fn snapshot_of_as_many_keys_as_were_announced_has_one_stage() {
    const MANY: u32 = 400_000;
    let mut follower = open(&MemoryDisk::new(), 1);
    let snapshot = follower.snapshot(Items::new(MANY.into()));
    (0..MANY).for_each(|number| snapshot.insert(&key(number)));
    follower.install(snapshot, 1);
    let followed = follower.filter().0.followed.with(Option::clone).unwrap();
    assert_eq!(followed.filter.stages(), 1);
}

#[test]
fn store_is_read_beyond_the_position_of_the_filter_and_for_keys_that_may_be_there() {
    let mut follower = open(&MemoryDisk::new(), 1);
    let snapshot = follower.snapshot(Items::new(1));
    snapshot.insert(&key(1));
    let filter = follower.filter();
    let get = |number: u32, at_least| {
        let mut is_read = false;
        let read = || {
            is_read = true;
            Ok::<_, FeedError>(Some(number))
        };
        let value = filter.get(&key(number), at_least, read).unwrap();
        assert_eq!(value.is_some(), is_read);
        is_read
    };
    assert!(get(1, 0) && get(2, 0), "nothing is known");
    follower.install(snapshot, 5);
    assert!(get(1, 0) && get(1, 5) && get(2, 6));
    assert!(!get(2, 0) && !get(2, 5));
}

#[test]
#[should_panic = "the follower that began it"]
fn a_snapshot_of_another_follower_is_refused() {
    let (mut one, other) = (open(&MemoryDisk::new(), 1), open(&MemoryDisk::new(), 1));
    one.install(other.snapshot(Items::new(0)), 1);
}

#[test]
fn a_filter_without_memory_for_more_denies_nothing() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let options = FilterOptions::default().memory_budget(4 << 10);
    let folder = Path::new("/filter");
    let mut follower = Follower::open_on(disk, folder, 1, &options, None).unwrap();
    let snapshot = follower.snapshot(Items::new(0));
    (0..100_000).for_each(|number| snapshot.insert(&key(number)));
    follower.install(snapshot, 1);
    assert!(follower.stats().unwrap().is_saturated);
    let filter = follower.filter();
    assert!((0..110_000).all(|number| !filter.is_absent(&key(number), 0)));
    assert!(!follower.save());
}

/// A position that was read after the probe lost hundreds of reads a second: the probe missed a
/// key, then its position was applied, then the filter seemed to have reached it. Whoever asks at
/// a position for a key that it brought must never be denied, whether or not it is applied yet.
#[test]
fn keys_of_the_next_position_are_not_denied_while_it_is_applied() {
    const AHEAD: u64 = 4;
    let mut follower = open(&MemoryDisk::new(), 1);
    follower.install(follower.snapshot(Items::new(0)), 0);
    let (filter, is_over) = (follower.filter(), AtomicBool::new(false));
    let asked = AtomicU64::new(0);
    let ask = || {
        while !is_over.load(Ordering::Acquire) {
            let position = filter.position().unwrap();
            for next in position + 1..=position + AHEAD {
                let is_denied = filter.is_absent(&next.to_be_bytes(), next);
                assert!(!is_denied, "the key of position {next} is denied at {next}");
            }
            asked.fetch_add(1, Ordering::AcqRel);
        }
    };
    thread::scope(|scope| {
        let readers = [scope.spawn(ask), scope.spawn(ask)];
        let is_asked = || asked.load(Ordering::Acquire) >= 200_000;
        let is_done = || is_asked() || readers.iter().any(|reader| reader.is_finished());
        let mut position = 0_u64;
        while position < 1_000_000 || !is_done() {
            let next = position + 1;
            let applied = follower.apply(position, next, [next.to_be_bytes()]);
            assert_eq!(applied, Ok(()));
            position = next;
        }
        is_over.store(true, Ordering::Release);
    });
}

/// While changes are applied, each key is asked just before it comes.
#[test]
fn no_key_of_changes_that_are_being_applied_is_denied() {
    let mut follower = open(&MemoryDisk::new(), 1);
    follower.install(follower.snapshot(Items::new(0)), 10);
    let filter = follower.filter();
    // The second brings old changes again, the third goes on from the middle of them.
    for (after, to) in [(10, 13), (10, 12), (11, 16), (16, 17)] {
        let keys = (after + 1..=to).map(|position: u64| {
            for at_least in position..=to + 1 {
                let is_denied = filter.is_absent(&position.to_be_bytes(), at_least);
                assert!(!is_denied, "{position} at {at_least}");
            }
            position.to_be_bytes()
        });
        follower.apply(after, to, keys).unwrap();
    }
    assert_eq!(follower.position(), Some(17));
    assert!((11..=17_u64).all(|number| !filter.is_absent(&number.to_be_bytes(), 17)));
    assert!(filter.is_absent(&99_u64.to_be_bytes(), 17));
}

/// Changes whose keys end in a panic do not count as applied.
#[test]
fn changes_that_were_applied_in_part_do_not_move_the_position() {
    let mut follower = open(&MemoryDisk::new(), 1);
    follower.install(follower.snapshot(Items::new(0)), 5);
    let applied = catch_unwind(AssertUnwindSafe(|| {
        let keys = (0..10).map(|number| match number {
            7 => panic!("a key that cannot be read"),
            _ => key(number),
        });
        follower.apply(5, 6, keys)
    }));
    assert!(applied.is_err());
    assert_eq!(follower.position(), Some(5));
    assert!((0..10).all(|number| !follower.filter().is_absent(&key(number), 6)));
    follower.apply(5, 6, (0..10).map(key)).unwrap();
    assert!(follower.filter().is_absent(&key(99), 6));
}

/// A store that went back has other keys at the same positions. A crash after the snapshot of it
/// brought the stored filter of later positions back, which denied them.
#[test]
fn a_stored_filter_that_is_ahead_of_a_snapshot_does_not_come_back() {
    let disk = MemoryDisk::new();
    let mut follower = open(&disk, 1);
    follower.install(follower.snapshot(Items::new(0)), 50);
    assert!(follower.save());
    drop(follower);
    // Restored under the number of its feed.
    let mut follower = open(&disk, 1);
    assert_eq!(follower.position(), Some(50));
    let snapshot = follower.snapshot(Items::new(0));
    snapshot.insert(&key(1));
    follower.install(snapshot, 20);
    assert!(follower.filter().is_absent(&key(2), 20));
    for disk in disk.after_power_cut(1) {
        let follower = open(&disk, 1);
        assert_eq!(follower.position(), None);
        assert!(!follower.filter().is_absent(&key(1), 0));
    }
    // A snapshot that goes on leaves what is stored.
    assert!(follower.save());
    follower.install(follower.snapshot(Items::new(0)), 20);
    assert_eq!(open(&disk, 1).position(), Some(20));
}

/// The budget had no room for it, and it was further all the same.
#[test]
fn a_stored_filter_that_was_not_loaded_does_not_come_back() {
    let disk = MemoryDisk::new();
    let mut follower = open(&disk, 1);
    let snapshot = follower.snapshot(Items::new(10_000));
    (0..10_000).for_each(|number| snapshot.insert(&key(number)));
    follower.install(snapshot, 50);
    assert!(follower.save());
    drop(follower);
    let options = FilterOptions::default().memory_budget(4 << 10);
    let mut follower = open_with(&disk, 1, &options);
    assert_eq!(follower.position(), None);
    let snapshot = follower.snapshot(Items::new(1));
    snapshot.insert(&key(20_000));
    follower.install(snapshot, 20);
    for disk in disk.after_power_cut(1) {
        let follower = open(&disk, 1);
        assert_eq!(follower.position(), None);
        assert!(!follower.filter().is_absent(&key(20_000), 0));
    }
}

/// A reader that sees a position finds every key that it brought.
#[test]
fn a_position_is_seen_after_its_keys() {
    const BROUGHT: u64 = 64;
    let mut follower = open(&MemoryDisk::new(), 1);
    follower.install(follower.snapshot(Items::new(0)), 0);
    let (filter, is_over) = (follower.filter(), AtomicBool::new(false));
    let reads = AtomicU64::new(0);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                let position = filter.position().unwrap();
                for number in position.saturating_sub(1) * BROUGHT..position * BROUGHT {
                    assert!(!filter.is_absent(&number.to_be_bytes(), position));
                }
                reads.fetch_add(1, Ordering::AcqRel);
            }
        });
        let mut position = 0;
        let mut applied = Ok(());
        let is_read = || reads.load(Ordering::Acquire) >= 5_000 || reader.is_finished();
        while applied.is_ok() && (position < 5_000 || !is_read()) {
            let numbers = position * BROUGHT..(position + 1) * BROUGHT;
            let keys = numbers.map(u64::to_be_bytes);
            applied = follower.apply(position, position + 1, keys);
            position += 1;
        }
        is_over.store(true, Ordering::Release);
        applied.unwrap();
    });
}
