//! Fault points that replace a whole step. In an ordinary build they do nothing.

use crate::fault::fault;
use crate::hooks::bare_engine::DEFAULT_ID;
use crate::math::Bits;
use crate::reach::reached;
use lsm_sieve_front::cf_filter::CfFilter;
use lsm_sieve_front::filters::Filters;
use lsm_sieve_front::wakeup::LONG;

/// What a hook of the handle answers after a panic.
pub(super) fn is_absent_after_panic() -> bool {
    fault!(HandlePanicIsAbsent, return true);
    false
}

/// What a new column family takes of the budget that all share.
pub(super) fn size_of_summary(cf_filter: &CfFilter) -> Bits {
    fault!(FamiliesTakeOneRoom, return Bits::new(0));
    cf_filter.view().summary.size()
}

/// Runs external writes that are announced late, briefly or not at all. Returns them if no such
/// fault is injected.
pub(super) fn external_writes<R: FnOnce()>(
    filters: &Filters,
    cf: Option<u32>,
    run: R,
) -> Option<R> {
    let announce = || filters.cf_filters.begin_external_writes(cf);
    reached!(IngestionAnnounced, cf.is_some());
    reached!(CatchUpAnnounced, cf.is_none());
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
