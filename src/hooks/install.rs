//! Puts the hooks into RocksDB's options.

use std::sync::Arc;

use rocksdb::Options;

use crate::error::OpenError;
use crate::hooks::abi::{self, Hooks};
use crate::hooks::listener::Listener;
use crate::hooks::options::{AsOptions, refusal};
use crate::options::SieveOptions;
use lsm_sieve_front::cf_filter::CfFilter;

/// Installs memtable capture, SST capture and filter policy for one column family. Returns whether
/// RocksDB will probe the segment filters itself.
pub(crate) fn install(
    options: &impl AsOptions,
    cf_filter: Arc<CfFilter>,
    hooks: &'static Hooks,
) -> bool {
    let raw = options.raw();
    let cf_filter = Arc::into_raw(cf_filter).cast_mut().cast();
    // SAFETY: `raw` points to live options that no other thread uses. The reference on `cf_filter`
    // moves to the shim, which releases it through `cf_filter_release`.
    unsafe { abi::lsm_sieve_install(raw, cf_filter, hooks) }
}

/// Makes a listener receive the events of the database that is opened with these options.
pub(crate) fn install_listener(options: &mut Options, listener: Listener, hooks: &'static Hooks) {
    let raw = options.raw();
    let listener = Arc::into_raw(Arc::new(listener)).cast_mut().cast();
    // SAFETY: as in `install`; the shim releases it through `listener_release`.
    unsafe { abi::lsm_sieve_listen(raw, listener, hooks) }
}

/// Puts the hooks of a column family's filters into its options.
pub(crate) fn put_hooks(
    options: &impl AsOptions,
    sieve: &SieveOptions,
    cf_filter: &Arc<CfFilter>,
    hooks: &'static Hooks,
) -> Result<(), OpenError> {
    let refusal = refusal(options, sieve.injective_comparators());
    OpenError::refuse(cf_filter.name(), refusal)?;
    install(options, Arc::clone(cf_filter), hooks);
    Ok(())
}
