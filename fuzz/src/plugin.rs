//! The targets that need no crate of `lab`, and what all of them use.

#[path = "damage.rs"]
pub mod damage;
#[path = "mend.rs"]
mod mend;
#[path = "meter.rs"]
pub mod meter;
#[path = "sidecar.rs"]
pub mod sidecar;
#[path = "snapshot.rs"]
pub mod snapshot;
#[path = "store.rs"]
pub mod store;
#[path = "trace.rs"]
pub mod trace;

/// A target: its name, and the function that runs an input.
pub type Target = (&'static str, fn(&[u8]));

/// All of these.
pub const TARGETS: [Target; 4] = [
    ("damage", damage::run),
    ("sidecar", sidecar::run),
    ("snapshot", snapshot::run),
    ("trace", trace::run),
];
