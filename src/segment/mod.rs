//! Segments: what one filter speaks for.

mod id;
mod identity;
mod sidecar;

pub use id::SegmentId;
pub use identity::{IDENTITY_FILE, IdentityError};
pub use sidecar::{MAX_SIDECAR_BYTES, SidecarError, SidecarFolder};
