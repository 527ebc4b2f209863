//! Segments: what one filter speaks for, from its first key to its removal.

mod build;
mod identity;
mod name;
mod plan;
mod registry;
mod sealed;
mod sidecar;

pub use crate::id::SegmentId;
pub use build::SegmentBuilder;
pub use identity::{Candidate, IDENTITY_FILE, IdentityError};
pub use name::SidecarName;
pub use plan::{
    Action, Budget, Cost, Decision, Facts, Fraction, Input, InputStage, Keys, OrRole, plan,
};
pub use registry::Registry;
pub use sealed::{SealedFilter, Segment};
pub use sidecar::{MAX_SIDECAR_BYTES, SidecarError, SidecarFolder};
