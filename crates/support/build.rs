//! Says whether faults can be planted in this build.

use std::env;

/// Set for faults that the tests shall find, see `src/planted.rs`.
const PLANTED: &str = "LSM_SIEVE_PLANTED";

fn main() {
    println!("cargo:rustc-check-cfg=cfg(planted)");
    println!("cargo:rerun-if-env-changed={PLANTED}");
    if env::var_os(PLANTED).is_some_and(|value| value == "1") {
        println!("cargo:warning=faults can be planted in this build; use it for nothing else");
        println!("cargo:rustc-cfg=planted");
    }
}
