//! `librocksdb.so` in the place of RocksDB's: programs that know nothing of filters, with the variable
//! unset and set.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::installation::{finds_leaks, found, output, prefix};

/// How the program names the reads of a transaction database that do not come by its base.
const BY_ITSELF: &str = ", by itself";
/// What it names databases that cannot have filters.
const WITHOUT: [&str; 3] = ["with a prepared one", "another write policy", "refused"];

fn library() -> PathBuf {
    prefix().join("lib/lsm_sieve")
}

fn source(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("integration/c").join(name)
}

/// A program that is linked with `-lrocksdb`.
fn built(source: &Path, options: &[&str], folder: &Path) -> Option<PathBuf> {
    let program = folder.join("program");
    let mut command = Command::new(found("cc", "--version")?);
    command.args(options).arg(source).arg("-o").arg(&program);
    command.arg(format!("-I{}/include/lsm_sieve", prefix().display()));
    command.arg(format!("-L{}", library().display()));
    output(command.args(["-lrocksdb", "-lm", "-lpthread"]));
    Some(program)
}

/// The program of these tests; it is built once.
fn program() -> Option<&'static Path> {
    static MADE: OnceLock<Option<(PathBuf, tempfile::TempDir)>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let options = ["-std=c11", "-Wall", "-Wextra", "-Werror"];
        let program = built(&source("instead.c"), &options, folder.path())?;
        Some((program, folder))
    });
    made.as_ref().map(|(program, _)| program.as_path())
}

/// RocksDB's own test of its C API: as it is, and with the comparator and the formats that filters know
/// in place of those that it chooses. Then all but two of its databases have filters, and the false
/// positives of RocksDB's own are not counted.
#[test]
#[expect(clippy::disallowed_methods, reason = "no file of a database")]
fn the_test_of_rocksdbs_c_api_passes() {
    let sources = Path::new(env!("LSM_SIEVE_ROCKSDB"));
    let as_it_is = fs::read_to_string(sources.join("db/c_test.c")).unwrap();
    let mut changed = as_it_is.clone();
    for (from, to) in [
        (
            "#include \"rocksdb/c.h\"\n",
            "#include \"rocksdb/c.h\"\n\
             #define rocksdb_options_set_comparator(...)\n\
             #define rocksdb_options_set_plain_table_factory(...)\n\
             #define rocksdb_options_set_cuckoo_table_factory(...)\n",
        ),
        ("if (expected_open_err == NULL) {", "if (1) {"),
        ("CheckCondition(hits ==", "(void)(hits =="),
        (
            "CheckCondition(\n          (keys_to_query - hits)",
            "(void)((keys_to_query - hits)",
        ),
    ] {
        assert!(changed.contains(from), "{from}");
        changed = changed.replace(from, to);
    }
    for (test, databases_without) in [(as_it_is, None), (changed, Some(2))] {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("c_test.c");
        fs::write(&source, test).unwrap();
        let include = format!("-I{}", sources.display());
        let Some(program) = built(&source, &["-w", &include], folder.path()) else {
            return;
        };
        for switch in ["0", "1"] {
            let data = folder.path().join(switch);
            fs::create_dir(&data).unwrap();
            let environment = [
                ("LSM_SIEVE", switch),
                ("LSM_SIEVE_LOG", "stderr"),
                ("TEST_TMPDIR", data.to_str().unwrap()),
            ];
            let output = run(&program, &data, &environment);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "LSM_SIEVE={switch}: {errors}");
            assert!(errors.ends_with("PASS\n"), "{errors}");
            let without = errors.matches("lsm-sieve: opened without filters").count();
            let expected = if switch == "0" {
                Some(0)
            } else {
                databases_without
            };
            assert!(
                expected.is_none_or(|expected| without == expected),
                "{errors}"
            );
        }
    }
}

/// The environment of a program: variables and their values.
type Environment<'e> = &'e [(&'e str, &'e str)];

const PLAIN: Environment<'_> = &[];
const FILTERED: Environment<'_> = &[("LSM_SIEVE", "1")];

fn run(program: &Path, folder: &Path, environment: Environment<'_>) -> Output {
    let mut command = Command::new(program);
    for name in ["LSM_SIEVE", "LSM_SIEVE_OPTIONS", "LSM_SIEVE_LOG"] {
        command.env_remove(name);
    }
    command.env("LD_LIBRARY_PATH", library());
    command.envs(environment.iter().copied());
    command.arg(folder).output().unwrap()
}

/// What a run that succeeds prints, and what each of its databases says of its filters.
fn said(
    program: &Path,
    folder: &Path,
    environment: Environment<'_>,
) -> (String, BTreeMap<String, String>) {
    let output = run(program, folder, environment);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{environment:?}: {errors}");
    let filters = errors.lines().filter_map(|line| line.split_once(": "));
    let filters = filters.map(|(name, said)| (name.to_owned(), said.to_owned()));
    (String::from_utf8(output.stdout).unwrap(), filters.collect())
}

fn has_no_filters(filters: &BTreeMap<String, String>) -> Vec<&str> {
    let none = filters.iter().filter(|(_, said)| *said == "no filters");
    let names = none.map(|(name, _)| name.as_str());
    names.filter(|name| !name.ends_with(BY_ITSELF)).collect()
}

/// Each of these keys was read in three ways or more, but for false positives without the engine; by a
/// transaction database itself in one.
fn answers_most_misses(read: &str, filters: &BTreeMap<String, String>) {
    let mut databases = 0;
    for (name, keys) in read.lines().filter_map(|line| line.split_once(": ")) {
        let is_by_itself = name.ends_with(BY_ITSELF);
        if keys.len() < 100 && !is_by_itself || WITHOUT.iter().any(|none| name.starts_with(none)) {
            continue;
        }
        let misses = match is_by_itself {
            true => 200 - keys.parse::<usize>().unwrap(),
            false => 3 * keys.bytes().filter(|&there| there == b'0').count(),
        };
        let answered: usize = filters[name].parse().unwrap();
        assert!(answered * 10 >= misses * 8, "{name}: {answered}");
        databases += 1;
    }
    assert!(databases > 20, "{databases}");
}

#[test]
fn a_program_reads_the_same_with_and_without_filters() {
    let Some(program) = program() else { return };
    let folders = tempfile::tempdir().unwrap();
    let folder = |name: &str| {
        let folder = folders.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    };
    // Without filters, with them, and with them on what was written without.
    let runs = [
        ("plain", PLAIN),
        ("filtered", FILTERED),
        ("both", PLAIN),
        ("plain", PLAIN),
        ("filtered", FILTERED),
        ("both", FILTERED),
    ];
    let runs = runs.map(|(name, environment)| said(program, &folder(name), environment));
    let [first, second] = [&runs[..3], &runs[3..]];
    for (of_one_kind, filtered) in [(first, [false, true, false]), (second, [false, true, true])] {
        let (plain, _) = &of_one_kind[0];
        for ((read, filters), filtered) in of_one_kind.iter().zip(filtered) {
            assert_eq!(read, plain);
            let mut without = WITHOUT.to_vec();
            without.sort_unstable();
            match filtered {
                true => assert_eq!(has_no_filters(filters), without),
                false => assert!(filters.values().all(|said| said == "no filters")),
            }
        }
    }
    let (read, _) = &first[1];
    for race in ["\nrace with locks: 200\n", "\noptimistic race: 200\n"] {
        assert!(read.contains(race), "{read}");
    }
    // Later the filters have keys that were deleted meanwhile.
    answers_most_misses(&first[1].0, &first[1].1);
}

/// The opens that stand in place of RocksDB's leave nothing behind.
#[test]
fn a_program_with_filters_leaks_nothing() {
    if !finds_leaks("cc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let options = ["-std=c11", "-g", "-fsanitize=address"];
    let Some(program) = built(&source("instead.c"), &options, folder.path()) else {
        return;
    };
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    said(&program, &data, FILTERED);
}

/// Once for each database, in its log; on the standard error stream if that is asked for.
#[test]
fn a_database_that_has_no_filters_says_why() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let aloud = [("LSM_SIEVE", "1"), ("LSM_SIEVE_LOG", "stderr")];
    let output = run(program, folder.path(), &aloud);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    for (database, reason) in [
        ("locking", "transactions were prepared"),
        ("policy", "the write policy writes what is not committed"),
        ("refused", "HashLinkListRepFactory is not supported"),
    ] {
        let log = |entry: fs::DirEntry| {
            let is_log = entry.file_name().to_string_lossy().starts_with("LOG");
            is_log.then(|| fs::read_to_string(entry.path()).unwrap())
        };
        let files = fs::read_dir(folder.path().join(database)).unwrap();
        let logs: String = files.filter_map(|entry| log(entry.unwrap())).collect();
        for said in [&logs, &errors] {
            let lines = said.lines().filter(|line| line.contains(reason));
            let lines: Vec<_> = lines.collect();
            assert_eq!(lines.len(), 1, "{said}");
            assert!(lines[0].contains("lsm-sieve: opened without filters: "));
        }
    }
    assert_eq!(errors.matches("opened without").count(), WITHOUT.len());
}

#[test]
fn what_the_environment_says_wrongly_fails_the_open() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings");
    #[expect(clippy::disallowed_methods, reason = "no file of a database")]
    fs::write(&file, "audit=0\nmemory_budget=a lot\n").unwrap();
    let file = file.to_str().unwrap();
    for (name, value, reason) in [
        ("LSM_SIEVE", "yes", "LSM_SIEVE: \"yes\": set it to 1"),
        ("LSM_SIEVE_LOG", "stdout", "LSM_SIEVE_LOG: \"stdout\""),
        ("LSM_SIEVE_OPTIONS", "audits=1", "no such setting"),
        ("LSM_SIEVE_OPTIONS", "/no/such/file", "\"/no/such/file\": "),
        ("LSM_SIEVE_OPTIONS", file, "\"memory_budget=a lot\": give"),
    ] {
        let output = run(program, folder.path(), &[("LSM_SIEVE", "1"), (name, value)]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{name}={value}");
        assert!(errors.contains("Invalid argument: "), "{errors}");
        assert!(errors.contains(reason), "{errors}");
        assert!(!folder.path().join("one").exists(), "{name}={value}");
    }
}

#[test]
fn settings_are_taken_from_the_environment() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let given = "false_positive_rate=0.001; exclude_column_families=late";
    let environment = [("LSM_SIEVE", "1"), ("LSM_SIEVE_OPTIONS", given)];
    let (read, filters) = said(program, folder.path(), &environment);
    assert_eq!(filters["late family"], "0");
    assert_eq!(filters["late family with a time to live"], "0");
    assert!(read.contains("\nlate family: "));
}

#[test]
fn a_python_program_loads_it() {
    let Some(python) = found("python3", "--version") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let said = |name: &str, environment: Environment<'_>| {
        let mut command = Command::new(python);
        command.env_remove("LSM_SIEVE");
        command.envs(environment.iter().copied());
        command.arg(source("instead.py"));
        command.arg(library().join("librocksdb.so"));
        let output = command.arg(folder.path().join(name)).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{errors}");
        (String::from_utf8(output.stdout).unwrap(), errors)
    };
    let (plain, of_plain) = said("plain", PLAIN);
    let (filtered, of_filtered) = said("filtered", FILTERED);
    assert_eq!(plain, filtered);
    assert_eq!(of_plain.trim(), "no filters");
    assert!(of_filtered.trim().parse::<u32>().unwrap() >= 45);
}

fn symbols(options: &[&str], file: &Path) -> Option<Vec<String>> {
    let mut command = Command::new(found("nm", "--version")?);
    // It complains of members of the archive that have no symbols.
    let said = command.args(options).arg(file).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let names = said.lines().filter_map(|line| line.split(' ').nth(2));
    Some(names.map(str::to_owned).collect())
}

/// RocksDB's functions that return a database. An open that a later version adds wants a line in the
/// list of `crates/c/src/rocksdb.rs`.
#[test]
fn every_open_of_rocksdb_is_in_the_list() {
    let header = fs::read_to_string(prefix().join("include/lsm_sieve/rocksdb/c.h")).unwrap();
    let words = header.replace("ROCKSDB_LIBRARY_API", "");
    let words: Vec<_> = words.split_whitespace().collect();
    let opens = words.windows(2).filter_map(|words| {
        let database = [
            "rocksdb_t*",
            "rocksdb_transactiondb_t*",
            "rocksdb_optimistictransactiondb_t*",
        ];
        let (name, _) = words[1].split_once('(')?;
        (database.contains(&words[0]) && !name.ends_with("_get_base_db")).then_some(name)
    });
    let mut opens: Vec<_> = opens.collect();
    opens.sort_unstable();
    assert!(opens.contains(&"rocksdb_open"), "{opens:?}");
    let archive = prefix().join("lib/liblsm_sieve.a");
    let Some(listed) = symbols(&["--defined-only", "--extern-only"], &archive) else {
        return;
    };
    let listed = listed
        .iter()
        .filter_map(|name| name.strip_prefix("lsm_sieve_in_place_of_"));
    let mut listed: Vec<_> = listed.filter(|name| name.contains("_open")).collect();
    listed.sort_unstable();
    assert_eq!(listed, opens);
}

/// The name by which programs look for it is a file there. It has the symbols of `liblsm_sieve.so`, and
/// no others.
#[test]
fn it_has_the_names_of_rocksdb() {
    let Some(tool) = found("readelf", "--version") else {
        return;
    };
    let library = library().join("librocksdb.so");
    let said = output(Command::new(tool).arg("-dW").arg(&library));
    let (_, soname) = said.split_once("Library soname: [librocksdb.so.").unwrap();
    let (major, _) = soname.split_once(']').unwrap();
    assert!(
        library.with_extension(format!("so.{major}")).exists(),
        "{major}"
    );
    let exported = |file: &Path| symbols(&["-D", "--defined-only"], file);
    let own = exported(&library).unwrap();
    assert_eq!(
        own,
        exported(&prefix().join("lib/liblsm_sieve.so")).unwrap()
    );
}
