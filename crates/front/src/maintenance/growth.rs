//! How fast a summary filter grows, and the log of keys from which it is rebuilt at a larger size.

use std::time::{Duration, Instant};

use super::{Maintenance, PATIENCE, TaskError};
use crate::cf_filter::CfFilter;
use crate::engine::LiveSegment;
use crate::fault::fault;
use crate::filter::Scalable;
use crate::math::Items;
use crate::options::Access;
use crate::reach::reached;

/// A column family that takes so long to grow by a quarter hardly grows: its summary filter is made
/// as small as that of one at rest. At this pace that is done every ten minutes at most.
const HARDLY_GROWS: Duration = Duration::from_secs(600);

/// How fast a summary filter takes new keys, measured over at least [`PATIENCE`].
pub(super) struct Pace {
    since: Instant,
    keys: Items,
    is_slow: bool,
}

impl Pace {
    pub(super) fn is_slow(&self) -> bool {
        self.is_slow
    }

    fn from_now(summary: &Scalable) -> Self {
        Self {
            since: Instant::now(),
            keys: summary.items(),
            is_slow: false,
        }
    }

    fn measure(&mut self, summary: &Scalable) {
        let (elapsed, keys) = (self.since.elapsed(), summary.items());
        if elapsed >= PATIENCE {
            // Fewer than before: it was rebuilt.
            let new = keys.get().saturating_sub(self.keys.get()) as f64;
            let per_second = new / elapsed.as_secs_f64();
            let is_slow = per_second * HARDLY_GROWS.as_secs_f64() <= (keys.get() / 4) as f64;
            *self = Self {
                is_slow,
                ..Self::from_now(summary)
            };
        }
    }
}

impl Maintenance {
    /// Begins logs of keys if nothing was written yet: before the first writes come.
    pub(crate) fn log_keys_of_new_database(&self) {
        if self.engine.latest_sequence_number() > 0 {
            return;
        }
        for cf_filter in self.cf_filters.all() {
            if let Err(error) = self.log_keys_from_the_start(&cf_filter, &[]) {
                tracing::debug!(%error, "no log of keys from the start");
            }
        }
    }

    /// Begins a log of keys if the column family is empty. `tables` are its SSTs.
    pub(super) fn log_keys_from_the_start(
        &self,
        cf_filter: &CfFilter,
        tables: &[LiveSegment],
    ) -> Result<(), TaskError> {
        if !tables.is_empty() || cf_filter.key_log().is_whole() || !self.begin_log(cf_filter) {
            return Ok(());
        }
        // Invariant 4: a memtable may have been written to an SST before the log began, and the SST
        // may be installed later. So it is asked for first (H48).
        let in_memtables = self.engine.entries_in_memtables(cf_filter.key_space());
        let is_memtable_open = cf_filter.intake().is_held() || !matches!(in_memtables, Ok(0));
        let tables = self.list(cf_filter)?;
        // External writes that begin from here on end the log.
        let may_lack_keys = || {
            fault!(KeyLogBegunLate, return false);
            is_memtable_open || !tables.is_empty() || !cf_filter.coverage().is_current(&tables)
        };
        match may_lack_keys() {
            true => {
                reached!(LogBegunLate);
                cf_filter.key_log().end();
            }
            false => cf_filter.key_log().complete(),
        }
        Ok(())
    }

    /// Begins a log in the folder of filters; returns whether it has begun.
    pub(super) fn begin_log(&self, cf_filter: &CfFilter) -> bool {
        let is_wanted = self.options.access == Access::Write
            && !self.options.read_only_filters
            // A rebuild from the log would see no keys for a range filter.
            && cf_filter.lookups().ranges().is_none()
            && cf_filter.intake().segments().rate().is_some();
        is_wanted && cf_filter.key_log().begin(self.filter_store.folder().path())
    }

    /// Measures how fast the column families grow.
    pub(super) fn measure_paces(&mut self) {
        let mut before = std::mem::take(&mut self.paces);
        for cf_filter in self.cf_filters.all() {
            let summary = cf_filter.view().summary;
            let known = before.remove(cf_filter.name());
            let mut pace = known.unwrap_or_else(|| Pace::from_now(&summary));
            pace.measure(&summary);
            self.paces.insert(cf_filter.name().to_owned(), pace);
        }
    }
}

#[cfg(test)]
#[cfg(not(interleave))]
mod tests {
    use super::{Instant, PATIENCE, Pace, Scalable};

    use crate::filter::ScalableOptions;
    use crate::filter::naive::{hashes, imprint};
    use crate::math::Items;

    use std::time::Duration;

    /// At rest, a summary filter is rebuilt for each quarter of growth, so a quarter must take
    /// long.
    #[test]
    fn column_family_hardly_grows_if_a_quarter_more_takes_ten_minutes() {
        let summary = Scalable::new(imprint(1), ScalableOptions::default());
        hashes(1)
            .take(12_000)
            .for_each(|key| _ = summary.insert(key));
        let keys = summary.items().get();
        let measured = |ago: Duration, before: u64| {
            let mut pace = Pace {
                since: Instant::now().checked_sub(ago).unwrap(),
                keys: Items::new(before),
                is_slow: false,
            };
            pace.measure(&summary);
            pace.is_slow
        };
        let second = Duration::from_secs(1);
        assert!(measured(second, keys));
        // A quarter of 12,000 in 600 seconds are 5 a second.
        assert!(measured(second, keys - 4) && !measured(second, keys - 6));
        assert!(measured(10 * second, keys - 45) && !measured(10 * second, keys - 55));
        assert!(measured(second, keys + 1_000), "it was rebuilt");
        assert!(!measured(PATIENCE / 2, keys), "too short to tell");
        // The next measurement begins with this one.
        let mut pace = Pace {
            since: Instant::now().checked_sub(1_000 * second).unwrap(),
            keys: Items::new(0),
            is_slow: false,
        };
        pace.measure(&summary);
        assert!(pace.since.elapsed() < 100 * second && pace.keys == summary.items());
    }
}
