//! One binary.

mod copy;
mod foreign;
mod recovery;
mod twin;
mod writes;
