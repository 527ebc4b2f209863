//! Compiles C++ against the headers of the RocksDB that `librocksdb-sys` builds. Build scripts include
//! this file.

use std::env;
use std::path::{Path, PathBuf};

/// Set to inject a fault that tests must find; see `crates/support/src/fault.rs`.
const FAULTS: &str = "LSM_SIEVE_FAULTS";
/// Set by docs.rs, where nothing is linked; see `[package.metadata.docs.rs]`.
const DOCS_RS: &str = "DOCS_RS";
/// Set to compile the shim there all the same: headers suffice; see `.ci/bindings`.
const SHIM_ALONE: &str = "LSM_SIEVE_SHIM_ALONE";
/// Set where RocksDB's own build compiles these sources; see `plugin/lsm_sieve`.
const PLUGIN: &str = "LSM_SIEVE_PLUGIN";
/// Set to check the shim for undefined behaviour at run time; see `.ci/sanitize`.
const TRAP_UB: &str = "LSM_SIEVE_TRAP_UB";

/// Makes a static library of these sources, which include the headers.
pub(crate) fn compile(library: &str, sources: &[PathBuf], headers: &[PathBuf]) {
    for file in sources.iter().chain(headers) {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    println!("cargo:rerun-if-env-changed={TRAP_UB}");
    println!("cargo:rerun-if-env-changed={FAULTS}");
    println!("cargo:rerun-if-env-changed={DOCS_RS}");
    println!("cargo:rerun-if-env-changed={SHIM_ALONE}");
    println!("cargo:rerun-if-env-changed={PLUGIN}");
    if env::var_os(PLUGIN).is_some() {
        return;
    }
    if env::var_os(DOCS_RS).is_none() {
        refuse_foreign_library();
    } else if env::var_os(SHIM_ALONE).is_none() {
        return;
    }
    let sys = env::var_os("DEP_ROCKSDB_CARGO_MANIFEST_DIR").map(PathBuf::from);
    let Some(sys) = sys else {
        panic!(
            "librocksdb-sys exports no header path; lsm-sieve needs exactly the version that its \
             Cargo.toml names, built from its bundled sources"
        );
    };
    let rocksdb = sys.join("rocksdb");
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .files(sources)
        .includes(headers.iter().filter_map(|header| header.parent()))
        .include(rocksdb.join("include"))
        .include(&rocksdb)
        .include(&sys)
        .flag("-std=c++20")
        // Without it, derived classes need no type information from RocksDB.
        .flag("-fno-rtti")
        .flag("-include")
        .flag("cstdint")
        // These change the layout of shared classes, so they must be the same as for RocksDB.
        .define("NDEBUG", "1")
        .define("HAVE_ALIGNED_NEW", None)
        .define("HAVE_UINT128_EXTENSION", None)
        .flag_if_supported("-Wno-unused-parameter");
    if env::var_os(TRAP_UB).is_some() {
        // Traps on undefined behaviour; needs no run-time library and no type information.
        build
            .flag("-fsanitize=undefined")
            .flag("-fno-sanitize=vptr")
            .flag("-fsanitize-undefined-trap-on-error");
    }
    if env::var_os(FAULTS).is_some_and(|value| value == "1") {
        build.define(FAULTS, None);
    }
    for name in platform_defines(&env::var("CARGO_CFG_TARGET_OS").unwrap_or_default()) {
        build.define(name, None);
    }
    build.compile(library);
}

/// With `ROCKSDB_LIB_DIR`, `librocksdb-sys` links another library instead of its own sources. The
/// shim is compiled against the private headers of these sources, so it cannot be used then.
fn refuse_foreign_library() {
    const LIBRARY: &str = "ROCKSDB_LIB_DIR";
    const COMPILE: &str = "ROCKSDB_COMPILE";
    println!("cargo:rerun-if-env-changed={LIBRARY}");
    println!("cargo:rerun-if-env-changed={COMPILE}");
    let compiled =
        env::var(COMPILE).is_ok_and(|value| value == "1" || value.eq_ignore_ascii_case("true"));
    if let Some(library) = env::var_os(LIBRARY)
        && !compiled
    {
        panic!(
            "{LIBRARY} is {}: lsm-sieve reaches into RocksDB's private classes and needs the one \
             that librocksdb-sys builds; unset it, or set {COMPILE}=1",
            Path::new(&library).display()
        );
    }
}

/// The macros that the build script of `librocksdb-sys` defines for each system.
fn platform_defines(os: &str) -> &'static [&'static str] {
    match os {
        "linux" => &[
            "OS_LINUX",
            "ROCKSDB_PLATFORM_POSIX",
            "ROCKSDB_LIB_IO_POSIX",
            "ROCKSDB_SCHED_GETCPU_PRESENT",
            "ROCKSDB_AUXV_GETAUXVAL_PRESENT",
            "ROCKSDB_FALLOCATE_PRESENT",
            "ROCKSDB_RANGESYNC_PRESENT",
        ],
        "macos" => &[
            "OS_MACOSX",
            "ROCKSDB_PLATFORM_POSIX",
            "ROCKSDB_LIB_IO_POSIX",
        ],
        other => panic!("lsm-sieve supports RocksDB on Linux and macOS, not on {other}"),
    }
}
