//! The name of a sidecar's file.
//!
//! ```text
//!   <segment, 32 hex digits>.sieve         summary-<key space, 8 hex digits>.sieve
//! ```
//!
//! Names are built from validated numbers only; no string read from a file is ever used as a path.

use std::fmt;

use crate::format::{HeaderSubject, Subject};
use crate::segment::SegmentId;

const SUFFIX: &str = ".sieve";
const SUMMARY_PREFIX: &str = "summary-";

/// The name that a sidecar is stored under. It only serves to find the file: what the filter covers
/// is read from the file itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SidecarName {
    /// The filter of a segment.
    Segment(SegmentId),
    /// The summary filter of a key space.
    Summary(u32),
}

impl SidecarName {
    /// Parses exactly what [`fmt::Display`] writes.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let stem = name.strip_suffix(SUFFIX)?;
        let parsed = match stem.strip_prefix(SUMMARY_PREFIX) {
            Some(digits) => Self::Summary(u32::from_str_radix(digits, 16).ok()?),
            None => Self::Segment(SegmentId::from_hex(stem)?),
        };
        (parsed.to_string() == name).then_some(parsed)
    }

    /// Parses the name at the start of a temporary file's name.
    pub(crate) fn parse_start(name: &str) -> Option<Self> {
        let end = name.find(SUFFIX)?.checked_add(SUFFIX.len())?;
        Self::parse(name.get(..end)?)
    }
}

impl From<&HeaderSubject> for SidecarName {
    fn from(subject: &HeaderSubject) -> Self {
        match subject {
            HeaderSubject::Segment(id) => Self::Segment(*id),
            HeaderSubject::Summary { key_space, .. } => Self::Summary(*key_space),
        }
    }
}

impl From<&Subject> for SidecarName {
    fn from(subject: &Subject) -> Self {
        Self::from(&HeaderSubject::from(subject))
    }
}

impl fmt::Display for SidecarName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segment(id) => write!(f, "{id}{SUFFIX}"),
            Self::Summary(key_space) => write!(f, "{SUMMARY_PREFIX}{key_space:08x}{SUFFIX}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sidecar_name_is_parsed_in_its_written_form_only() {
        for name in [
            SidecarName::Segment(SegmentId::from_bytes([0xa1; 16])),
            SidecarName::Summary(0xab),
        ] {
            assert_eq!(SidecarName::parse(&name.to_string()), Some(name));
        }
        for other in [
            "summary-000000AB.sieve",
            "summary-+00000ab.sieve",
            "summary-ab.sieve",
            "../etc.sieve",
            "a1.sieve",
            ".sieve",
        ] {
            assert_eq!(SidecarName::parse(other), None, "{other}");
        }
    }
}
