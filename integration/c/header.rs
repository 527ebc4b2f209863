//! The header that is checked in is the one that cbindgen makes of the sources.

use std::fs;
use std::path::Path;

/// Set to write the header instead of comparing it.
const WRITE: &str = "LSM_SIEVE_WRITE_HEADER";

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a header is no file of a database"
)]
fn the_header_is_that_of_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let sources = cbindgen::Builder::new().with_src(root.join("src/lib.rs"));
    let mut made = Vec::new();
    let bindings = sources.with_config(config).generate().unwrap();
    bindings.write(&mut made);
    let header = root.join("include/lsm_sieve.h");
    if std::env::var_os(WRITE).is_some() {
        fs::write(&header, &made).unwrap();
    }
    assert!(
        fs::read(header).unwrap() == made,
        "the header is older than the sources; {WRITE}=1 writes it anew"
    );
}
