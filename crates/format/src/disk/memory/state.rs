//! The state of a disk in memory: what programs see, what is durable, and the changes that wait.

use super::{Fault, Lost, PowerCut, Tear};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) live: Tree,
    durable: Tree,
    waiting: Vec<NameChange>,
    pub(super) files: Vec<FileState>,
    pub(super) operations: u64,
    pub(super) fault: Option<(u64, Fault)>,
    pub(super) free_bytes: Option<usize>,
    pub(super) stutter: Option<Stutter>,
    pub(super) lies: bool,
}

type Tree = BTreeMap<PathBuf, Node>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Folder,
    File(usize),
}

impl Node {
    fn file(&self) -> Option<usize> {
        match self {
            Self::File(file) => Some(*file),
            Self::Folder => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum NameChange {
    Create(PathBuf, Node),
    Rename(PathBuf, PathBuf, Node),
    Remove(PathBuf),
}

#[derive(Clone, Debug, Default)]
pub(super) struct FileState {
    pub(super) live: Vec<u8>,
    durable: Vec<u8>,
    /// Writes that are not durable yet, as ranges of `live`. Files are only appended to.
    waiting: Vec<Range<usize>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Stutter {
    pub(super) most: usize,
    pub(super) interrupt_next: bool,
}

impl State {
    /// Counts an operation, and returns an error if a fault is due.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        let now = self.operations;
        self.operations += 1;
        match self.fault {
            Some((at, Fault::Once(kind))) if now == at => Err(kind.into()),
            Some((at, Fault::Forever(kind))) if now >= at => Err(kind.into()),
            Some((at, Fault::PowerCut)) if now >= at => Err(io::Error::other("the power is off")),
            _ => Ok(()),
        }
    }

    /// Number of bytes, out of `length`, that this transfer may move.
    pub(super) fn transfer(&mut self, length: usize) -> io::Result<usize> {
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

    pub(super) fn node(&self, path: &Path) -> io::Result<Node> {
        if path == Path::new("/") {
            return Ok(Node::Folder);
        }
        let node = self.live.get(path).copied();
        node.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn folder(&self, path: Option<&Path>) -> io::Result<()> {
        match self.node(path.ok_or(io::ErrorKind::NotFound)?)? {
            Node::Folder => Ok(()),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn change(&mut self, change: NameChange) {
        change.apply(&mut self.live);
        self.waiting.push(change);
    }

    pub(super) fn sync_names(&mut self, folder: &Path) {
        if self.lies {
            return;
        }
        let waiting = std::mem::take(&mut self.waiting);
        for change in waiting {
            if change.folder() == Some(folder) {
                change.apply(&mut self.durable);
            } else {
                self.waiting.push(change);
            }
        }
    }

    pub(super) fn write(&mut self, file: usize, bytes: &[u8]) -> io::Result<usize> {
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

    pub(super) fn unsynced_bytes(&self) -> usize {
        let writes = self.files.iter().flat_map(|file| &file.waiting);
        writes.map(ExactSizeIterator::len).sum()
    }

    /// Number of changes that wait to become durable: names first, then the pieces of each file.
    pub(super) fn changes(&self, tear: Tear) -> usize {
        let pieces: usize = self
            .files
            .iter()
            .map(|file| file.pieces(tear).count())
            .sum();
        self.waiting.len() + pieces
    }

    /// The disk after a power cut that only the changes in `kept` survive.
    pub(super) fn image(&self, cut: PowerCut, kept: &[bool]) -> State {
        let (names, mut pieces) = kept.split_at(self.waiting.len());
        let mut tree = self.durable.clone();
        for (change, _) in self.waiting.iter().zip(names).filter(|(_, kept)| **kept) {
            change.apply(&mut tree);
        }
        drop_orphans(&mut tree);
        let named: BTreeSet<usize> = tree.values().filter_map(Node::file).collect();
        let files = self.files.iter().enumerate().map(|(at, file)| {
            let (own, others) = pieces.split_at(file.pieces(cut.tear).count());
            pieces = others;
            if !named.contains(&at) {
                return FileState::default();
            }
            let older = match cut.lost {
                Lost::Zeroed => &[],
                Lost::Stale => &self.files[..at],
            };
            FileState::settled(file.survivor(cut.tear, own, older))
        });
        State {
            files: files.collect(),
            live: tree.clone(),
            durable: tree,
            ..State::default()
        }
    }
}

/// Removes the contents of folders that did not survive. Parents sort before their children.
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
        self.waiting.push(start..self.live.len());
    }

    /// The parts of this file that survive or are lost independently. For each write: its length,
    /// as an empty range at its end, then the pieces of its bytes.
    fn pieces(&self, tear: Tear) -> impl Iterator<Item = Range<usize>> {
        self.waiting.iter().flat_map(move |write| {
            let piece = tear.piece(write.len());
            let starts = write.clone().step_by(piece);
            let bytes = starts.map(move |start| start..write.end.min(start.saturating_add(piece)));
            std::iter::once(write.end..write.end).chain(bytes)
        })
    }

    pub(super) fn sync(&mut self) {
        self.durable.clone_from(&self.live);
        self.waiting.clear();
    }

    /// A sync failed: the kernel marked the pages clean, so nothing will ever write them.
    pub(super) fn lose(&mut self) {
        self.waiting.clear();
    }

    fn survivor(&self, tear: Tear, kept: &[bool], older: &[FileState]) -> Vec<u8> {
        let kept = || self.pieces(tear).zip(kept).filter(|(_, kept)| **kept);
        let grown = kept().map(|(piece, _)| piece.end).max().unwrap_or(0);
        let length = grown.max(self.durable.len());
        let mut bytes = stale(older, length);
        bytes[..self.durable.len()].copy_from_slice(&self.durable);
        for (piece, _) in kept() {
            bytes[piece.clone()].copy_from_slice(&self.live[piece]);
        }
        bytes
    }
}

/// The first `length` bytes of the last of these files, with zeros after its end. Takes the live
/// bytes, because a sector may have been written although the write was never acknowledged.
fn stale(files: &[FileState], length: usize) -> Vec<u8> {
    let mut bytes = files.last().map_or_else(Vec::new, |file| file.live.clone());
    bytes.resize(length, 0);
    bytes
}
