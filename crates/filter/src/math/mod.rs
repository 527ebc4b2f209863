//! The mathematics of the filters: pure, in `f64`, one function per formula.
//!
//! | symbol | type | meaning |
//! |---|---|---|
//! | p | [`Rate`] | probability that an absent key is answered *maybe* |
//! | n | [`Items`] | distinct keys inserted |
//! | m | [`Bits`] | bits of a filter (or of one slice, if a formula says so) |
//! | k | [`Probes`] | bits a key sets |
//! | s, r | | growth of a stage over the one before it, and tightening of its rate |
//!
//! No filter calls `ln`, `exp` or `powf`. The Zipf law keeps its formulas in its own file.
//!
//! Sources, by the names used at the formulas:
//! - Bloom, *Space/time trade-offs in hash coding with allowable errors*, CACM 13(7), 1970;
//! - Severance, Lohman, *Differential files: their application to the maintenance of large
//!   databases*, TODS 1(3), 1976;
//! - Aghili, Severance, *A practical guide to the design of differential files for recovery of
//!   on-line databases*, TODS 7(4), 1982;
//! - Mullin, *A second look at Bloom filters*, CACM 26(8), 1983, on the experiment of Gremillion,
//!   *Designing a Bloom filter for differential file access*, CACM 25(9), 1982;
//! - Fan, Cao, Almeida, Broder, *Summary Cache*, ToN 8(3), 2000;
//! - Cohen, Matias, *Spectral Bloom Filters*, SIGMOD 2003;
//! - Almeida, Baquero, Preguiça, Hutchison, *Scalable Bloom Filters*, IPL 101(6), 2007;
//! - Putze, Sanders, Singler, *Cache-, hash- and space-efficient Bloom filters*, JEA 14, 2009;
//! - Pagh, Segev, Wieder, *How to approximate a set without knowing its size*, FOCS 2013;
//! - Grandi, *On the analysis of Bloom filters*, IPL 129, 2018;
//! - Dillinger, Hübschle-Schneider, Sanders, Walzer, *Fast Succinct Retrieval and Approximate
//!   Membership Using Ribbon*, SEA 2022.

pub mod blocked;
pub mod fill;
pub mod growth;
pub mod ribbon;
mod units;

use std::ops::RangeInclusive;

pub use units::{Bits, Items, Probes, Rate, RateError};

/// The most bits a key may set: a rate of 2^-64 needs no more, and untrusted bytes get no more.
pub const MAX_PROBES: u32 = 64;

/// `x` rounded up to a whole number; out of range (or NaN) becomes the nearest bound (or 0).
#[doc(hidden)]
pub fn whole(x: f64) -> u64 {
    x.ceil() as u64
}

/// The number of slices, or probes, that bring half-full bits below `rate`: ⌈log2 1/p⌉, at least 1.
#[doc(hidden)]
pub fn halvings(rate: Rate) -> u32 {
    let exact = whole(-rate.get().log2()).clamp(1, u64::from(MAX_PROBES));
    u32::try_from(exact).unwrap_or(MAX_PROBES)
}

/// The smallest number in the range that fits, by bisection. If a number fits, all larger ones must
/// fit too.
#[doc(hidden)]
pub fn smallest_fitting(range: RangeInclusive<u64>, fits: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut least, mut enough) = range.into_inner();
    if !fits(enough) {
        return None;
    }
    while least < enough {
        let middle = least + (enough - least) / 2;
        if fits(middle) {
            enough = middle;
        } else {
            least = middle + 1;
        }
    }
    Some(enough)
}

#[cfg(any(test, feature = "laws"))]
#[doc(hidden)]
pub fn assert_close(got: f64, want: f64, relative: f64) {
    let error = (got - want).abs() / want.abs();
    assert!(error <= relative, "got {got}, want {want}: off by {error}");
}
