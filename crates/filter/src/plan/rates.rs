//! The planner's predictions: one function per formula; symbols as in `math`.
//!
//! They choose between plans and are shown to users. No answer depends on them.

use super::{Fraction, Input};
use crate::filter::Shape;
use crate::math::{Bits, Items, Rate};

/// The false-positive rate of filters that pass a key if any one of them says *maybe*: 1 - prod(1 -
/// p_i) (Almeida et al., "Scalable Bloom Filters", 2007, section 3).
pub(super) fn any_of(rates: impl Iterator<Item = Fraction>) -> Fraction {
    Fraction::rounded(1.0 - rates.map(|rate| 1.0 - rate.get()).product::<f64>())
}

/// The false-positive rate of filters of one shape, ORed.
///
/// A filter whose bits are set with probability f has p = f^k (Bloom 1970), so f = p^(1/k). A bit
/// of the OR is zero if it is zero in all filters, with probability prod(1 - f_i) for disjoint
/// keys. The probability of zero falls exponentially with the keys, (1 - 1/m)^(kn), so the part of
/// the keys that all share counts once: prod(1 - f_i)^(1 - overlap) * min(1 - f_i)^overlap. For
/// blocked filters f is that of an even fill with the same rate, which makes the result a little
/// too low if the lines are unevenly filled.
pub(super) fn ored_rate(rates: &[Fraction], shape: Shape, overlap: Fraction) -> Fraction {
    let k = f64::from(shape.probes.get().max(1));
    let zeros = rates.iter().map(|rate| 1.0 - rate.get().powf(k.recip()));
    let disjoint: f64 = zeros.clone().product();
    let fullest = zeros.fold(1.0, f64::min);
    let zero = disjoint.powf(1.0 - overlap.get()) * fullest.powf(overlap.get());
    Fraction::rounded((1.0 - zero).powf(k))
}

/// The number of keys in the union if each input shares the part `overlap` with the others; never
/// fewer than the largest input has.
pub(super) fn union_items(inputs: &[Input], overlap: Fraction) -> Items {
    let items = || inputs.iter().map(|input| input.items);
    let sum = items().sum::<Items>().get() as f64;
    let largest = items().max().unwrap_or_default().get() as f64;
    let union = sum * (1.0 - overlap.get()) + largest * overlap.get();
    // The cast saturates.
    Items::new(union.round() as u64)
}

/// The bits of a filter with the best k: n ln(1/p) / (ln 2)^2 (Bloom 1970; Broder and Mitzenmacher
/// 2004).
pub(super) fn standard_bits(items: Items, rate: Rate) -> Bits {
    let per_key = -rate.get().ln() / std::f64::consts::LN_2.powi(2);
    // The cast saturates.
    Bits::new((items.get() as f64 * per_key).ceil() as u64)
}
