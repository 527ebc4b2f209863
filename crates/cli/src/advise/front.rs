//! Says whether filters in front of an engine pay, from measurements of a running database.
//!
//! ```text
//! without   f t_miss + (1 − f) t_hit
//! with      t_front + w t_write + f p t_miss + (1 − f) t_hit
//! saved     f (1 − p) t_miss − t_front − w t_write
//!
//! f  share of misses among the lookups        w  writes for each lookup
//! p  false-positive rate of the filters       0 is saved at f = (t_front + w t_write) / ((1 − p) t_miss)
//! ```
//!
//! Hits and writes gain nothing and pay for the filters, so f and w decide; t_hit does not change
//! what is saved. The times are means; `lsm-sieve advise front` measures them on a database.
//!
//! The filters also cost memory. Whether the saved time is worth it is for the reader to decide:
//! the verdict reports both.

use crate::math::{Bits, Rate};
use serde::Serialize;

/// Counts and times of a database.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Lookups.
    pub reads: u64,
    /// Of these, misses.
    pub misses: u64,
    /// Written keys.
    pub writes: u64,
    /// Latency of a miss in the engine, in nanoseconds.
    pub miss_ns: f64,
    /// Latency of a hit in the engine, in nanoseconds.
    pub hit_ns: f64,
    /// Latency of the filters, in nanoseconds.
    pub front_ns: f64,
    /// What the filters add to the latency of a write, in nanoseconds.
    pub write_ns: f64,
    /// The false-positive rate of the filters.
    pub rate: Rate,
    /// Memory of the filters, if known.
    pub memory: Option<Bits>,
}

/// What the filters would do to the mean lookup.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Whether the mean lookup becomes cheaper.
    pub use_it: bool,
    /// Share of misses among the lookups.
    pub miss_share: f64,
    /// Share of misses from which the filters pay; above 1 if they never do.
    pub break_even_share: f64,
    /// Mean latency of a lookup without the filters, in nanoseconds.
    pub without_ns: f64,
    /// Mean latency of a lookup with the filters, and what they add to the writes, spread over the
    /// lookups, in nanoseconds.
    pub with_ns: f64,
    /// Of these, what they add to the writes.
    pub writes_ns: f64,
    /// Share of all lookups that no longer reach the engine.
    pub engine_reads_saved: f64,
    /// Memory of the filters, in bytes.
    pub memory_bytes: Option<u64>,
    /// The reason.
    pub reason: String,
}

impl Verdict {
    /// The verdict for a reader: the reason, and the mean times.
    pub fn lines(&self) -> [String; 2] {
        let mut times = format!(
            "mean lookup: {:.0} ns without the filters, {:.0} ns with them",
            self.without_ns, self.with_ns
        );
        if self.writes_ns > 0.0 {
            times += &format!(", of which writes take {:.0} ns", self.writes_ns);
        }
        [self.reason.clone(), times]
    }
}

impl Measured {
    /// Compares the filters and the engine with the engine alone. Without any read, the filters do
    /// not pay.
    pub fn verdict(&self) -> Verdict {
        let of_reads = |count: u64| match self.reads {
            0 => 0.0,
            reads => count as f64 / reads as f64,
        };
        let share = of_reads(self.misses.min(self.reads));
        let writes = of_reads(self.writes) * self.write_ns;
        let stopped = 1.0 - self.rate.get();
        let hits = (1.0 - share) * self.hit_ns;
        let without = share * self.miss_ns + hits;
        let paid = self.front_ns + writes;
        let with = paid + share * self.rate.get() * self.miss_ns + hits;
        let break_even = paid / (stopped * self.miss_ns);
        Verdict {
            use_it: with < without,
            miss_share: share,
            break_even_share: break_even,
            without_ns: without,
            with_ns: with,
            writes_ns: writes,
            engine_reads_saved: share * stopped,
            memory_bytes: self.memory.map(bytes),
            reason: reason(share, break_even) + &self.memory.map_or_else(String::new, price),
        }
    }
}

fn reason(share: f64, break_even: f64) -> String {
    let (share, from) = (share * 100.0, break_even * 100.0);
    if break_even >= 1.0 {
        "do not use it: lookups and writes pay more for the filters than a miss in the engine takes"
            .to_owned()
    } else if share <= from {
        format!("do not use it: {share:.2} % of the lookups miss, it pays from {from:.2} % on")
    } else {
        format!("use it: {share:.2} % of the lookups miss, it pays from {from:.2} % on")
    }
}

fn bytes(memory: Bits) -> u64 {
    memory.get().div_ceil(8)
}

fn price(memory: Bits) -> String {
    let mebibytes = bytes(memory) as f64 / f64::from(1 << 20);
    format!("; the filters take {mebibytes:.1} MiB of memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(misses: u64) -> Measured {
        let (miss_ns, hit_ns, front_ns) = (2_000.0, 4_000.0, 50.0);
        let rate = Rate::ONE_PERCENT;
        Measured {
            reads: 1_000,
            misses,
            writes: 0,
            miss_ns,
            hit_ns,
            front_ns,
            write_ns: 40.0,
            rate,
            memory: None,
        }
    }

    #[test]
    fn the_verdict_names_the_memory() {
        let priced = Measured {
            memory: Some(Bits::new(24 << 20)),
            ..measured(1_000)
        };
        let (free, priced) = (measured(1_000).verdict(), priced.verdict());
        assert_eq!(
            (free.memory_bytes, priced.memory_bytes),
            (None, Some(3 << 20))
        );
        assert!(priced.reason.starts_with(&free.reason));
        assert!(priced.reason.contains("3.0 MiB"), "{}", priced.reason);
    }

    #[test]
    fn front_does_not_pay_without_misses() {
        let verdict = measured(0).verdict();
        assert!(!verdict.use_it && verdict.reason.starts_with("do not use it"));
        assert_eq!(verdict.with_ns - verdict.without_ns, 50.0);
    }

    #[test]
    fn front_pays_if_every_lookup_misses() {
        let verdict = measured(1_000).verdict();
        assert!(verdict.use_it && verdict.reason.starts_with("use it"));
        assert_eq!((verdict.without_ns, verdict.with_ns), (2_000.0, 70.0));
        assert_eq!(verdict.engine_reads_saved, 0.99);
    }

    /// 50 / (0.99 × 2,000) = 2.525 %: 25 misses in a thousand are too few, 26 suffice.
    #[test]
    fn front_pays_above_the_break_even_share() {
        assert!(!measured(25).verdict().use_it);
        assert!(measured(26).verdict().use_it);
    }

    /// (50 + 2 × 40) / (0.99 × 2,000) = 6.57 %.
    #[test]
    fn writes_add_cost_and_no_gain() {
        let with_writes = |misses| Measured {
            writes: 2_000,
            ..measured(misses)
        };
        assert!(!with_writes(65).verdict().use_it);
        let verdict = with_writes(66).verdict();
        assert!(verdict.use_it && verdict.writes_ns == 80.0);
        let alone = Measured {
            writes: 1_000_000,
            ..measured(1_000)
        };
        assert!(alone.verdict().reason.starts_with("do not use it"));
    }

    #[test]
    fn a_front_as_slow_as_the_engine_never_pays() {
        let slow = Measured {
            front_ns: 2_000.0,
            ..measured(1_000)
        }
        .verdict();
        assert!(!slow.use_it && slow.break_even_share > 1.0);
        assert!(slow.reason.starts_with("do not use it"));
    }

    #[test]
    fn front_does_not_pay_without_reads() {
        let none = Measured {
            reads: 0,
            ..measured(0)
        }
        .verdict();
        assert!(!none.use_it && none.miss_share == 0.0);
    }
}
