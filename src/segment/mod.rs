//! Segments: what one filter speaks for.

mod id;

pub use id::SegmentId;
