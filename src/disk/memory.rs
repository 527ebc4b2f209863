//! A disk in memory whose power can be cut, for tests of everything that touches files.
//!
//! It keeps two views: what programs see (`live`) and what has surely reached the medium
//! (`durable`), with the changes between them in order. A sync moves a file's pieces, a folder
//! sync a folder's names. When the power goes, each change that waits may have arrived or not,
//! independently of all others:
//!
//! ```text
//!   write of n bytes   -> up to four pieces, torn apart, and the new length without them
//!   create, rename, remove, new folder -> one change of a name each, atomic, in any subset
//! ```
//!
//! [`MemoryDisk::after_power_cut`] yields every such disk while there are few changes and a
//! seeded random choice beyond. That is harsher than any one file system, after Pillai et al.
//! ("All File Systems Are Not Created Equal", OSDI 2014); bytes that were durable do not rot here.

use super::{Disk, NewFile, Opened};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Up to this many waiting changes, every subset of them is tried.
const EXHAUSTIVE_CHANGES: usize = 10;
/// Beyond, so many random subsets.
const RANDOM_SUBSETS: usize = 256;
const PIECES_OF_A_WRITE: usize = 4;

/// Files and folders in memory; clones share them. The folder `/` exists.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
}

/// What goes wrong with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// One operation fails; a sync that fails loses what it should have stored.
    Once(io::ErrorKind),
    /// This operation and all that follow fail.
    Forever(io::ErrorKind),
    /// The power is off from this operation on: see [`MemoryDisk::after_power_cut`].
    PowerCut,
    /// The next write stores its first byte wrongly and reports success.
    CorruptWrite,
}

#[derive(Debug, Default)]
struct State {
    live: Tree,
    durable: Tree,
    waiting: Vec<NameChange>,
    files: Vec<FileState>,
    operations: u64,
    fault: Option<(u64, Fault)>,
    free_bytes: Option<usize>,
    stutter: Option<Stutter>,
}

type Tree = BTreeMap<PathBuf, Node>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Folder,
    File(usize),
}

#[derive(Clone, Debug)]
enum NameChange {
    Create(PathBuf, Node),
    Rename(PathBuf, PathBuf, Node),
    Remove(PathBuf),
}

#[derive(Debug, Default)]
struct FileState {
    live: Vec<u8>,
    durable: Vec<u8>,
    waiting: Vec<Piece>,
}

/// Bytes at an offset; without bytes, a length that the file grew to.
#[derive(Clone, Debug)]
struct Piece {
    offset: usize,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Stutter {
    most: usize,
    interrupt_next: bool,
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

    /// Lets `after` more operations pass, then applies the fault; it replaces an earlier one.
    pub fn fail(&self, after: u64, fault: Fault) {
        let mut state = self.state();
        state.fault = Some((state.operations.saturating_add(after), fault));
    }

    /// Lets so many more bytes be written before the disk is full.
    pub fn limit_free_bytes(&self, bytes: usize) {
        self.state().free_bytes = Some(bytes);
    }

    /// Moves at most `most` bytes a call and interrupts every second call.
    pub fn stutter(&self, most: usize) {
        self.state().stutter = Some(Stutter {
            most,
            interrupt_next: false,
        });
    }

    /// The disks that may be found when the power comes back, faults repaired.
    ///
    /// All of them while at most ten changes wait to be made durable; otherwise 256 chosen by `seed`.
    pub fn after_power_cut(&self, seed: u64) -> impl Iterator<Item = MemoryDisk> + use<> {
        let disk = self.clone();
        let changes = disk.state().changes();
        subsets(changes, seed).map(move |kept| disk.state().image(&kept))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which of `changes` changes survive, for each disk to be tried.
fn subsets(changes: usize, seed: u64) -> impl Iterator<Item = Vec<bool>> {
    let exhaustive = changes <= EXHAUSTIVE_CHANGES;
    let count = if exhaustive {
        1 << changes
    } else {
        RANDOM_SUBSETS
    };
    let mut random = SplitMix(seed);
    (0..count).map(move |subset: usize| {
        (0..changes)
            .map(|change| {
                if exhaustive {
                    subset >> change & 1 == 1
                } else {
                    random.next() & 1 == 1
                }
            })
            .collect()
    })
}

/// SplitMix64 (Steele et al., OOPSLA 2014): enough to choose subsets by a seed.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl State {
    /// Counts an operation and lets a fault that is due strike.
    fn begin(&mut self) -> io::Result<()> {
        let now = self.operations;
        self.operations += 1;
        match self.fault {
            Some((at, Fault::Once(kind))) if now == at => Err(kind.into()),
            Some((at, Fault::Forever(kind))) if now >= at => Err(kind.into()),
            Some((at, Fault::PowerCut)) if now >= at => Err(io::Error::other("the power is off")),
            _ => Ok(()),
        }
    }

    /// How many of `length` bytes this transfer may move.
    fn transfer(&mut self, length: usize) -> io::Result<usize> {
        let Some(stutter) = &mut self.stutter else {
            return Ok(length);
        };
        stutter.interrupt_next = !stutter.interrupt_next;
        if stutter.interrupt_next {
            Ok(length.min(stutter.most))
        } else {
            Err(io::ErrorKind::Interrupted.into())
        }
    }

    fn node(&self, path: &Path) -> io::Result<Node> {
        if path == Path::new("/") {
            return Ok(Node::Folder);
        }
        let node = self.live.get(path).copied();
        node.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn folder(&self, path: Option<&Path>) -> io::Result<()> {
        match self.node(path.ok_or(io::ErrorKind::NotFound)?)? {
            Node::Folder => Ok(()),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.live);
        self.waiting.push(change);
    }

    fn sync_names(&mut self, folder: &Path) {
        let (here, elsewhere) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|change| change.folder() == Some(folder));
        self.waiting = elsewhere;
        let here: Vec<NameChange> = here;
        here.iter()
            .for_each(|change| change.apply(&mut self.durable));
    }

    fn write(&mut self, file: usize, bytes: &[u8]) -> io::Result<usize> {
        let length = self.transfer(bytes.len())?;
        let length = length.min(self.free_bytes.unwrap_or(usize::MAX));
        if length == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.free_bytes = self.free_bytes.map(|free| free - length);
        let mut stored = bytes[..length].to_vec();
        if let (Some((at, Fault::CorruptWrite)), Some(first)) = (self.fault, stored.first_mut())
            && self.operations > at
        {
            *first ^= 1;
            self.fault = None;
        }
        self.files[file].append(&stored);
        Ok(length)
    }

    fn changes(&self) -> usize {
        let pieces: usize = self.files.iter().map(|file| file.waiting.len()).sum();
        self.waiting.len() + pieces
    }

    /// The disk after a power cut that these changes survived.
    fn image(&self, kept: &[bool]) -> MemoryDisk {
        let (names, mut pieces) = kept.split_at(self.waiting.len());
        let mut tree = self.durable.clone();
        for (change, _) in self.waiting.iter().zip(names).filter(|(_, kept)| **kept) {
            change.apply(&mut tree);
        }
        drop_orphans(&mut tree);
        let files = self.files.iter().map(|file| {
            let (own, others) = pieces.split_at(file.waiting.len());
            pieces = others;
            FileState::settled(file.survivor(own))
        });
        let state = State {
            files: files.collect(),
            live: tree.clone(),
            durable: tree,
            ..State::default()
        };
        MemoryDisk {
            state: Arc::new(Mutex::new(state)),
        }
    }
}

/// Removes what lies in folders that did not survive; parents sort before their children.
fn drop_orphans(tree: &mut Tree) {
    let mut kept = Tree::new();
    for (path, node) in std::mem::take(tree) {
        let parent = path.parent().unwrap_or(Path::new("/"));
        if parent == Path::new("/") || kept.get(parent) == Some(&Node::Folder) {
            kept.insert(path, node);
        }
    }
    *tree = kept;
}

impl NameChange {
    fn folder(&self) -> Option<&Path> {
        let (Self::Create(path, _) | Self::Rename(_, path, _) | Self::Remove(path)) = self;
        path.parent()
    }

    fn apply(&self, tree: &mut Tree) {
        match self {
            Self::Create(path, node) => {
                tree.insert(path.clone(), *node);
            }
            Self::Rename(from, to, node) => {
                if tree.get(from) == Some(node) {
                    tree.remove(from);
                }
                tree.insert(to.clone(), *node);
            }
            Self::Remove(path) => {
                tree.remove(path);
            }
        }
    }
}

impl FileState {
    fn settled(bytes: Vec<u8>) -> Self {
        Self {
            live: bytes.clone(),
            durable: bytes,
            waiting: Vec::new(),
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        let start = self.live.len();
        self.live.extend_from_slice(bytes);
        self.waiting.push(Piece {
            offset: self.live.len(),
            bytes: Vec::new(),
        });
        let size = bytes.len().div_ceil(PIECES_OF_A_WRITE).max(1);
        for (i, piece) in bytes.chunks(size).enumerate() {
            self.waiting.push(Piece {
                offset: start + i * size,
                bytes: piece.to_vec(),
            });
        }
    }

    fn sync(&mut self) {
        self.durable.clone_from(&self.live);
        self.waiting.clear();
    }

    fn survivor(&self, kept: &[bool]) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for (piece, _) in self.waiting.iter().zip(kept).filter(|(_, kept)| **kept) {
            let end = piece.offset + piece.bytes.len();
            bytes.resize(bytes.len().max(end), 0);
            bytes[piece.offset..end].copy_from_slice(&piece.bytes);
        }
        bytes
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
        let file = &mut state.files[self.file];
        match &outcome {
            Ok(()) => file.sync(),
            // The kernel marked the pages clean: nothing will ever write them.
            Err(_) if !power_is_off => file.waiting.clear(),
            Err(_) => {}
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
    fn what_was_not_synced_may_be_lost_in_any_part() {
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
    fn what_was_synced_stays() {
        let disk = MemoryDisk::new();
        write(&disk, "/a", b"1234").sync().unwrap();
        assert_eq!(images(&disk, "/a"), [None, Some(b"1234".to_vec())]);
        disk.sync_folder(Path::new("/")).unwrap();
        assert_eq!(images(&disk, "/a"), [Some(b"1234".to_vec())]);
    }

    #[test]
    fn a_lost_folder_takes_its_files_along() {
        let disk = MemoryDisk::new();
        disk.create_folder(Path::new("/f")).unwrap();
        write(&disk, "/f/a", b"1").sync().unwrap();
        disk.sync_folder(Path::new("/f")).unwrap();
        assert_eq!(images(&disk, "/f/a"), [None, Some(b"1".to_vec())]);
    }

    #[test]
    fn many_changes_are_cut_at_random_but_repeatably() {
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
        assert_eq!(names(7).len(), RANDOM_SUBSETS);
        assert_eq!(names(7), names(7));
        assert_ne!(names(7), names(8));
    }

    #[test]
    fn a_failed_sync_loses_the_bytes_that_are_still_seen() {
        let disk = MemoryDisk::new();
        let file = write(&disk, "/a", b"1");
        disk.sync_folder(Path::new("/")).unwrap();
        disk.fail(0, Fault::Once(io::ErrorKind::Other));
        file.sync().unwrap_err();
        assert_eq!(read_file(&disk, Path::new("/a"), 9).unwrap(), b"1");
        assert_eq!(images(&disk, "/a"), [Some(Vec::new())]);
    }
}
