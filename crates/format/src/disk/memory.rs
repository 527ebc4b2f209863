//! A disk in memory whose power can be cut, for tests of all code that touches files.
//!
//! It keeps two states: what programs see (`live`) and what has certainly reached the medium
//! (`durable`), with the changes between them in order. A file's sync makes its pieces durable, a
//! folder's sync its names. When the power is cut, each waiting change may have arrived or not,
//! independently of all others:
//!
//! ```text
//!   write of n bytes   -> pieces, torn apart, and the new length without them
//!   create, rename, remove, new folder -> one change of a name each, atomic, in any subset
//! ```
//!
//! [`MemoryDisk::after_power_cut`] yields every such disk if there are few changes, and a seeded
//! random choice if there are many. A [`PowerCut`] says where writes tear and what is in the gaps.
//! That is harsher than any one file system, after Pillai et al. ("All File Systems Are Not
//! Created Equal", OSDI 2014). Bytes that were durable do not rot here.

mod cut;
mod state;
mod subsets;

use super::{Disk, NewFile, Opened};
use crate::sync::unpoisoned;
pub use cut::{Lost, PowerCut, Tear};
use state::{FileState, NameChange, Node, State, Stutter};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use subsets::subsets;

/// Files and folders in memory; clones share them. The folder `/` exists.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
}

/// A fault of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// One operation fails. A sync that fails loses the bytes that it should have stored.
    Once(io::ErrorKind),
    /// This operation and all that follow fail.
    Forever(io::ErrorKind),
    /// The power is off from this operation on; see [`MemoryDisk::after_power_cut`].
    PowerCut,
    /// The next write stores its first byte wrongly and reports success.
    CorruptWrite,
}

impl MemoryDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Operations so far; each call that reads or writes bytes counts as one.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Bytes that were written but are not durable yet.
    pub fn unsynced_bytes(&self) -> usize {
        self.state().unsynced_bytes()
    }

    /// Lets `after` more operations succeed, then applies the fault. Replaces an earlier fault.
    pub fn fail(&self, after: u64, fault: Fault) {
        let mut state = self.state();
        state.fault = Some((state.operations.saturating_add(after), fault));
    }

    /// Lets `bytes` more bytes be written before the disk is full.
    pub fn limit_free_bytes(&self, bytes: usize) {
        self.state().free_bytes = Some(bytes);
    }

    /// From now on syncs succeed and store nothing, like a disk that keeps such bytes in a volatile
    /// cache.
    pub fn lie(&self) {
        self.state().lies = true;
    }

    /// Transfers at most `most` bytes per call and interrupts every second call.
    pub fn stutter(&self, most: usize) {
        self.state().stutter = Some(Stutter {
            most,
            interrupt_next: false,
        });
    }

    /// The disks that a power cut may leave, with faults repaired.
    ///
    /// The same as [`MemoryDisk::after`] with [`PowerCut::new`].
    pub fn after_power_cut(&self, seed: u64) -> impl Iterator<Item = MemoryDisk> + use<> {
        self.after(PowerCut::new(seed))
    }

    /// The disks that this power cut may leave, with faults repaired.
    ///
    /// All of them if at most ten changes wait to become durable; otherwise `cut.samples` of them.
    pub fn after(&self, cut: PowerCut) -> impl Iterator<Item = MemoryDisk> + use<> {
        // Of one moment: others may write meanwhile.
        let now = self.state().clone();
        let changes = now.changes(cut.tear);
        subsets(changes, cut.samples, cut.seed).map(move |kept| {
            let state = now.image(cut, &kept);
            MemoryDisk {
                state: Arc::new(Mutex::new(state)),
            }
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        unpoisoned(self.state.lock())
    }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path) -> io::Result<Opened> {
        let mut state = self.state();
        state.begin()?;
        let Node::File(file) = state.node(path)? else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Ok(Opened {
            length: state.files[file].live.len() as u64,
            bytes: Box::new(Handle {
                disk: self.clone(),
                file,
                position: 0,
            }),
        })
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        let mut state = self.state();
        state.begin()?;
        state.folder(path.parent())?;
        if state.node(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = state.files.len();
        state.files.push(FileState::default());
        state.change(NameChange::Create(path.to_owned(), Node::File(file)));
        Ok(Box::new(Handle {
            disk: self.clone(),
            file,
            position: 0,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin()?;
        if from.parent() != to.parent() {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        let node = state.node(from)?;
        state.change(NameChange::Rename(from.to_owned(), to.to_owned(), node));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin()?;
        match state.node(path)? {
            Node::Folder => Err(io::ErrorKind::IsADirectory.into()),
            Node::File(_) => {
                state.change(NameChange::Remove(path.to_owned()));
                Ok(())
            }
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.begin()?;
        state.folder(Some(folder))?;
        let inside = state
            .live
            .keys()
            .filter(|path| path.parent() == Some(folder));
        let names = inside.filter_map(|path| path.file_name()?.to_str());
        Ok(names.map(str::to_owned).collect())
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin()?;
        match state.node(path) {
            Ok(Node::Folder) => Ok(()),
            Ok(Node::File(_)) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => {
                state.folder(path.parent())?;
                state.change(NameChange::Create(path.to_owned(), Node::Folder));
                Ok(())
            }
        }
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin()?;
        state.folder(Some(path))?;
        state.sync_names(path);
        Ok(())
    }
}

/// An open file of a [`MemoryDisk`].
struct Handle {
    disk: MemoryDisk,
    file: usize,
    position: usize,
}

impl Read for Handle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.begin()?;
        let most = state.transfer(buffer.len())?;
        let rest = &state.files[self.file].live[self.position..];
        let length = rest.len().min(most);
        buffer[..length].copy_from_slice(&rest[..length]);
        self.position += length;
        Ok(length)
    }
}

impl Write for Handle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.begin()?;
        state.write(self.file, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl NewFile for Handle {
    fn sync(self: Box<Self>) -> io::Result<()> {
        let mut state = self.disk.state();
        let outcome = state.begin();
        let power_is_off = matches!(state.fault, Some((_, Fault::PowerCut)));
        let lies = state.lies;
        let file = &mut state.files[self.file];
        match &outcome {
            Ok(()) if lies => {}
            Ok(()) => file.sync(),
            Err(_) if power_is_off => {}
            Err(_) => file.lose(),
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::read_file;

    fn write(disk: &MemoryDisk, path: &str, bytes: &[u8]) -> Box<dyn NewFile> {
        let mut file = disk.create_new(Path::new(path)).unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn images(disk: &MemoryDisk, path: &str) -> Vec<Option<Vec<u8>>> {
        let images = disk.after_power_cut(1);
        let mut found: Vec<_> = images
            .map(|image| read_file(&image, Path::new(path), 1 << 20).ok())
            .collect();
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn power_cut_during_writes_copies_one_disk_state() {
        let disk = MemoryDisk::new();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for number in 0..2_000 {
                    write(&disk, &format!("/{number}"), b"1234");
                }
            });
            while !writer.is_finished() {
                disk.after_power_cut(1).take(2).for_each(drop);
            }
        });
    }

    #[test]
    fn unsynced_bytes_may_be_lost_in_any_part() {
        let disk = MemoryDisk::new();
        write(&disk, "/a", b"1234");
        let found = images(&disk, "/a");
        for possible in [
            None,
            Some("".as_bytes()),
            Some(b"1234"),
            Some(b"\0\0\0\0"),
            Some(b"\x002"),
        ] {
            assert!(
                found.contains(&possible.map(<[u8]>::to_vec)),
                "{possible:?}"
            );
        }
    }

    #[test]
    fn synced_file_survives_a_power_cut() {
        let disk = MemoryDisk::new();
        write(&disk, "/a", b"1234").sync().unwrap();
        assert_eq!(images(&disk, "/a"), [None, Some(b"1234".to_vec())]);
        disk.sync_folder(Path::new("/")).unwrap();
        assert_eq!(images(&disk, "/a"), [Some(b"1234".to_vec())]);
    }

    #[test]
    fn files_in_a_lost_folder_are_lost() {
        let disk = MemoryDisk::new();
        disk.create_folder(Path::new("/f")).unwrap();
        write(&disk, "/f/a", b"1").sync().unwrap();
        disk.sync_folder(Path::new("/f")).unwrap();
        assert_eq!(images(&disk, "/f/a"), [None, Some(b"1".to_vec())]);
    }

    #[test]
    fn torn_write_loses_whole_pieces_only() {
        let disk = MemoryDisk::new();
        write(&disk, "/a", b"123456");
        disk.sync_folder(Path::new("/")).unwrap();
        let cut = PowerCut {
            tear: Tear::Bytes(4),
            ..PowerCut::new(1)
        };
        let mut found: Vec<Vec<u8>> = disk
            .after(cut)
            .map(|image| read_file(&image, Path::new("/a"), 9).unwrap())
            .collect();
        found.sort();
        found.dedup();
        let expected: [&[u8]; 6] = [
            b"",
            b"\0\0\0\0\0\0",
            b"\0\0\0\x0056",
            b"1234",
            b"1234\0\0",
            b"123456",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn lost_bytes_may_be_stale_bytes_of_an_older_file() {
        let disk = MemoryDisk::new();
        write(&disk, "/old", b"abc").sync().unwrap();
        write(&disk, "/new", b"1234");
        disk.sync_folder(Path::new("/")).unwrap();
        let cut = PowerCut {
            tear: Tear::Bytes(1),
            lost: Lost::Stale,
            ..PowerCut::new(1)
        };
        let found: Vec<Vec<u8>> = disk
            .after(cut)
            .map(|image| read_file(&image, Path::new("/new"), 9).unwrap())
            .collect();
        for possible in ["abc\0", "1bc4", "1234", ""] {
            assert!(found.contains(&possible.as_bytes().to_vec()), "{possible}");
        }
    }

    #[test]
    fn power_cut_samples_are_random_but_repeatable() {
        let disk = MemoryDisk::new();
        for i in 0..20 {
            write(&disk, &format!("/{i}"), b"12345678");
        }
        let names = |seed| -> Vec<_> {
            let images = disk.after_power_cut(seed);
            images
                .map(|image| image.list(Path::new("/")).unwrap())
                .collect()
        };
        assert_eq!(names(7).len(), PowerCut::new(7).samples);
        assert_eq!(names(7), names(7));
        assert_ne!(names(7), names(8));
    }

    #[test]
    fn disk_that_lies_about_sync_may_lose_synced_files() {
        let disk = MemoryDisk::new();
        disk.lie();
        write(&disk, "/a", b"1").sync().unwrap();
        disk.sync_folder(Path::new("/")).unwrap();
        for possible in [None, Some("".as_bytes()), Some(b"\0"), Some(b"1")] {
            let possible = possible.map(<[u8]>::to_vec);
            assert!(images(&disk, "/a").contains(&possible), "{possible:?}");
        }
    }

    #[test]
    fn failed_sync_loses_bytes_that_are_still_readable() {
        let disk = MemoryDisk::new();
        let file = write(&disk, "/a", b"1");
        disk.sync_folder(Path::new("/")).unwrap();
        disk.fail(0, Fault::Once(io::ErrorKind::Other));
        file.sync().unwrap_err();
        assert_eq!(read_file(&disk, Path::new("/a"), 9).unwrap(), b"1");
        assert_eq!(images(&disk, "/a"), [Some(Vec::new())]);
    }
}
