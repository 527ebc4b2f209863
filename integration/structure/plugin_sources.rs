//! The C++ sources, which RocksDB's own build of the plugin names once more.

use std::fs;

#[test]
fn every_source_of_the_library_is_in_the_makefile_of_the_plugin() {
    let makefile = fs::read_to_string("plugin/lsm_sieve/lsm_sieve.mk").unwrap();
    let (_, sources) = makefile.split_once("lsm_sieve_SOURCES =").unwrap();
    let (sources, _) = sources.split_once("lsm_sieve_CXXFLAGS").unwrap();
    let named: Vec<&str> = sources.split([' ', '\n', ')']).collect();
    let mut checked = 0;
    for (folder, name) in [
        ("src/hooks/shim", (|stem| stem) as fn(String) -> String),
        ("crates/c/src", |stem| format!("c/{stem}.cc")),
    ] {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_source = path.extension().is_some_and(|end| end == "cc");
            // A program that the build of the library runs is no part of it.
            if is_source && !fs::read_to_string(&path).unwrap().contains("int main(") {
                let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
                assert!(named.contains(&&*name(stem)), "{}", path.display());
                checked += 1;
            }
        }
    }
    assert!(checked > 10, "{checked}");
}
