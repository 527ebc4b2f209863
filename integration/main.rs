//! One test binary over the whole crate: each module is one subject.

mod arrows;
mod copy;
mod crash;
mod families;
mod foreign;
mod ingestion;
mod rate;
mod recovery;
mod twin;
mod writes;
