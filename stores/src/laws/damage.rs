//! What happens to files: copies of a store that is in use, and damage to files of filters.

#![expect(
    clippy::disallowed_methods,
    reason = "files of a store under test are damaged"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::laws::random::Random;

/// Attempts at a copy during which nothing changes.
const ATTEMPTS: u32 = 200;

/// Copies a folder that nothing changes meanwhile: what another process would find if this one were
/// killed now.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for _ in 0..ATTEMPTS {
        let before = state_of(from)?;
        let copied = copy_files(from, to);
        if state_of(from)? == before {
            return copied;
        }
        fs::remove_dir_all(to)?;
        thread::sleep(Duration::from_millis(5));
    }
    Err(io::Error::other(
        "the store never rests, so no copy of it is whole",
    ))
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_files(&source, &target)?;
        } else {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

/// Copies the files of a store that is closed, but not its filters in the folder `but`.
pub(super) fn copy_but(from: &Path, to: &Path, but: &str) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type()?.is_dir() {
            _ if entry.file_name() == but => {}
            true => copy_files(&source, &target)?,
            false => _ = fs::copy(&source, &target)?,
        }
    }
    Ok(())
}

/// Moves the folder of filters in the place of that of another copy.
pub(super) fn move_filters(from: &Path, to: &Path, filters: &str) -> io::Result<()> {
    match fs::rename(from.join(filters), to.join(filters)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved,
    }
}

/// The files below a folder with their lengths and times.
fn state_of(folder: &Path) -> io::Result<Vec<(PathBuf, u64, Option<SystemTime>)>> {
    let mut state = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match fs::metadata(&path) {
            Ok(data) if data.is_dir() => state.extend(state_of(&path)?),
            Ok(data) => state.push((path, data.len(), data.modified().ok())),
            // It was removed since the listing.
            Err(_) => state.push((path, 0, None)),
        }
    }
    state.sort();
    Ok(state)
}

/// The files of filters below a folder, in order.
fn filters_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(filters_below(&path)?);
        } else if path.extension().is_some_and(|end| end == "sieve") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Damages files of filters of a store that is closed: flips a bit, cuts one off, removes one, or
/// swaps two. Returns how many were damaged.
pub(super) fn damage_filters(folder: &Path, random: &mut Random) -> io::Result<u64> {
    let files = filters_below(folder)?;
    if files.is_empty() {
        return Ok(0);
    }
    let one = &files[random.below(files.len() as u64) as usize];
    let other = &files[random.below(files.len() as u64) as usize];
    let mut bytes = fs::read(one)?;
    let length = bytes.len().max(1) as u64;
    match random.below(4) {
        0 if !bytes.is_empty() => {
            bytes[random.below(length) as usize] ^= 1 << random.below(8);
            fs::write(one, bytes)?;
        }
        1 => {
            bytes.truncate(random.below(length) as usize);
            fs::write(one, bytes)?;
        }
        2 => fs::remove_file(one)?,
        _ => {
            fs::write(one, fs::read(other)?)?;
            fs::write(other, bytes)?;
        }
    }
    Ok(1)
}
