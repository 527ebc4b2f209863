//! New contents under a name, all or nothing.
//!
//! What a reader can find under the name if the power is cut after each step:
//!
//! ```text
//!   create, write, sync the temporary    old file or none; a left-over temporary
//!   read it back and compare             the same
//!   rename                               old or new, whichever name survives: both are whole
//!   sync the folder                      new
//! ```
//!
//! Reading back notices a write that went wrong on the way to the page cache or, where the system
//! drops it, to the device. It is no proof of what the device holds: the checksums of the format
//! are asked again at every load.

use super::Disk;
use crate::planted::planted;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

const TEMPORARY_SUFFIX: &str = ".tmp";
const TAG_DIGITS: usize = 16;

/// A file was not published; what stood under its name before still stands, unless the last step
/// failed, after which either the old or the new whole file is found there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// An operation failed.
    #[error("cannot {step} {}; free space or repair the disk, the next attempt uses a new file", path.display())]
    Io {
        /// What was being done.
        step: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file did not read back as written.
    #[error("{} reads back other bytes than were written, from byte {offset}; check disk and memory of this machine", path.display())]
    ReadBack {
        /// The temporary file, removed by now.
        path: PathBuf,
        /// The first byte that differs.
        offset: u64,
    },
}

/// Puts `bytes` into `folder` under `name`, durably, whole or not at all.
///
/// # Errors
/// [`PublishError`] says which step failed, on what. The temporary file is removed if that is
/// possible; one that stays is known by [`is_temporary`].
pub fn publish(
    disk: &dyn Disk,
    folder: &Path,
    name: &str,
    bytes: &[u8],
) -> Result<(), PublishError> {
    let temporary = folder.join(temporary_name(name)?);
    let renamed = write_and_check(disk, &temporary, bytes).and_then(|()| {
        let to = folder.join(name);
        at("rename a new file to", &to, disk.rename(&temporary, &to))
    });
    if let Err(error) = renamed {
        // The first error is the one to report; what stays behind is swept later.
        drop(disk.remove(&temporary));
        return Err(error);
    }
    if planted!(NoFolderSync) {
        return Ok(());
    }
    at("sync the folder", folder, disk.sync_folder(folder))
}

/// Whether this is the name of a file that [`publish`] had not finished.
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

fn write_and_check(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), PublishError> {
    let mut file = at("create", path, disk.create_new(path))?;
    at("write", path, file.write_all(bytes))?;
    if !planted!(NoFileSync) {
        let synced = file.sync();
        if !planted!(SyncRetried) {
            at("sync", path, synced)?;
        }
    }
    match at("read back", path, first_difference(disk, path, bytes))? {
        _ if planted!(NotReadBack) => Ok(()),
        None => Ok(()),
        Some(offset) => Err(PublishError::ReadBack {
            path: path.to_owned(),
            offset,
        }),
    }
}

fn first_difference(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<Option<u64>> {
    let mut file = disk.open(path)?;
    let mut buffer = [0; 8192];
    let mut offset = 0;
    for expected in bytes.chunks(buffer.len()) {
        let (found, _) = buffer.split_at_mut(expected.len());
        file.bytes.read_exact(found)?;
        let same = expected.iter().zip(&*found).take_while(|(a, b)| a == b);
        let same = same.count();
        offset += same as u64;
        if same < expected.len() {
            return Ok(Some(offset));
        }
    }
    let ended = file.length == offset || planted!(LongerReadBack);
    Ok((!ended).then_some(offset))
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

    /// The pages of a failed sync are clean and lost: nothing may be renamed onto them.
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
    fn a_file_that_reads_back_otherwise_is_not_published() {
        let disk = disk(Some(OLD));
        disk.fail(0, Fault::CorruptWrite);
        let error = publish_new(&disk).unwrap_err();
        assert!(matches!(error, PublishError::ReadBack { offset: 0, .. }));
        assert_eq!(found(&disk).unwrap(), OLD);
        assert_eq!(disk.list(Path::new(FOLDER)).unwrap(), ["name"]);
    }

    /// A file with more behind what was written is another one.
    #[test]
    fn a_longer_file_differs_where_the_bytes_end() {
        let disk = disk(Some(OLD));
        let path = Path::new(FOLDER).join("name");
        let difference = |bytes| first_difference(&disk, &path, bytes).unwrap();
        assert_eq!(difference(OLD), None);
        assert_eq!(difference(&OLD[..7]), Some(7));
        assert_eq!(difference(&OLD[..0]), Some(0));
    }

    #[test]
    fn temporaries_are_told_by_their_names() {
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
