//! What the headers promise, checked by programs in their languages.

use std::path::Path;
use std::process::Command;

use crate::installation::{Link, built, finds_leaks, output};
use crate::support::requirements::skip;

fn all_held(mut program: Command, folder: &Path) {
    let data = folder.join("data");
    std::fs::create_dir(&data).unwrap();
    assert_eq!(output(program.arg(data)), "all held\n");
}

/// A compiler and its options.
type Language = (&'static str, &'static [&'static str]);

const C: Language = ("cc", &["-std=c11", "-Wall", "-Wextra", "-Werror"]);
const CPP: Language = (
    "c++",
    &["-std=c++20", "-Wall", "-Wextra", "-Wno-unused-parameter"],
);

fn holds((compiler, options): Language, source: &str, link: Link) {
    let folder = tempfile::tempdir().unwrap();
    let source = format!("integration/c/{source}");
    if let Some(program) = built(compiler, &source, options, link, folder.path()) {
        all_held(Command::new(program), folder.path());
    }
}

#[test]
fn they_hold_in_c() {
    holds(C, "behaviour.c", Link::Shared);
}

#[test]
fn refusals_hold_in_c() {
    holds(C, "refusals.c", Link::Shared);
}

#[test]
fn outputs_hold_in_cpp() {
    holds(CPP, "outputs.cpp", Link::Shared);
}

#[test]
fn timestamps_hold_in_cpp() {
    holds(CPP, "timestamps.cpp", Link::Shared);
}

#[test]
fn they_hold_in_cpp() {
    for link in [Link::Shared, Link::Static] {
        holds(CPP, "behaviour.cpp", link);
    }
}

/// Programs under AddressSanitizer, which also finds memory that nobody freed at the end. They are run
/// with these variables.
fn nothing_leaks((compiler, options): Language, sources: &[&str], variables: &[(&str, &str)]) {
    if !finds_leaks(compiler) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let options = [options, &["-g", "-fsanitize=address"]].concat();
    for (at, source) in sources.iter().enumerate() {
        let source = format!("integration/c/{source}");
        let folder = folder.path().join(at.to_string());
        std::fs::create_dir(&folder).unwrap();
        if let Some(program) = built(compiler, &source, &options, Link::Static, &folder) {
            let mut program = Command::new(program);
            program.envs(variables.iter().copied());
            all_held(program, &folder);
        }
    }
}

#[test]
fn nothing_leaks_in_c() {
    nothing_leaks(C, &["behaviour.c", "refusals.c"], &[]);
}

#[test]
fn nothing_leaks_in_cpp() {
    let sources = ["behaviour.cpp", "outputs.cpp", "timestamps.cpp"];
    nothing_leaks(CPP, &sources, &[]);
}

#[test]
fn panic_within_a_call_becomes_its_error_and_leaks_nothing() {
    if option_env!("LSM_SIEVE_FAULTS") != Some("1") {
        skip("the library has fault points only if LSM_SIEVE_FAULTS=1 when it is compiled");
        return;
    }
    nothing_leaks(C, &["panics.c"], &[("LSM_SIEVE_FAULT", "CallPanics")]);
}
