//! Fault points that replace a whole step. In an ordinary build they do nothing.

use super::DEFAULT_ID;
use crate::fault::fault;
use lsm_sieve_front::filters::Filters;
use lsm_sieve_front::wakeup::LONG;

/// Runs external writes that are announced late, briefly or not at all. Returns them if no such
/// fault is injected.
pub(super) fn external_writes<R: FnOnce()>(
    filters: &Filters,
    cf: Option<u32>,
    run: R,
) -> Option<R> {
    let announce = || filters.cf_filters.begin_external_writes(cf);
    if let Some(cf) = cf {
        fault!(
            CfIngestionUnannounced,
            if cf != DEFAULT_ID {
                run();
                return None;
            }
        );
        fault!(IngestionAnnouncedBriefly, {
            drop(announce());
            run();
            return None;
        });
    } else {
        fault!(CatchUpAnnouncedLate, {
            run();
            drop(announce());
            return None;
        });
        fault!(CatchUpAnnouncedBriefly, {
            drop(announce());
            // Maintenance may list the SSTs before the engine is locked.
            let _ = filters.wait_for_maintenance(LONG);
            run();
            return None;
        });
    }
    Some(run)
}
