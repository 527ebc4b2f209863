//! Checks the order of modules, as in the plugin.

use crate::support::module_order::{Root, checked, listed_and_declared, of_crate};

const ROOTS: [Root; 2] = [of_crate("src/lib.rs"), of_crate("classics/src/lib.rs")];

#[test]
fn every_module_uses_only_what_stands_before_it() {
    let checked = ROOTS.map(|root| checked(&root));
    assert!(
        checked[0] >= 2 && checked[1] >= 20,
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
