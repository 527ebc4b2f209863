//! Compiles the C++ shim against the headers of the RocksDB that `librocksdb-sys` builds, and writes
//! the Rust declarations of what crosses between the two.

#[path = "src/hooks/shim/build.rs"]
mod shim;

#[path = "src/hooks/shim/generate.rs"]
mod generate;

#[path = "src/hooks/shim/prebuilt.rs"]
mod prebuilt;

fn main() {
    let folder = std::path::Path::new("src/hooks/shim");
    let sources = [
        "database.cc",
        "engine.cc",
        "errors.cc",
        "events.cc",
        "find_handle.cc",
        "iterator.cc",
        "memtables.cc",
        "options.cc",
        "segment_filters.cc",
        "tables.cc",
        "transactions.cc",
    ];
    let sources = sources.map(|source| folder.join(source));
    let headers = ["abi.h", "shim.h", "sieve.h", "transactions.h", "versions.h"]
        .map(|header| folder.join(header));
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    generate::write(
        &headers[0],
        &sources,
        &std::path::Path::new(&out).join("abi.rs"),
    );
    shim::compile("lsm_sieve_shim", &sources, &headers, |flags| {
        if let Some(library) = prebuilt::Library::named() {
            library.prove(folder, flags);
        }
    });
}
