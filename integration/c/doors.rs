//! Programs in C++, each with a list of what must hold through RocksDB's own handle: compared with a
//! database without filters, or with what the Rust tests promise of the same calls.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::installation::{Link, built, output, prefix};

const OPTIONS: [&str; 4] = ["-std=c++20", "-Wall", "-Wextra", "-Wno-unused-parameter"];

fn holds(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let source = format!("integration/c/{name}.cpp");
    let program = built("c++", &source, &OPTIONS, Link::Shared, folder.path());
    if let Some(program) = program {
        let data = folder.path().join("data");
        fs::create_dir(&data).unwrap();
        assert_eq!(output(Command::new(program).arg(data)), "all held\n");
    }
}

#[test]
fn closed_database_says_what_rocksdb_says() {
    holds("closed");
}

#[test]
fn entities_are_found_at_each_stage_of_their_life() {
    holds("entities");
}

#[test]
fn external_writes_are_announced_until_their_end() {
    holds("announced");
}

#[test]
fn reads_are_counted_and_leave_what_rocksdb_leaves() {
    holds("reads");
}

#[test]
fn transactions_read_what_rocksdb_reads_and_ask_the_filters() {
    holds("transactions");
}

/// `LSM_SIEVE_TRANSACTIONS` makes it a long run.
#[test]
fn histories_of_concurrent_transactions_have_a_serial_order() {
    holds("histories");
}

/// How often each name comes in a list.
fn counted<'t>(names: impl Iterator<Item = &'t str>) -> BTreeMap<&'t str, usize> {
    let mut counts = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    counts
}

/// The word that ends right before this text.
fn last_word(text: &str) -> &str {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let start = text.rfind(|c| !is_part(c)).map_or(0, |end| end + 1);
    &text[start..]
}

/// A function that RocksDB adds wants a call in the list.
#[test]
fn closed_database_is_asked_by_each_virtual_function() {
    let header = prefix().join("include/lsm_sieve/rocksdb/db.h");
    let header = fs::read_to_string(header).unwrap();
    let code: String = header
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    let (_, class) = code.split_once("\nclass DB {").unwrap();
    let (class, _) = class.split_once("\n};").unwrap();
    let (before, nested) = class.split_once("class AsyncCallback {").unwrap();
    let (_, after) = nested.split_once("};").unwrap();
    let class = [before, after].concat();
    let functions = class.split("virtual ").skip(1).filter_map(|function| {
        let end = function.find([';', '{']).unwrap();
        let signature = &function[..end];
        let is_final = signature.trim_end().ends_with("final");
        let (name, _) = signature.split_once('(')?;
        let name = last_word(name);
        (!is_final && !name.is_empty() && !signature.contains('~')).then_some(name)
    });
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integration/c/closed.cpp");
    let list = fs::read_to_string(list).unwrap();
    let (_, calls) = list.split_once("kCalls{").unwrap();
    let (calls, _) = calls.split_once("\n};").unwrap();
    let calls = calls.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("    CALL(")?.split_once(',')?;
        Some(name)
    });
    let functions = counted(functions);
    assert!(functions.len() > 100, "{functions:?}");
    assert_eq!(counted(calls), functions);
}
