//! The hashes of all keys that are in segments, in a temporary file.
//!
//! While keys pour in, the summary filter must be rebuilt at a larger size again and again. Reading
//! the segments takes some 100 ns per key; reading the hashes takes 10. So as long as a column family
//! grows, each memtable's hashes are appended when the memtable is flushed.
//!
//! *Invariant 4.* A log that is whole has every key of every live segment. It begins when there is
//! no segment, or becomes whole when the keys of all segments were appended; until then nothing is
//! read from it. A flush appends its keys before its segment is installed, and compaction only
//! removes keys. Whatever else may bring keys ends the log; then the segments are read.
//!
//! The file has no name, so it is gone with the process. Each run of hashes has a checksum: a hash
//! that changed on disk would make a key absent.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use crate::fault::fault;
use crate::hash::KeyHash;
use crate::reach::reached;
use crate::sync::{Mutex, MutexGuard, unpoisoned};

/// Bytes of a hash, of the count of a run, and of its head: the count and a checksum.
const HASH: usize = 8;
const COUNT: usize = 8;
const HEAD: usize = COUNT + 4;

/// The most hashes of a run.
const RUN: usize = 1 << 12;

/// The hashes of the keys of one column family, as its summary filter knows them.
#[derive(Debug, Default)]
pub struct KeyLog {
    log: Mutex<Option<Log>>,
    #[cfg(test)]
    hook: tests::Hook,
}

/// A log that has missed nothing since it began.
#[derive(Debug)]
struct Log {
    file: File,
    length: u64,
    hashes: u64,
    is_whole: bool,
}

impl KeyLog {
    /// Begins an empty log, which is not whole yet. Returns false if no file can be created in this
    /// folder.
    pub(crate) fn begin(&self, folder: &Path) -> bool {
        let log = tempfile::tempfile_in(folder).map(Log::new);
        if let Err(error) = &log {
            tracing::debug!(%error, "no log of keys: a growing summary filter is rebuilt from SSTs");
        }
        let has_begun = log.is_ok();
        *self.lock() = log.ok();
        has_begun
    }

    /// Notes that the log, unless it has ended, has the keys of all segments.
    pub(crate) fn complete(&self) {
        if let Some(log) = self.lock().as_mut() {
            log.is_whole = true;
        }
    }

    /// Ends the log and frees its space: it may lack a key, or the column family no longer grows.
    pub(crate) fn end(&self) {
        fault!(KeyLogOutlivesMisses, return);
        *self.lock() = None;
    }

    /// The number of hashes, some of them of the same key; `None` if there is no log.
    pub fn hashes(&self) -> Option<u64> {
        self.lock().as_ref().map(|log| log.hashes)
    }

    /// Whether there is a log that is whole.
    pub fn is_whole(&self) -> bool {
        self.lock().as_ref().is_some_and(|log| log.is_whole)
    }

    /// Appends hashes, if there is a log. If they cannot be written, it ends.
    pub(crate) fn append(&self, hashes: impl IntoIterator<Item = KeyHash>) {
        let mut guard = self.lock();
        let Some(log) = guard.as_mut() else {
            return;
        };
        fault!(FlushedKeysNotLogged, return);
        reached!(FlushLogged, log.is_whole);
        if let Err(error) = log.append(hashes) {
            tracing::warn!(%error, "cannot log keys: a growing summary filter is rebuilt from SSTs");
            *guard = None;
        }
    }

    /// Passes all hashes to `take`, in runs. False if there is no log that is whole, or if it cannot
    /// be read; `take` then got only some, and the log ends.
    pub(crate) fn replay(&self, mut take: impl FnMut(&[KeyHash])) -> bool {
        let mut at = 0;
        loop {
            // Unlocked between two runs: flushes append meanwhile.
            let run = match self.lock().as_mut().filter(|log| log.is_whole) {
                Some(log) if at == log.length => break,
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
        #[cfg(test)]
        self.hook.call();
        true
    }

    fn lock(&self) -> MutexGuard<'_, Option<Log>> {
        unpoisoned(self.log.lock())
    }
}

impl Log {
    fn new(file: File) -> Self {
        fault!(KeyLogWholeTooSoon, return Self::over(file, true));
        Self::over(file, false)
    }

    fn over(file: File, is_whole: bool) -> Self {
        Self {
            file,
            length: 0,
            hashes: 0,
            is_whole,
        }
    }

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
            self.hashes += count as u64;
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
        if !is_intact(&run) {
            return Err(damaged());
        }
        *at += run.len() as u64;
        let hashes = run[HEAD..].chunks_exact(HASH);
        Ok(hashes.map(|hash| KeyHash::new(number(hash))).collect())
    }
}

/// Whether a run has the checksum in its head.
fn is_intact(run: &[u8]) -> bool {
    fault!(KeyLogUnchecked, return true);
    run[COUNT..HEAD] == checksum(run).to_le_bytes()
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
    use std::os::unix::fs::FileExt as _;

    use super::*;

    /// What a test does when the next replay has come to its end.
    #[derive(Default)]
    pub(super) struct Hook(Mutex<Option<Box<dyn FnOnce() + Send>>>);

    impl std::fmt::Debug for Hook {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Hook").finish_non_exhaustive()
        }
    }

    impl Hook {
        pub(super) fn call(&self) {
            let act = unpoisoned(self.0.lock()).take();
            if let Some(act) = act {
                act();
            }
        }
    }

    impl KeyLog {
        /// Calls `act` when the next replay has come to its end, and before it returns.
        pub(crate) fn after_next_replay(&self, act: impl FnOnce() + Send + 'static) {
            *unpoisoned(self.hook.0.lock()) = Some(Box::new(act));
        }

        /// Changes a byte of the file, if there is one.
        pub(crate) fn damage(&self, at: u64) {
            if let Some(log) = self.lock().as_ref() {
                log.file.write_all_at(&[0xee], at).unwrap();
            }
        }
    }

    fn hashes(from: u64, to: u64) -> impl Iterator<Item = KeyHash> {
        (from..to).map(KeyHash::new)
    }

    fn replayed(log: &KeyLog) -> Option<Vec<u64>> {
        let mut all = Vec::new();
        let is_whole = log.replay(|run| all.extend(run.iter().map(|hash| hash.get())));
        is_whole.then_some(all)
    }

    #[test]
    fn whole_log_replays_all_hashes_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let log = KeyLog::default();
        log.append(hashes(0, 10));
        assert_eq!(replayed(&log), None, "not begun");
        assert!(log.begin(folder.path()));
        log.append(hashes(0, 1));
        assert_eq!(replayed(&log), None, "not whole");
        assert!(!log.is_whole());
        assert!(log.begin(folder.path()));
        log.complete();
        assert_eq!(replayed(&log), Some(Vec::new()));
        let ends = [0, 1, 3 * RUN as u64, 3 * RUN as u64 + 7];
        for bounds in ends.windows(2) {
            log.append(hashes(bounds[0], bounds[1]));
            assert_eq!(replayed(&log), Some((0..bounds[1]).collect()));
            assert_eq!(log.hashes(), Some(bounds[1]));
        }
        assert!(
            folder.path().read_dir().unwrap().next().is_none(),
            "the file has no name"
        );
        log.end();
        assert_eq!(replayed(&log), None);
    }

    #[test]
    fn log_does_not_begin_without_a_folder() {
        let log = KeyLog::default();
        assert!(!log.begin(Path::new("/no/such/folder")));
        log.complete();
        assert!(!log.is_whole());
    }

    /// What is rebuilt from it would lack their keys.
    #[test]
    fn log_that_cannot_take_hashes_ends() {
        let folder = tempfile::tempdir().unwrap();
        let log = KeyLog::default();
        log.begin(folder.path());
        log.append(hashes(0, 10));
        log.complete();
        // It is open for reading alone.
        log.lock().as_mut().unwrap().file = File::open("/dev/null").unwrap();
        log.append(hashes(10, 20));
        assert_eq!(log.hashes(), None);
        assert_eq!(replayed(&log), None);
    }

    /// A hash that changed on disk would make a key absent.
    #[test]
    fn changed_byte_ends_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let log = KeyLog::default();
        for at in [0, COUNT, HEAD, HEAD + 100 * HASH] {
            log.begin(folder.path());
            log.append(hashes(0, 1_000));
            log.complete();
            log.damage(at as u64);
            assert_eq!(replayed(&log), None, "byte {at}");
            assert_eq!(log.hashes(), None);
        }
    }
}
