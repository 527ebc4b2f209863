//! Segments and their filters, from the first key to the removal.

mod build;
mod registry;
mod sealed;

pub use build::SegmentBuilder;
pub use lsm_sieve_filter::plan::{
    Action, Budget, Cost, Decision, Facts, Fraction, Input, InputStage, Keys, OrRole, plan,
};
pub use lsm_sieve_format::segment::{
    Candidate, IDENTITY_FILE, IdentityError, MAX_SIDECAR_BYTES, SegmentId, SidecarError,
    SidecarFolder, SidecarName,
};
pub use registry::Registry;
pub use sealed::{SealedFilter, Segment};
