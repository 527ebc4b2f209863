//! The sidecars of a database: their names, their folder, and the identity of the database.

mod identity;
mod name;
mod sidecar;

pub use crate::id::SegmentId;
pub use identity::{Candidate, IDENTITY_FILE, IdentityError};
pub use name::SidecarName;
pub use sidecar::{MAX_SIDECAR_BYTES, SidecarError, SidecarFolder};
