//! The public methods of the plugin, read from its sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Patterns of a signature that takes a family: by handle, by name, or in a batch.
const TAKES_A_CF: [&str; 6] = [
    "AsColumnFamilyRef",
    "rocksdb_column_family_handle_t",
    "WriteBatchWithTransaction<TRANSACTION>",
    "name: &str",
    "AsRef<str>",
    "Into<String>",
];

pub(crate) fn take_a_cf(name: &str, signature: &str) -> bool {
    // The name of a comparator.
    if name == "comparator_is_injective" {
        return false;
    }
    let takes_a_cf = TAKES_A_CF.iter().any(|takes| signature.contains(takes));
    takes_a_cf || name.ends_with("_cf") || name.contains("_cf_")
}

/// The methods whose name and signature match, as `Type::method`, or as `Trait::method` for a trait
/// of `rocksdb`.
pub(crate) fn methods_that(are_sought: fn(&str, &str) -> bool) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut methods = BTreeSet::new();
    for source in sources(&root) {
        let text = fs::read_to_string(source).expect("a source can be read");
        methods.extend(methods_in(&text, are_sought));
    }
    // Not for users: the tests of the differential store read by it.
    methods.retain(|method| !method.starts_with("CfReader::") && method != "SieveDb::cf");
    methods
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of sources can be listed");
    let paths = entries.map(|entry| entry.expect("its entries can be read").path());
    let (folders, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    let inner = folders.iter().flat_map(|folder| sources(folder));
    let is_source = |file: &PathBuf| file.extension().is_some_and(|end| end == "rs");
    files.into_iter().filter(is_source).chain(inner).collect()
}

/// The matching methods of one source file.
fn methods_in(text: &str, are_sought: fn(&str, &str) -> bool) -> Vec<String> {
    let (text, _) = text.split_once("\nmod tests {").unwrap_or((text, ""));
    let mut methods = Vec::new();
    let (mut owner, mut is_of_trait) = (String::new(), false);
    let mut lines = text.lines().map(str::trim_start);
    while let Some(line) = lines.next() {
        if line.starts_with("impl ") || line.starts_with("impl<") {
            (owner, is_of_trait) = owner_of(line);
        }
        let is_public = line.starts_with("pub fn ");
        let is_of_access = owner == "DBAccess" && is_of_trait && is_function(line);
        if !is_public && !is_of_access {
            continue;
        }
        let mut signature = line.to_owned();
        while !signature.contains('{') && !signature.ends_with(';') {
            signature += " ";
            signature += lines.next().expect("a function has a body");
        }
        let name = name_of(&signature);
        if are_sought(name, &signature) {
            methods.push(format!("{owner}::{name}"));
        }
    }
    methods
}

fn is_function(line: &str) -> bool {
    line.starts_with("fn ") || line.starts_with("unsafe fn ")
}

/// The type of an `impl` line, or its trait.
fn owner_of(line: &str) -> (String, bool) {
    let line = line.trim_start_matches("impl");
    let line = match line.strip_prefix('<') {
        Some(generic) => generic.split_once("> ").map_or(generic, |(_, rest)| rest),
        None => line.trim_start(),
    };
    let end = line
        .find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':')
        .unwrap_or(line.len());
    (line[..end].to_owned(), line.contains(" for "))
}

fn name_of(signature: &str) -> &str {
    let (_, name) = signature.split_once("fn ").expect("it is a function");
    let end = name.find(['(', '<']).expect("it takes arguments");
    &name[..end]
}

#[test]
fn methods_are_found_by_their_parameters() {
    let found = methods_in(
        "impl<'db> Store<'db> {
    pub fn get_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
    ) -> u8 {
    }
    pub fn get(&self) {
    }
    fn inner(&self, cf: &impl AsColumnFamilyRef) {
    }
    pub fn drop(&self, name: &str) {
    }
}
impl DBAccess for Store<'_> {
    unsafe fn iterate(cf: *mut raw::rocksdb_column_family_handle_t) {
    }
}
mod tests {
    pub fn of_tests(name: &str) {
    }
}",
        take_a_cf,
    );
    assert_eq!(found, ["Store::get_cf", "Store::drop", "DBAccess::iterate"]);
}
