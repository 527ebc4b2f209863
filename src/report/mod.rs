//! Reports on a database: from memory alone, in full, and checked against all keys.

mod health;
mod inspect;
#[cfg(feature = "metrics")]
mod metrics;
mod verify;

pub use self::health::Health;
pub use self::inspect::{CfReport, FilterReport, Inspection, SegmentReport};
pub use self::verify::{LostKey, VerifyReport};
