//! What the headers promise, checked by programs in their languages.

use std::path::Path;
use std::process::Command;

use crate::installation::{Link, built, output};
use crate::support::requirements::skip;

fn all_held(program: &Path, folder: &Path) {
    let data = folder.join("data");
    std::fs::create_dir(&data).unwrap();
    assert_eq!(output(Command::new(program).arg(data)), "all held\n");
}

const C: [&str; 4] = ["-std=c11", "-Wall", "-Wextra", "-Werror"];
const CPP: [&str; 4] = ["-std=c++20", "-Wall", "-Wextra", "-Wno-unused-parameter"];

#[test]
fn they_hold_in_c() {
    let folder = tempfile::tempdir().unwrap();
    let source = "integration/c/behaviour.c";
    if let Some(program) = built("cc", source, &C, Link::Shared, folder.path()) {
        all_held(&program, folder.path());
    }
}

#[test]
fn refusals_hold_in_c() {
    let folder = tempfile::tempdir().unwrap();
    let source = "integration/c/refusals.c";
    if let Some(program) = built("cc", source, &C, Link::Shared, folder.path()) {
        all_held(&program, folder.path());
    }
}

#[test]
fn outputs_hold_in_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let source = "integration/c/outputs.cpp";
    if let Some(program) = built("c++", source, &CPP, Link::Shared, folder.path()) {
        all_held(&program, folder.path());
    }
}

#[test]
fn timestamps_hold_in_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let source = "integration/c/timestamps.cpp";
    if let Some(program) = built("c++", source, &CPP, Link::Shared, folder.path()) {
        all_held(&program, folder.path());
    }
}

#[test]
fn they_hold_in_cpp() {
    for link in [Link::Shared, Link::Static] {
        let folder = tempfile::tempdir().unwrap();
        let source = "integration/c/behaviour.cpp";
        if let Some(program) = built("c++", source, &CPP, link, folder.path()) {
            all_held(&program, folder.path());
        }
    }
}

/// Under AddressSanitizer, which also finds memory that nobody freed at the end.
#[expect(
    clippy::disallowed_methods,
    reason = "a source is no file of a database"
)]
fn nothing_leaks(compiler: &str, options: &[&str], sources: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.c");
    std::fs::write(&empty, "int main(void) { return 0; }\n").unwrap();
    let program = folder.path().join("empty");
    let mut probe = Command::new(compiler);
    probe
        .arg("-fsanitize=address")
        .arg(empty)
        .arg("-o")
        .arg(&program);
    let runs = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    if !runs(&mut probe) || !runs(&mut Command::new(program)) {
        skip("there is no AddressSanitizer, or it cannot look for leaks here");
        return;
    }
    let options = [options, &["-g", "-fsanitize=address"]].concat();
    for (at, source) in sources.iter().enumerate() {
        let source = format!("integration/c/{source}");
        let folder = folder.path().join(at.to_string());
        std::fs::create_dir(&folder).unwrap();
        if let Some(program) = built(compiler, &source, &options, Link::Static, &folder) {
            all_held(&program, &folder);
        }
    }
}

#[test]
fn nothing_leaks_in_c() {
    nothing_leaks("cc", &C, &["behaviour.c", "refusals.c"]);
}

#[test]
fn nothing_leaks_in_cpp() {
    nothing_leaks(
        "c++",
        &CPP,
        &["behaviour.cpp", "outputs.cpp", "timestamps.cpp"],
    );
}
