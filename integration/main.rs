//! One binary.

mod budget;
mod copy;
mod families;
mod foreign;
mod ingestion;
mod rate;
mod recovery;
mod settings;
mod twin;
mod writes;
