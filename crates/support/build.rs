//! Says whether faults can be injected in this build.

use std::env;

/// Set for faults that the tests shall find, see `src/fault.rs`.
const FAULTS: &str = "LSM_SIEVE_FAULTS";

fn main() {
    println!("cargo:rustc-check-cfg=cfg(faults)");
    println!("cargo:rerun-if-env-changed={FAULTS}");
    if env::var_os(FAULTS).is_some_and(|value| value == "1") {
        println!("cargo:warning=faults can be injected in this build; use it for nothing else");
        println!("cargo:rustc-cfg=faults");
    }
}
