//! What writes feed: the summary filters that take each key, the log of keys, and the filters of the
//! segments that the engine writes.
//!
//! Usually a key goes to one summary filter, the one that lookups probe. While a new one is being
//! built, it is both of them, so that the new one misses no write:
//!
//! ```text
//! insertion    load the set ─► add the key to each ............... after the memtable has the key,
//!                                                                   before it is visible
//! maintenance  1 publish the set {old, new}
//!              2 wait for the insertions that loaded the set before it
//!              3 read the keys of the memtables    (Engine::memtable_keys)
//!              4 list the segments, and read their keys
//!              5 publish the view with the new filter, and the set {new}
//! ```
//!
//! *Invariants 2 and 3.* A key is in the set before it is visible. One that was added to the old
//! filter alone was in its memtable by the end of step 2. Step 3 finds it there, or its memtable
//! was flushed before, and step 4 lists the segment. Memtables are read first: in the other order,
//! a flush between the two would hide its keys from both.
//!
//! An engine may let a write become visible before its memtable has it: an unordered write. Then the
//! key is added first, and the insertion lasts until the memtable has it: otherwise step 3 could miss
//! a key that was added to the old filter only.

mod capture;
mod key_log;

use std::sync::{Arc, Weak};

pub use self::capture::{SegmentCapture, SegmentFilterBuild, SegmentOrigin};
pub use self::key_log::KeyLog;

use crate::fault::fault;
use crate::filter::Scalable;
use crate::hash::{KeyHash, KeyHasher};
use crate::options::FrontOptions;
use crate::prefix::Prefixes;
use crate::ranges::RangeKeys;
use crate::rcu::{Crowd, Published, Reading};
use crate::reach::reached;
use crate::segment::Registry;
use crate::sync::{Mutex, unpoisoned};
use crate::wakeup::Wakeup;

/// Summary filters.
type Summaries = Vec<Arc<Scalable>>;

/// What the writes of one column family feed.
#[derive(Debug)]
pub struct Intake {
    hasher: KeyHasher,
    prefixes: Arc<Prefixes>,
    ranges: Option<Arc<RangeKeys>>,
    summaries: Published<Summaries>,
    /// The insertions of unordered writes that are under way; `None` if the engine orders writes.
    unordered: Option<Crowd>,
    holders: Mutex<Holders>,
    key_log: Arc<KeyLog>,
    segments: SegmentCapture,
}

/// An insertion into a memtable that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insertion {
    hash: KeyHash,
    /// Where an unordered write is counted until the memtable has the key. `None`: the key is added
    /// when the insertion ends.
    crowd_side: Option<usize>,
}

impl Insertion {
    /// Its parts, for an engine that keeps it meanwhile.
    pub fn into_parts(self) -> (KeyHash, Option<usize>) {
        (self.hash, self.crowd_side)
    }

    pub fn from_parts(hash: KeyHash, crowd_side: Option<usize>) -> Self {
        Self { hash, crowd_side }
    }
}

/// Writes that keep keys where neither a memtable nor a segment shows them.
#[derive(Debug, Default)]
struct Holders {
    current: Arc<()>,
    /// Of before the last change of the set.
    earlier: Vec<Weak<()>>,
}

/// Keys that neither a memtable nor a segment shows yet, for as long as it lives.
#[derive(Debug)]
pub struct Hold(#[expect(dead_code, reason = "counted")] Arc<()>);

impl Intake {
    /// Writes feed this summary filter.
    pub(crate) fn new(
        hasher: KeyHasher,
        registry: Arc<Registry>,
        wakeup: Arc<Wakeup>,
        options: &FrontOptions,
        summary: Arc<Scalable>,
    ) -> Self {
        let key_log = Arc::<KeyLog>::default();
        let log = Arc::clone(&key_log);
        Self {
            hasher,
            prefixes: Arc::clone(&options.prefixes),
            ranges: options.ranges.clone(),
            summaries: Published::new(vec![summary]),
            unordered: options.unordered_writes.then(Crowd::default),
            holders: Mutex::default(),
            key_log,
            segments: SegmentCapture::new(hasher, registry, wakeup, options, log),
        }
    }

    /// The hashes of all keys in segments, while the column family grows.
    pub fn key_log(&self) -> &KeyLog {
        &self.key_log
    }

    /// The filters of segments that are being written.
    pub fn segments(&self) -> &SegmentCapture {
        &self.segments
    }

    /// Begins the insertion of a key into a memtable, which must end: [`Intake::end_insertion`]. H1.
    pub fn begin_insertion(&self, key: &[u8]) -> Insertion {
        let Some(unordered) = &self.unordered else {
            return self.begin_ordered(key);
        };
        fault!(FiltersAfterMemtable, return self.begin_ordered(key));
        let entered = unordered.enter();
        reached!(UnorderedInsertion);
        let hash = self.hasher.hash(key);
        self.add_hash(hash, key);
        Insertion {
            hash,
            crowd_side: Some(entered.stay()),
        }
    }

    /// The key is added once the memtable has it.
    fn begin_ordered(&self, key: &[u8]) -> Insertion {
        let hash = self.hasher.hash(key);
        self.prefetch(hash);
        Insertion {
            hash,
            crowd_side: None,
        }
    }

    /// Ends the insertion of a key that the memtable has, and that is not visible yet unless it was
    /// added by [`Intake::begin_insertion`].
    pub fn end_insertion(&self, insertion: Insertion, key: &[u8]) {
        match (insertion.crowd_side, &self.unordered) {
            (Some(crowd_side), Some(unordered)) => drop(unordered.entered(crowd_side)),
            _ => self.add_hash(insertion.hash, key),
        }
    }

    /// Adds a key that becomes visible later. Returns its hash.
    pub fn add(&self, key: &[u8]) -> KeyHash {
        let hash = self.hasher.hash(key);
        self.add_hash(hash, key);
        hash
    }

    fn prefetch(&self, hash: KeyHash) {
        let hash = hash.for_summary();
        self.summaries.with(|summaries| {
            let each = summaries.iter();
            each.for_each(|summary| summary.prefetch_append(hash));
        });
    }

    fn add_hash(&self, hash: KeyHash, key: &[u8]) {
        fault!(
            MemtableKeyMissed,
            if hash.get().is_multiple_of(97) {
                return;
            }
        );
        fault!(PanicSwallowed, assert!(!hash.get().is_multiple_of(97)));
        let reading = Reading::begin();
        let summaries = self.summaries.get(&reading);
        reached!(TwoSummariesFed, summaries.len() > 1);
        reached!(
            PendingStageFed,
            summaries.iter().any(|summary| summary.is_first_pending())
        );
        let for_summary = hash.for_summary();
        summaries
            .iter()
            .for_each(|summary| summary.append(for_summary));
        // H80. Most are in the filters already: these set no bit, and are not counted again.
        self.prefixes.each(key, |_, prefix| {
            fault!(MemtablePrefixMissed, return);
            let for_summary = self.hasher.hash(prefix).for_summary();
            for summary in summaries {
                summary.insert(for_summary);
            }
        });
        let ranges = self.ranges.as_ref();
        if let Some(block) = ranges.and_then(|ranges| ranges.block(self.hasher, key)) {
            fault!(BlockNotAdded, return);
            summaries
                .iter()
                .for_each(|summary| _ = summary.insert(block));
        }
    }

    /// The filters that writes feed.
    pub(crate) fn summaries(&self) -> Summaries {
        self.summaries.with(Clone::clone)
    }

    /// Makes writes feed these filters. The insertions that may feed others have ended once
    /// [`Intake::wait_for_insertions`] has returned too. Returns false if it is unknown when they
    /// end (H2, H95).
    pub(crate) fn feed(&self, summaries: Summaries) -> bool {
        let are_over = self.summaries.publish(summaries);
        let mut holders = unpoisoned(self.holders.lock());
        let earlier = std::mem::take(&mut holders.current);
        holders.earlier.retain(|hold| hold.strong_count() > 0);
        holders.earlier.push(Arc::downgrade(&earlier));
        are_over
    }

    /// Waits until the memtables have the keys of all insertions that began before: H101.
    pub(crate) fn wait_for_insertions(&self) {
        fault!(UnorderedInsertionsNotAwaited, return);
        if let Some(unordered) = &self.unordered {
            unordered.wait();
        }
    }

    /// Must be held from before a key is added until a listing of segments shows it, by an engine
    /// whose memtables are not read: H100.
    pub fn hold(&self) -> Hold {
        Hold(Arc::clone(&unpoisoned(self.holders.lock()).current))
    }

    /// Whether an [`Intake::hold`] from before the last change of the filters still exists.
    pub(crate) fn is_held_from_before(&self) -> bool {
        unpoisoned(self.holders.lock()).has_earlier()
    }

    /// Whether any [`Intake::hold`] lives.
    pub(crate) fn is_held(&self) -> bool {
        let holders = unpoisoned(self.holders.lock());
        holders.has_earlier() || Arc::strong_count(&holders.current) > 1
    }
}

impl Holders {
    fn has_earlier(&self) -> bool {
        self.earlier.iter().any(|hold| hold.strong_count() > 0)
    }
}

#[cfg(test)]
#[cfg(not(interleave))]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::hash::{HashId, Seed};
    use crate::math::{Bits, Items};
    use crate::options::FrontOptions;

    fn hasher() -> KeyHasher {
        KeyHasher::new(HashId::Xxh3, Seed::from_bytes([3; 16]))
    }

    fn summary() -> Arc<Scalable> {
        let options = FrontOptions::default().summary(Items::new(100), Bits::new(0));
        Arc::new(Scalable::new(hasher().imprint().for_summary(), options))
    }

    fn intake(summary: &Arc<Scalable>, unordered_writes: bool) -> Intake {
        let (registry, summary) = (Arc::new(Registry::new(hasher())), Arc::clone(summary));
        let options = FrontOptions {
            unordered_writes,
            ..FrontOptions::default()
        };
        Intake::new(hasher(), registry, Arc::default(), &options, summary)
    }

    fn has(summary: &Scalable, key: &[u8]) -> bool {
        summary.may_contain(hasher().hash(key).for_summary())
    }

    #[test]
    fn key_is_added_to_all_filters_of_the_current_set() {
        let [old, new] = [(); 2].map(|()| summary());
        let intake = intake(&old, false);
        intake.add(b"before");
        assert!(intake.feed(vec![Arc::clone(&old), Arc::clone(&new)]));
        let during = intake.begin_insertion(b"during");
        assert!(intake.feed(vec![Arc::clone(&new)]));
        intake.end_insertion(during, b"during");
        intake.add(b"after");
        let keys: [&[u8]; 3] = [b"before", b"during", b"after"];
        assert_eq!(keys.map(|key| has(&old, key)), [true, false, false]);
        assert_eq!(keys.map(|key| has(&new, key)), [false, true, true]);
    }

    /// A reader may see the key before its memtable has it.
    #[test]
    fn key_of_an_unordered_write_is_added_before_its_memtable_has_it() {
        let summary = summary();
        let unordered = intake(&summary, true);
        let insertion = unordered.begin_insertion(b"key");
        assert!(has(&summary, b"key"));
        unordered.end_insertion(insertion, b"key");
        let ordered = intake(&summary, false);
        let insertion = ordered.begin_insertion(b"other");
        assert!(!has(&summary, b"other"), "its memtable has it first");
        ordered.end_insertion(insertion, b"other");
        assert!(has(&summary, b"other"));
    }

    /// Otherwise the memtables would be read before one has the key, which the new filter lacks.
    #[test]
    fn insertion_of_an_unordered_write_is_awaited_until_its_memtable_has_the_key() {
        let [old, new] = [(); 2].map(|()| summary());
        let intake = Arc::new(intake(&old, true));
        let insertion = intake.begin_insertion(b"key");
        let (done, is_over) = mpsc::channel();
        let maintenance = Arc::clone(&intake);
        let waits = thread::spawn(move || {
            maintenance.feed(vec![old, new]);
            maintenance.wait_for_insertions();
            done.send(()).unwrap();
        });
        let early = is_over.recv_timeout(Duration::from_millis(200));
        assert!(early.is_err(), "the insertion is under way");
        intake.end_insertion(insertion, b"key");
        waits.join().unwrap();
        is_over.recv().unwrap();
        // One that comes later is not waited for.
        let later = intake.begin_insertion(b"later");
        intake.end_insertion(later, b"later");
    }

    /// Each rebuild changes the set twice.
    #[test]
    fn changes_of_filters_that_nobody_holds_are_forgotten() {
        let summary = summary();
        let intake = intake(&summary, false);
        let hold = intake.hold();
        for _ in 0..20 {
            intake.feed(vec![Arc::clone(&summary)]);
        }
        let earlier = || unpoisoned(intake.holders.lock()).earlier.len();
        assert!(earlier() <= 2 && intake.is_held_from_before());
        drop(hold);
        intake.feed(vec![summary]);
        assert!(earlier() <= 1);
    }

    #[test]
    fn hold_from_before_a_change_of_filters_is_told_from_a_later_one() {
        let summary = summary();
        let intake = intake(&summary, false);
        assert!(!intake.is_held());
        let before = intake.hold();
        assert!(intake.is_held() && !intake.is_held_from_before());
        for _ in 0..3 {
            intake.feed(vec![Arc::clone(&summary)]);
            assert!(intake.is_held_from_before());
        }
        let after = intake.hold();
        drop(before);
        assert!(!intake.is_held_from_before() && intake.is_held());
        drop(after);
        assert!(!intake.is_held());
    }
}
