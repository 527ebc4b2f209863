//! The properties that hold for any input, one subject a file. Each `run` panics if one does not
//! hold.
//!
//! | target | input | property |
//! |---|---|---|
//! | [`sidecar`] | a file | refused, or read as the one file of that filter; never a panic |
//! | [`damage`] | a filter, and damage to its file | the damage is detected |
//! | [`snapshot`] | a summary, and faults of its folder | no key is lost, on any way back |
//! | [`history`] | steps in the life of a filter | no member is denied |
//! | [`state`] | the differential store's own records | refused, or the one encoding |
//! | [`trace`] | a trace, packed or not | every id or an error, never fewer ids |
//! | [`advice`] | known properties of a filter | no panic, and no promise that is not kept |
//!
//! Two users: the fuzzer, which searches for inputs (`make fuzz`), and the test suite of the crate.
//! The test suite includes this file and runs the inputs that were worth keeping, on a stable
//! compiler: `seeds/`, written by `cargo run --bin seeds`, and `regressions/`, one for each bug.

pub mod advice;
pub mod damage;
pub mod history;
mod mend;
mod meter;
pub mod sidecar;
pub mod snapshot;
pub mod state;
mod store;
pub mod trace;

pub use store::spread;

/// A target: its name, and the function that runs an input.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 7] = [
    ("advice", advice::run),
    ("damage", damage::run),
    ("history", history::run),
    ("sidecar", sidecar::run),
    ("snapshot", snapshot::run),
    ("state", state::run),
    ("trace", trace::run),
];
