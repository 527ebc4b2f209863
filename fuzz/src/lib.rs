//! What must hold of the crate for any input, one matter a file; each `run` panics where it does
//! not.
//!
//! | target | input | must hold |
//! |---|---|---|
//! | [`sidecar`] | a file | refused, or read as the one file of that filter; never a panic |
//! | [`damage`] | a filter, and what befalls its file | the damage is noticed |
//! | [`snapshot`] | a summary, and what befalls its folder | no key is lost, on any way back |
//! | [`history`] | steps in the life of a filter | no member is denied |
//! | [`state`] | the differential store's own records | refused, or the one encoding |
//! | [`trace`] | a trace, packed or not | every id or an error, never fewer ids |
//! | [`advice`] | what is known of a filter | no panic, and no promise that is not kept |
//!
//! Two users: the fuzzer, which looks for inputs (`make fuzz`), and the test suite of the crate,
//! which includes this file and runs the inputs that were found worth keeping, on a stable
//! compiler: `seeds/`, made by `cargo run --bin seeds`, and `regressions/`, one for each bug.

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

/// A target: its name, and what it does with an input.
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
