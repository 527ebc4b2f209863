//! Two more stores behind a filter, each in one short file.

pub mod heed;
pub mod sled;
