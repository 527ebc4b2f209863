//! When a follower takes a snapshot, and when it does not need one. Over an etcd in memory.

use std::time::Duration;

use lsm_sieve_etcd::etcd_client::Client;
use lsm_sieve_etcd::etcd_client::proto::{PbEvent, PbKeyValue, PbResponseHeader, PbWatchResponse};
use lsm_sieve_etcd::{EtcdFollower, FollowError, OpenError, Options};
use tokio::time::{sleep, timeout};

use crate::history::{key, open, options, wait_for};
use crate::memory_etcd::{MemoryEtcd, Model};

async fn until(mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(60), wait).await.unwrap();
}

fn put(numbers: std::ops::Range<u32>) -> Vec<(Vec<u8>, bool)> {
    numbers.map(|number| (key(number), true)).collect()
}

fn is_denied(follower: &EtcdFollower, number: u32, at_least: u64) -> bool {
    follower.is_absent(&key(number), at_least as i64)
}

#[tokio::test]
async fn a_saved_filter_is_followed_from_its_revision() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = MemoryEtcd::start(1, 7).await;
    // More than a page.
    etcd.write(put(0..2_500));
    let follower = open(&etcd, folder.path()).await;
    wait_for(&follower, 2).await;
    assert_eq!(follower.stats().snapshots, 1);
    let denied = (10_000..11_000).filter(|&number| is_denied(&follower, number, 2));
    assert!(denied.count() > 970);
    follower.close().await;

    let newest = etcd.write(put(2_500..2_600));
    let follower = open(&etcd, folder.path()).await;
    wait_for(&follower, newest).await;
    assert!((0..2_600).all(|number| !is_denied(&follower, number, newest)));
    assert_eq!((follower.stats().snapshots, etcd.state().snapshots), (0, 1));
    follower.close().await;

    etcd.write(put(2_600..2_700));
    let newest = etcd.write(put(2_700..2_800));
    etcd.state().compacted = newest;
    let follower = open(&etcd, folder.path()).await;
    until(|| follower.stats().snapshots == 1).await;
    assert_eq!(follower.stats().compactions, 1);
    assert!((0..2_800).all(|number| !is_denied(&follower, number, newest)));
    follower.close().await;
}

/// A filter of cluster 7 is saved; then another store with this id has the folder.
async fn assert_saved_filter_is_not_used(id: u64, options: Options) {
    let folder = tempfile::tempdir().unwrap();
    let etcd = MemoryEtcd::start(1, 7).await;
    etcd.write(put(0..10));
    let follower = open(&etcd, folder.path()).await;
    wait_for(&follower, 2).await;
    follower.close().await;

    let other = MemoryEtcd::start(1, id).await;
    other.write(put(20..30));
    let follower = EtcdFollower::open([other.endpoint()], folder.path(), options).await;
    let follower = follower.unwrap();
    wait_for(&follower, 2).await;
    assert_eq!(follower.stats().snapshots, 1);
    assert!((20..30).all(|number| !is_denied(&follower, number, 0)));
    follower.close().await;
}

#[tokio::test]
async fn a_filter_of_another_cluster_is_not_used() {
    assert_saved_filter_is_not_used(8, options()).await;
}

/// A restored cluster may have its old id, and be at any revision.
#[tokio::test]
async fn a_filter_from_before_a_restore_is_not_used() {
    assert_saved_filter_is_not_used(7, options().with_restores(1)).await;
}

#[tokio::test]
async fn an_endpoint_of_another_cluster_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let (etcd, other) = (MemoryEtcd::start(1, 7).await, MemoryEtcd::start(1, 8).await);
    other.write(put(0..10));
    let endpoints = [etcd.endpoint(), other.endpoint()];
    let follower = EtcdFollower::open(endpoints, folder.path(), options()).await;
    let follower = follower.unwrap();
    wait_for(&follower, 1).await;
    until(|| {
        etcd.cut();
        let error = follower.stats().last_error;
        error.is_some_and(|error| matches!(*error, FollowError::OtherCluster { found: 8, .. }))
    })
    .await;
    let newest = etcd.write(put(20..30));
    wait_for(&follower, newest).await;
    assert!(is_denied(&follower, 5, newest));
    assert_eq!(follower.stats().snapshots, 1);
}

#[tokio::test]
async fn a_store_that_went_back_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = MemoryEtcd::start(1, 7).await;
    (0..20).for_each(|number| _ = etcd.write(put(number..number + 1)));
    let follower = open(&etcd, folder.path()).await;
    wait_for(&follower, 21).await;

    let mut restored = Model::default();
    restored.write(put(100..110));
    etcd.state().model = restored;
    until(|| follower.filter().position() == Some(2)).await;
    assert_eq!(follower.stats().snapshots, 2);
    assert!((100..110).all(|number| !is_denied(&follower, number, 0)));

    // And at once, if a saved filter is opened.
    follower.close().await;
    etcd.state().model = Model::default();
    let follower = open(&etcd, folder.path()).await;
    assert!(!is_denied(&follower, 0, 0));
    wait_for(&follower, 1).await;
}

/// A saved filter of a later revision than the store's was refused, but stayed saved. Once the
/// restored store had passed its revision, the next follower trusted it.
#[tokio::test]
async fn a_filter_that_a_restore_left_behind_does_not_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = MemoryEtcd::start(1, 7).await;
    (0..20).for_each(|number| _ = etcd.write(put(number..number + 1)));
    let follower = open(&etcd, folder.path()).await;
    wait_for(&follower, 21).await;
    follower.close().await;

    {
        let mut state = etcd.state();
        state.model = Model::default();
        // No snapshot is complete, so nothing else is saved.
        state.short_pages = u64::MAX;
    }
    etcd.write(put(100..110));
    let follower = open(&etcd, folder.path()).await;
    assert!(!is_denied(&follower, 100, 0));
    follower.close().await;

    (0..30).for_each(|_| _ = etcd.write(put(110..120)));
    let follower = open(&etcd, folder.path()).await;
    assert!((100..120).all(|number| !is_denied(&follower, number, 0)));
    etcd.state().short_pages = 0;
    let newest = etcd.newest();
    wait_for(&follower, newest).await;
    assert!((100..120).all(|number| !is_denied(&follower, number, newest)));
    assert!(is_denied(&follower, 5, newest));
}

#[tokio::test]
async fn a_page_that_lacks_a_key_is_no_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = MemoryEtcd::start(1, 7).await;
    let newest = etcd.write(put(0..2_500));
    etcd.state().short_pages = 3;
    let follower = open(&etcd, folder.path()).await;
    wait_for(&follower, newest).await;
    let error = follower.stats().last_error.unwrap();
    assert!(matches!(*error, FollowError::Malformed(_)), "{error}");
    assert_eq!((follower.stats().snapshots, etcd.state().snapshots), (1, 2));
    assert!((0..2_500).all(|number| !is_denied(&follower, number, newest)));
}

#[tokio::test]
async fn a_silent_watch_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = MemoryEtcd::start(1, 7).await;
    etcd.state().faults.silent = 1;
    let follower = open(&etcd, folder.path()).await;
    wait_for(&follower, 1).await;
    let newest = (0..3).map(|_| etcd.write(put(0..10))).next_back().unwrap();
    wait_for(&follower, newest).await;
    let newest = etcd.write(put(10..20));
    wait_for(&follower, newest).await;
    let error = follower.stats().last_error.unwrap();
    assert!(matches!(*error, FollowError::Silent { .. }), "{error}");
    assert_eq!(follower.stats().snapshots, 1);
}

#[tokio::test]
async fn too_many_deleted_keys_lead_to_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = MemoryEtcd::start(1, 7).await;
    let often = options().with_save_every(Duration::from_millis(50));
    let follower = EtcdFollower::open([etcd.endpoint()], folder.path(), often).await;
    let follower = follower.unwrap();
    wait_for(&follower, 1).await;
    for first in (0..300_000).step_by(4_000) {
        let keys = first..first + 4_000;
        etcd.write(put(keys.clone()));
        etcd.write(keys.map(|number| (key(number), false)).collect());
    }
    let newest = etcd.write(put(0..10));
    wait_for(&follower, newest).await;
    until(|| follower.stats().snapshots == 2).await;
    let keys = follower.stats().filter.unwrap().keys.get();
    assert!((1..=10).contains(&keys), "{keys}");
    assert!((0..10).all(|number| !is_denied(&follower, number, newest)));
    assert!(is_denied(&follower, 150_000, newest));
}

#[tokio::test]
async fn etcd_is_read_unless_the_key_is_absent() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = MemoryEtcd::start(1, 7).await;
    let newest = etcd.write(put(0..10)) as i64;
    let follower = open(&etcd, folder.path()).await;
    wait_for(&follower, 2).await;
    let mut client = Client::connect([etcd.endpoint()], None).await.unwrap();
    let there = follower.get(&mut client, &key(3), newest).await.unwrap();
    assert_eq!(there.unwrap().key(), key(3));
    // Denied from memory, though the store has it since.
    etcd.write(put(20..21));
    let absent = follower.get(&mut client, &key(20), newest).await.unwrap();
    assert!(absent.is_none());
    let there = follower
        .get(&mut client, &key(20), newest + 1)
        .await
        .unwrap();
    assert_eq!(there.unwrap().key(), key(20));
}

/// Responses that break the interface, each as the next of a watch.
fn malformed(revision: i64) -> Vec<PbWatchResponse> {
    let header = PbResponseHeader {
        cluster_id: 7,
        ..PbResponseHeader::default()
    };
    let event = |mod_revision| PbEvent {
        kv: Some(PbKeyValue {
            key: b"key".to_vec(),
            mod_revision,
            ..PbKeyValue::default()
        }),
        ..PbEvent::default()
    };
    let response = |events| PbWatchResponse {
        header: Some(header),
        events,
        ..PbWatchResponse::default()
    };
    vec![
        PbWatchResponse::default(),
        response(vec![PbEvent::default()]),
        response(vec![event(0)]),
        response(vec![event(-1)]),
        response(vec![event(revision + 2), event(revision + 1)]),
        response(vec![event(i64::MAX)]),
        PbWatchResponse {
            compact_revision: -1,
            canceled: true,
            ..response(Vec::new())
        },
    ]
}

#[tokio::test]
async fn malformed_responses_end_the_trust() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = MemoryEtcd::start(1, 7).await;
    let follower = open(&etcd, folder.path()).await;
    wait_for(&follower, 1).await;
    for (number, response) in malformed(1).into_iter().enumerate() {
        etcd.state().responses = vec![response];
        etcd.cut();
        until(|| follower.stats().snapshots == 2 + number as u64).await;
        let error = follower.stats().last_error.unwrap();
        assert!(
            matches!(*error, FollowError::Malformed(_) | FollowError::Hole(_)),
            "{number}: {error}"
        );
    }
    let newest = etcd.write(put(0..10));
    wait_for(&follower, newest).await;
    assert!((0..10).all(|number| !is_denied(&follower, number, newest)));
}

#[tokio::test]
async fn events_of_unknown_types_count_as_puts() {
    let folder = tempfile::tempdir().unwrap();
    let etcd = MemoryEtcd::start(1, 7).await;
    let follower = open(&etcd, folder.path()).await;
    wait_for(&follower, 1).await;
    let mut response = malformed(1).swap_remove(4);
    response.events.swap(0, 1);
    response
        .events
        .iter_mut()
        .for_each(|event| event.r#type = 5);
    etcd.state().responses = vec![response];
    etcd.write(put(0..1));
    etcd.write(put(0..1));
    etcd.cut();
    wait_for(&follower, 3).await;
    assert!(!follower.is_absent(b"key", 3));
}

#[tokio::test]
async fn errors_name_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let none = EtcdFollower::open([""; 0], folder.path(), options()).await;
    assert!(matches!(none, Err(OpenError::NoEndpoint)), "{none:?}");
    let dead = ["http://127.0.0.1:1", "http://127.0.0.1:2"];
    let dead = EtcdFollower::open(dead, folder.path(), options()).await;
    let message = dead.unwrap_err().to_string();
    assert!(message.contains("http://127.0.0.1:2"), "{message}");

    let etcd = MemoryEtcd::start(1, 7).await;
    let follower = open(&etcd, folder.path()).await;
    let second = EtcdFollower::open([etcd.endpoint()], folder.path(), options()).await;
    assert!(matches!(second, Err(OpenError::Folder(_))), "{second:?}");
    // The task of a follower that is dropped frees the folder.
    drop(follower);
    let again = || EtcdFollower::open([etcd.endpoint()], folder.path(), options());
    while again().await.is_err() {
        sleep(Duration::from_millis(5)).await;
    }
}
