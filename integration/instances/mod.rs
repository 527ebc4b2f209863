//! Instances that may not change the database: read-only ones, and secondaries.

mod read_only;
mod secondary;
