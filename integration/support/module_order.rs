//! The order of modules: a module uses only what stands before it in the map of its root. Tests at
//! the end of a file may use anything.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// A module with a map of its parts.
pub(crate) struct Root {
    /// The file with the map; the parts lie in its folder.
    pub(crate) file: &'static str,
    /// How its parts are named in the sources.
    pub(crate) prefix: &'static str,
    /// Parts for tests, which no map lists.
    pub(crate) of_tests: &'static [&'static str],
}

pub(crate) const fn of_crate(file: &'static str) -> Root {
    Root {
        file,
        prefix: "crate::",
        of_tests: &["interleavings", "tests"],
    }
}

impl Root {
    fn path(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(self.file)
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    fn folder(&self) -> PathBuf {
        self.path().parent().unwrap().to_owned()
    }
}

/// The modules in the order of the map: each is in backticks, in a chain or in the first column of
/// a table.
fn order(text: &str) -> Vec<&str> {
    let (_, map) = text.split_once("# Map").expect("there is a map");
    let (map, _) = map.split_once("\n\n").expect("the map has an end");
    let table: Vec<&str> = map.lines().filter(|line| line.contains("| `")).collect();
    if table.is_empty() {
        let names = map.split('`').skip(1).step_by(2);
        return names.map(|name| name.trim_start_matches("mod@")).collect();
    }
    let first = table.iter().map(|row| row.split('|').nth(1).unwrap());
    let names = first.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.collect()
}

/// The modules that a root declares.
fn declared(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line.trim_start_matches("pub ");
        let name = line
            .trim_start_matches("pub(crate) ")
            .strip_prefix("mod ")?;
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

/// The part of a root that a file belongs to: `db/open.rs` belongs to `db`.
fn part_of(file: &Path, folder: &Path) -> Option<String> {
    let first = file.strip_prefix(folder).ok()?.iter().next()?;
    Some(Path::new(first).file_stem()?.to_string_lossy().into_owned())
}

fn without_tests(text: &str) -> &str {
    text.split_once("\nmod tests {")
        .map_or(text, |(text, _)| text)
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The names that follow a prefix, alone or in braces: of `a::{b::c, d}` those are `b` and `d`.
pub(crate) fn used<'t>(text: &'t str, prefix: &'t str) -> impl Iterator<Item = &'t str> {
    text.match_indices(prefix)
        .flat_map(move |(at, _)| names_at(&text[at + prefix.len()..]))
}

fn names_at(rest: &str) -> Vec<&str> {
    let name = |text: &'_ str| text.find(|c| !is_of_name(c)).unwrap_or(text.len());
    if !rest.starts_with('{') {
        return vec![&rest[..name(rest)]];
    }
    let (mut depth, mut names) = (0, Vec::new());
    for (at, c) in rest.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && (c == '{' || c == ',') {
            let next = rest[at + 1..].trim_start();
            names.push(&next[..name(next)]);
        }
    }
    names
}

/// Checks one root. Returns the number of uses that were checked.
pub(crate) fn checked(root: &Root) -> usize {
    let map = root.text();
    let order = order(&map);
    let rank = |module: &str| order.iter().position(|known| *known == module);
    let mut checked = 0;
    for file in sources(&root.folder()) {
        let own = part_of(&file, &root.folder());
        let Some(own) = own.and_then(|module| rank(&module)) else {
            continue;
        };
        let text = fs::read_to_string(&file).unwrap();
        for name in used(without_tests(&text), root.prefix) {
            let Some(theirs) = rank(name) else { continue };
            assert!(
                theirs <= own,
                "{} uses {}{name}",
                file.display(),
                root.prefix
            );
            checked += 1;
        }
    }
    checked
}

/// The modules that the map of a root lists, and those that it declares; without those for tests.
pub(crate) fn listed_and_declared(root: &Root) -> (Vec<String>, Vec<String>) {
    let text = root.text();
    let is_listed = |module: &&str| !root.of_tests.contains(module);
    let mut declared: Vec<_> = declared(&text).filter(is_listed).collect();
    let mut order = order(&text);
    order.retain(is_listed);
    declared.sort_unstable();
    order.sort_unstable();
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    (owned(order), owned(declared))
}
