//! What a disk in memory holds: what programs see, what is durable, and what waits in between.

use super::Fault;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

const PIECES_OF_A_WRITE: usize = 4;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) live: Tree,
    durable: Tree,
    waiting: Vec<NameChange>,
    pub(super) files: Vec<FileState>,
    pub(super) operations: u64,
    pub(super) fault: Option<(u64, Fault)>,
    pub(super) free_bytes: Option<usize>,
    pub(super) stutter: Option<Stutter>,
}

type Tree = BTreeMap<PathBuf, Node>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Folder,
    File(usize),
}

#[derive(Clone, Debug)]
pub(super) enum NameChange {
    Create(PathBuf, Node),
    Rename(PathBuf, PathBuf, Node),
    Remove(PathBuf),
}

#[derive(Debug, Default)]
pub(super) struct FileState {
    pub(super) live: Vec<u8>,
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
pub(super) struct Stutter {
    pub(super) most: usize,
    pub(super) interrupt_next: bool,
}

impl State {
    /// Counts an operation and lets a fault that is due strike.
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

    /// How many of `length` bytes this transfer may move.
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

    /// How many changes wait to become durable: names first, then the pieces of each file.
    pub(super) fn changes(&self) -> usize {
        let pieces: usize = self.files.iter().map(|file| file.waiting.len()).sum();
        self.waiting.len() + pieces
    }

    /// The disk after a power cut that these changes survived.
    pub(super) fn image(&self, kept: &[bool]) -> State {
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
        State {
            files: files.collect(),
            live: tree.clone(),
            durable: tree,
            ..State::default()
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

    pub(super) fn sync(&mut self) {
        self.durable.clone_from(&self.live);
        self.waiting.clear();
    }

    /// A sync failed: the kernel marked the pages clean, so nothing will ever write them.
    pub(super) fn lose(&mut self) {
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
