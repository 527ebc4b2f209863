//! A disk to which recorded file operations are applied, and what it holds after a power cut.
//!
//! As [`lsm_sieve_format::disk::MemoryDisk`], which only the filters use, but for files that are written
//! at any place and synced many times, as those of a database are. Of unsynced changes any part
//! survives: a name, a length, a write or some sectors of one.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rand::RngExt as _;
use rand::rngs::StdRng;

use super::strace_log::{self, FileOp};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Folder,
    File(usize),
}

type Tree = BTreeMap<PathBuf, Node>;

#[derive(Clone, Debug)]
enum NameChange {
    Add(PathBuf, Node),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Resize(usize),
}

#[derive(Clone, Debug, Default)]
struct Contents {
    length: usize,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Clone, Debug)]
struct Opened {
    path: PathBuf,
    node: Node,
    position: usize,
}

/// How much of the unsynced changes survives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Survival {
    Nothing,
    All,
    /// Each change with this probability, in sectors of this many bytes.
    Some(f64, usize),
    /// All of a file or nothing, with this probability, as the system writes back file by file.
    Files(f64),
    /// All of the newest log with unsynced changes, and nothing of other files.
    Newest,
}

impl Survival {
    fn of_a_file(self, is_newest: bool, random: &mut StdRng) -> Self {
        let whole = match self {
            Self::Files(chance) => random.random_bool(chance),
            Self::Newest => is_newest,
            other => return other,
        };
        if whole { Self::All } else { Self::Nothing }
    }
}

/// The files below one folder.
pub(super) struct SimulatedDisk {
    home: PathBuf,
    names: Tree,
    durable: Tree,
    unsynced: Vec<NameChange>,
    files: Vec<Contents>,
    open: HashMap<i32, Opened>,
}

impl SimulatedDisk {
    pub(super) fn new(home: &Path) -> Self {
        let names = Tree::from([(home.to_owned(), Node::Folder)]);
        Self {
            home: home.to_owned(),
            durable: names.clone(),
            names,
            unsynced: Vec::new(),
            files: Vec::new(),
            open: HashMap::new(),
        }
    }

    /// Changes that are not durable yet.
    pub(super) fn unsynced(&self) -> usize {
        let writes: usize = self.files.iter().map(|file| file.unsynced.len()).sum();
        self.unsynced.len() + writes
    }

    /// Logs of RocksDB that are not wholly durable.
    pub(super) fn count_unsynced_logs(&self) -> usize {
        self.unsynced_logs().count()
    }

    /// The same logs. A larger number is a later log.
    fn unsynced_logs(&self) -> impl Iterator<Item = usize> {
        self.names.iter().filter_map(|(path, node)| match node {
            Node::File(inode) if strace_log::is_log(path) => {
                (!self.files[*inode].unsynced.is_empty()).then_some(*inode)
            }
            _ => None,
        })
    }

    /// The path of an open file.
    pub(super) fn path(&self, file: i32) -> Option<&Path> {
        Some(&self.open.get(&file)?.path)
    }

    pub(super) fn apply(&mut self, operation: &FileOp) {
        match operation {
            FileOp::Open {
                file,
                path,
                create,
                truncate,
            } => self.open(*file, path, *create, *truncate),
            FileOp::Write { file, at, bytes } => self.write(*file, *at, bytes),
            FileOp::Resize { file, length } => self.change(*file, Change::Resize(*length)),
            FileOp::Rename(from, to) if self.names.contains_key(from) => {
                self.change_names(NameChange::Rename(from.clone(), to.clone()));
            }
            FileOp::Remove(path) if self.names.contains_key(path) => {
                self.change_names(NameChange::Remove(path.clone()));
            }
            FileOp::MakeFolder(path) if path.starts_with(&self.home) => {
                self.change_names(NameChange::Add(path.clone(), Node::Folder));
            }
            FileOp::Sync(file) => self.sync(*file),
            FileOp::Close(file) => drop(self.open.remove(file)),
            FileOp::Rename(..) | FileOp::Remove(_) | FileOp::MakeFolder(_) | FileOp::Done(_) => {}
        }
    }

    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.unsynced.push(change);
    }

    fn open(&mut self, file: i32, path: &Path, create: bool, truncate: bool) {
        if !path.starts_with(&self.home) {
            return;
        }
        if create && !self.names.contains_key(path) {
            let node = Node::File(self.files.len());
            self.files.push(Contents::default());
            self.change_names(NameChange::Add(path.to_owned(), node));
        }
        let Some(&node) = self.names.get(path) else {
            return;
        };
        let opened = Opened {
            path: path.to_owned(),
            node,
            position: 0,
        };
        self.open.insert(file, opened);
        if truncate {
            self.change(file, Change::Resize(0));
        }
    }

    fn write(&mut self, file: i32, at: Option<usize>, bytes: &[u8]) {
        let Some(opened) = self.open.get_mut(&file) else {
            return;
        };
        let start = at.unwrap_or(opened.position);
        if at.is_none() {
            opened.position += bytes.len();
        }
        self.change(file, Change::Write(start, bytes.to_vec()));
    }

    fn change(&mut self, file: i32, change: Change) {
        let Some(Opened {
            node: Node::File(inode),
            ..
        }) = self.open.get(&file)
        else {
            return;
        };
        let contents = &mut self.files[*inode];
        contents.length = match &change {
            Change::Write(at, bytes) => contents.length.max(at + bytes.len()),
            Change::Resize(length) => *length,
        };
        contents.unsynced.push(change);
    }

    fn sync(&mut self, file: i32) {
        match self.open.get(&file) {
            Some(Opened {
                node: Node::File(inode),
                ..
            }) => {
                let contents = &mut self.files[*inode];
                for change in std::mem::take(&mut contents.unsynced) {
                    change.apply(&mut contents.durable);
                }
            }
            Some(Opened {
                node: Node::Folder,
                path,
                ..
            }) => {
                let (own, others) = std::mem::take(&mut self.unsynced)
                    .into_iter()
                    .partition(|change| change.folder() == Some(path));
                self.unsynced = others;
                let own: Vec<NameChange> = own;
                own.iter()
                    .for_each(|change| change.apply(&mut self.durable));
            }
            None => {}
        }
    }

    /// Writes the disk's content after a power cut into a folder.
    pub(super) fn image(
        &self,
        survival: Survival,
        random: &mut StdRng,
        into: &Path,
    ) -> io::Result<()> {
        let mut tree = self.durable.clone();
        for change in &self.unsynced {
            if survives(survival, random) {
                change.apply(&mut tree);
            }
        }
        let newest = self.unsynced_logs().max();
        let mut folders = vec![self.home.clone()];
        for (path, node) in &tree {
            let Ok(inside) = path.strip_prefix(&self.home) else {
                continue;
            };
            if path
                .parent()
                .is_none_or(|parent| !folders.iter().any(|kept| kept == parent))
            {
                continue;
            }
            match node {
                Node::Folder => {
                    folders.push(path.clone());
                    fs::create_dir(into.join(inside))?;
                }
                Node::File(inode) => {
                    let of_file = survival.of_a_file(Some(*inode) == newest, random);
                    let bytes = self.files[*inode].survivor(of_file, random);
                    write_file(&into.join(inside), &bytes)?;
                }
            }
        }
        Ok(())
    }
}

/// With the mode of the recorded files: for their owner alone.
fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    let mut options = fs::File::options();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)
}

fn survives(survival: Survival, random: &mut StdRng) -> bool {
    match survival {
        Survival::Nothing => false,
        // Changes of names.
        Survival::All | Survival::Files(_) | Survival::Newest => true,
        Survival::Some(chance, _) => random.random_bool(chance),
    }
}

impl NameChange {
    fn folder(&self) -> Option<&Path> {
        let (Self::Add(path, _) | Self::Remove(path) | Self::Rename(_, path)) = self;
        path.parent()
    }

    fn apply(&self, tree: &mut Tree) {
        match self {
            Self::Add(path, node) => drop(tree.insert(path.clone(), *node)),
            Self::Remove(path) => drop(tree.remove(path)),
            Self::Rename(from, to) => {
                if let Some(node) = tree.remove(from) {
                    tree.insert(to.clone(), node);
                }
            }
        }
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Resize(length) => bytes.resize(*length, 0),
            Self::Write(at, written) => {
                let end = at + written.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[*at..end].copy_from_slice(written);
            }
        }
    }
}

impl Contents {
    fn survivor(&self, survival: Survival, random: &mut StdRng) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for change in &self.unsynced {
            match (change, survival) {
                (Change::Write(at, written), Survival::Some(_, sector)) => {
                    for (piece, part) in written.chunks(sector).enumerate() {
                        if survives(survival, random) {
                            Change::Write(at + piece * sector, part.to_vec()).apply(&mut bytes);
                        }
                    }
                }
                _ if survives(survival, random) => change.apply(&mut bytes),
                _ => {}
            }
        }
        bytes
    }
}
