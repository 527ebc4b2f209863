//! One binary.

mod copy;
mod families;
mod foreign;
mod ingestion;
mod rate;
mod recovery;
mod twin;
mod writes;
