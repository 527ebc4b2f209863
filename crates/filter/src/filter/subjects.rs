//! The filters that the laws are applied to.

use super::layout::{Layout, StoreLayout};
use super::{Kind, Shape};
use crate::math::Items;

/// The kinds of a stage that take keys one by one.
pub(super) const KINDS: [Kind; 1] = [Kind::Blocked];

/// The rate by which filters are sized.
pub(super) fn predicted(shape: Shape, items: Items) -> f64 {
    StoreLayout::try_from(shape).map_or(1.0, |layout| layout.rate(items))
}
