//! Publishes new contents under a name, all or nothing.
//!
//! What a reader may find under the name if the power is cut after each step:
//!
//! ```text
//!   create, write, sync the temporary    old file or none; a left-over temporary
//!   read it back and compare             the same
//!   rename                               old or new, whichever name survives: both are whole
//!   sync the folder                      new
//! ```
//!
//! Reading back notices a write that went wrong on the way to the page cache or, if the system
//! drops the pages from it, on the way to the device. It does not prove what the device holds: the
//! checksums of the format are verified again at every load.

use super::{Disk, NewFile};
use crate::fault::fault;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes that are written, and read back, at once.
const PIECE: usize = 32 << 10;

const TEMPORARY_SUFFIX: &str = ".tmp";
const TAG_DIGITS: usize = 16;

/// A file was not published. The file that had its name is unchanged, unless the last step failed:
/// then either the whole old file or the whole new one has the name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// An operation failed.
    #[error("cannot {step} {}: free space or repair the disk; the next attempt uses a new file", path.display())]
    Io {
        /// The step that failed.
        step: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file did not read back as it was written.
    #[error("{} does not read back as it was written: it differs in the {PIECE} bytes from byte {offset} on; check the disk and memory of this machine", path.display())]
    ReadBack {
        /// The temporary file, which has been removed.
        path: PathBuf,
        /// Offset of the first piece that differs.
        offset: u64,
    },
}

/// Writes `bytes` into `folder` under `name`, durably, whole or not at all.
///
/// # Errors
/// [`PublishError`] says which step failed, and on which file. The temporary file is removed if
/// possible. One that stays is recognised by [`is_temporary`].
pub fn publish(
    disk: &dyn Disk,
    folder: &Path,
    name: &str,
    bytes: &[u8],
) -> Result<(), PublishError> {
    Draft::write(disk, folder, name, |file| file.write_all(bytes))?.publish()
}

/// New contents that are durable and were read back as written, but do not have their name yet. If
/// dropped, they are removed if possible.
#[must_use = "a draft that is dropped is removed"]
#[derive(Debug)]
pub struct Draft<'d> {
    disk: &'d dyn Disk,
    folder: &'d Path,
    temporary: PathBuf,
    name: PathBuf,
    length: u64,
    is_published: bool,
}

impl<'d> Draft<'d> {
    /// Writes new contents for `name` in `folder`. `contents` writes them from the first byte on.
    ///
    /// # Errors
    /// The same as [`publish`].
    pub fn write(
        disk: &'d dyn Disk,
        folder: &'d Path,
        name: &str,
        contents: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Self, PublishError> {
        let mut draft = Self {
            disk,
            folder,
            temporary: folder.join(temporary_name(name)?),
            name: folder.join(name),
            length: 0,
            is_published: false,
        };
        let path = &draft.temporary;
        let file = at("create", path, disk.create_new(path))?;
        let mut pieces = Pieces::new(file);
        at(
            "write",
            path,
            contents(&mut pieces).and_then(|()| pieces.close()),
        )?;
        let Pieces { file, written, .. } = pieces;
        at("sync", path, sync(file))?;
        if let Some(offset) = at("read back", path, written.first_difference(disk, path))? {
            return Err(PublishError::ReadBack {
                path: path.clone(),
                offset,
            });
        }
        draft.length = written.length;
        Ok(draft)
    }

    /// Length of the contents in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Gives the contents their name, durably, in place of the file that had it.
    ///
    /// # Errors
    /// The same as [`publish`].
    pub fn publish(mut self) -> Result<(), PublishError> {
        let renamed = self.disk.rename(&self.temporary, &self.name);
        at("rename a new file to", &self.name, renamed)?;
        self.is_published = true;
        fault!(NoFolderSync, return Ok(()));
        let synced = self.disk.sync_folder(self.folder);
        at("sync the folder", self.folder, synced)
    }
}

fn sync(file: Box<dyn NewFile>) -> io::Result<()> {
    fault!(NoFileSync, return Ok(()));
    let synced = file.sync();
    fault!(SyncRetried, return Ok(()));
    synced
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.is_published {
            // A file that stays is swept later.
            drop(self.disk.remove(&self.temporary));
        }
    }
}

/// Hashes of what was written, to compare with what is read back.
#[derive(Default)]
struct Written {
    length: u64,
    /// One hash for each piece. Not CRC-32: over bytes that end with their own CRC-32, as blocks of
    /// a sidecar do, it is always the same.
    hashes: Vec<u64>,
}

impl Written {
    /// Offset of the first piece that differs.
    fn first_difference(&self, disk: &dyn Disk, path: &Path) -> io::Result<Option<u64>> {
        fault!(NotReadBack, return Ok(None));
        let mut file = disk.open(path)?;
        let mut buffer = vec![0; PIECE];
        let mut offset = 0;
        for hash in &self.hashes {
            let length = (self.length - offset).min(PIECE as u64);
            let piece = &mut buffer[..length as usize];
            file.bytes.read_exact(piece)?;
            if xxh3_64(piece) != *hash {
                return Ok(Some(offset));
            }
            offset += length;
        }
        fault!(LongerReadBack, return Ok(None));
        Ok((file.length != offset).then_some(offset))
    }
}

/// Writes a file in pieces.
struct Pieces {
    file: Box<dyn NewFile>,
    open: Vec<u8>,
    written: Written,
}

impl Pieces {
    fn new(file: Box<dyn NewFile>) -> Self {
        Self {
            file,
            open: Vec::with_capacity(PIECE),
            written: Written::default(),
        }
    }

    /// Writes the open piece, unless it is empty.
    fn close(&mut self) -> io::Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        self.written.hashes.try_reserve(1)?;
        self.written.hashes.push(xxh3_64(&self.open));
        self.written.length += self.open.len() as u64;
        self.file.write_all(&self.open)?;
        self.open.clear();
        Ok(())
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.open.len() == PIECE {
            self.close()?;
        }
        let now = bytes.len().min(PIECE - self.open.len());
        self.open.extend_from_slice(&bytes[..now]);
        Ok(now)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether this is the name of a file that [`publish`] did not finish.
pub fn is_temporary(name: &str) -> bool {
    let tag = name
        .strip_suffix(TEMPORARY_SUFFIX)
        .and_then(|stem| stem.rsplit_once('.'));
    tag.is_some_and(|(stem, tag)| {
        !stem.is_empty() && tag.len() == TAG_DIGITS && tag.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

fn temporary_name(name: &str) -> Result<String, PublishError> {
    let tag = getrandom::u64().map_err(io::Error::from);
    let tag = at("draw a random name for", Path::new(name), tag)?;
    Ok(format!("{name}.{tag:016x}{TEMPORARY_SUFFIX}"))
}

fn at<T>(step: &'static str, path: &Path, result: io::Result<T>) -> Result<T, PublishError> {
    result.map_err(|source| PublishError::Io {
        step,
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Fault, MemoryDisk, read_file};

    const FOLDER: &str = "/f";
    const OLD: &[u8] = b"the old contents";

    fn new_contents() -> Vec<u8> {
        (0..1500_u32).map(|i| (i % 251) as u8 + 1).collect()
    }

    fn disk(old: Option<&[u8]>) -> MemoryDisk {
        let disk = MemoryDisk::new();
        disk.create_folder(Path::new(FOLDER)).unwrap();
        disk.sync_folder(Path::new("/")).unwrap();
        if let Some(old) = old {
            publish(&disk, Path::new(FOLDER), "name", old).unwrap();
        }
        disk
    }

    fn publish_new(disk: &MemoryDisk) -> Result<(), PublishError> {
        publish(disk, Path::new(FOLDER), "name", &new_contents())
    }

    fn found(disk: &MemoryDisk) -> Option<Vec<u8>> {
        match read_file(disk, &Path::new(FOLDER).join("name"), 1 << 20) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn operations_of_a_publish(old: Option<&[u8]>) -> u64 {
        let disk = disk(old);
        let before = disk.operations();
        publish_new(&disk).unwrap();
        disk.operations() - before
    }

    fn cut_everywhere(old: Option<&[u8]>) {
        let new = new_contents();
        let total = operations_of_a_publish(old);
        let mut images = 0;
        for survivors in 0..=total {
            let disk = disk(old);
            disk.fail(survivors, Fault::PowerCut);
            let published = publish_new(&disk);
            assert_eq!(published.is_ok(), survivors == total);
            for image in disk.after_power_cut(survivors) {
                images += 1;
                match found(&image) {
                    Some(bytes) if bytes == new => {}
                    Some(bytes) => assert_eq!(Some(bytes.as_slice()), old, "a mix at {survivors}"),
                    None => assert!(old.is_none(), "lost at {survivors}"),
                }
                if survivors == total {
                    assert_eq!(found(&image).as_ref(), Some(&new), "published, then lost");
                }
            }
        }
        assert!(images > 50, "only {images} images: the disk loses nothing");
    }

    #[test]
    fn a_power_cut_anywhere_leaves_the_new_file_or_none() {
        cut_everywhere(None);
    }

    #[test]
    fn a_power_cut_anywhere_leaves_the_new_file_or_the_old() {
        cut_everywhere(Some(OLD));
    }

    #[test]
    fn an_error_anywhere_leaves_a_whole_file_and_no_temporary() {
        for n in 0..operations_of_a_publish(Some(OLD)) {
            let disk = disk(Some(OLD));
            disk.fail(n, Fault::Once(io::ErrorKind::PermissionDenied));
            publish_new(&disk).unwrap_err();
            assert_eq!(disk.list(Path::new(FOLDER)).unwrap(), ["name"], "at {n}");
            let bytes = found(&disk).unwrap();
            assert!(bytes == OLD || bytes == new_contents(), "at {n}");
        }
    }

    /// After a failed sync, the pages are marked clean but lost: no file may be renamed in their
    /// place.
    #[test]
    fn a_failed_sync_is_not_retried() {
        const CREATE_AND_WRITE: u64 = 2;
        let disk = disk(Some(OLD));
        disk.fail(CREATE_AND_WRITE, Fault::Once(io::ErrorKind::Other));
        let error = publish_new(&disk).unwrap_err();
        assert!(matches!(error, PublishError::Io { step: "sync", .. }));
        for image in disk.after_power_cut(1) {
            assert_eq!(found(&image).unwrap(), OLD);
        }
    }

    #[test]
    fn a_full_disk_leaves_the_old_file_and_nothing_half_written() {
        for room in [0, 1, 700, 1499] {
            let disk = disk(Some(OLD));
            disk.limit_free_bytes(room);
            let error = publish_new(&disk).unwrap_err();
            assert!(matches!(error, PublishError::Io { step: "write", .. }));
            assert_eq!(disk.list(Path::new(FOLDER)).unwrap(), ["name"]);
            assert_eq!(found(&disk).unwrap(), OLD);
        }
    }

    #[test]
    fn short_and_interrupted_transfers_are_completed() {
        let disk = disk(None);
        disk.stutter(13);
        publish_new(&disk).unwrap();
        assert_eq!(found(&disk).unwrap(), new_contents());
    }

    #[test]
    fn file_that_reads_back_differently_is_not_published() {
        let disk = disk(Some(OLD));
        disk.fail(0, Fault::CorruptWrite);
        let error = publish_new(&disk).unwrap_err();
        assert!(matches!(error, PublishError::ReadBack { offset: 0, .. }));
        assert_eq!(found(&disk).unwrap(), OLD);
        assert_eq!(disk.list(Path::new(FOLDER)).unwrap(), ["name"]);
    }

    /// A file that continues after the written bytes is a different file.
    #[test]
    fn longer_file_differs_at_the_end_of_the_written_bytes() {
        let disk = disk(Some(OLD));
        let path = Path::new(FOLDER).join("name");
        let difference = |bytes: &[u8]| {
            let written = Written {
                length: bytes.len() as u64,
                hashes: bytes.chunks(PIECE).map(xxh3_64).collect(),
            };
            written.first_difference(&disk, &path).unwrap()
        };
        assert_eq!(difference(OLD), None);
        assert_eq!(difference(&OLD[..7]), Some(7));
        assert_eq!(difference(&OLD[..0]), Some(0));
        let mut long = new_contents().repeat(3 * PIECE / new_contents().len());
        publish(&disk, Path::new(FOLDER), "name", &long).unwrap();
        assert_eq!(difference(&long), None);
        assert_eq!(difference(&long[..2 * PIECE]), Some(2 * PIECE as u64));
        long[PIECE + 7] ^= 1;
        assert_eq!(difference(&long), Some(PIECE as u64));
    }

    #[test]
    fn draft_has_its_final_name_only_once_published() {
        let disk = disk(Some(OLD));
        let folder = Path::new(FOLDER);
        let draft = || {
            let contents = new_contents();
            let by_bytes = |file: &mut dyn io::Write| {
                let mut bytes = contents.chunks(7);
                bytes.try_for_each(|bytes| file.write_all(bytes))
            };
            Draft::write(&disk, folder, "name", by_bytes).unwrap()
        };
        let dropped = draft();
        assert_eq!(dropped.length(), new_contents().len() as u64);
        assert_eq!(disk.list(folder).unwrap().len(), 2);
        assert_eq!(found(&disk).unwrap(), OLD);
        drop(dropped);
        assert_eq!(disk.list(folder).unwrap(), ["name"]);
        draft().publish().unwrap();
        assert_eq!(disk.list(folder).unwrap(), ["name"]);
        assert_eq!(found(&disk).unwrap(), new_contents());
    }

    #[test]
    fn failed_write_of_contents_leaves_the_old_file() {
        let disk = disk(Some(OLD));
        let contents = |_: &mut dyn io::Write| Err(io::ErrorKind::Other.into());
        let error = Draft::write(&disk, Path::new(FOLDER), "name", contents).unwrap_err();
        assert!(matches!(error, PublishError::Io { step: "write", .. }));
        assert_eq!(disk.list(Path::new(FOLDER)).unwrap(), ["name"]);
        assert_eq!(found(&disk).unwrap(), OLD);
    }

    #[test]
    fn temporary_files_are_recognised_by_name() {
        assert!(is_temporary(&temporary_name("x.sieve").unwrap()));
        for other in [
            "x.sieve",
            ".tmp",
            "x.tmp",
            "x.123.tmp",
            ".0123456789abcdef.tmp",
        ] {
            assert!(!is_temporary(other), "{other}");
        }
    }
}
