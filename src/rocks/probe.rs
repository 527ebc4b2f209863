//! The proof that the hooks fire, made once a process on a scratch database in memory.
//!
//! The shim reaches RocksDB through its private layout. If that moved, a memtable might take keys
//! that no filter hears of, which is a lost read. So before the first database is opened, a scratch
//! one must show that each hook saw exactly what was done to it.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, Env, Options};

use super::column::Column;
use super::options::SieveOptions;
use super::{Engine, OpenError, ffi};
use crate::filter::Scalable;
use crate::hash::{HashId, KeyHasher, Seed};
use crate::math::{Bits, Items};
use crate::segment::Registry;

const PATH: &str = "/lsm-sieve-self-check";

/// Checks layout and hooks; the first success is remembered.
pub(crate) fn hooks_fire() -> Result<(), OpenError> {
    static PROVED: OnceLock<()> = OnceLock::new();
    if PROVED.get().is_none() {
        check()?;
        PROVED.get_or_init(|| ());
    }
    Ok(())
}

fn check() -> Result<(), OpenError> {
    if !ffi::layout_matches() {
        return Err(OpenError::Layout);
    }
    let registry = Arc::new(Registry::new(hasher()));
    let column = column(&registry);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_env(&Env::mem_env().map_err(OpenError::Probe)?);
    if !ffi::install(&mut options, Arc::clone(&column)) {
        return Err(OpenError::HooksSilent {
            what: "the filter policy",
        });
    }
    let families = [(DEFAULT_COLUMN_FAMILY_NAME, options.clone())];
    let engine = Engine::open_cf_with_opts(&options, PATH, families).map_err(OpenError::Probe)?;
    write_and_read(&engine, &column).map_err(OpenError::Probe)??;
    tables_are_seen(&engine, &registry)
}

fn hasher() -> KeyHasher {
    KeyHasher::new(HashId::Xxh3, Seed::from_bytes(*b"self-check seed."))
}

fn column(registry: &Arc<Registry>) -> Arc<Column> {
    let options = SieveOptions::default();
    let summary = Scalable::new(
        hasher().imprint().remixed(),
        options.summary(Items::new(0), Bits::new(0)),
    );
    let empty = (summary, HashSet::new());
    let registry = Arc::clone(registry);
    Column::new(
        DEFAULT_COLUMN_FAMILY_NAME,
        hasher(),
        registry,
        Arc::default(),
        &options,
        empty,
    )
}

type Checked = Result<(), OpenError>;

/// Three entries, one of them a tombstone: the summary must know two keys, the table three.
fn write_and_read(engine: &Engine, column: &Column) -> Result<Checked, rocksdb::Error> {
    engine.put(b"put", b"1")?;
    engine.put(b"also put", b"2")?;
    engine.delete(b"deleted")?;
    if column.family().is_none() || column.view().summary.items() != Items::new(2) {
        return Ok(Err(OpenError::HooksSilent {
            what: "the memtable capture",
        }));
    }
    engine.flush()?;
    let found = engine.get(b"put")?;
    let absent = engine.get(b"never put")?;
    let right = found.as_deref() == Some(b"1") && absent.is_none();
    Ok(if right {
        Ok(())
    } else {
        Err(OpenError::HooksSilent {
            what: "reading through hooks",
        })
    })
}

fn tables_are_seen(engine: &Engine, registry: &Registry) -> Checked {
    let silent = |what| OpenError::HooksSilent { what };
    let handle = engine.cf_handle(DEFAULT_COLUMN_FAMILY_NAME);
    let handle = handle.ok_or(silent("the default column family"))?;
    let tables = ffi::live_tables(&handle).map_err(|_| silent("the list of live tables"))?;
    let [table] = tables.as_slice() else {
        return Err(silent("the list of live tables"));
    };
    let id = table.captured.ok_or(silent("the table capture"))?;
    let segment = registry.get(id).ok_or(silent("the filter policy"))?;
    let filter = segment.filter().ok_or(silent("the table capture"))?;
    if table.entries != 3 || filter.chain.items() != Items::new(3) {
        return Err(silent("the table capture"));
    }
    // The table's reader asks through a reference of its own; the registry and we hold two more.
    if Arc::strong_count(&segment) < 3 {
        return Err(silent("the filter policy"));
    }
    let mut raw = 0;
    ffi::raw_keys(&handle, &table.path, |_, deletion| {
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
    #[test]
    fn hooks_fire_in_this_build() {
        super::check().unwrap();
    }
}
