//! What the example prints.

use std::env;
use std::process::Command;

#[test]
fn own_lsm_example_covers_its_segments() {
    // Cargo has built it, beside the folder of this program.
    let folder = env::current_exe()
        .unwrap()
        .ancestors()
        .nth(2)
        .unwrap()
        .to_owned();
    let output = Command::new(folder.join("examples/own_lsm"))
        .output()
        .unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("an absent key:"), "{text}");
    assert!(text.contains("uncovered: Some(0)"), "{text}");
}
