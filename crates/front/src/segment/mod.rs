//! Segments and their filters, from the first key to the removal.

mod build;
mod registry;
mod sealed;

pub use build::SegmentBuilder;
pub use lsm_sieve_format::segment::{
    Candidate, IDENTITY_FILE, IdentityError, SegmentId, SidecarError, SidecarFolder, SidecarName,
};
pub use registry::Registry;
pub use sealed::{SealedFilter, Segment, segment_probes};
