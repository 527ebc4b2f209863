//! Compiles the C++ functions as the shim is compiled.

use std::path::Path;

#[path = "../../src/hooks/shim/build.rs"]
mod shim;

fn main() {
    let headers = [
        Path::new("../../src/hooks/shim/abi.h"),
        Path::new("../../src/hooks/shim/shim.h"),
        Path::new("../../src/hooks/shim/sieve.h"),
        Path::new("../../src/hooks/shim/transactions.h"),
        Path::new("../../src/hooks/shim/versions.h"),
        Path::new("include/lsm_sieve.h"),
        Path::new("include/lsm_sieve.hpp"),
    ];
    let headers = headers.map(Path::to_owned);
    let sources = ["src/open.cc", "src/transactions.cc"].map(|source| Path::new(source).to_owned());
    shim::compile("lsm_sieve_cpp", &sources, &headers, |_| ());
    // A test compiles a program of RocksDB's own.
    let sys = std::env::var("DEP_ROCKSDB_CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rustc-env=LSM_SIEVE_ROCKSDB={sys}/rocksdb");
}
