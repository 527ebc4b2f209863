//! The folder of a command's database: a temporary one, or one that the user names.

use std::path::{Path, PathBuf};

use crate::outcome::Stop;

/// A folder for a database. It is removed at the end unless it was there before or is kept.
pub enum DatabaseFolder {
    Temporary(tempfile::TempDir),
    /// A new database at a path that the user named. It is incomplete until [`DatabaseFolder::keep`].
    New(NewFolder),
    /// An existing database; never removed.
    Old(PathBuf),
}

impl DatabaseFolder {
    pub fn temporary() -> Result<Self, Stop> {
        let made = tempfile::Builder::new().prefix("lsm-sieve-").tempdir();
        made.map(Self::Temporary).map_err(|error| {
            Stop::input(format!(
                "cannot create a temporary folder: {error}; set TMPDIR to a folder with space"
            ))
        })
    }

    /// The folder at `path`, created if it does not exist. Refuses a folder that holds something
    /// other than a database.
    pub fn at(path: &Path) -> Result<Self, Stop> {
        match path.read_dir() {
            Ok(mut entries) => {
                if entries.next().is_none() {
                    return Ok(Self::New(NewFolder::new(path, true)));
                }
                if path.join("CURRENT").is_file() {
                    return Ok(Self::Old(path.to_owned()));
                }
                Err(Stop::input(format!(
                    "{} holds files but is not a RocksDB database: name a new or an empty folder",
                    path.display()
                )))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                NewFolder::make(path).map(Self::New)
            }
            Err(error) => Err(Stop::input(format!(
                "cannot use {} as a database: {error}; name a folder",
                path.display()
            ))),
        }
    }

    pub fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::New(folder) => &folder.path,
            Self::Old(path) => path,
        }
    }

    /// Keeps a folder that the user named. Called when the work is done.
    pub fn keep(self) {
        if let Self::New(mut folder) = self {
            folder.keep = true;
        }
    }
}

pub struct NewFolder {
    path: PathBuf,
    was_there: bool,
    keep: bool,
}

impl NewFolder {
    fn make(path: &Path) -> Result<Self, Stop> {
        std::fs::create_dir(path).map_err(|error| {
            Stop::input(format!(
                "cannot create the folder {}: {error}; create its parent first, or name another",
                path.display()
            ))
        })?;
        Ok(Self::new(path, false))
    }

    fn new(path: &Path, was_there: bool) -> Self {
        Self {
            path: path.to_owned(),
            was_there,
            keep: false,
        }
    }

    /// Removes what this command created.
    #[expect(
        clippy::disallowed_methods,
        reason = "files of a database that nobody has had yet"
    )]
    fn clear(&self) -> std::io::Result<()> {
        if !self.was_there {
            return std::fs::remove_dir_all(&self.path);
        }
        for entry in self.path.read_dir()? {
            let path = entry?.path();
            if path.is_dir() {
                std::fs::remove_dir_all(path)?;
            } else {
                std::fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if !self.keep
            && let Err(error) = self.clear()
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove an unfinished database");
        }
    }
}
