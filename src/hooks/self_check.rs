//! The self-check: proves that the hooks fire, once per process, on a scratch database in memory.
//!
//! The shim reaches RocksDB through its private layout. If that changed, a memtable might take keys
//! that no filter sees, and reads would be lost. So before the first database is opened, the hooks
//! of a scratch database must see exactly what happened in it: keys in a memtable, keys in an SST,
//! probes of its filter, its raw keys. The listener relies on a public interface and is not checked
//! here.

use std::sync::{Arc, OnceLock};

use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, Env, Options};

use crate::binding::RocksDb;
use crate::error::OpenError;
use crate::fault::fault;
use crate::filter::Scalable;
use crate::hash::{HashId, KeyHasher, Seed};
use crate::hooks::abi::Hooks;
use crate::hooks::callbacks::HOOKS;
use crate::hooks::install::install;
use crate::hooks::options::layout_matches;
use crate::hooks::tables::{live_tables, raw_keys};
use crate::math::{Bits, Items};
use lsm_sieve_front::cf_filter::{CfFilter, FirstSummary};
use lsm_sieve_front::engine::LiveSegment;
use lsm_sieve_front::options::FrontOptions;
use lsm_sieve_front::segment::{Registry, SealedFilter, Segment};

const PATH: &str = "/lsm-sieve-self-check";

/// Checks layout and hooks; the first success is cached.
pub(crate) fn hooks_fire() -> Result<(), OpenError> {
    static PROVED: OnceLock<()> = OnceLock::new();
    fault!(SelfCheckSkipped, return Ok(()));
    #[cfg(test)]
    if let Some(hooks) = tests::silenced() {
        return check(hooks);
    }
    if PROVED.get().is_none() {
        check(&HOOKS)?;
        PROVED.get_or_init(|| ());
    }
    Ok(())
}

fn check(hooks: &'static Hooks) -> Result<(), OpenError> {
    if !layout_matches() {
        return Err(OpenError::Layout);
    }
    let registry = Arc::new(Registry::new(hasher()));
    let cf_filter = cf_filter(&registry);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_env(&Env::mem_env().map_err(OpenError::Probe)?);
    if !install(&options, Arc::clone(&cf_filter), hooks) {
        return Err(OpenError::HooksSilent {
            what: "the filter policy",
        });
    }
    let cfs = [(DEFAULT_COLUMN_FAMILY_NAME, options.clone())];
    let engine = RocksDb::open_cf_with_opts(&options, PATH, cfs).map_err(OpenError::Probe)?;
    write_and_read(&engine, &cf_filter).map_err(OpenError::Probe)??;
    tables_are_seen(&engine, &registry)
}

fn hasher() -> KeyHasher {
    KeyHasher::new(HashId::Xxh3, Seed::from_bytes(*b"self-check seed."))
}

fn cf_filter(registry: &Arc<Registry>) -> Arc<CfFilter> {
    let options = FrontOptions::default();
    let summary = Scalable::new(
        hasher().imprint().for_summary(),
        options.summary(Items::new(0), Bits::new(0)),
    );
    let registry = Arc::clone(registry);
    CfFilter::new(
        DEFAULT_COLUMN_FAMILY_NAME,
        hasher(),
        registry,
        Arc::default(),
        &options,
        FirstSummary::covering_none(summary),
    )
}

type Checked = Result<(), OpenError>;

/// Three entries, one of them a tombstone: the summary filter must have two keys, the SST three.
fn write_and_read(engine: &RocksDb, cf_filter: &CfFilter) -> Result<Checked, rocksdb::Error> {
    engine.put(b"put", b"1")?;
    engine.put(b"also put", b"2")?;
    engine.delete(b"deleted")?;
    if !(is_bound(cf_filter) && is_fed(cf_filter)) {
        return Ok(Err(OpenError::HooksSilent {
            what: "the memtable capture",
        }));
    }
    engine.flush()?;
    let found = engine.get(b"put")?;
    let absent = engine.get(b"never put")?;
    let is_right = found.as_deref() == Some(b"1") && absent.is_none();
    fault!(WrongAnswerPassed, return Ok(Ok(())));
    Ok(if is_right {
        Ok(())
    } else {
        Err(OpenError::HooksSilent {
            what: "reading through hooks",
        })
    })
}

fn is_bound(cf_filter: &CfFilter) -> bool {
    fault!(UnboundFilterPassed, return true);
    cf_filter.key_space().id().is_some()
}

fn is_fed(cf_filter: &CfFilter) -> bool {
    fault!(IncompleteSummaryPassed, return true);
    cf_filter.view().summary.items() == Items::new(2)
}

fn has_all_keys(table: &LiveSegment, filter: &SealedFilter) -> bool {
    fault!(IncompleteSegmentFilterPassed, return true);
    table.entries == 3 && filter.chain.items() == Items::new(3)
}

/// The SST's reader probes through a reference of its own; the registry and the caller hold two.
fn is_probed(segment: &Arc<Segment>) -> bool {
    fault!(UnprobedFilterPassed, return true);
    Arc::strong_count(segment) >= 3
}

fn tables_are_seen(engine: &RocksDb, registry: &Registry) -> Checked {
    let silent = |what| OpenError::HooksSilent { what };
    let handle = engine.cf_handle(DEFAULT_COLUMN_FAMILY_NAME);
    let handle = handle.ok_or(silent("the default column family"))?;
    let tables = live_tables(&handle).map_err(|_| silent("the list of live tables"))?;
    let [table] = tables.as_slice() else {
        return Err(silent("the list of live tables"));
    };
    let id = table
        .lasting_id
        .filter(|_| table.is_checked_by_engine)
        .ok_or(silent("the table capture"))?;
    let segment = registry.get(id).ok_or(silent("the filter policy"))?;
    let filter = segment.filter().ok_or(silent("the table capture"))?;
    if !has_all_keys(table, &filter) {
        return Err(silent("the table capture"));
    }
    if !is_probed(&segment) {
        return Err(silent("the filter policy"));
    }
    let mut raw = 0;
    raw_keys(&handle, table, &mut |_, deletion| {
        raw += if deletion { 10 } else { 1 };
        true
    })
    .map_err(|_| silent("the reader of raw keys"))?;
    if raw == 12 {
        Ok(())
    } else {
        Err(silent("the reader of raw keys"))
    }
}

#[cfg(test)]
mod tests {
    use crate::SieveOptions;
    use std::cell::Cell;

    use super::*;
    use crate::SieveDb;

    thread_local! {
        /// The hooks that this thread checks, if not the real ones.
        static SILENCED: Cell<Option<&'static Hooks>> = const { Cell::new(None) };
    }

    pub(super) fn silenced() -> Option<&'static Hooks> {
        SILENCED.get()
    }

    #[test]
    fn hooks_fire_in_this_build() {
        check(&HOOKS).unwrap();
    }

    #[test]
    fn a_hook_that_does_not_fire_refuses_the_open() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("db");
        let mut options = Options::default();
        options.create_if_missing(true);
        let open = || SieveDb::open(&options, &SieveOptions::default(), &path);
        for (unheard, hooks, missed) in &crate::hooks::callbacks::silent::SILENT {
            SILENCED.set(Some(hooks));
            let error = open().unwrap_err();
            assert!(
                matches!(error, OpenError::HooksSilent { what } if what == *missed),
                "{unheard}: {error}"
            );
            assert!(!path.exists(), "{unheard}");
        }
        SILENCED.set(None);
        open().unwrap();
    }
}
