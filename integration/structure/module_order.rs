//! Checks the order of modules: within each crate, and within the folders of the library, a module
//! uses only what stands before it in the map of its root. Between crates the compiler checks it.

use crate::support::module_order::{Root, checked, listed_and_declared, of_crate, used};

const ROOTS: [Root; 13] = [
    of_crate("src/lib.rs"),
    Root {
        file: "src/hooks/mod.rs",
        prefix: "crate::hooks::",
        of_tests: &["tests"],
    },
    of_crate("crates/support/src/lib.rs"),
    of_crate("crates/filter/src/lib.rs"),
    of_crate("crates/format/src/lib.rs"),
    of_crate("crates/cli/src/lib.rs"),
    of_crate("crates/front/src/lib.rs"),
    of_crate("stores/src/lib.rs"),
    Root {
        file: "crates/front/src/cf_filter/mod.rs",
        prefix: "crate::cf_filter::",
        of_tests: &[],
    },
    Root {
        file: "stores/src/lsm/mod.rs",
        prefix: "crate::lsm::",
        of_tests: &["tests"],
    },
    Root {
        file: "stores/src/kv/mod.rs",
        prefix: "crate::kv::",
        of_tests: &["tests"],
    },
    Root {
        file: "stores/src/feed/mod.rs",
        prefix: "crate::feed::",
        of_tests: &["interleavings", "tests"],
    },
    Root {
        file: "stores/src/laws/mod.rs",
        prefix: "crate::laws::",
        of_tests: &[],
    },
];

#[test]
fn names_are_found_alone_and_in_braces() {
    let text = "use crate::one::Two;\nuse crate::{three, four::{five, six}, seven};\nlet x = crate::eight;";
    let found: Vec<&str> = used(text, "crate::").collect();
    assert_eq!(found, ["one", "three", "four", "seven", "eight"]);
}

#[test]
fn every_module_uses_only_what_stands_before_it() {
    let checked = ROOTS.map(|root| checked(&root));
    let least = [10, 40, 1, 20, 5, 10, 50, 20];
    assert!(
        checked
            .iter()
            .zip(least)
            .all(|(checked, least)| *checked >= least),
        "the search is broken: {checked:?}"
    );
}

#[test]
fn map_lists_every_module_except_tests() {
    for root in ROOTS {
        let (listed, declared) = listed_and_declared(&root);
        assert_eq!(listed, declared, "{}", root.file);
    }
}
