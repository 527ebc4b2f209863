//! Merges that were not seen, and maintenance on the caller's thread.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::disk::{Disk, MemoryDisk};
use lsm_sieve_front::filter_options::FilterOptions;
use lsm_sieve_front::options::FilterSize;
use lsm_sieve_front::segment::SegmentId;

/// A store that is nothing but its segments. Counts how often one is read.
#[derive(Default)]
struct Segments(Mutex<BTreeMap<SegmentId, Vec<Vec<u8>>>>, AtomicU64);

impl Segments {
    fn install(&self, id: SegmentId, keys: &[Vec<u8>]) {
        self.0.lock().unwrap().insert(id, keys.to_vec());
    }

    fn reads(&self) -> u64 {
        self.1.load(Ordering::Relaxed)
    }
}

impl Lsm for Segments {
    fn segments(&self) -> io::Result<Vec<SegmentInfo>> {
        let info = |(id, keys): (&SegmentId, &Vec<Vec<u8>>)| SegmentInfo {
            name: id.to_string(),
            id: Some(*id),
            entries: keys.len() as u64,
            range: None,
            level: None,
        };
        Ok(self.0.lock().unwrap().iter().map(info).collect())
    }

    fn entries(
        &self,
        segment: &SegmentInfo,
        each: &mut dyn FnMut(&[u8], bool) -> bool,
    ) -> io::Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        let segments = self.0.lock().unwrap();
        segments[&segment.id.unwrap()]
            .iter()
            .all(|key| each(key, false));
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn contains(&self, key: &[u8]) -> io::Result<bool> {
        let segments = self.0.lock().unwrap();
        Ok(segments.values().flatten().any(|other| other == key))
    }

    fn entries_in_memtables(&self) -> u64 {
        0
    }

    fn last_sequence(&self) -> u64 {
        0
    }
}

fn open(disk: &MemoryDisk, options: &FilterOptions) -> LsmFilters {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    LsmFilters::open_on(disk, Path::new("/filters"), options, None).unwrap()
}

fn keys(numbers: std::ops::Range<u32>) -> Vec<Vec<u8>> {
    numbers
        .map(|number| number.to_be_bytes().to_vec())
        .collect()
}

/// Adds keys to a memtable, which the caller drops once they are in segments.
fn write(filters: &LsmFilters, keys: &[Vec<u8>]) -> Memtable {
    let memtable = filters.memtable();
    keys.iter().for_each(|key| memtable.insert(key));
    memtable
}

fn build(filters: &LsmFilters, keys: &[Vec<u8>]) -> SegmentId {
    let mut build = filters.begin_segment().unwrap();
    let id = build.id();
    keys.iter().for_each(|key| build.add(key));
    drop(build.seal());
    id
}

/// How many of 1,000 absent keys pass the filter of a segment.
fn passing(filters: &LsmFilters, id: SegmentId) -> usize {
    let filter = filters.segment(id);
    let absent = keys(1 << 20..(1 << 20) + 1_000);
    let passing = absent
        .iter()
        .filter(|key| filter.may_contain(filters.hash(key)));
    passing.count()
}

fn holds(filters: &LsmFilters, id: SegmentId, keys: &[Vec<u8>]) -> bool {
    let filter = filters.segment(id);
    keys.iter().all(|key| filter.may_contain(filters.hash(key)))
}

#[test]
fn outputs_of_an_unseen_merge_have_the_filters_of_its_inputs_at_once() {
    let filters = open(&MemoryDisk::new(), &FilterOptions::default());
    let inputs = [keys(0..1_000), keys(1_000..3_000)];
    let ids = inputs.each_ref().map(|keys| build(&filters, keys));
    let outputs = [SegmentId::random().unwrap(), SegmentId::random().unwrap()];
    let report = filters.merged(&ids, &outputs);
    assert_ne!(report.filter, MergedFilter::None);
    for id in outputs {
        assert!(holds(&filters, id, &keys(0..3_000)));
        assert!(passing(&filters, id) < 40);
    }
    assert_eq!(filters.merges().len(), 1);
    assert_eq!(filters.merges()[0].outputs, outputs);
}

/// What one output has is stored for it. What several share is not, so these are read again.
#[test]
fn single_output_of_an_unseen_merge_is_not_read_after_a_reopen() {
    for (inputs, outputs) in [(1, 1), (2, 1), (1, 2), (2, 2)] {
        let (disk, store) = (MemoryDisk::new(), Arc::new(Segments::default()));
        let filters = open(&disk, &FilterOptions::default());
        filters.start_without_thread(&store);
        assert!(filters.wait_until_complete(Duration::from_secs(20)));
        let all: Vec<_> = (0..inputs).map(|nth| keys(nth * 6..nth * 6 + 6)).collect();
        let ids: Vec<_> = all.iter().map(|keys| build(&filters, keys)).collect();
        let merged: Vec<_> = (0..outputs).map(|_| SegmentId::random().unwrap()).collect();
        let all = all.concat();
        let memtable = write(&filters, &all);
        let report = filters.merged(&ids, &merged);
        let kept = report.predicted_rate <= 0.01;
        assert!(kept && report.filter != MergedFilter::None, "{report:?}");
        let parts = all.chunks(all.len() / merged.len());
        for (&id, part) in merged.iter().zip(parts) {
            store.install(id, part);
        }
        drop(memtable);
        filters.segments_changed();
        filters.maintain();
        filters.close();
        drop(filters);
        let before = store.reads();
        let filters = open(&disk, &FilterOptions::default());
        filters.start_without_thread(&store);
        filters.maintain();
        assert!(merged.iter().all(|&id| passing(&filters, id) < 40));
        assert!(all.iter().all(|key| !filters.answer(key).is_absent()));
        let reads = (before, store.reads() - before);
        let again = if outputs == 1 { 0 } else { outputs as u64 };
        assert_eq!(reads, (0, again), "{inputs} inputs, {outputs} outputs");
    }
}

/// Their merge may take longer than many runs of maintenance.
#[test]
fn filters_of_outputs_are_kept_until_the_outputs_are_installed() {
    let filters = open(&MemoryDisk::new(), &FilterOptions::default());
    let store = Arc::new(Segments::default());
    filters.start_without_thread(&store);
    assert!(filters.wait_until_complete(Duration::from_secs(20)));
    let memtable = write(&filters, &keys(0..500));
    let id = build(&filters, &keys(0..500));
    let output = SegmentId::random().unwrap();
    store.install(id, &keys(0..500));
    drop(memtable);
    filters.maintain();
    filters.merged(&[id], &[output]);
    for _ in 0..4 {
        filters.segments_changed();
        filters.maintain();
    }
    store.install(output, &keys(0..500));
    filters.segments_changed();
    assert!(holds(&filters, output, &keys(0..500)) && passing(&filters, output) < 40);
    filters.maintain();
    assert_eq!(store.reads(), 0);
}

/// Nothing of segments that are gone is removed while one is being written.
#[test]
fn segment_that_is_given_up_is_forgotten_in_the_next_run() {
    let filters = open(&MemoryDisk::new(), &FilterOptions::default());
    let store = Arc::new(Segments::default());
    filters.start_without_thread(&store);
    assert!(filters.wait_until_complete(Duration::from_secs(20)));
    let known = || {
        filters.segments_changed();
        filters.maintain();
        filters.health().known_segments
    };
    let mut build = filters.begin_segment().unwrap();
    build.add(b"key");
    assert_eq!(known(), 1, "it is being written");
    drop(build);
    assert_eq!(known(), 0);
}

#[test]
fn only_the_last_merges_are_remembered() {
    let filters = open(&MemoryDisk::new(), &FilterOptions::default());
    let outputs: Vec<_> = (0..200).map(|_| SegmentId::random().unwrap()).collect();
    outputs
        .iter()
        .for_each(|&id| _ = filters.merged(&[], &[id]));
    let merges = filters.merges();
    let remembered: Vec<_> = merges.iter().flat_map(|merge| &merge.outputs).collect();
    assert!((10..100).contains(&remembered.len()));
    assert!(
        remembered
            .into_iter()
            .rev()
            .eq(outputs.iter().rev().take(merges.len()))
    );
}

/// A store that has another list of segments after this many listings.
struct Relisted {
    lists: [Vec<(&'static str, SegmentId)>; 2],
    keys: BTreeMap<SegmentId, Vec<Vec<u8>>>,
    listings: AtomicU64,
    after: u64,
}

impl Lsm for Relisted {
    fn segments(&self) -> io::Result<Vec<SegmentInfo>> {
        let is_later = self.listings.fetch_add(1, Ordering::Relaxed) >= self.after;
        let info = |&(name, id): &(&str, SegmentId)| SegmentInfo {
            name: name.to_owned(),
            id: Some(id),
            entries: self.keys[&id].len() as u64,
            range: None,
            level: None,
        };
        Ok(self.lists[usize::from(is_later)].iter().map(info).collect())
    }

    fn entries(
        &self,
        segment: &SegmentInfo,
        each: &mut dyn FnMut(&[u8], bool) -> bool,
    ) -> io::Result<()> {
        let keys = &self.keys[&segment.id.unwrap()];
        keys.iter().all(|key| each(key, false));
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn contains(&self, key: &[u8]) -> io::Result<bool> {
        Ok(self.keys.values().flatten().any(|other| other == key))
    }

    fn entries_in_memtables(&self) -> u64 {
        0
    }

    fn last_sequence(&self) -> u64 {
        0
    }
}

/// Names are unique among the live segments only. While all segments were read, `1` and `2` were
/// merged into another `1`. That counted as read, and its keys from `2` were denied.
#[test]
fn segment_that_has_the_name_of_an_earlier_one_is_read_itself() {
    for (after, of_second) in (1..16).flat_map(|after| [(after, 200), (after, 400)]) {
        let [first, second, merged] = [(); 3].map(|()| SegmentId::random().unwrap());
        // As many entries as the first, and half of its keys.
        let both = [keys(0..150), keys(1_000..1_150)].concat();
        let all = [
            (first, keys(0..300)),
            (second, keys(1_000..1_000 + of_second)),
            (merged, both.clone()),
        ];
        let store = Arc::new(Relisted {
            lists: [vec![("1", first), ("2", second)], vec![("1", merged)]],
            keys: all.into(),
            listings: AtomicU64::new(0),
            after,
        });
        let unaudited = FilterOptions::default().audit(0);
        let filters = open(&MemoryDisk::new(), &unaudited);
        filters.start_without_thread(&store);
        for _ in 0..6 {
            filters.segments_changed();
            filters.maintain();
            for key in &both {
                assert!(!filters.answer(key).is_absent(), "{key:?} after {after}");
            }
            for (&id, keys) in &store.keys {
                assert!(holds(&filters, id, keys), "{id} after {after}");
            }
        }
        assert!(store.listings.load(Ordering::Relaxed) > after);
        let absent = keys(1 << 20..(1 << 20) + 1_000);
        let denied = absent.iter().filter(|key| filters.answer(key).is_absent());
        assert!(denied.count() > 950, "after {after}");
    }
}

/// Chained filters pass the rate of one, so they are rebuilt; until then they answer.
#[test]
fn chained_filters_are_rebuilt_when_maintenance_runs() {
    let filters = open(&MemoryDisk::new(), &FilterOptions::default());
    let store = Arc::new(Segments::default());
    filters.start_without_thread(&store);
    let all: Vec<_> = (0..6).map(|nth| keys(nth * 500..nth * 500 + 500)).collect();
    let ids: Vec<_> = all.iter().map(|keys| build(&filters, keys)).collect();
    let output = SegmentId::random().unwrap();
    let report = filters.merged(&ids, &[output]);
    assert_eq!(report.filter, MergedFilter::Chain);
    assert!(report.predicted_rate > 0.01, "{report:?}");
    assert!(holds(&filters, output, &keys(0..3_000)));
    let chained = passing(&filters, output);
    store.install(output, &keys(0..3_000));
    assert!(filters.wait_until_complete(Duration::from_secs(20)));
    filters.maintain();
    assert!(holds(&filters, output, &keys(0..3_000)));
    let rebuilt = passing(&filters, output);
    assert!(rebuilt < chained, "{rebuilt} of {chained}");
}

#[test]
fn outputs_of_inputs_without_filters_are_read() {
    let filters = open(&MemoryDisk::new(), &FilterOptions::default());
    let known = build(&filters, &keys(0..100));
    let [unknown, output] = [(); 2].map(|()| SegmentId::random().unwrap());
    let report = filters.merged(&[known, unknown], &[output]);
    assert_eq!(report.filter, MergedFilter::None);
    assert_eq!(passing(&filters, output), 1_000);
    let tight = FilterOptions::default().memory_budget(1);
    let filters = open(&MemoryDisk::new(), &tight);
    let ids = [keys(0..100), keys(100..200)].map(|keys| build(&filters, &keys));
    let report = filters.merged(&ids, &[output]);
    assert_eq!(report.filter, MergedFilter::None);
}

#[test]
fn caller_runs_maintenance_and_its_filters_are_there_again() {
    let disk = MemoryDisk::new();
    let store = Arc::new(Segments::default());
    {
        let filters = open(&disk, &FilterOptions::default());
        let id = build(&filters, &keys(0..1_000));
        store.install(id, &keys(0..1_000));
        assert!(
            !filters.answer(b"absent").is_absent(),
            "nothing is known yet"
        );
        filters.start_without_thread(&store);
        assert!(filters.wait_until_complete(Duration::from_secs(20)));
        assert!(filters.answer(b"absent").is_absent());
        filters.close();
    }
    let filters = open(&disk, &FilterOptions::default());
    filters.start_without_thread(&store);
    filters.maintain();
    assert!(filters.answer(b"absent").is_absent());
    assert!(
        keys(0..1_000)
            .iter()
            .all(|key| !filters.answer(key).is_absent())
    );
}

#[test]
fn memtable_is_open_from_its_first_key_until_it_is_dropped() {
    let filters = open(&MemoryDisk::new(), &FilterOptions::default());
    let store = Arc::new(Segments::default());
    filters.start_without_thread(&store);
    let (empty, memtable) = (filters.memtable(), filters.memtable());
    memtable.insert(b"key");
    // Its keys are in no segment, so the summary filter cannot be replaced.
    assert!(filters.consolidate().is_err());
    assert!(!filters.answer(b"key").is_absent());
    store.install(build(&filters, &[b"key".to_vec()]), &[b"key".to_vec()]);
    drop(memtable);
    filters.consolidate().unwrap();
    assert!(!filters.answer(b"key").is_absent());
    drop(empty);
}

/// A store whose flush waits for the test.
struct Slow {
    filters: LsmFilters,
    flush_began: mpsc::Sender<()>,
    may_flush: Mutex<mpsc::Receiver<()>>,
}

impl Lsm for Slow {
    fn segments(&self) -> io::Result<Vec<SegmentInfo>> {
        Ok(Vec::new())
    }

    fn entries(&self, _: &SegmentInfo, _: &mut dyn FnMut(&[u8], bool) -> bool) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.flush_began.send(()).map_err(io::Error::other)?;
        let may_flush = self.may_flush.lock().unwrap();
        may_flush.recv().map_err(io::Error::other)
    }

    fn contains(&self, _: &[u8]) -> io::Result<bool> {
        Ok(false)
    }

    fn entries_in_memtables(&self) -> u64 {
        0
    }

    fn last_sequence(&self) -> u64 {
        0
    }
}

/// Maintenance then ends itself, and would wait for itself.
#[test]
fn store_whose_last_owner_is_its_maintenance_is_dropped() {
    let (flush_began, began) = mpsc::channel();
    let (allow, may_flush) = mpsc::channel();
    let store = Arc::new(Slow {
        filters: open(&MemoryDisk::new(), &FilterOptions::default()),
        flush_began,
        may_flush: Mutex::new(may_flush),
    });
    store.filters.start(&store).unwrap();
    assert!(store.filters.wait_until_complete(Duration::from_secs(20)));
    store
        .filters
        .set_filter_size(FilterSize::rate(0.001).unwrap());
    began.recv().unwrap();
    let left = Arc::downgrade(&store);
    drop(store);
    assert_eq!(left.strong_count(), 1, "maintenance has it");
    allow.send(()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while left.strong_count() > 0 {
        assert!(Instant::now() < deadline, "it is never dropped");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn folder_in_use_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let open = || LsmFilters::open(home.path(), &FilterOptions::default());
    let first = open().unwrap();
    let refused = open().unwrap_err();
    assert!(refused.to_string().contains("is in use"), "{refused}");
    drop(first);
    open().unwrap();
}

/// Notes the names of all spans that begin on a thread.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<&'static str>>>);

impl tracing::Subscriber for Spans {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_span()
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let mut names = self.0.lock().unwrap();
        names.push(span.metadata().name());
        tracing::span::Id::from_u64(names.len() as u64)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn spans_name_the_background_work_and_no_lookup() {
    let spans = Spans::default();
    // Beside a single dispatcher, the first thread that comes to a span decides for all of them.
    let _another = tracing::Dispatch::new(Spans::default());
    tracing::subscriber::with_default(spans.clone(), || {
        let store = Arc::new(Segments::default());
        // Without the filters of an earlier process: everything is read.
        store.install(SegmentId::random().unwrap(), &keys(0..1_000));
        let unaudited = FilterOptions::default().audit(0);
        let filters = open(&MemoryDisk::new(), &unaudited);
        filters.start_without_thread(&store);
        filters.maintain();
        filters.scrub().unwrap();
        let before = spans.0.lock().unwrap().len();
        assert!(filters.answer(&7_000_u32.to_be_bytes()).is_absent());
        assert_eq!(spans.0.lock().unwrap().len(), before);
        filters.close();
    });
    let names = spans.0.lock().unwrap();
    for name in ["open", "maintain", "consolidate", "scrub", "save_on_close"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
}
