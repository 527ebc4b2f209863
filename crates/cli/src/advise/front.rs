//! Whether a front pays, from what was measured on a running database.
//!
//! ```text
//! without   f t_miss + (1 − f) t_hit
//! with      t_front + f p t_miss + (1 − f) t_hit        f share of misses, p rate of the front
//! saved     f (1 − p) t_miss − t_front                  nothing below f = t_front / ((1 − p) t_miss)
//! ```
//!
//! Hits gain nothing and pay for the front, so f decides, and t_hit does not matter to what is
//! saved. The times are means over look-ups; `lsm-sieve advise front` measures them on a database.
//!
//! What the front costs besides is its memory. Whether that is worth the time is the reader's to
//! say: the verdict names both.

use crate::math::{Bits, Rate};
use serde::Serialize;

/// What was counted and timed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Look-ups.
    pub reads: u64,
    /// Of these, for keys that are absent.
    pub misses: u64,
    /// Nanoseconds that the engine takes to find that a key is absent.
    pub miss_ns: f64,
    /// Nanoseconds that it takes to find one that is there.
    pub hit_ns: f64,
    /// Nanoseconds that the front takes.
    pub front_ns: f64,
    /// The rate of the front.
    pub rate: Rate,
    /// What the front takes in memory, where that is known.
    pub memory: Option<Bits>,
}

/// What the front would do to the mean look-up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Whether the mean look-up becomes cheaper.
    pub use_it: bool,
    /// Share of the look-ups that are misses.
    pub miss_share: f64,
    /// The share from which it pays; above 1 where it never does.
    pub break_even_share: f64,
    /// Nanoseconds of a mean look-up without the front.
    pub without_ns: f64,
    /// Nanoseconds of a mean look-up with it.
    pub with_ns: f64,
    /// Engine look-ups saved, of all.
    pub engine_reads_saved: f64,
    /// Bytes that the front takes.
    pub memory_bytes: Option<u64>,
    /// Why.
    pub reason: String,
}

impl Measured {
    /// Weighs the front against the engine alone. No read says nothing: then it does not pay.
    pub fn verdict(&self) -> Verdict {
        let misses = self.misses.min(self.reads) as f64;
        let share = if self.reads == 0 {
            0.0
        } else {
            misses / self.reads as f64
        };
        let stopped = 1.0 - self.rate.get();
        let hits = (1.0 - share) * self.hit_ns;
        let without = share * self.miss_ns + hits;
        let with = self.front_ns + share * self.rate.get() * self.miss_ns + hits;
        let break_even = self.front_ns / (stopped * self.miss_ns);
        Verdict {
            use_it: with < without,
            miss_share: share,
            break_even_share: break_even,
            without_ns: without,
            with_ns: with,
            engine_reads_saved: share * stopped,
            memory_bytes: self.memory.map(bytes),
            reason: reason(share, break_even) + &self.memory.map_or_else(String::new, price),
        }
    }
}

fn reason(share: f64, break_even: f64) -> String {
    let (share, from) = (share * 100.0, break_even * 100.0);
    if break_even >= 1.0 {
        "do not use it: the front takes as long as a miss in the engine".to_owned()
    } else if share <= from {
        format!("do not use it: {share:.2} % of the look-ups miss, it pays from {from:.2} % on")
    } else {
        format!("use it: {share:.2} % of the look-ups miss, it pays from {from:.2} % on")
    }
}

fn bytes(memory: Bits) -> u64 {
    memory.get().div_ceil(8)
}

fn price(memory: Bits) -> String {
    let mebibytes = bytes(memory) as f64 / f64::from(1 << 20);
    format!("; its filters take {mebibytes:.1} MiB of memory")
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
            miss_ns,
            hit_ns,
            front_ns,
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
    fn hits_alone_pay_for_nothing() {
        let verdict = measured(0).verdict();
        assert!(!verdict.use_it && verdict.reason.starts_with("do not use it"));
        assert_eq!(verdict.with_ns - verdict.without_ns, 50.0);
    }

    #[test]
    fn misses_alone_save_the_engine() {
        let verdict = measured(1_000).verdict();
        assert!(verdict.use_it && verdict.reason.starts_with("use it"));
        assert_eq!((verdict.without_ns, verdict.with_ns), (2_000.0, 70.0));
        assert_eq!(verdict.engine_reads_saved, 0.99);
    }

    /// 50 / (0.99 × 2,000) = 2.525 %: 25 misses in a thousand are too few, 26 suffice.
    #[test]
    fn it_pays_from_the_break_even_share_on() {
        assert!(!measured(25).verdict().use_it);
        assert!(measured(26).verdict().use_it);
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
    fn no_reads_say_nothing() {
        let none = Measured {
            reads: 0,
            ..measured(0)
        }
        .verdict();
        assert!(!none.use_it && none.miss_share == 0.0);
    }
}
