//! Compiles the C++ shim against the headers of the RocksDB that `librocksdb-sys` builds.

#[path = "src/hooks/shim/build.rs"]
mod shim;

#[path = "src/hooks/shim/prebuilt.rs"]
mod prebuilt;

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
    let headers = ["shim.h", "versions.h"].map(|header| folder.join(header));
    if let Some(flags) = shim::compile("lsm_sieve_shim", &sources, &headers)
        && let Some(library) = prebuilt::Library::named()
    {
        library.prove(folder, &flags);
    }
}
