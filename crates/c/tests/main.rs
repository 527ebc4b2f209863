//! The library as its users have it: the header, and the programs of `examples/`, built and run.

mod header;
