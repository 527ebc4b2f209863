//! What a killed process leaves: a copy of the folder of a database that is open.
//!
//! The log ends where it was written last, the engine was not closed, and the filters were not
//! saved. Writes that were not synced are there, as after a kill and unlike after a power cut.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Copies a folder as of one moment: again, if a file was created, removed or grew meanwhile.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    const TRIES: usize = 1_000;
    for _ in 0..TRIES {
        let before = lengths(from);
        let copied = copy_once(from, to);
        if copied.is_ok() && before.is_ok_and(|before| lengths(from).is_ok_and(|now| now == before))
        {
            return Ok(());
        }
        fs::remove_dir_all(to)?;
    }
    Err(io::Error::other("the folder never stayed as it was"))
}

fn copy_once(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_once(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The files in a folder with their lengths, without RocksDB's messages.
fn lengths(folder: &Path) -> io::Result<BTreeMap<PathBuf, u64>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(lengths(&entry.path())?);
        } else if entry.file_name() != "LOG" {
            found.insert(entry.path(), entry.metadata()?.len());
        }
    }
    Ok(found)
}
