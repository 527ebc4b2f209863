//! The file operations of a child, as strace saw them.
//!
//! The log is written with `-xx`: every string is hexadecimal, paths and contents alike. A call
//! that another thread interrupts takes two lines. It counts at its end, except for a close: its
//! number is free, and may be another file's, before the call returns.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::strace;
use super::target::Target;
use crate::support::history::Failed;

/// The calls that change files, or make changes durable.
const CALLS: &str =
    "openat,write,writev,pwrite64,ftruncate,rename,unlink,mkdir,fsync,fdatasync,close";

/// One file operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileOp {
    Open {
        file: i32,
        path: PathBuf,
        create: bool,
        truncate: bool,
    },
    /// At an offset, or after the last write.
    Write {
        file: i32,
        at: Option<usize>,
        bytes: Vec<u8>,
    },
    Resize {
        file: i32,
        length: usize,
    },
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    MakeFolder(PathBuf),
    Sync(i32),
    Close(i32),
    /// The child reported that this step was done.
    Done(usize),
}

/// Whether this is a write-ahead log of RocksDB.
pub(super) fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "log")
}

/// Whether this is RocksDB's manifest.
pub(super) fn is_list(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| name.starts_with("MANIFEST"))
}

/// All file operations of a child; `None` without strace.
pub(super) fn record(target: Target, home: &Path) -> Result<Option<Vec<FileOp>>, Failed> {
    let log = home.join("operations");
    let arguments = ["-o", &log.display().to_string(), "-xx", "-s", "4194304"];
    let arguments = arguments.into_iter().map(str::to_owned);
    let arguments: Vec<String> = arguments
        .chain(["-e".to_owned(), format!("trace={CALLS}")])
        .collect();
    let Some(child_run) = strace::run_child(target, &home.join("database"), &arguments)? else {
        return Ok(None);
    };
    if !child_run.ended || child_run.failed > 0 || child_run.crashed() {
        return Err(format!("a child without faults failed: {child_run:?}").into());
    }
    Ok(Some(parse(&fs::read_to_string(log)?)))
}

/// The operations in a log, in order. Failed ones are left out.
fn parse(log: &str) -> Vec<FileOp> {
    const UNFINISHED: &str = " <unfinished ...>";
    let mut begun: HashMap<&str, &str> = HashMap::new();
    let mut operations = Vec::new();
    for (thread, line) in log.lines().filter_map(|line| line.split_once(' ')) {
        let line = line.trim_start();
        if let Some(start) = line.strip_suffix(UNFINISHED) {
            if start.starts_with("close(") {
                operations.extend(operation(&format!("{start}) = 0")));
            } else {
                begun.insert(thread, start);
            }
        } else if let Some((_, end)) = line.split_once(" resumed>") {
            let start = begun.remove(thread);
            operations.extend(start.and_then(|start| operation(&format!("{start}{end}"))));
        } else {
            operations.extend(operation(line));
        }
    }
    operations
}

/// The operation in a whole line, such as `write(3, "\x61", 1) = 1`.
fn operation(line: &str) -> Option<FileOp> {
    let (call, result) = line.rsplit_once(" = ")?;
    let result: i64 = result.split(' ').next()?.parse().ok()?;
    let (name, arguments) = call.trim_end().strip_suffix(')')?.split_once('(')?;
    if result < 0 {
        return None;
    }
    let arguments: Vec<&str> = arguments.split(", ").collect();
    let number = |at: usize| arguments.get(at)?.parse::<usize>().ok();
    let file = || arguments.first()?.parse::<i32>().ok();
    let path = |at: usize| {
        Some(PathBuf::from(OsString::from_vec(bytes(
            arguments.get(at)?,
        )?)))
    };
    Some(match name {
        "openat" => {
            let how = arguments.get(2)?;
            FileOp::Open {
                file: i32::try_from(result).ok()?,
                path: path(1)?,
                create: how.contains("O_CREAT"),
                truncate: how.contains("O_TRUNC"),
            }
        }
        "write" | "pwrite64" => {
            let mut bytes = bytes(arguments.get(1)?)?;
            bytes.truncate(usize::try_from(result).ok()?);
            FileOp::Write {
                file: file()?,
                at: number(3),
                bytes,
            }
        }
        "ftruncate" => FileOp::Resize {
            file: file()?,
            length: number(1)?,
        },
        "rename" => FileOp::Rename(path(0)?, path(1)?),
        "unlink" => FileOp::Remove(path(0)?),
        "mkdir" => FileOp::MakeFolder(path(0)?),
        "fsync" | "fdatasync" => FileOp::Sync(file()?),
        "close" => FileOp::Close(file()?),
        "writev" => FileOp::Done(reported(call)?),
        _ => return None,
    })
}

/// The number in a report such as `@done 3`, from `iov_base="\x40"` and so on.
fn reported(call: &str) -> Option<usize> {
    let parts = call.split("iov_base=").skip(1);
    let parts = parts.filter_map(|part| bytes(part.split(',').next()?));
    let line = String::from_utf8(parts.collect::<Vec<_>>().concat()).ok()?;
    line.strip_prefix("@done ")?.trim_end().parse().ok()
}

/// `"\x2f\x61"` as bytes.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix('"')?.strip_suffix('"')?;
    digits
        .split("\\x")
        .skip(1)
        .map(|byte| u8::from_str_radix(byte, 16).ok())
        .collect()
}

#[test]
fn strace_log_is_parsed() {
    let log = r#"8 close(5 <unfinished ...>
7 openat(AT_FDCWD, "\x2f\x61", O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, 0644) = 5
8 <... close resumed>)              = 0
7 openat(AT_FDCWD, "\x2f\x62", O_RDONLY) = -1 ENOENT (No such file or directory)
7 write(5, "\x61\x62\x63", 3 <unfinished ...>
8  fdatasync(9) = 0
7 <... write resumed>) = 2
8 pwrite64(9, "\x2c\x20", 2, 70)   = 2
8 rename("\x2f\x61", "\x2f\x62") = 0
7 writev(1, [{iov_base="\x40", iov_len=1}, {iov_base="\x64\x6f\x6e\x65\x20\x34", iov_len=6}, {iov_base="\x0a", iov_len=1}], 3) = 8
8 +++ exited with 0 +++
"#;
    let open = FileOp::Open {
        file: 5,
        path: "/a".into(),
        create: true,
        truncate: true,
    };
    let write = |file, at, bytes: &[u8]| FileOp::Write {
        file,
        at,
        bytes: bytes.to_vec(),
    };
    let expected = [
        FileOp::Close(5),
        open,
        FileOp::Sync(9),
        write(5, None, b"ab"),
        write(9, Some(70), b", "),
        FileOp::Rename("/a".into(), "/b".into()),
        FileOp::Done(4),
    ];
    assert_eq!(parse(log), expected);
}
