//! The examples, built and run as a reader would.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::installation::{Link, built, found, output, prefix};

fn says_what_it_should(command: &mut Command, value: &str) {
    let said = output(command);
    let expected = format!("ada: {value}\ncharles: absent\nanswered without the engine: 1\n");
    assert_eq!(said, expected, "{command:?}");
}

fn example(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("examples/c").join(name)
}

fn library() -> PathBuf {
    prefix().join("lib/liblsm_sieve.so")
}

#[test]
fn c() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-Wall", "-Wextra", "-Werror"];
    let source = "examples/c/users.c";
    if let Some(program) = built("cc", source, &options, Link::Shared, folder.path()) {
        says_what_it_should(Command::new(program).arg(folder.path().join("db")), "1815");
    }
}

#[test]
fn cpp() {
    let folder = tempfile::tempdir().unwrap();
    let source = "examples/c/users.cpp";
    let program = built("c++", source, &["-std=c++20"], Link::Shared, folder.path());
    if let Some(program) = program {
        let path = folder.path().join("db");
        says_what_it_should(Command::new(program).arg(path), "ada@example.org");
    }
}

#[test]
fn python() {
    let folder = tempfile::tempdir().unwrap();
    if let Some(python) = found("python3", "--version") {
        let mut command = Command::new(python);
        command
            .arg(example("users.py"))
            .arg(folder.path().join("db"));
        says_what_it_should(command.arg(library()), "1815");
    }
}

/// Go and Java are too large to be required for a test.
fn is_missing(language: &str) {
    eprintln!("skipped: {language} is missing");
}

#[test]
fn go() {
    let folder = tempfile::tempdir().unwrap();
    let version = Command::new("go").arg("version").output();
    if !version.is_ok_and(|version| version.status.success()) {
        return is_missing("go");
    }
    if found("pkg-config", "--version").is_some() {
        let mut command = Command::new("go");
        command.env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"));
        command.env("LD_LIBRARY_PATH", prefix().join("lib"));
        command.env("GOCACHE", folder.path().join("cache"));
        command.arg("run").arg(example("users.go"));
        says_what_it_should(command.arg(folder.path().join("db")), "1815");
    }
}

#[test]
fn java() {
    let folder = tempfile::tempdir().unwrap();
    let home = std::env::var_os("JAVA_HOME").map(PathBuf::from);
    let java = home.map_or("java".into(), |home| home.join("bin/java"));
    // Older ones have no such class, or have it as a preview.
    let release = |java: &Path| {
        let said = Command::new(java).arg("--version").output().ok()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        said.split([' ', '.']).nth(1)?.parse::<u32>().ok()
    };
    if release(&java).is_none_or(|release| release < 22) {
        return is_missing("a Java from 22 on, in the path or in JAVA_HOME,");
    }
    let mut command = Command::new(java);
    command.arg("--enable-native-access=ALL-UNNAMED");
    command
        .arg(example("Users.java"))
        .arg(folder.path().join("db"));
    says_what_it_should(command.arg(library()), "1815");
}
