//! Counters in k slices; each key has one counter in each slice. The filters of counters use them.
//!
//! ```text
//! | slice 0: m counters | slice 1: m counters | ...        m a multiple of 64
//! counter in slice i = ⌊ (hash × odd_i mod 2^64) × m / 2^64 ⌋
//! ```
//!
//! The positions are those of a partitioned stage. So a counter is above zero exactly if the bit of
//! a stage with the same keys is set.
//!
//! *Invariant.* A counter at its maximum is saturated: the true value may be higher, so it is
//! neither raised nor lowered again. The possible error is then *maybe* for a removed key, and
//! never *absent* for a present one.

use super::{Kind, Shape, ShapeError, Stage, StageError, probe};
use crate::bits::Packed;
use crate::fault::fault;
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Probes, Rate, fill, partitioned};
use std::collections::TryReserveError;

/// The width of one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CounterWidth {
    /// Up to 15: enough if each key is inserted once.
    Four = 4,
    /// Up to 255.
    Eight = 8,
    /// Up to 65,535.
    Sixteen = 16,
    /// Up to 4,294,967,295.
    ThirtyTwo = 32,
}

impl CounterWidth {
    /// The width with this number of bits, if it exists.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            4 => Some(Self::Four),
            8 => Some(Self::Eight),
            16 => Some(Self::Sixteen),
            32 => Some(Self::ThirtyTwo),
            _ => None,
        }
    }

    /// Bits per counter.
    pub const fn bits(self) -> u32 {
        self as u32
    }
}

/// The geometry: 1 to 64 slices of at least 64 counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Geometry {
    kind: Kind,
    slice: u64,
    probes: u32,
    width: CounterWidth,
}

/// Counters per slice are a multiple of this, so that slices are whole words: of the partitioned
/// stage, and so of the counters too.
const UNIT: u64 = 64;

impl Geometry {
    fn for_rate(kind: Kind, items: Items, rate: Rate, width: CounterWidth) -> Option<Self> {
        let (slice, probes) = partitioned::size(items, rate);
        let slice = slice.get().checked_next_multiple_of(UNIT)?;
        let all = slice.checked_mul(u64::from(probes.get()))?;
        all.checked_mul(u64::from(width.bits()))?;
        Some(Self {
            kind,
            slice,
            probes: probes.get(),
            width,
        })
    }

    fn counters(&self) -> u64 {
        self.slice * u64::from(self.probes)
    }

    fn shape(&self) -> Shape {
        Shape {
            kind: self.kind,
            bits: Bits::new(self.counters() * u64::from(self.width.bits())),
            probes: Probes::new(self.probes),
            groups: self.width.bits(),
        }
    }

    fn places(&self, hash: KeyHash) -> impl Iterator<Item = u64> + use<> {
        let starts =
            (0..self.counters()).step_by(usize::try_from(self.slice).unwrap_or(usize::MAX));
        starts
            .zip(probe::positions(hash, self.probes, self.slice))
            .map(|(start, place)| start + place)
    }
}

impl TryFrom<Shape> for Geometry {
    type Error = ShapeError;

    fn try_from(shape: Shape) -> Result<Self, ShapeError> {
        let probes = shape.bounded_probes()?;
        let width = CounterWidth::from_bits(shape.groups).ok_or(ShapeError::Groups {
            kind: shape.kind,
            probes: shape.probes,
            groups: shape.groups,
        })?;
        let slices = u64::from(probes) * u64::from(width.bits());
        let bits = shape.bits_in_units_of(UNIT * slices)?;
        Ok(Self {
            kind: shape.kind,
            slice: bits / slices,
            probes,
            width,
        })
    }
}

/// The counters of one filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counters {
    geometry: Geometry,
    values: Packed,
    /// Number of counters above zero.
    raised: u64,
    /// Number of counters at their maximum.
    stuck: u64,
}

impl Counters {
    /// Counters of zero, enough to keep `items` keys at or below `rate`.
    pub(super) fn for_rate(
        kind: Kind,
        items: Items,
        rate: Rate,
        width: CounterWidth,
    ) -> Result<Self, StageError> {
        let geometry = Geometry::for_rate(kind, items, rate, width);
        Self::filled(
            geometry.ok_or(StageError::OutOfReach { kind, items, rate })?,
            [],
        )
    }

    /// Counters of zero in this shape, which must be of `kind`.
    pub(super) fn new(kind: Kind, shape: Shape) -> Result<Self, StageError> {
        Self::filled(checked(kind, shape)?, [])
    }

    /// Restores counters from their words. Any values are accepted.
    pub(super) fn from_words(
        kind: Kind,
        shape: Shape,
        words: Vec<u64>,
    ) -> Result<Self, StageError> {
        let geometry = checked(kind, shape)?;
        let (expected, got) = (shape.bits.get() / u64::from(u64::BITS), words.len());
        if u64::try_from(got) != Ok(expected) {
            return Err(StageError::WordCount {
                bits: shape.bits,
                expected,
                got,
            });
        }
        Self::filled(geometry, words)
    }

    fn filled(
        geometry: Geometry,
        values: impl IntoIterator<Item = u64>,
    ) -> Result<Self, StageError> {
        let width = geometry.width.bits();
        let words = Packed::words_for(geometry.counters(), width);
        let words = usize::try_from(words).unwrap_or(usize::MAX);
        let no_memory = |source: TryReserveError| StageError::Memory {
            bits: geometry.shape().bits,
            source,
        };
        let values = Packed::from_values(words, width, values).map_err(no_memory)?;
        let count = |of: &dyn Fn(u64) -> bool| values.iter().filter(|&value| of(value)).count();
        let (raised, stuck) = (
            count(&|value| value > 0),
            count(&|value| value == values.max()),
        );
        Ok(Self {
            geometry,
            raised: raised as u64,
            stuck: stuck as u64,
            values,
        })
    }

    /// The counters of a key, one per slice.
    fn of(&self, hash: KeyHash) -> impl Iterator<Item = u64> {
        self.geometry
            .places(hash)
            .map(|place| self.values.get(place))
    }

    /// The minimum of a key's counters; usually 0 for a key that was never inserted.
    #[inline]
    pub(super) fn least(&self, hash: KeyHash) -> u64 {
        self.of(hash).min().unwrap_or(0)
    }

    /// How many of a key's counters have the minimum.
    pub(super) fn least_times(&self, hash: KeyHash) -> usize {
        let least = self.least(hash);
        self.of(hash).filter(|&value| value == least).count()
    }

    /// Raises all of a key's counters by `by`.
    pub(super) fn raise(&mut self, hash: KeyHash, by: u64) {
        for place in self.geometry.places(hash) {
            self.raise_to(place, self.values.get(place).saturating_add(by));
        }
    }

    /// Raises those of a key's counters that have the minimum by one.
    pub(super) fn raise_least(&mut self, hash: KeyHash) {
        let next = self.least(hash).saturating_add(1);
        for place in self.geometry.places(hash) {
            if self.values.get(place) < next {
                self.raise_to(place, next);
            }
        }
    }

    /// Lowers all of a key's counters by one, except those at zero and those that are saturated.
    pub(super) fn lower(&mut self, hash: KeyHash) {
        for place in self.geometry.places(hash) {
            let value = self.values.get(place);
            if value > 0 && !self.is_saturated(value) {
                self.raised -= u64::from(value == 1);
                self.values.set(place, value - 1);
            }
        }
    }

    fn is_saturated(&self, value: u64) -> bool {
        fault!(SaturatedCounterDecremented, return false);
        value == self.values.max()
    }

    /// Adds the counters of `other`, which has the same shape, place by place.
    pub(super) fn add(&mut self, other: &Self) {
        debug_assert_eq!(self.shape(), other.shape(), "shapes are compared before");
        for (place, value) in other.values.iter().enumerate() {
            let place = place as u64;
            self.raise_to(place, self.values.get(place).saturating_add(value));
        }
    }

    fn raise_to(&mut self, place: u64, value: u64) {
        let was = self.values.get(place);
        let value = value.min(self.values.max());
        self.raised += u64::from(was == 0 && value > 0);
        self.stuck += u64::from(was < value && value == self.values.max());
        self.values.set(place, value);
    }

    /// Number of counters at their maximum.
    pub(super) fn stuck(&self) -> u64 {
        self.stuck
    }

    /// Whether this value is the maximum, which means *this many or more*.
    pub(super) fn is_stuck(&self, value: u64) -> bool {
        value == self.values.max()
    }

    /// The share of counters above zero.
    fn fill(&self) -> f64 {
        self.raised as f64 / self.geometry.counters() as f64
    }

    /// The false-positive rate from the current fill. It is a little too high, since it assumes
    /// that all slices are equally full.
    pub(super) fn observed_rate(&self) -> f64 {
        fill::matching(self.fill(), Probes::new(self.geometry.probes))
    }

    /// The number of distinct keys, estimated from the fill.
    pub(super) fn estimated_items(&self) -> Items {
        let slice = Bits::new(self.geometry.slice);
        fill::items(partitioned::clear_chance(slice), self.fill())
    }

    /// The false-positive rate with `items` distinct keys.
    pub(super) fn rate(&self, items: Items) -> f64 {
        let slice = Bits::new(self.geometry.slice);
        partitioned::rate(slice, Probes::new(self.geometry.probes), items)
    }

    /// The probability that the minimum of one key's counters is too high, among `items` keys.
    pub(super) fn wrong_estimate(&self, items: Items) -> f64 {
        let Geometry { slice, probes, .. } = self.geometry;
        crate::math::counting::wrong_estimate(slice, Probes::new(probes), items)
    }

    /// The partitioned stage with a bit set for each counter above zero.
    pub(super) fn to_stage(&self, items: Items) -> Result<Stage, StageError> {
        let shape = Shape {
            kind: Kind::Partitioned,
            bits: Bits::new(self.geometry.counters()),
            probes: Probes::new(self.geometry.probes),
            groups: 0,
        };
        let mut values = self.values.iter();
        let word = |_| {
            let bits = values.by_ref().take(64).enumerate();
            bits.fold(0, |word, (bit, value)| word | u64::from(value > 0) << bit)
        };
        let words = usize::try_from(self.geometry.counters() / UNIT).unwrap_or(usize::MAX);
        Stage::from_words(shape, items, (0..words).map(word))
    }

    pub(super) fn width(&self) -> CounterWidth {
        self.geometry.width
    }

    pub(super) fn shape(&self) -> Shape {
        self.geometry.shape()
    }

    pub(super) fn words(&self) -> &[u64] {
        self.values.words()
    }
}

fn checked(kind: Kind, shape: Shape) -> Result<Geometry, ShapeError> {
    if shape.kind == kind {
        return shape.try_into();
    }
    let wanted = match kind {
        Kind::Counting => "counting filter",
        _ => "spectral filter of this rule",
    };
    Err(ShapeError::Kind {
        kind: shape.kind,
        wanted,
    })
}
