//! Compiles the C++ shim against the headers of the RocksDB that `librocksdb-sys` builds.

#[path = "src/hooks/shim/build.rs"]
mod shim;

fn main() {
    let folder = std::path::Path::new("src/hooks/shim");
    let sources = [
        "engine.cc",
        "errors.cc",
        "events.cc",
        "handle.cc",
        "memtables.cc",
        "options.cc",
        "segment_filters.cc",
        "tables.cc",
        "transactions.cc",
    ];
    let sources = sources.map(|source| folder.join(source));
    shim::compile("lsm_sieve_shim", &sources, &[folder.join("shim.h")]);
}
