//! Segments: what one filter speaks for.

mod id;
mod identity;
mod plan;
mod sidecar;

pub use id::SegmentId;
pub use identity::{IDENTITY_FILE, IdentityError};
pub use plan::{
    Action, Budget, Cost, Decision, Facts, Fraction, Input, InputStage, Keys, OrRole, plan,
};
pub use sidecar::{MAX_SIDECAR_BYTES, SidecarError, SidecarFolder};
