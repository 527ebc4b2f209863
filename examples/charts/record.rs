//! Recorded figures: where, when and how each was measured.

use serde::Deserialize;

/// Measurements of one kind.
#[derive(Deserialize)]
pub(crate) struct Measurements<P> {
    pub(crate) about: String,
    pub(crate) measurements: Vec<Measurement<P>>,
}

#[derive(Deserialize)]
pub(crate) struct Measurement<P> {
    pub(crate) series: String,
    #[serde(flatten)]
    pub(crate) origin: Origin,
    pub(crate) points: Vec<P>,
}

/// Where a measurement comes from.
#[derive(Clone, Deserialize)]
pub(crate) struct Origin {
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) machine: String,
    pub(crate) command: String,
}
