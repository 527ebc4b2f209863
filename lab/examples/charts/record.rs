//! Recorded figures: where, when and how each was measured.

use serde::Deserialize;

/// Measurements of one kind.
#[derive(Deserialize)]
pub(crate) struct Measurements<P> {
    pub(crate) about: String,
    pub(crate) measurements: Vec<Measurement<P>>,
}

/// The output of one command.
#[derive(Deserialize)]
pub(crate) struct Recorded<R> {
    pub(crate) about: String,
    #[serde(flatten)]
    origin: Origin,
    pub(crate) result: R,
}

impl<R> Recorded<R> {
    pub(crate) fn origins(&self) -> Vec<(String, Origin)> {
        vec![("all".to_owned(), self.origin.clone())]
    }
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
