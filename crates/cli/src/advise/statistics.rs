//! Reads the lookups, misses and writes of a database from RocksDB's statistics.
//!
//! With statistics enabled, RocksDB dumps its counters into the file LOG every
//! `stats_dump_period_sec` (ten minutes by default). The options return the same text on request:
//!
//! ```text
//! rocksdb.memtable.hit COUNT : 12        found in a memtable
//! rocksdb.l0.hit COUNT : 7               found in level 0; l1 and l2andup likewise
//! rocksdb.number.keys.read COUNT : 90    single lookups
//! rocksdb.number.multiget.keys.read COUNT : 0
//!
//! misses = all lookups - all hits
//!
//! rocksdb.number.keys.written COUNT : 50
//!
//! rocksdb.number.db.seek COUNT : 40      seeks of iterators
//! rocksdb.number.db.seek.found COUNT : 30
//! ```
//!
//! Counters run since the database was opened. A tombstone in a memtable counts as a hit there, so
//! the number of misses is, if anything, too low.

use serde::Serialize;

/// Counts of lookups, misses and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// All lookups.
    pub reads: u64,
    /// Lookups that found nothing.
    pub misses: u64,
    /// Written keys.
    pub writes: u64,
}

/// The text before a dump in the file LOG.
const DUMP: &str = "STATISTICS:";

impl Counts {
    /// Reads the last complete dump of a LOG, or the text that the options return.
    ///
    /// `None` if there is no dump: the database was opened without statistics, or only recently.
    pub fn from_statistics(text: &str) -> Option<Self> {
        text.rsplit(DUMP).find_map(Self::from_dump)
    }

    fn from_dump(dump: &str) -> Option<Self> {
        let counter = |name: &str| count(dump, name);
        let single = counter("rocksdb.number.keys.read")?;
        let many = counter("rocksdb.number.multiget.keys.read")?;
        let mut hits = counter("rocksdb.memtable.hit")?;
        for level in ["l0", "l1", "l2andup"] {
            hits = hits.saturating_add(counter(&format!("rocksdb.{level}.hit"))?);
        }
        let reads = single.saturating_add(many);
        Some(Self {
            reads,
            misses: reads.saturating_sub(hits),
            writes: counter("rocksdb.number.keys.written")?,
        })
    }
}

/// Counts of iterators' seeks, and of those that found nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Seeks {
    /// All seeks.
    pub seeks: u64,
    /// Seeks after which the iterator was not valid: nothing was within its bounds or prefix.
    pub empty: u64,
}

impl Seeks {
    /// Reads the last complete dump, as [`Counts::from_statistics`] does.
    pub fn from_statistics(text: &str) -> Option<Self> {
        text.rsplit(DUMP).find_map(|dump| {
            let seeks = count(dump, "rocksdb.number.db.seek")?;
            let found = count(dump, "rocksdb.number.db.seek.found")?;
            let empty = seeks.saturating_sub(found);
            Some(Self { seeks, empty })
        })
    }
}

/// Reads the number of the line `NAME COUNT : NUMBER`. A line without a line feed was not written
/// completely, and is ignored.
fn count(dump: &str, name: &str) -> Option<u64> {
    let lines = dump
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    let mut values =
        lines.filter_map(|line| line.trim().strip_prefix(name)?.strip_prefix(" COUNT : "));
    values.next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump(hits: [u64; 4], single: u64, many: u64) -> String {
        let [memtable, l0, l1, rest] = hits;
        format!(
            "rocksdb.block.cache.miss COUNT : 3\nrocksdb.memtable.hit COUNT : {memtable}\n\
             rocksdb.memtable.miss COUNT : 9\nrocksdb.l0.hit COUNT : {l0}\n\
             rocksdb.l1.hit COUNT : {l1}\nrocksdb.l2andup.hit COUNT : {rest}\n\
             rocksdb.number.keys.read COUNT : {single}\n\
             rocksdb.number.multiget.keys.read COUNT : {many}\n\
             rocksdb.number.keys.written COUNT : 7\n\
             rocksdb.db.get.micros P50 : 1.0 P95 : 2.0 P99 : 3.0 P100 : 4.0 COUNT : 5 SUM : 6\n"
        )
    }

    #[test]
    fn misses_are_reads_found_in_no_level() {
        let found = Counts::from_statistics(&dump([5, 10, 15, 20], 90, 10));
        let (reads, misses) = (100, 50);
        assert_eq!(
            found,
            Some(Counts {
                reads,
                misses,
                writes: 7
            })
        );
    }

    #[test]
    fn last_complete_dump_of_a_log_is_used() {
        let (early, late) = (dump([1, 0, 0, 0], 2, 0), dump([1, 2, 3, 4], 20, 0));
        let torn = &late[..late.len() / 2];
        let log =
            format!("opened\n STATISTICS:\n {early} and STATISTICS:\n {late} STATISTICS:\n {torn}");
        let (reads, misses) = (20, 10);
        assert_eq!(
            Counts::from_statistics(&log),
            Some(Counts {
                reads,
                misses,
                writes: 7
            })
        );
    }

    #[test]
    fn empty_seeks_are_those_that_found_nothing() {
        let text = "rocksdb.number.db.seek COUNT : 40\nrocksdb.number.db.seek.found COUNT : 30\n";
        let seeks = Seeks {
            seeks: 40,
            empty: 10,
        };
        assert_eq!(Seeks::from_statistics(text), Some(seeks));
        assert_eq!(Seeks::from_statistics(&text[..40]), None);
    }

    #[test]
    fn text_without_statistics_gives_no_counts() {
        for text in ["", "STATISTICS:", "rocksdb.number.keys.read COUNT : 7\n"] {
            assert_eq!(Counts::from_statistics(text), None, "{text}");
        }
    }
}
