//! The filters.

mod shape;

pub use shape::{Kind, Shape};
