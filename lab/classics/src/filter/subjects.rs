//! The filters that the laws of stages are applied to.

use super::layout::AnyLayout;
use super::{Kind, Shape};
use crate::math::{Items, grandi};
use lsm_sieve_filter::filter::layout::Layout;

/// The kinds of a stage that take keys one by one.
pub(crate) const KINDS: [Kind; 4] = [
    Kind::Standard,
    Kind::Partitioned,
    Kind::Blocked,
    Kind::Classic,
];

/// The exact rate if it is affordable, otherwise the rate by which filters are sized.
pub(crate) fn predicted(shape: Shape, items: Items) -> f64 {
    let (bits, probes) = (shape.bits, shape.probes);
    match shape.kind {
        Kind::Standard if items.get() <= 1_000 => grandi::standard(bits, probes, items),
        Kind::Classic if items.get() <= 1_000 => grandi::classic(bits, probes, items),
        _ => AnyLayout::try_from(shape).unwrap().rate(items),
    }
}
