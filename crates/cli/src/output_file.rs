//! Output files that the user names: pictures, CSV files, the report page.
//!
//! They are ordinary files, in folders that other programs may also write to, so they do not go
//! through the code that writes sidecars. An existing file is replaced whole, by a rename. A link
//! to it stays a link, as with `>` in a shell. A device or a pipe is written to directly.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::outcome::Stop;

/// Where an output goes. The path is checked before anything is computed for it.
pub enum OutputFile {
    /// A regular file, existing or new, with all links resolved.
    File(PathBuf),
    /// A device or a pipe.
    Stream(PathBuf),
}

impl OutputFile {
    /// Refuses a path at which no file can be written.
    pub fn new(path: &Path) -> Result<Self, Stop> {
        let shown = path.display();
        if !ends_in_a_name(path) {
            return Err(Stop::input(format!(
                "{shown} does not end in a file's name; name a file in a folder"
            )));
        }
        match path.metadata() {
            Ok(found) if found.is_dir() => Err(Stop::input(format!(
                "{shown} is a folder; name a file in it"
            ))),
            Ok(found) if found.is_file() => {
                let file = path.canonicalize();
                file.map(Self::File).map_err(|error| failed(path, &error))
            }
            Ok(_) => Ok(Self::Stream(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => new_file(path),
            Err(error) => Err(failed(path, &error)),
        }
    }

    /// Writes the bytes to the destination.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Stop> {
        let (path, written) = match self {
            Self::File(path) => (path, replace(path, bytes)),
            Self::Stream(path) => (path, pour(path, bytes)),
        };
        written.map_err(|error| failed(path, &error))
    }
}

/// Creates a folder for output files, unless it exists.
pub fn create_folder(folder: &Path) -> Result<(), Stop> {
    std::fs::create_dir_all(folder).map_err(|error| {
        let folder = folder.display();
        Stop::input(format!(
            "cannot use {folder} as a folder: {error}; name one that can be created"
        ))
    })
}

/// False for `a/` and `a/.`: `file_name` finds a name in them, but the path does not end with it.
fn ends_in_a_name(path: &Path) -> bool {
    let whole = path.as_os_str().as_encoded_bytes();
    let name = path.file_name();
    name.is_some_and(|name| whole.ends_with(name.as_encoded_bytes()))
}

/// A new file in an existing folder.
fn new_file(path: &Path) -> Result<OutputFile, Stop> {
    if path.is_symlink() {
        return Err(Stop::input(format!(
            "{} is a broken link; remove it, or create the file that it names",
            path.display()
        )));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = folder
        .canonicalize()
        .map_err(|error| failed(path, &error))?;
    let name = path.file_name().unwrap_or_default();
    Ok(OutputFile::File(folder.join(name)))
}

/// Replaces a file atomically: a crash leaves the old file or the whole new one. The new file gets
/// the permissions of the old one.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = beside(path)?;
    file.write_all(bytes)?;
    if let Ok(old) = path.metadata() {
        file.as_file().set_permissions(old.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".lsm-sieve-").suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // The usual mode of a new file; the umask is applied to it.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(path.parent().unwrap_or(Path::new(".")))
}

fn pour(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(bytes)
}

fn failed(path: &Path, error: &io::Error) -> Stop {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "create its folder first",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or name a file on a larger disk"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "name a file in a folder that you may write to"
        }
        _ => "name another file",
    };
    let path = path.display();
    Stop::input(format!("cannot write {path}: {error}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_path_must_end_in_a_file_name() {
        for file in ["f", "./f", "a/f.svg", "/f", "a/../f", ".f"] {
            assert!(ends_in_a_name(Path::new(file)), "{file}");
        }
        for other in ["", "/", ".", "..", "f/", "f/.", "a/..", "f//"] {
            assert!(!ends_in_a_name(Path::new(other)), "{other}");
        }
    }
}
