//! Segments and their filters, from the first key to the removal.

mod build;
mod registry;
mod sealed;

pub(crate) use build::SegmentBuilder;
pub(crate) use lsm_sieve_format::segment::{
    Candidate, IDENTITY_FILE, IdentityError, SegmentId, SidecarError, SidecarFolder, SidecarName,
};
pub(crate) use registry::Registry;
pub(crate) use sealed::{SealedFilter, Segment, segment_probes};
