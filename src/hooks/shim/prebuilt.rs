//! A precompiled RocksDB, in the folder that `ROCKSDB_LIB_DIR` names. The shim uses private
//! classes, so the library must match the headers that the shim is compiled with. Two programs that
//! are linked with it check this: `version.cc` and `probe.cc`.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Set to a folder, which `librocksdb-sys` then links RocksDB from.
const FOLDER: &str = "ROCKSDB_LIB_DIR";
/// Set if the library there is a static one.
const STATIC: &str = "ROCKSDB_STATIC";
/// Set to `1` or `true` if the sources are compiled all the same.
const COMPILE: &str = "ROCKSDB_COMPILE";

pub(super) struct Library {
    folder: PathBuf,
    is_static: bool,
}

impl Library {
    /// The one that `librocksdb-sys` links; `None` if it compiles its own.
    pub(super) fn named() -> Option<Self> {
        for variable in [FOLDER, STATIC, COMPILE] {
            println!("cargo:rerun-if-env-changed={variable}");
        }
        let compiled =
            env::var(COMPILE).is_ok_and(|value| value == "1" || value.eq_ignore_ascii_case("true"));
        let folder = env::var_os(FOLDER).filter(|_| !compiled)?;
        let is_static = env::var_os(STATIC).is_some();
        Some(Self {
            folder: folder.into(),
            is_static,
        })
    }

    /// Compiles the programs, with the flags of the shim, and runs them with the library.
    ///
    /// # Panics
    /// If it is another RocksDB, with what differs.
    pub(super) fn prove(&self, shim: &Path, flags: &cc::Build) {
        let file = self.folder.join(match self.is_static {
            true => "librocksdb.a",
            false => "librocksdb.so",
        });
        println!("cargo:rerun-if-changed={}", file.display());
        let refuse = |why: &str| -> ! {
            panic!(
                "{} cannot be used: {why}\nUnset {FOLDER}, or set {COMPILE}=1: then librocksdb-sys compiles \
                 the RocksDB that lsm-sieve needs.",
                file.display()
            )
        };
        if !file.exists() {
            refuse("there is no such file");
        }
        if env::var("TARGET") != env::var("HOST")
            || env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux")
        {
            refuse("programs that check it can only be run on Linux, for the system that builds");
        }
        let versions = self
            .run(shim, "version", flags)
            .unwrap_or_else(|why| refuse(&why));
        let versions = String::from_utf8_lossy(&versions.stdout);
        match versions.trim().split_once(' ') {
            Some((found, needed)) if found == needed => {}
            Some((found, needed)) => {
                refuse(&format!("it is RocksDB {found}, and {needed} is needed"))
            }
            None => refuse("it does not tell its version"),
        }
        let probe = self
            .run(shim, "probe", flags)
            .unwrap_or_else(|why| refuse(&why));
        if !probe.status.success() {
            let differences = String::from_utf8_lossy(&probe.stdout);
            refuse(&format!("{}{}", differences, probe.status));
        }
    }

    /// Builds and runs a program of the shim's folder.
    fn run(&self, shim: &Path, program: &str, flags: &cc::Build) -> Result<Output, String> {
        let source = shim.join(program).with_extension("cc");
        println!("cargo:rerun-if-changed={}", source.display());
        let binary = PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?).join(program);
        let link = |further: &[String]| {
            let mut compiler = flags.get_compiler().to_command();
            compiler.args(["-O0", "-fPIC", "-rdynamic", "-Wl,--no-demangle"]);
            compiler.arg(&source).arg("-o").arg(&binary);
            compiler.args(further).args(self.arguments());
            output(&mut compiler)
        };
        let mut linked = link(&[])?;
        if !linked.status.success() {
            // Those of compression libraries are not called.
            let said = String::from_utf8_lossy(&linked.stderr).into_owned();
            let missing = missing_symbols(&said);
            if let Some(symbol) = missing.iter().find(|symbol| symbol.contains("7rocksdb")) {
                return Err(format!(
                    "it does not export {symbol}; another version, hidden symbols or another ABI of \
                     the C++ standard library (_GLIBCXX_USE_CXX11_ABI, libc++) do that"
                ));
            }
            let nothing: Vec<_> = missing
                .iter()
                .map(|name| format!("-Wl,--defsym={name}=0"))
                .collect();
            linked = link(&nothing)?;
        }
        if !linked.status.success() {
            let said = String::from_utf8_lossy(&linked.stderr);
            return Err(format!("a program cannot be linked with it:\n{said}"));
        }
        output(Command::new(&binary).env("LD_LIBRARY_PATH", &self.folder))
    }

    fn arguments(&self) -> [OsString; 4] {
        let mut folder = OsString::from("-L");
        folder.push(&self.folder);
        let library = match self.is_static {
            true => "-l:librocksdb.a",
            false => "-l:librocksdb.so",
        };
        [folder, library.into(), "-lpthread".into(), "-ldl".into()]
    }
}

fn output(command: &mut Command) -> Result<Output, String> {
    let output = command.output();
    output.map_err(|error| format!("{} cannot be run: {error}", command.get_program().display()))
}

/// What a linker says that it did not find.
fn missing_symbols(said: &str) -> Vec<&str> {
    let names = said.split("undefined reference to `").skip(1);
    let mut names: Vec<_> = names.filter_map(|rest| rest.split('\'').next()).collect();
    names.sort_unstable();
    names.dedup();
    names
}
