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
    pub(crate) birth: Birth,
    pub(crate) points: Vec<P>,
}

/// The birth certificate of a measurement.
#[derive(Clone, Deserialize)]
pub(crate) struct Birth {
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) machine: String,
    pub(crate) command: String,
}
