//! The command, on a database in a folder.

use crate::world::{ROOT, checkpoint, key, open_db, options, put_keys, settings};
use lsm_sieve_slatedb::slatedb::BloomFilterPolicy;
use lsm_sieve_slatedb::slatedb::object_store::{ObjectStore, local::LocalFileSystem};
use lsm_sieve_slatedb::{Bucket, Publisher, SieveReader};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sieve-bucket"));
    command.args(arguments).output().unwrap()
}

fn url(folder: &Path) -> String {
    format!("file://{}/{ROOT}", folder.display())
}

fn text(output: &Output) -> String {
    let all = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8(all).unwrap()
}

/// From a database that never saw us to readers that deny.
#[tokio::test]
async fn a_database_is_attached_inspected_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn ObjectStore> =
        Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
    let bloom = Arc::new(BloomFilterPolicy::new(10));
    let db = open_db(store.clone(), settings(false), vec![bloom]).await;
    put_keys(&db, 0..2_000).await;
    crate::world::flush(&db).await;
    let url = url(folder.path());
    let before = run(&["inspect", &url]);
    assert!(!before.status.success() && text(&before).contains("attach"));

    let attached = run(&["attach", &url, "3600"]);
    assert!(attached.status.success(), "{}", text(&attached));
    let shown = run(&["inspect", &url]);
    assert!(
        text(&shown).contains("covered:          all"),
        "{}",
        text(&shown)
    );
    let checked = run(&["verify", &url]);
    assert!(checked.status.success(), "{}", text(&checked));
    assert!(
        text(&checked).contains("rows:             2000"),
        "{}",
        text(&checked)
    );

    let bucket = Bucket::open(ROOT, store).await.unwrap();
    let reader = SieveReader::open(bucket.clone(), options()).await.unwrap();
    crate::world::assert_exact_and_denying(&reader, 0..2_000).await;
    // `current` is replaced also where the store has no conditional update.
    put_keys(&db, 2_000..2_100).await;
    let publisher = Publisher::new(bucket, options());
    publisher.publish(&checkpoint(&db).await).await.unwrap();
    assert!(reader.refresh().await.unwrap());
    assert!(!reader.answer(&key(2_050)).is_absent());
}

#[test]
fn wrong_arguments_show_the_usage() {
    for arguments in [&["look"][..], &[], &["attach", "file:///x", "soon"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output).contains("usage"));
    }
    assert!(text(&run(&["inspect", "ftp://x/y"])).contains("not known"));
}
