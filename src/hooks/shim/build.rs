//! Compiles C++ against the headers of the RocksDB that `librocksdb-sys` builds. Build scripts include
//! this file.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Set to inject a fault that tests must find; see `crates/support/src/fault.rs`.
const FAULTS: &str = "LSM_SIEVE_FAULTS";
/// Set by docs.rs, where nothing is linked; see `[package.metadata.docs.rs]`.
const DOCS_RS: &str = "DOCS_RS";
/// Set to compile the shim there all the same: headers suffice; see `.ci/bindings`.
const SHIM_ALONE: &str = "LSM_SIEVE_SHIM_ALONE";
/// Set if RocksDB's own build compiles these sources; see `plugin/lsm_sieve`.
const PLUGIN: &str = "LSM_SIEVE_PLUGIN";
/// Set to check the shim for undefined behaviour at run time; see `.ci/sanitize`.
const TRAP_UB: &str = "LSM_SIEVE_TRAP_UB";

/// Makes a static library of these sources, which include the headers. If it is to be linked with
/// RocksDB, `prove` has the compiler's settings before.
pub(crate) fn compile(
    library: &str,
    sources: &[PathBuf],
    headers: &[PathBuf],
    prove: impl FnOnce(&cc::Build),
) {
    for file in sources.iter().chain(headers) {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    println!("cargo:rerun-if-env-changed={TRAP_UB}");
    println!("cargo:rerun-if-env-changed={FAULTS}");
    println!("cargo:rerun-if-env-changed={DOCS_RS}");
    println!("cargo:rerun-if-env-changed={SHIM_ALONE}");
    println!("cargo:rerun-if-env-changed={PLUGIN}");
    let is_linked = env::var_os(DOCS_RS).is_none();
    if !is_linked && env::var_os(SHIM_ALONE).is_none() {
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
    let is_old = major_version(&rocksdb) < 11;
    // Its C interface lacks functions.
    if is_old {
        println!("cargo::rustc-cfg=rocksdb_10");
    }
    if env::var_os(PLUGIN).is_some() {
        return;
    }
    let mut build = settings(&sys, is_old);
    build
        .files(sources)
        .includes(headers.iter().filter_map(|header| header.parent()));
    if is_linked {
        prove(&build);
    }
    build.compile(library);
}

/// The compiler's settings for RocksDB's headers.
fn settings(sys: &Path, is_old: bool) -> cc::Build {
    let rocksdb = sys.join("rocksdb");
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .include(rocksdb.join("include"))
        .include(&rocksdb)
        .include(sys)
        .flag("-std=c++20")
        // Without it, derived classes need no type information from RocksDB.
        .flag("-fno-rtti")
        .flag("-include")
        .flag("cstdint")
        // This and the macros below change the layout of shared classes, so they must be the same as
        // for RocksDB.
        .define("NDEBUG", "1")
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
    let os = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    for name in shared_macros(is_old).iter().chain(macros_of(&os, is_old)) {
        build.define(name, None);
    }
    build
}

/// Of the headers in this folder.
fn major_version(rocksdb: &Path) -> u32 {
    let header = rocksdb.join("include/rocksdb/version.h");
    let text = fs::read_to_string(&header);
    let text = text.unwrap_or_else(|error| panic!("cannot read {}: {error}", header.display()));
    let version = text
        .lines()
        .find_map(|line| line.strip_prefix("#define ROCKSDB_MAJOR "));
    let version = version.and_then(|version| version.trim().parse().ok());
    version.unwrap_or_else(|| panic!("{} names no version", header.display()))
}

/// The macros that the build script of `librocksdb-sys` defines on all systems. That of RocksDB 10
/// does not know them.
fn shared_macros(is_old: bool) -> &'static [&'static str] {
    match is_old {
        true => &[],
        false => &["HAVE_ALIGNED_NEW", "HAVE_UINT128_EXTENSION"],
    }
}

/// Those that it defines for each system.
fn macros_of(os: &str, is_old: bool) -> &'static [&'static str] {
    match (os, is_old) {
        ("linux", false) => &[
            "OS_LINUX",
            "ROCKSDB_PLATFORM_POSIX",
            "ROCKSDB_LIB_IO_POSIX",
            "ROCKSDB_SCHED_GETCPU_PRESENT",
            "ROCKSDB_AUXV_GETAUXVAL_PRESENT",
            "ROCKSDB_FALLOCATE_PRESENT",
            "ROCKSDB_RANGESYNC_PRESENT",
        ],
        ("linux", true) => &[
            "OS_LINUX",
            "ROCKSDB_PLATFORM_POSIX",
            "ROCKSDB_LIB_IO_POSIX",
            "ROCKSDB_SCHED_GETCPU_PRESENT",
        ],
        ("macos", _) => &[
            "OS_MACOSX",
            "ROCKSDB_PLATFORM_POSIX",
            "ROCKSDB_LIB_IO_POSIX",
        ],
        (other, _) => panic!("lsm-sieve supports RocksDB on Linux and macOS, not on {other}"),
    }
}
