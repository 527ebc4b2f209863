//! The one door to files: few operations, one real disk, one in memory whose power can be cut.
//!
//! Everything that the crate keeps is a whole file that is written once. So a [`Disk`] can
//! read a file from its start, create a new one, rename, remove, list and make durable, and
//! nothing more; two functions build on that:
//!
//! - [`read_file`]: the whole of a regular file, never longer than a stated limit;
//! - [`publish`]: new contents under a name, so that whoever opens the name, before or after a
//!   power cut, finds the old whole file, the new whole file or none; [`Draft`] is the same for contents
//!   that are not in memory at once.
//!
//! ```text
//! publish(name):  create name.<16 hex>.tmp -> write -> sync -> read back -> rename -> sync folder
//! ```
//!
//! A file whose sync failed is given up, name and all: kernels mark the pages clean after the
//! error, so that a second sync would succeed without having stored them (Rebello et al., "Can
//! Applications Recover from fsync Failures?", ATC 2020). [`NewFile::sync`] takes the file by
//! value, which leaves nothing to retry on.
//!
//! Files are not mapped into memory: a truncation would be a signal instead of an error, and bytes
//! could rot after they were checked.

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

use crate::planted::planted;
pub use publish::{Draft, PublishError, is_temporary, publish};
pub use real::RealDisk;

/// The operations on files that the crate needs; paths are used as they are given.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens a regular file for reading; follows no symlink in the last component.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for anything but a regular file that only its owner may
    /// write; otherwise what the system says.
    fn open(&self, path: &Path) -> io::Result<Opened>;

    /// Creates a file that did not exist, readable and writable by its owner alone.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] when the name is taken, be it by a symlink.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn NewFile>>;

    /// Gives a file another name in the same folder, in place of what had that name.
    ///
    /// # Errors
    /// What the system says; the old name then still stands.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the system says, [`io::ErrorKind::NotFound`] included.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The names in a folder that are valid UTF-8, sorted; no other name can be one of ours.
    ///
    /// # Errors
    /// What the system says.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Makes sure that a folder exists; a new one is open to its owner alone.
    ///
    /// # Errors
    /// When the parent does not exist, something else has the name, or others than its owner may
    /// write to it.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder (creations, renames, removals) survive a power cut.
    ///
    /// # Errors
    /// What the system says; which names survive is then unknown.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// A file opened for reading, with the length that it had then.
pub struct Opened {
    /// The bytes, from the first.
    pub bytes: Box<dyn Read>,
    /// The length in bytes.
    pub length: u64,
}

/// A file that is being written for the first and only time.
pub trait NewFile: Write {
    /// Makes the contents durable and closes the file; the name needs [`Disk::sync_folder`].
    ///
    /// # Errors
    /// When the contents may not be durable: give the file up and write another.
    fn sync(self: Box<Self>) -> io::Result<()>;
}

/// Reads a whole file of at most `limit` bytes.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] above the limit, [`io::ErrorKind::UnexpectedEof`] when the file
/// ends before its length, [`io::ErrorKind::OutOfMemory`] when it does not fit; otherwise those of
/// [`Disk::open`].
pub fn read_file(disk: &dyn Disk, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut file = disk.open(path)?;
    if file.length > limit {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("{} bytes, where {limit} are the limit", file.length),
        ));
    }
    let mut bytes = Vec::new();
    read_exactly(&mut file.bytes, file.length, &mut bytes)?;
    Ok(bytes)
}

/// Appends the next `length` bytes of a file, all of them.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] when the file ends before, [`io::ErrorKind::OutOfMemory`] when
/// they do not fit; otherwise what the system says.
pub fn read_exactly(reader: &mut dyn Read, length: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    let length = usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let start = bytes.len();
    bytes.try_reserve_exact(length)?;
    bytes.resize(start + length, 0);
    if planted!(ShortReadAccepted) {
        _ = reader.read(&mut bytes[start..]);
        return Ok(());
    }
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

    /// parquet-java lost rows to a read that came back short, raft-engine took an interrupted one
    /// for the end of the file.
    #[test]
    fn short_and_interrupted_reads_are_completed() {
        let contents: Vec<u8> = (0..=255).collect();
        let disk = disk_with("a", &contents);
        disk.stutter(7);
        assert_eq!(read_file(&disk, Path::new("/f/a"), 256).unwrap(), contents);
    }

    #[test]
    fn a_file_is_read_bit_by_bit() {
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
