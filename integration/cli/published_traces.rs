//! The published traces, if they are present: read as they were published.

use std::collections::HashSet;

use lsm_sieve_cli::workload::trace::{Format, Trace};

use crate::support::traces::folder;

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
