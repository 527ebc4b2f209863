//! The bumped ribbon filter (Dillinger, Hübschle-Schneider, Sanders, Walzer, *Fast Succinct
//! Retrieval and Approximate Membership Using Ribbon*, SEA 2022): r bits of each key's fingerprint,
//! in hardly more than r bits per key.
//!
//! ```text
//! slots    n + n / 512 + 2 √n + 32           and a byte for each 128 of them
//! rate     2^−r for whole r, linear in between; r is a multiple of 1/16 bit
//! ```
//!
//! A key's equation has coefficients in 64 consecutive slots. The first layer has fewer slots than
//! there are keys, so that hardly a slot stays empty. Keys that do not fit are bumped to the next
//! layer, which is a thirty-second of the size, and so on. The slots beyond n are for the last
//! layer, from which no key may be bumped, and for shards that have more keys than others.

use super::{Items, Rate, whole};

/// The most bits of a slot.
pub const MAX_SLOT_BITS: u32 = 32;

/// The fractions of a bit in which slots are measured.
pub const PARTS: u32 = 16;

/// The slots that share a threshold, which takes a byte.
pub const BUCKET_SLOTS: u64 = 128;

/// The bits of thresholds per slot.
const THRESHOLD_BITS: f64 = 8.0 / BUCKET_SLOTS as f64;

/// Slots per key for very many keys.
const MANY: f64 = 1.0 + 1.0 / 512.0;

/// The most that the square root and the rounding to words add.
const ROUNDED: f64 = 1.002;

/// The smallest slot, in [`PARTS`] of a bit, that keeps `rate`; at least one bit. `None` if no slot
/// does.
pub fn slot_parts(rate: Rate) -> Option<u32> {
    let most = MAX_SLOT_BITS * PARTS;
    // Within one bit, parts are linear in the rate, not in its logarithm.
    let whole_bits = (-rate.get().log2())
        .floor()
        .clamp(1.0, MAX_SLOT_BITS.into()) as u32;
    let fits = |parts: &u32| self::rate(*parts) <= rate.get();
    (whole_bits * PARTS..=most)
        .take(PARTS as usize + 1)
        .find(fits)
}

/// The false-positive rate of slots of this many [`PARTS`] of a bit, for any number of keys.
pub fn rate(slot_parts: u32) -> f64 {
    let wider = f64::from(slot_parts % PARTS) / f64::from(PARTS);
    (-f64::from(slot_parts / PARTS)).exp2() * (1.0 - wider / 2.0)
}

/// An upper estimate of the keys in all `parts` equal parts of the hashes, given the number in the
/// first. Hardly ever too small for any shard of a filter.
///
/// The number of keys in a part has a Poisson distribution. Five standard deviations above the
/// observed f is f + 12.5 + 5 √(f + 6.25), which is the m with m − 5 √m = f. The keys of a shard of
/// 2^21 slots deviate by their square root, and a 512th of them is three times that; [`slots`] adds
/// as much again.
pub fn keys_of_parts(first: Items, parts: u64) -> Items {
    let first = first.get() as f64;
    let most = first + 12.5 + 5.0 * (first + 6.25).sqrt();
    Items::new(whole(most * parts as f64 * (1.0 + 1.0 / 512.0)))
}

/// The number of slots that this many keys need.
pub fn slots(items: Items) -> u64 {
    let n = items.get() as f64;
    whole(n * MANY + 2.0 * n.sqrt()).saturating_add(BUCKET_SLOTS / 4)
}

/// The lowest rate whose filter takes at most `bits_a_key`, for many keys. Below 1.1 bits, the rate
/// of one bit per slot.
pub fn rate_of(bits_a_key: f64) -> Rate {
    let bits = bits_a_key / (MANY * ROUNDED) - THRESHOLD_BITS;
    let parts = (bits * f64::from(PARTS)).floor();
    let parts = parts.clamp(PARTS.into(), (MAX_SLOT_BITS * PARTS).into()) as u32;
    // Slightly larger, so that rounding never requires another part.
    Rate::clamped(rate(parts) * (1.0 + 1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::assert_close;

    #[test]
    fn a_slot_has_the_fewest_parts_that_keep_the_rate() {
        // 2^-6.64 is between 2^-6 and 2^-7; a rate half-way between these two takes half a bit
        // more.
        for (wanted, parts) in [
            (1.0, 16),
            (0.5, 16),
            (0.375, 24),
            (0.25, 32),
            (0.01, 6 * 16 + 12),
            (0.004, 7 * 16 + 16),
            (2.0_f64.powi(-32), 512),
        ] {
            assert_eq!(slot_parts(Rate::clamped(wanted)), Some(parts), "{wanted}");
        }
        assert_eq!(slot_parts(Rate::new(2.2e-10).unwrap()), None);
        for wanted in (1..200).map(|i| 0.9_f64.powi(i)) {
            let parts = slot_parts(Rate::new(wanted).unwrap()).unwrap();
            assert!(rate(parts) <= wanted, "{wanted}");
            assert!(parts == PARTS || rate(parts - 1) > wanted, "{wanted}");
        }
    }

    #[test]
    fn slots_per_key_fall_with_the_number_of_keys() {
        let slots_a_key = |n: u64| slots(Items::new(n)) as f64 / n as f64;
        assert_close(slots_a_key(1_000), 1.097, 1e-3);
        assert_close(slots_a_key(100_000), 1.008_6, 1e-3);
        assert_close(slots_a_key(100_000_000), 1.002_2, 1e-3);
        assert_eq!(slots(Items::new(0)), 32);
    }

    #[test]
    fn keys_of_parts_exceed_first_part_times_parts() {
        let more = |first: u64, parts| {
            let all = keys_of_parts(Items::new(first), parts);
            all.get() as f64 / (first * parts) as f64
        };
        assert_close(more(100, 7), 1.643, 1e-3);
        assert_close(more(1 << 26, 2), 1.002_6, 1e-4);
        assert_eq!(keys_of_parts(Items::new(0), 512), Items::new(25 * 513));
        // It solves m − 5 √m = f.
        let m = more(400, 512) * 400.0 * 512.0 / 513.0;
        assert_close(m - 5.0 * m.sqrt(), 400.0, 1e-2);
    }

    #[test]
    fn rate_of_bits_per_key_needs_those_bits() {
        for bits in [2.0, 6.9, 8.0, 12.0, 20.0] {
            let parts = slot_parts(rate_of(bits)).unwrap();
            let needed = |parts: u32| {
                let slot_bits = f64::from(parts) / f64::from(PARTS) + THRESHOLD_BITS;
                slots(Items::new(4_000_000)) as f64 * slot_bits / 4e6
            };
            assert!(
                needed(parts) <= bits && needed(parts + 1) > bits * 0.998,
                "{bits}"
            );
        }
        assert_eq!(slot_parts(rate_of(0.1)), Some(PARTS));
    }
}
