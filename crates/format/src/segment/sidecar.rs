//! The folder of sidecars: one file for each segment, and one for the summary filter of each key
//! space.
//!
//! A sidecar covers a segment only if the file is whole and *says inside* that it belongs to this
//! database, this hash and seed, and exactly this subject. Its name proves nothing: files are
//! copied, restored and swapped.
//!
//! Whatever fails here, lookups go to the engine until the sidecar is rebuilt. So an error costs
//! time, never an answer. A file of a newer version is neither replaced nor removed.

use super::identity::remedy_of_path;
use crate::disk::{self, Disk, Draft, PublishError};
use crate::fault::fault;
use crate::filter::Stage;
use crate::format::{
    FormatError, Header, ReadError, Reader, Restored, Sidecar, StoreId, Stored, Writer,
};
use crate::hash::Imprint;
use crate::segment::{IDENTITY_FILE, SegmentId, SidecarName};
use std::fmt;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum length of a sidecar that is read or written, in bytes: 8 GiB, which is a summary filter
/// of about five thousand million keys at one percent.
pub const MAX_SIDECAR_BYTES: u64 = 1 << 33;

/// Bytes that are read from the disk at once.
const READ_AHEAD: usize = 32 << 10;

/// A sidecar could not be stored, loaded or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SidecarError {
    /// The disk reported an error.
    #[error("cannot {operation} {}; {remedy}", path.display(), remedy = remedy(operation, path, source))]
    Disk {
        /// The operation that failed.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is damaged.
    #[error("{} is damaged; it will be rebuilt, and until then lookups go to the engine", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which byte is wrong.
        source: FormatError,
    },
    /// The file was written by a later version.
    #[error("{} was written by a newer version and is left as it is; lookups go to the engine: upgrade, or move the file away", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// What this version does not know.
        source: FormatError,
    },
    /// The sidecar is whole but belongs to another database, hash, seed or subject.
    #[error("{} is of another {what}: {found}, expected {expected}; it will be rebuilt, and until then lookups go to the engine", path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// The value in the file.
        found: String,
        /// The value expected.
        expected: String,
    },
    /// The filter cannot be written in this format; no file was touched.
    #[error("cannot encode {}; the segment stays without a sidecar, and lookups go to the engine", path.display())]
    Encode {
        /// The file that was to be written.
        path: PathBuf,
        /// Why it cannot be encoded.
        source: FormatError,
    },
    /// The file exceeds the maximum length, or would exceed it; it was neither read nor written.
    #[error("{} has {length} bytes, but a sidecar has at most {MAX_SIDECAR_BYTES}; its filter is rebuilt at each open: choose a higher false-positive rate, or spread its keys over several column families", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        length: u64,
    },
    /// The file could not be published.
    #[error("cannot store a sidecar; its filter stays in memory alone")]
    Publish(#[from] PublishError),
}

/// What to do about an error of the disk. Without a folder, nothing is open.
fn remedy(operation: &str, path: &Path, error: &io::Error) -> &'static str {
    if operation != CREATE {
        return "lookups go to the engine: repair the disk or its permissions";
    }
    remedy_of_path(path, error).unwrap_or(match error.kind() {
        io::ErrorKind::NotFound => "create the folder that it is in, or name another",
        io::ErrorKind::AlreadyExists => "name a folder, or a new one",
        _ => "repair the disk or its permissions, or name another folder",
    })
}

const CREATE: &str = "create";

/// The sidecars of one database.
///
/// Keep only one value per folder, and hold the database's lock: [`SidecarFolder::prepare`] removes
/// the unfinished files of others.
#[derive(Clone, Debug)]
pub struct SidecarFolder {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    store: StoreId,
    imprint: Imprint,
}

impl SidecarFolder {
    /// The folder at `path`, which may not exist yet. Changes nothing on disk.
    pub fn new(disk: Arc<dyn Disk>, path: PathBuf, store: StoreId, imprint: Imprint) -> Self {
        Self {
            disk,
            path,
            store,
            imprint,
        }
    }

    /// Creates the folder if it is missing, and removes unfinished files from it. The caller must
    /// hold the database's lock.
    ///
    /// # Errors
    /// If the folder cannot be created, made durable or listed.
    pub fn prepare(&self) -> Result<(), SidecarError> {
        self.create()?;
        self.sweep()
    }

    /// The hash and seed that the sidecars here must have.
    pub fn imprint(&self) -> &Imprint {
        &self.imprint
    }

    /// The database that the sidecars here belong to.
    pub fn store_id(&self) -> StoreId {
        self.store
    }

    /// The disk that holds the files.
    pub fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stores a sidecar under its subject's name, durably, in place of an older one. Returns the
    /// length of the file in bytes.
    ///
    /// # Errors
    /// The same as [`SidecarFolder::draft`].
    pub fn store<S: Stored>(&self, sidecar: &Sidecar<S>) -> Result<u64, SidecarError> {
        let draft = self.draft(sidecar)?;
        let length = draft.length();
        draft.publish()?;
        Ok(length)
    }

    /// Writes a sidecar; it is stored once the draft is published. Needs no memory for the whole
    /// file.
    ///
    /// # Errors
    /// If the sidecar is not of this database, a file of a newer version has the name, or the disk
    /// fails. The file stored before is then unchanged.
    pub fn draft<S: Stored>(&self, sidecar: &Sidecar<S>) -> Result<Draft<'_>, SidecarError> {
        let name = SidecarName::from(&sidecar.subject);
        self.check_owner(name, sidecar.store, sidecar.imprint)?;
        let writer = Writer::new(sidecar).map_err(|source| SidecarError::Encode {
            path: self.file(name),
            source,
        })?;
        self.check_size(name, writer.header())?;
        self.refuse_newer(name)?;
        let contents = |file: &mut dyn io::Write| writer.write(file);
        let draft = Draft::write(&*self.disk, &self.path, &name.to_string(), contents)?;
        let expected = writer.header().total_bytes;
        assert_eq!(draft.length(), expected, "the picture of the format holds");
        Ok(draft)
    }

    /// Loads the sidecar of exactly this subject; for a summary filter, one of summary hashes
    /// (`Imprint::for_summary`). `None` if there is no such file.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged or newer, or is of another subject, database, hash or
    /// seed.
    pub fn load(&self, name: SidecarName) -> Result<Option<Sidecar>, SidecarError> {
        self.read(name)
    }

    /// [`SidecarFolder::load`], with stages ready for lookups. Allocates memory for these stages
    /// only.
    ///
    /// # Errors
    /// The same as [`SidecarFolder::load`], or if no such stage can be built from the file.
    pub fn load_stages(&self, name: SidecarName) -> Result<Option<Sidecar<Stage>>, SidecarError> {
        self.read(name)
    }

    /// Verifies the whole sidecar of exactly this subject, and returns its header. Needs no memory
    /// for the filter.
    ///
    /// # Errors
    /// The same as [`SidecarFolder::load`].
    pub fn verify(&self, name: SidecarName) -> Result<Option<Header>, SidecarError> {
        self.of_ours(name, Reader::verify)
    }

    fn read<S: Restored>(&self, name: SidecarName) -> Result<Option<Sidecar<S>>, SidecarError> {
        let read = self.of_ours(name, Reader::read);
        fault!(
            ErrorIsMissing,
            if matches!(read, Err(SidecarError::Disk { .. })) {
                return Ok(None);
            }
        );
        read
    }

    /// Calls `read` with a file once its header shows that it belongs here.
    fn of_ours<T>(
        &self,
        name: SidecarName,
        read: impl FnOnce(Begun) -> Result<T, ReadError>,
    ) -> Result<Option<T>, SidecarError> {
        let Some(begun) = self.begin(name)? else {
            return Ok(None);
        };
        let header = begun.header();
        self.check_size_found(name, header)?;
        self.check_subject(name, header)?;
        self.check_owner(name, header.store, header.imprint)?;
        let made = read(begun).map_err(|error| self.unread(name, error))?;
        Ok(Some(made))
    }

    /// Reads the header of a sidecar and nothing more. `None` if there is no such file.
    ///
    /// # Errors
    /// If the header cannot be read, is damaged or of a newer version.
    pub fn header(&self, name: SidecarName) -> Result<Option<Header>, SidecarError> {
        Ok(self.begin(name)?.map(|begun| begun.header().clone()))
    }

    /// Removes a sidecar whose subject is gone. It may be missing. The removal becomes durable with
    /// the next file stored. A sidecar that comes back until then does no harm: its subject is
    /// never asked for again.
    ///
    /// # Errors
    /// If the file is of a newer version or the disk fails.
    pub fn remove(&self, name: SidecarName) -> Result<(), SidecarError> {
        self.refuse_newer(name)?;
        let path = self.file(name);
        self.at("remove", &path, ignore_missing(self.disk.remove(&path)))
    }

    /// Removes a sidecar that must not be trusted again, of whatever version. It does not come back
    /// after a power cut.
    ///
    /// # Errors
    /// If it cannot be removed or the folder cannot be synced.
    pub fn remove_durably(&self, name: SidecarName) -> Result<(), SidecarError> {
        let path = self.file(name);
        self.at("remove", &path, ignore_missing(self.disk.remove(&path)))?;
        self.at("sync", &self.path, self.disk.sync_folder(&self.path))
    }

    /// The segments that have a file, whatever its contents. Other names are skipped.
    ///
    /// # Errors
    /// If the folder cannot be listed.
    pub fn list(&self) -> Result<Vec<SegmentId>, SidecarError> {
        let names = self.names()?;
        let segments = names
            .iter()
            .filter_map(|name| match SidecarName::parse(name)? {
                SidecarName::Segment(id) => Some(id),
                SidecarName::Summary(_) => None,
            });
        Ok(segments.collect())
    }

    fn create(&self) -> Result<(), SidecarError> {
        self.at(CREATE, &self.path, self.disk.create_folder(&self.path))?;
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => {
                self.at("sync", parent, self.disk.sync_folder(parent))
            }
            _ => Ok(()),
        }
    }

    /// Removes unfinished files whose names show that they were to become sidecars or the identity.
    fn sweep(&self) -> Result<(), SidecarError> {
        for name in self.names()? {
            let ours = SidecarName::parse_start(&name).is_some() || starts_as_identity(&name);
            if disk::is_temporary(&name) && ours {
                let path = self.path.join(name);
                self.at("remove", &path, ignore_missing(self.disk.remove(&path)))?;
            }
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>, SidecarError> {
        self.at("list", &self.path, self.disk.list(&self.path))
    }

    /// Opens a file and reads its header; `None` if there is no such file.
    fn begin(&self, name: SidecarName) -> Result<Option<Begun>, SidecarError> {
        let file = match self.disk.open(&self.file(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unread(name, error.into())),
        };
        let bytes = BufReader::with_capacity(READ_AHEAD, file.bytes);
        let begun = Reader::begin(bytes, file.length);
        begun.map(Some).map_err(|error| self.unread(name, error))
    }

    /// Returns an error if an intact file of a newer version has this name.
    fn refuse_newer(&self, name: SidecarName) -> Result<(), SidecarError> {
        match self.header(name) {
            // The file is about to be replaced, so damage does not matter.
            Ok(_) | Err(SidecarError::Damaged { .. }) => Ok(()),
            Err(error) => {
                fault!(
                    NewerReplaced,
                    if matches!(error, SidecarError::Newer { .. }) {
                        return Ok(());
                    }
                );
                Err(error)
            }
        }
    }

    fn check_subject(&self, name: SidecarName, header: &Header) -> Result<(), SidecarError> {
        fault!(SidecarBoundByName, return Ok(()));
        self.check_equal(name, "subject", &SidecarName::from(&header.subject), &name)
    }

    /// [`SidecarFolder::check_size`] of a file that exists.
    fn check_size_found(&self, name: SidecarName, header: &Header) -> Result<(), SidecarError> {
        fault!(AnyLengthRead, return Ok(()));
        self.check_size(name, header)
    }

    fn check_size(&self, name: SidecarName, header: &Header) -> Result<(), SidecarError> {
        let length = header.total_bytes;
        if length <= MAX_SIDECAR_BYTES {
            return Ok(());
        }
        let path = self.file(name);
        Err(SidecarError::TooLong { path, length })
    }

    fn check_owner(
        &self,
        name: SidecarName,
        store: StoreId,
        imprint: Imprint,
    ) -> Result<(), SidecarError> {
        fault!(OwnerUnchecked, return Ok(()));
        self.check_equal(name, "database", &store, &self.store)?;
        let mut expected = match name {
            SidecarName::Segment(_) => self.imprint,
            SidecarName::Summary(_) => self.imprint.for_summary(),
        };
        fault!(DriftUnchecked, expected.known_answer = imprint.known_answer);
        self.check_equal(name, "hash or seed", &imprint, &expected)
    }

    fn check_equal<T: PartialEq + fmt::Debug>(
        &self,
        name: SidecarName,
        what: &'static str,
        found: &T,
        expected: &T,
    ) -> Result<(), SidecarError> {
        if found == expected {
            return Ok(());
        }
        Err(SidecarError::Mismatch {
            path: self.file(name),
            what,
            found: format!("{found:?}"),
            expected: format!("{expected:?}"),
        })
    }

    fn file(&self, name: SidecarName) -> PathBuf {
        self.path.join(name.to_string())
    }

    fn unread(&self, name: SidecarName, error: ReadError) -> SidecarError {
        let path = self.file(name);
        match error {
            ReadError::Format(source) if source.is_newer() => SidecarError::Newer { path, source },
            ReadError::Format(source) => SidecarError::Damaged { path, source },
            ReadError::Disk(source) => SidecarError::Disk {
                operation: "read",
                path,
                source,
            },
        }
    }

    fn at<T>(
        &self,
        operation: &'static str,
        path: &Path,
        result: io::Result<T>,
    ) -> Result<T, SidecarError> {
        result.map_err(|source| SidecarError::Disk {
            operation,
            path: path.to_owned(),
            source,
        })
    }
}

fn starts_as_identity(name: &str) -> bool {
    name.strip_prefix(IDENTITY_FILE)
        .is_some_and(|rest| rest.starts_with('.'))
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A file whose header was read.
type Begun = Reader<BufReader<Box<dyn Read>>>;

#[cfg(test)]
mod tests;
