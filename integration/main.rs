//! One binary.

#[cfg(feature = "rocksdb")]
mod crash;
