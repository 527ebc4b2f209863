//! The hashes of all keys that are in SSTs, in a temporary file.
//!
//! While keys pour in, the summary filter must be rebuilt at a larger size again and again. Reading
//! the SSTs takes some 100 ns per key; reading the hashes takes 10. So as long as a column family
//! grows, each memtable's hashes are appended when the memtable is flushed.
//!
//! *Invariant.* While there is a log, it has every key of every live SST. It begins when there is no
//! SST, or with the keys of all SSTs. A flush appends its keys before its SST is installed, and
//! compaction only removes keys. Whatever else may bring keys ends the log; then the SSTs are read.
//!
//! The file has no name, so it is gone with the process. Each run of hashes has a checksum: a hash
//! that changed on disk would make a key absent.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use crate::fault::fault;
use crate::hash::KeyHash;
use crate::sync::{Mutex, unpoisoned};

/// Bytes of a hash, of the count of a run, and of its head: the count and a checksum.
const HASH: usize = 8;
const COUNT: usize = 8;
const HEAD: usize = COUNT + 4;

/// The most hashes of a run.
const RUN: usize = 1 << 12;

/// The hashes of the keys of one column family, as its summary filter knows them.
#[derive(Debug, Default)]
pub(crate) struct KeyLog(Mutex<Option<Log>>);

/// A log that has missed nothing so far.
#[derive(Debug)]
struct Log {
    file: File,
    length: u64,
}

impl KeyLog {
    /// Begins an empty log. If no file can be created in this folder, there is none.
    pub(crate) fn begin(&self, folder: &Path) {
        let log = tempfile::tempfile_in(folder).map(|file| Log { file, length: 0 });
        if let Err(error) = &log {
            tracing::debug!(%error, "no log of keys: a growing summary filter is rebuilt from SSTs");
        }
        *unpoisoned(self.0.lock()) = log.ok();
    }

    /// Ends the log and frees its space: it may lack a key, or the column family no longer grows.
    pub(crate) fn end(&self) {
        fault!(KeyLogOutlivesMisses, return);
        *unpoisoned(self.0.lock()) = None;
    }

    /// The number of hashes, some of them of the same key; `None` if there is no log.
    pub(crate) fn len(&self) -> Option<u64> {
        let guard = unpoisoned(self.0.lock());
        guard.as_ref().map(|log| log.length / HASH as u64)
    }

    /// Whether there is a log.
    pub(crate) fn exists(&self) -> bool {
        self.len().is_some()
    }

    /// Appends hashes, if there is a log. If they cannot be written, it ends.
    pub(crate) fn append(&self, hashes: impl IntoIterator<Item = KeyHash>) {
        let mut guard = unpoisoned(self.0.lock());
        let Some(log) = guard.as_mut() else {
            return;
        };
        fault!(FlushedKeysNotLogged, return);
        if let Err(error) = log.append(hashes) {
            tracing::warn!(%error, "cannot log keys: a growing summary filter is rebuilt from SSTs");
            *guard = None;
        }
    }

    /// Passes all hashes to `take`, in runs. False if there is no log, or if it cannot be read;
    /// `take` then got only some, and the log ends.
    pub(crate) fn replay(&self, mut take: impl FnMut(&[KeyHash])) -> bool {
        let mut at = 0;
        loop {
            // Unlocked between two runs: flushes append meanwhile.
            let run = match unpoisoned(self.0.lock()).as_mut() {
                Some(log) if at == log.length => return true,
                Some(log) => log.run_at(&mut at),
                None => return false,
            };
            match run {
                Ok(hashes) => take(&hashes),
                Err(error) => {
                    tracing::warn!(%error, "cannot read the log of keys: the SSTs are read");
                    self.end();
                    return false;
                }
            }
        }
    }
}

impl Log {
    fn append(&mut self, hashes: impl IntoIterator<Item = KeyHash>) -> io::Result<()> {
        let mut hashes = hashes.into_iter().peekable();
        let mut run = Vec::with_capacity(HEAD + RUN * HASH);
        while hashes.peek().is_some() {
            run.clear();
            run.resize(HEAD, 0);
            for hash in hashes.by_ref().take(RUN) {
                run.extend(hash.get().to_le_bytes());
            }
            let count = (run.len() - HEAD) / HASH;
            run[..COUNT].copy_from_slice(&(count as u64).to_le_bytes());
            let checksum = checksum(&run).to_le_bytes();
            run[COUNT..HEAD].copy_from_slice(&checksum);
            self.file.seek(SeekFrom::Start(self.length))?;
            self.file.write_all(&run)?;
            self.length += run.len() as u64;
        }
        Ok(())
    }

    /// The hashes of the run at this position, which moves to the next run.
    fn run_at(&mut self, at: &mut u64) -> io::Result<Vec<KeyHash>> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "a run is damaged");
        let mut run = vec![0; HEAD];
        self.file.seek(SeekFrom::Start(*at))?;
        self.file.read_exact(&mut run)?;
        let count = usize::try_from(number(&run[..COUNT])).unwrap_or(usize::MAX);
        if count > RUN {
            return Err(damaged());
        }
        run.resize(HEAD + count * HASH, 0);
        self.file.read_exact(&mut run[HEAD..])?;
        let mut is_good = run[COUNT..HEAD] == checksum(&run).to_le_bytes();
        fault!(KeyLogUnchecked, is_good = true);
        if !is_good {
            return Err(damaged());
        }
        *at += run.len() as u64;
        let hashes = run[HEAD..].chunks_exact(HASH);
        Ok(hashes.map(|hash| KeyHash::new(number(hash))).collect())
    }
}

/// Of the count and the hashes of a run.
fn checksum(run: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&run[..COUNT]);
    hasher.update(&run[HEAD..]);
    hasher.finalize()
}

/// The number in eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(from: u64, to: u64) -> impl Iterator<Item = KeyHash> {
        (from..to).map(KeyHash::new)
    }

    fn replayed(log: &KeyLog) -> Option<Vec<u64>> {
        let mut all = Vec::new();
        let is_whole = log.replay(|run| all.extend(run.iter().map(|hash| hash.get())));
        is_whole.then_some(all)
    }

    #[test]
    fn all_hashes_are_replayed_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let log = KeyLog::default();
        log.append(hashes(0, 10));
        assert_eq!(replayed(&log), None, "not begun");
        log.begin(folder.path());
        assert_eq!(replayed(&log), Some(Vec::new()));
        let ends = [0, 1, 3 * RUN as u64, 3 * RUN as u64 + 7];
        for bounds in ends.windows(2) {
            log.append(hashes(bounds[0], bounds[1]));
            assert_eq!(replayed(&log), Some((0..bounds[1]).collect()));
        }
        assert!(
            folder.path().read_dir().unwrap().next().is_none(),
            "the file has no name"
        );
        log.end();
        assert_eq!(replayed(&log), None);
    }

    #[test]
    fn without_a_folder_there_is_no_log() {
        let log = KeyLog::default();
        log.begin(Path::new("/no/such/folder"));
        assert!(!log.exists());
    }

    /// A hash that changed on disk would make a key absent.
    #[test]
    fn a_changed_byte_ends_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let log = KeyLog::default();
        for at in [0, COUNT, HEAD, HEAD + 100 * HASH] {
            log.begin(folder.path());
            log.append(hashes(0, 1_000));
            let mut file = unpoisoned(log.0.lock())
                .as_ref()
                .unwrap()
                .file
                .try_clone()
                .unwrap();
            file.seek(SeekFrom::Start(at as u64)).unwrap();
            file.write_all(&[0xee]).unwrap();
            assert_eq!(replayed(&log), None, "byte {at}");
            assert!(!log.exists());
        }
    }
}
