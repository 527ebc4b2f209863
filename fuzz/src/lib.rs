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
//! Two users: the fuzzer, which searches for inputs (`make fuzz`), and the test suites.
//! The test suites include this file, or `plugin` alone, and run the inputs that were worth keeping, on a stable
//! compiler: `seeds/`, written by `cargo run --bin seeds`, and `regressions/`, one for each bug.

pub mod advice;
pub mod history;
pub mod plugin;
pub mod state;

pub use plugin::store::spread;
pub use plugin::{Target, damage, sidecar, snapshot, trace};
use plugin::{meter, store};

/// Those over crates of `lab`.
pub const LAB: [Target; 3] = [
    ("advice", advice::run),
    ("history", history::run),
    ("state", state::run),
];
