//! The only access to files: a few operations, with one implementation on the real file system and
//! one in memory whose power can be cut.
//!
//! Everything that the crate stores is a whole file that is written once. So a [`Disk`] can read a
//! file from its start, create a new one, rename, remove, list and make durable, and nothing more.
//! Two functions build on that:
//!
//! - [`read_file`] reads a whole regular file, if it is no longer than a stated limit.
//! - [`publish`] puts new contents under a name. A process that opens the name, before or after a
//!   power cut, finds the whole old file, the whole new file or none. [`Draft`] does the same for
//!   contents that are not all in memory at once.
//!
//! ```text
//! publish(name):  create name.<16 hex>.tmp -> write -> sync -> read back -> rename -> sync folder
//! ```
//!
//! A file whose sync failed is given up, together with its name. Kernels mark the pages clean after
//! the error, so a second sync would succeed without having stored them (Rebello et al., "Can
//! Applications Recover from fsync Failures?", ATC 2020). [`NewFile::sync`] takes the file by
//! value, so that it cannot be retried.
//!
//! Files are not mapped into memory: a truncation would raise a signal instead of an error, and
//! bytes could rot after they were checked.

#[cfg(any(test, feature = "memory-disk"))]
mod memory;
mod publish;
mod real;

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;

#[cfg(any(test, feature = "memory-disk"))]
#[doc(hidden)]
pub use memory::{Fault, Lost, MemoryDisk, PowerCut, Tear};

use crate::fault::fault;
pub use publish::{Draft, PublishError, is_temporary, publish};
pub use real::RealDisk;

/// The file operations that the crate needs. Paths are used as given.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens a regular file for reading. Does not follow a symlink in the last component.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] unless it is a regular file that only its owner may write;
    /// otherwise the error of the system.
    fn open(&self, path: &Path) -> io::Result<Opened>;

    /// Creates a file that did not exist. Only its owner may read and write it.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if the name is taken, even by a symlink.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn NewFile>>;

    /// Renames a file within its folder. Replaces the file that had the new name.
    ///
    /// # Errors
    /// The error of the system; the file then still has its old name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The error of the system, including [`io::ErrorKind::NotFound`].
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Lists the names in a folder that are valid UTF-8, sorted. The crate uses no other names.
    ///
    /// # Errors
    /// The error of the system.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Makes sure that a folder exists. Only its owner may access a new one.
    ///
    /// # Errors
    /// If the parent does not exist, the name belongs to something else, or users other than the
    /// owner may write to the folder.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable: creations, renames and removals so far survive a power
    /// cut.
    ///
    /// # Errors
    /// The error of the system. It is then unknown which names survive.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// A file opened for reading, with its length at that time.
pub struct Opened {
    /// The bytes, from the start.
    pub bytes: Box<dyn Read>,
    /// The length in bytes.
    pub length: u64,
}

/// A file that is being written for the first and only time.
pub trait NewFile: Write {
    /// Makes the contents durable and closes the file. The name needs [`Disk::sync_folder`] as
    /// well.
    ///
    /// # Errors
    /// If the contents may not be durable. Give the file up and write another.
    fn sync(self: Box<Self>) -> io::Result<()>;
}

/// Reads a whole file of at most `limit` bytes.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] above the limit, [`io::ErrorKind::UnexpectedEof`] if the file
/// ends before its length, [`io::ErrorKind::OutOfMemory`] if memory does not suffice; otherwise the
/// errors of [`Disk::open`].
pub fn read_file(disk: &dyn Disk, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut file = disk.open(path)?;
    if file.length > limit {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("{} bytes exceed the limit of {limit}", file.length),
        ));
    }
    let mut bytes = Vec::new();
    read_exactly(&mut file.bytes, file.length, &mut bytes)?;
    Ok(bytes)
}

/// Reads the next `length` bytes of a file and appends them to `bytes`.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] if the file ends earlier, [`io::ErrorKind::OutOfMemory`] if
/// memory does not suffice; otherwise the error of the system.
pub fn read_exactly(reader: &mut dyn Read, length: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    let length = usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let start = bytes.len();
    bytes.try_reserve_exact(length)?;
    bytes.resize(start + length, 0);
    fault!(ShortReadAccepted, {
        _ = reader.read(&mut bytes[start..]);
        return Ok(());
    });
    reader.read_exact(&mut bytes[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk_with(name: &str, contents: &[u8]) -> MemoryDisk {
        let disk = MemoryDisk::new();
        disk.create_folder(Path::new("/f")).unwrap();
        let mut file = disk.create_new(&Path::new("/f").join(name)).unwrap();
        file.write_all(contents).unwrap();
        file.sync().unwrap();
        disk
    }

    #[test]
    fn a_file_above_the_limit_is_refused_before_it_is_read() {
        let disk = disk_with("a", b"12345");
        let path = Path::new("/f/a");
        assert_eq!(read_file(&disk, path, 5).unwrap(), b"12345");
        let error = read_file(&disk, path, 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    /// parquet-java lost rows to a short read; raft-engine took an interrupted read for the end of
    /// the file.
    #[test]
    fn short_and_interrupted_reads_are_completed() {
        let contents: Vec<u8> = (0..=255).collect();
        let disk = disk_with("a", &contents);
        disk.stutter(7);
        assert_eq!(read_file(&disk, Path::new("/f/a"), 256).unwrap(), contents);
    }

    #[test]
    fn read_exactly_appends_the_next_bytes() {
        let disk = disk_with("a", b"12345");
        let mut file = disk.open(Path::new("/f/a")).unwrap();
        let mut bytes = Vec::new();
        read_exactly(&mut file.bytes, 2, &mut bytes).unwrap();
        assert_eq!(bytes, b"12");
        read_exactly(&mut file.bytes, 3, &mut bytes).unwrap();
        assert_eq!(bytes, b"12345");
    }

    #[test]
    fn a_file_that_ends_before_its_length_is_an_error() {
        let mut short: &[u8] = b"abc";
        let error = read_exactly(&mut short, 4, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
