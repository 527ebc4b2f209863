//! The quantities that must not be mixed up, each with its own type.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;

/// A false-positive rate, strictly between 0 and 1 by construction.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rate(f64);

/// The number given as a [`Rate`] is not strictly between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("a false-positive rate lies strictly between 0 and 1, for example 0.01; got {0}")]
pub struct RateError(pub f64);

impl Rate {
    /// One in a hundred: the default of a filter.
    pub const ONE_PERCENT: Rate = Rate(0.01);

    /// Takes a rate strictly between 0 and 1.
    ///
    /// # Errors
    /// [`RateError`] for anything else, NaN included.
    pub fn new(rate: f64) -> Result<Self, RateError> {
        if rate > 0.0 && rate < 1.0 {
            Ok(Self(rate))
        } else {
            Err(RateError(rate))
        }
    }

    /// The nearest valid rate, for results of formulas that may underflow.
    #[doc(hidden)]
    pub fn clamped(rate: f64) -> Self {
        Self(rate.clamp(f64::MIN_POSITIVE, 1.0 - f64::EPSILON))
    }

    /// The rate as a number in (0, 1).
    #[inline]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($inner);

        impl $name {
            /// Wraps the number.
            #[inline]
            pub const fn new(value: $inner) -> Self {
                Self(value)
            }

            /// The bare number.
            #[inline]
            pub const fn get(self) -> $inner {
                self.0
            }
        }

        /// Saturates.
        impl Add for $name {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
                values.fold(Self(0), Self::add)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

quantity! {
    /// A number of distinct keys.
    Items(u64)
}
quantity! {
    /// A number of bits.
    Bits(u64)
}
quantity! {
    /// The number of bits that one key sets.
    Probes(u32)
}

impl Bits {
    /// The bits of this many bytes, at most `u64::MAX`.
    ///
    /// ```
    /// let quarter = lsm_sieve_filter::math::Bits::from_bytes(256 << 20);
    /// assert_eq!(quarter.get(), 1 << 31);
    /// ```
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes.saturating_mul(8))
    }

    /// The bytes that hold this many bits.
    pub const fn to_bytes(self) -> u64 {
        self.0.div_ceil(8)
    }

    /// Bits per key for `items` keys; 0 if there are no keys.
    pub fn per_key(self, items: Items) -> f64 {
        if items.0 == 0 {
            0.0
        } else {
            self.0 as f64 / items.0 as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_outside_its_interval_is_refused() {
        for bad in [0.0, 1.0, -0.5, 2.0, f64::NAN, f64::INFINITY] {
            assert!(Rate::new(bad).is_err(), "{bad}");
        }
        assert_eq!(Rate::new(0.25).unwrap().get(), 0.25);
    }

    #[test]
    fn sum_of_bits_saturates() {
        let sum = |values: &[u64]| values.iter().map(|&value| Bits::new(value)).sum::<Bits>();
        assert_eq!(sum(&[]), Bits::new(0));
        assert_eq!(sum(&[1, 2, 3]), Bits::new(6));
        assert_eq!(sum(&[u64::MAX, 1]), Bits::new(u64::MAX));
    }
}
