//! One binary.

mod twin;
mod writes;
