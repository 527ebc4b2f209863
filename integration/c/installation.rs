//! The library, installed as `make install` does it, and the programs that are built against it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::requirements::skip;

/// The folder of an installation. It is made once for all tests of this process, of the archive that
/// cargo made.
pub(crate) fn prefix() -> &'static Path {
    static MADE: OnceLock<(PathBuf, File)> = OnceLock::new();
    let (prefix, _) = MADE.get_or_init(|| {
        let (prefix, lock) = free_folder();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install");
        output(Command::new(script).arg(&prefix).arg(archive()));
        (prefix, lock)
    });
    prefix
}

/// The first folder that no other run uses, and the lock that keeps the others out.
#[expect(
    clippy::disallowed_methods,
    reason = "a lock of tests is no file of a database"
)]
fn free_folder() -> (PathBuf, File) {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let free = (0..).find_map(|n| {
        let folder = home.join(format!("installation-{n}"));
        let lock = File::create(folder.with_extension("lock")).unwrap();
        lock.try_lock().ok().map(|()| (folder, lock))
    });
    free.expect("there are as many folders as runs")
}

/// Two runs over one target folder used to overwrite each other's library while programs ran with
/// it.
#[test]
fn installation_of_another_run_over_the_same_target_folder_is_left_alone() {
    let (mine, lock) = free_folder();
    let (other, _lock) = free_folder();
    assert_ne!(mine, other);
    drop(lock);
    assert_eq!(free_folder().0, mine);
}

/// The newest one: with other features, cargo gives it another name.
fn archive() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let entries = fs::read_dir(test.parent().unwrap()).unwrap();
    let archives = entries.map(|entry| entry.unwrap().path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("liblsm_sieve_c-") && name.ends_with(".a")
    });
    let newest = archives.max_by_key(|path| path.metadata().unwrap().modified().unwrap());
    newest.expect("cargo has made the archive with the test")
}

/// How a program is linked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Link {
    Shared,
    Static,
}

/// What a compiler is told: of the shared library, what pkg-config says.
pub(crate) fn flags(link: Link) -> Vec<String> {
    let lib = prefix().join("lib");
    let mut flags = vec![format!("-I{}/include/lsm_sieve", prefix().display())];
    match link {
        Link::Shared => flags.extend([
            format!("-L{}", lib.display()),
            "-llsm_sieve".to_owned(),
            format!("-Wl,-rpath,{}", lib.display()),
        ]),
        Link::Static => {
            flags.push(lib.join("liblsm_sieve.a").display().to_string());
            flags.extend(["-lstdc++", "-lpthread", "-ldl", "-lm"].map(str::to_owned));
        }
    }
    flags
}

/// Builds a program with a compiler; `None` if it is missing.
pub(crate) fn built(
    compiler: &str,
    source: &str,
    options: &[&str],
    link: Link,
    folder: &Path,
) -> Option<PathBuf> {
    let compiler = found(compiler, "--version")?;
    let program = folder.join("program");
    let mut command = Command::new(compiler);
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(source);
    command.args(options).arg(source).args(flags(link));
    output(command.arg("-lpthread").arg("-o").arg(&program));
    Some(program)
}

/// Whether programs that this compiler builds can look for leaks; prints a message if not.
#[expect(
    clippy::disallowed_methods,
    reason = "a source is no file of a database"
)]
pub(crate) fn finds_leaks(compiler: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.c");
    fs::write(&empty, "int main(void) { return 0; }\n").unwrap();
    let program = folder.path().join("empty");
    let mut build = Command::new(compiler);
    build.arg("-fsanitize=address").arg(empty);
    build.arg("-o").arg(&program);
    let runs = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    let finds = runs(&mut build) && runs(&mut Command::new(program));
    if !finds {
        skip("there is no AddressSanitizer, or it cannot look for leaks here");
    }
    finds
}

/// A tool, if it can be run; prints a message if not.
pub(crate) fn found<T: AsRef<OsStr>>(tool: T, version: &str) -> Option<T> {
    match Command::new(&tool).arg(version).output() {
        Ok(output) if output.status.success() => Some(tool),
        _ => {
            skip(format_args!("{} is missing", tool.as_ref().display()));
            None
        }
    }
}

/// What a command prints; it must end with exit code 0.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn pkg_config_gives_the_flags_that_the_programs_are_built_with() {
    let Some(tool) = found("pkg-config", "--version") else {
        return;
    };
    let mut command = Command::new(tool);
    command.env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"));
    let said = output(command.args(["--cflags", "--libs", "lsm_sieve"]));
    let said: Vec<_> = said.split_whitespace().collect();
    assert_eq!(said, flags(Link::Shared)[..3]);
}

/// It has what the headers declare, and nothing else of its insides.
#[test]
fn the_shared_library_has_the_symbols_of_its_headers_and_no_others() {
    let Some(tool) = found("nm", "--version") else {
        return;
    };
    let library = prefix().join("lib/liblsm_sieve.so");
    let said = output(
        Command::new(tool)
            .args(["-D", "--defined-only"])
            .arg(library),
    );
    let symbols: Vec<_> = said.split_whitespace().skip(2).step_by(3).collect();
    let own: Vec<_> = symbols
        .iter()
        .filter(|name| name.starts_with("lsm_sieve_"))
        .collect();
    let header = fs::read_to_string(prefix().join("include/lsm_sieve/lsm_sieve.h")).unwrap();
    let declared = |name: &str| header.contains(&format!("{name}("));
    assert!(
        own.len() >= 27 && own.iter().all(|name| declared(name)),
        "{own:?}"
    );
    for name in [
        "rocksdb_open",
        "rocksdb_put",
        "_ZN7rocksdb2DB4OpenE",
        "_ZN9lsm_sieve4OpenE",
    ] {
        assert!(
            symbols.iter().any(|symbol| symbol.starts_with(name)),
            "{name}"
        );
    }
    let is_foreign = |name: &&&str| !name.starts_with("lsm_sieve_") && !name.contains("rocksdb");
    let foreign: Vec<_> = symbols.iter().filter(is_foreign).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}
