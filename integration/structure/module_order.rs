//! Checks the order of modules: within each crate, a module uses only what stands before it in the
//! map of `lib.rs`. Between crates the compiler checks it.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// The crates, each as the folder of its `lib.rs`.
const CRATES: [&str; 6] = [
    "src",
    "crates/support/src",
    "crates/filter/src",
    "crates/format/src",
    "crates/classics/src",
    "crates/cli/src",
];

fn roots() -> impl Iterator<Item = PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"));
    CRATES.into_iter().map(|name| workspace.join(name))
}

fn lib(root: &Path) -> String {
    fs::read_to_string(root.join("lib.rs")).expect("a crate has a lib.rs")
}

/// The modules in the order of the map in `lib.rs`, where each is named in backticks.
fn order(lib: &str) -> Vec<&str> {
    let (_, map) = lib.split_once("# Map").expect("lib.rs has a map");
    let (map, _) = map.split_once("\n\n").expect("the map has an end");
    let names = map.split('`').skip(1).step_by(2);
    names.map(|name| name.trim_start_matches("mod@")).collect()
}

/// The modules that `lib.rs` declares.
fn declared(lib: &str) -> impl Iterator<Item = &str> {
    lib.lines().filter_map(|line| {
        let name = line.trim_start_matches("pub ").strip_prefix("mod ")?;
        name.strip_suffix(';')
    })
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of sources can be listed");
    let paths = entries.map(|entry| entry.expect("its entries can be read").path());
    let (folders, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    let inner = folders.iter().flat_map(|folder| sources(folder));
    let is_source = |file: &PathBuf| file.extension().is_some_and(|end| end == "rs");
    files.into_iter().filter(is_source).chain(inner).collect()
}

/// The first part of a path below the root: `rocks/db.rs` belongs to `rocks`.
fn module_of(file: &Path, root: &Path) -> Option<String> {
    let first = file.strip_prefix(root).ok()?.iter().next()?;
    Some(Path::new(first).file_stem()?.to_string_lossy().into_owned())
}

/// The modules that a source names as `crate::<module>`.
fn used(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("crate::").map(|(at, name)| {
        let rest = &text[at + name.len()..];
        let end = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        &rest[..end]
    })
}

#[test]
fn every_module_uses_only_what_stands_before_it() {
    let checked: usize = roots().map(|root| checked(&root)).sum();
    assert!(
        checked > 50,
        "only {checked} uses were found: the search is broken"
    );
}

/// Checks one crate. Returns the number of uses that were checked.
fn checked(root: &Path) -> usize {
    let lib = lib(root);
    let order = order(&lib);
    let rank = |module: &str| order.iter().position(|known| *known == module);
    let mut checked = 0;
    for file in sources(root) {
        let Some(own) = module_of(&file, root).and_then(|module| rank(&module)) else {
            continue;
        };
        let text = fs::read_to_string(&file).unwrap();
        for other in used(&text).filter_map(|module| Some((module, rank(module)?))) {
            let (name, theirs) = other;
            assert!(theirs <= own, "{} uses crate::{name}", file.display());
            checked += 1;
        }
    }
    checked
}

#[test]
fn map_lists_every_module_except_tests() {
    for root in roots() {
        let lib = lib(&root);
        let mut declared: Vec<_> = declared(&lib)
            .filter(|module| *module != "interleavings")
            .collect();
        let mut order = order(&lib);
        declared.sort_unstable();
        order.sort_unstable();
        assert_eq!(order, declared, "{}", root.display());
    }
}
