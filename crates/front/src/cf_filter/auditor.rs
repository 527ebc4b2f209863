//! Audits of one column family's negatives: see [`crate::audit`].

use std::sync::{Arc, Weak};

use crate::audit::{FalseNegative, Trust};
use crate::cf_filter::CfFilter;
use crate::engine::Engine;
use crate::fault::fault;
use crate::hash::KeyHash;
use crate::ranges::Span;
use crate::reach::reached;
use crate::stats::Event;
use crate::view::{PrefixProbe, View};

/// What the audits of one column family need beside its filters.
pub(crate) struct Auditor {
    /// Weak, because the engine holds the filters.
    engine: Weak<dyn Engine>,
    trust: Arc<Trust>,
}

impl Auditor {
    pub(crate) fn new(engine: Weak<dyn Engine>, trust: Arc<Trust>) -> Self {
        Self { engine, trust }
    }

    /// Whether a denial by the filters stands: the engine did not find the key.
    pub(crate) fn audit_negative(&self, cf_filter: &CfFilter, key: &[u8]) -> bool {
        let Some(engine) = self.engine.upgrade() else {
            return true;
        };
        let _span = tracing::debug_span!("audit", cf = cf_filter.name()).entered();
        let hash = cf_filter.hasher().hash(key);
        let before = cf_filter.view();
        cf_filter.lookups().count(Event::Audited);
        if engine.contains(cf_filter.key_space(), key) != Some(true) {
            return true;
        }
        let now = cf_filter.view();
        if may_refute(&before, &now) {
            match now.answer(hash, key).is_absent() {
                true => self.refute(cf_filter, hash),
                false => reached!(AuditedKeyCameLater),
            }
        }
        false
    }

    /// Whether a denial of a prefix stands: the engine found no key that starts with it.
    pub(crate) fn audit_prefix(&self, cf_filter: &CfFilter, probe: PrefixProbe<'_>) -> bool {
        let finds = |engine: &dyn Engine| {
            engine.contains_prefix(cf_filter.key_space(), probe.prefix) == Some(true)
        };
        self.audit_scan(cf_filter, finds, |view| {
            view.check_prefix(probe).map(|_| probe.hash)
        })
    }

    /// Whether a denial of a span stands: the engine found no key in it.
    pub(crate) fn audit_span(&self, cf_filter: &CfFilter, span: Span<'_>) -> bool {
        let lookups = cf_filter.lookups();
        let probe = lookups.ranges().and_then(|ranges| ranges.probe(span));
        let (Some(probe), Some((from, end))) = (probe, span.half_open()) else {
            return true;
        };
        let finds = |engine: &dyn Engine| {
            engine.contains_range(cf_filter.key_space(), from, &end) == Some(true)
        };
        let hasher = cf_filter.hasher();
        self.audit_scan(cf_filter, finds, |view| {
            view.check_range(hasher, probe).map(|_| hasher.hash(from))
        })
    }

    /// Whether the engine `finds` nothing, which a view `denies`, with the hash to report.
    fn audit_scan(
        &self,
        cf_filter: &CfFilter,
        finds: impl FnOnce(&dyn Engine) -> bool,
        denies: impl FnOnce(&View) -> Option<KeyHash>,
    ) -> bool {
        let Some(engine) = self.engine.upgrade() else {
            return true;
        };
        let _span = tracing::debug_span!("audit", cf = cf_filter.name()).entered();
        let before = cf_filter.view();
        cf_filter.lookups().count(Event::Audited);
        if !finds(&*engine) {
            return true;
        }
        let now = cf_filter.view();
        if may_refute(&before, &now)
            && let Some(hash) = denies(&now)
        {
            self.refute(cf_filter, hash);
        }
        false
    }

    fn refute(&self, cf_filter: &CfFilter, hash: KeyHash) {
        cf_filter.lookups().count(Event::FalseNegative);
        self.trust.revoke(FalseNegative {
            cf: cf_filter.name().to_owned(),
            key_hash: hash.get(),
            seed_id: cf_filter.hasher().imprint().seed_id,
            noted: false,
        });
    }
}

/// Whether a key that the engine has refutes a view: it was published before the engine was read, and
/// still is.
fn may_refute(before: &View, now: &View) -> bool {
    fault!(LaterViewRefuted, return true);
    reached!(ViewChangedInAudit, now.edition != before.edition);
    now.edition == before.edition
}

impl std::fmt::Debug for Auditor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auditor")
            .field("trust", &self.trust)
            .finish_non_exhaustive()
    }
}
