//! Reports on a database: of every filter in full, and checked against all keys.

mod inspect;
mod verify;

pub use self::inspect::{CfReport, FilterReport, Inspection, SegmentReport};
pub use self::verify::{LostKey, VerifyReport};
