//! The published traces, if they are present.

use std::collections::HashSet;
use std::path::PathBuf;

use lsm_sieve_cli::workload::trace::{Format, Trace};

use crate::support::requirements::skip;

/// Their folder; without one the test is skipped.
pub(crate) fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("LSM_SIEVE_DATA").map(PathBuf::from);
    if folder.is_none() {
        skip("LSM_SIEVE_DATA does not name a folder of traces");
    }
    folder
}

/// The counts that were published with them.
#[test]
fn published_traces_have_their_published_counts() {
    let Some(folder) = folder() else {
        return;
    };
    for (name, format, references, distinct) in [
        ("OLTP.lis.zst", Format::Lis, 914_145, 186_880),
        ("corda-vaultservice.gz", Format::U64Be, 135_702, 90_468),
        ("orm-busy.trace.xz", Format::U32Be, 5_000_000, 76_349),
    ] {
        let trace = Trace::open(&folder.join(name), format).unwrap();
        let ids: Vec<u64> = trace.collect::<Result<_, _>>().unwrap();
        assert_eq!(ids.len(), references, "{name}");
        let ids: HashSet<u64> = ids.into_iter().collect();
        assert_eq!(ids.len(), distinct, "{name}");
    }
}
