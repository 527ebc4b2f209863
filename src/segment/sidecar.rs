//! The folder of sidecars: one file a segment, one a key space's summary.
//!
//! A sidecar speaks for a segment only when the file is whole and *says inside* that it belongs to
//! this database, this hash and seed, and exactly this segment. Its name proves nothing: files are
//! copied, restored and swapped. Names are made from validated numbers alone; nothing read from a
//! file is ever a path.
//!
//! ```text
//!   <segment, 32 hex digits>.sieve         summary-<key space, 8 hex digits>.sieve
//! ```
//!
//! Whatever fails here, reads ask the engine until the sidecar is rebuilt; so every error is a
//! loss of time. A file of a newer version is neither replaced nor removed.

use crate::disk::{self, Disk, Opened, PublishError};
use crate::format::{self, FormatError, Header, HeaderSubject, MAX_HEADER_BYTES, Sidecar, StoreId};
use crate::hash::Imprint;
use crate::planted::planted;
use crate::segment::{IDENTITY_FILE, SegmentId};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// No longer sidecar is read or written, in bytes.
pub const MAX_SIDECAR_BYTES: u64 = 1 << 30;

const SUFFIX: &str = ".sieve";
const SUMMARY_PREFIX: &str = "summary-";

/// Why a sidecar could not be stored, loaded or removed.
#[derive(Debug, thiserror::Error)]
pub enum SidecarError {
    /// The disk refused an operation.
    #[error("cannot {operation} {}; reads ask the engine, repair disk or permissions", path.display())]
    Disk {
        /// What was being done.
        operation: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is damaged.
    #[error("{} is damaged; it will be rebuilt, until then reads ask the engine", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which byte is wrong.
        source: FormatError,
    },
    /// The file was written by a later version.
    #[error("{} comes from a newer version and is left alone; reads ask the engine, upgrade or move the file away", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// What is unknown of it.
        source: FormatError,
    },
    /// The sidecar is whole but belongs to something else.
    #[error("{} is of another {what}: {found}, expected {expected}; it will be rebuilt, until then reads ask the engine", path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// What the file says.
        found: String,
        /// What was asked for.
        expected: String,
    },
    /// The filter cannot be written in this format; no file was touched.
    #[error("cannot encode {}; the segment stays without a sidecar and reads ask the engine", path.display())]
    Encode {
        /// The file that would have been written.
        path: PathBuf,
        /// What does not fit.
        source: FormatError,
    },
    /// The file was not published.
    #[error("cannot store a sidecar; reads ask the engine")]
    Publish(#[from] PublishError),
}

/// The sidecars of one database.
///
/// Only one value a folder, under the database's lock: opening sweeps what others left unfinished.
#[derive(Clone, Debug)]
pub struct SidecarFolder {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    store: StoreId,
    imprint: Imprint,
}

impl SidecarFolder {
    /// The folder at `path`, which may not exist yet. Changes nothing.
    pub fn new(disk: Arc<dyn Disk>, path: PathBuf, store: StoreId, imprint: Imprint) -> Self {
        Self {
            disk,
            path,
            store,
            imprint,
        }
    }

    /// Makes the folder if it is missing and sweeps unfinished files out of it: for the one that
    /// holds the database's lock.
    ///
    /// # Errors
    /// When the folder cannot be made, made durable or listed.
    pub fn prepare(&self) -> Result<(), SidecarError> {
        self.create()?;
        self.sweep()
    }

    /// What the sidecars here must have been made with.
    pub fn imprint(&self) -> &Imprint {
        &self.imprint
    }

    /// The database that the sidecars here belong to.
    pub fn store_id(&self) -> StoreId {
        self.store
    }

    /// Where the files are.
    pub fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// Where the sidecars are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stores a sidecar under its subject's name, durably, in place of an older one; returns the
    /// length of the file in bytes.
    ///
    /// # Errors
    /// When the sidecar is not of this database, a file of a newer version has the name, or the
    /// disk fails; what was stored before then still stands.
    pub fn store(&self, sidecar: &Sidecar) -> Result<u64, SidecarError> {
        let name = Name::of(&HeaderSubject::from(&sidecar.subject));
        self.check_owner(name, sidecar.store, sidecar.imprint)?;
        let bytes = format::encode(sidecar).map_err(|source| SidecarError::Encode {
            path: self.file(name),
            source,
        })?;
        let length = bytes.len() as u64;
        self.check_size(name, "write", length)?;
        self.refuse_newer(name)?;
        disk::publish(&*self.disk, &self.path, &name.to_string(), &bytes)?;
        Ok(length)
    }

    /// The sidecar of exactly this segment; `None` when there is no such file.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged or newer, or is of another segment, database, hash
    /// or seed.
    pub fn load(&self, segment: SegmentId) -> Result<Option<Sidecar>, SidecarError> {
        self.load_named(Name::Segment(segment))
    }

    /// The summary of exactly this key space, of remixed hashes; `None` when there is no such file.
    ///
    /// # Errors
    /// As for [`SidecarFolder::load`].
    pub fn load_summary(&self, key_space: u32) -> Result<Option<Sidecar>, SidecarError> {
        self.load_named(Name::Summary(key_space))
    }

    /// What the sidecar of this segment says of itself; the rest of the file is not read. `None`
    /// when there is no such file.
    ///
    /// # Errors
    /// When the header cannot be read, is damaged or of a newer version.
    pub fn header(&self, segment: SegmentId) -> Result<Option<Header>, SidecarError> {
        self.header_named(Name::Segment(segment))
    }

    /// What the summary of this key space says of itself, as [`SidecarFolder::header`].
    ///
    /// # Errors
    /// As for [`SidecarFolder::header`].
    pub fn summary_header(&self, key_space: u32) -> Result<Option<Header>, SidecarError> {
        self.header_named(Name::Summary(key_space))
    }

    /// Removes the sidecar of a segment that is gone; it may be missing. The removal becomes
    /// durable with the next file stored: a sidecar that comes back is bound to a segment that no
    /// one asks for.
    ///
    /// # Errors
    /// When the file is of a newer version or the disk fails.
    pub fn remove(&self, segment: SegmentId) -> Result<(), SidecarError> {
        self.remove_named(Name::Segment(segment))
    }

    /// Removes the summary of a key space, as [`SidecarFolder::remove`] does a segment's sidecar.
    ///
    /// # Errors
    /// When the file is of a newer version or the disk fails.
    pub fn remove_summary(&self, key_space: u32) -> Result<(), SidecarError> {
        self.remove_named(Name::Summary(key_space))
    }

    /// The segments for which a file is there, whatever is in it; other names are passed over.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn list(&self) -> Result<Vec<SegmentId>, SidecarError> {
        let names = self.names()?;
        let segments = names.iter().filter_map(|name| match Name::parse(name)? {
            Name::Segment(id) => Some(id),
            Name::Summary(_) => None,
        });
        Ok(segments.collect())
    }

    fn create(&self) -> Result<(), SidecarError> {
        self.at("create", &self.path, self.disk.create_folder(&self.path))?;
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => {
                self.at("sync", parent, self.disk.sync_folder(parent))
            }
            _ => Ok(()),
        }
    }

    /// Removes the unfinished files whose names say that they were to become sidecars, or the
    /// identity.
    fn sweep(&self) -> Result<(), SidecarError> {
        for name in self.names()? {
            let ours = Name::parse_start(&name).is_some() || starts_as_identity(&name);
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

    fn load_named(&self, name: Name) -> Result<Option<Sidecar>, SidecarError> {
        let bytes = match self.bytes_of(name) {
            Err(SidecarError::Disk { .. }) if planted!(ErrorIsMissing) => return Ok(None),
            bytes => bytes?,
        };
        let Some(bytes) = bytes else {
            return Ok(None);
        };
        let sidecar = format::decode(&bytes).map_err(|source| self.unreadable(name, source))?;
        let found = Name::of(&HeaderSubject::from(&sidecar.subject));
        if !planted!(BoundByName) {
            self.check_equal(name, "subject", &found, &name)?;
        }
        self.check_owner(name, sidecar.store, sidecar.imprint)?;
        Ok(Some(sidecar))
    }

    fn remove_named(&self, name: Name) -> Result<(), SidecarError> {
        self.refuse_newer(name)?;
        let path = self.file(name);
        self.at("remove", &path, ignore_missing(self.disk.remove(&path)))
    }

    fn header_named(&self, name: Name) -> Result<Option<Header>, SidecarError> {
        Ok(self.begin(name)?.map(|begun| begun.header))
    }

    /// All bytes of a file that is as long as its header says; no other is read beyond its start, so
    /// that nobody asks for memory because a file is long.
    fn bytes_of(&self, name: Name) -> Result<Option<Vec<u8>>, SidecarError> {
        let Some(mut begun) = self.begin(name)? else {
            return Ok(None);
        };
        let length = begun.file.length;
        let stated = begun.header.check_file_length(length);
        stated.map_err(|source| self.unreadable(name, source))?;
        self.check_size(name, "read", length)?;
        let left = length - begun.start.len() as u64;
        disk::read_exactly(&mut begun.file.bytes, left, &mut begun.start)
            .map_err(|error| self.refused("read", name, error))?;
        Ok(Some(begun.start))
    }

    /// Opens a file and reads its header; `None` when there is no such file.
    fn begin(&self, name: Name) -> Result<Option<Begun>, SidecarError> {
        let mut file = match self.disk.open(&self.file(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.refused("read", name, error)),
        };
        let mut start = Vec::new();
        let length = file.length.min(MAX_HEADER_BYTES as u64);
        disk::read_exactly(&mut file.bytes, length, &mut start)
            .map_err(|error| self.refused("read", name, error))?;
        let header = format::decode_header(&start);
        let header = header.map_err(|source| self.unreadable(name, source))?;
        Ok(Some(Begun {
            header,
            file,
            start,
        }))
    }

    /// An error when an intact file of a newer version has this name.
    fn refuse_newer(&self, name: Name) -> Result<(), SidecarError> {
        match self.header_named(name) {
            // It is about to be replaced.
            Ok(_) | Err(SidecarError::Damaged { .. }) => Ok(()),
            Err(SidecarError::Newer { .. }) if planted!(NewerReplaced) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn check_size(
        &self,
        name: Name,
        operation: &'static str,
        length: u64,
    ) -> Result<(), SidecarError> {
        if length <= MAX_SIDECAR_BYTES {
            return Ok(());
        }
        let reason = format!("{length} bytes, where {MAX_SIDECAR_BYTES} are the limit");
        let error = io::Error::new(io::ErrorKind::FileTooLarge, reason);
        Err(self.refused(operation, name, error))
    }

    fn check_owner(
        &self,
        name: Name,
        store: StoreId,
        imprint: Imprint,
    ) -> Result<(), SidecarError> {
        if planted!(OwnerUnchecked) {
            return Ok(());
        }
        self.check_equal(name, "database", &store, &self.store)?;
        let expected = match name {
            Name::Segment(_) => self.imprint,
            Name::Summary(_) => self.imprint.remixed(),
        };
        self.check_equal(name, "hash or seed", &imprint, &expected)
    }

    fn check_equal<T: PartialEq + fmt::Debug>(
        &self,
        name: Name,
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

    fn file(&self, name: Name) -> PathBuf {
        self.path.join(name.to_string())
    }

    fn unreadable(&self, name: Name, source: FormatError) -> SidecarError {
        let path = self.file(name);
        if source.is_newer() {
            SidecarError::Newer { path, source }
        } else {
            SidecarError::Damaged { path, source }
        }
    }

    fn refused(&self, operation: &'static str, name: Name, source: io::Error) -> SidecarError {
        SidecarError::Disk {
            operation,
            path: self.file(name),
            source,
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

/// A file that was read as far as its header may reach.
struct Begun {
    header: Header,
    file: Opened,
    start: Vec<u8>,
}

/// The name of a sidecar's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Segment(SegmentId),
    Summary(u32),
}

impl Name {
    fn of(subject: &HeaderSubject) -> Self {
        match subject {
            HeaderSubject::Segment(id) => Self::Segment(*id),
            HeaderSubject::Summary { key_space, .. } => Self::Summary(*key_space),
        }
    }

    /// Reads exactly what [`fmt::Display`] writes.
    fn parse(name: &str) -> Option<Self> {
        let stem = name.strip_suffix(SUFFIX)?;
        let parsed = match stem.strip_prefix(SUMMARY_PREFIX) {
            Some(digits) => Self::Summary(u32::from_str_radix(digits, 16).ok()?),
            None => Self::Segment(SegmentId::from_hex(stem)?),
        };
        (parsed.to_string() == name).then_some(parsed)
    }

    /// The name in front of what a temporary file appends to it.
    fn parse_start(name: &str) -> Option<Self> {
        let end = name.find(SUFFIX)?.checked_add(SUFFIX.len())?;
        Self::parse(name.get(..end)?)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segment(id) => write!(f, "{id}{SUFFIX}"),
            Self::Summary(key_space) => write!(f, "{SUMMARY_PREFIX}{key_space:08x}{SUFFIX}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Fault, MemoryDisk};
    use crate::filter::{Kind, Shape};
    use crate::format::{Role, Source, StageRecord, Subject};
    use crate::hash::{HashId, KeyHasher, Seed};
    use crate::math::{Bits, Items, Probes, Rate};

    const STORE: StoreId = StoreId::from_bytes([1; 16]);
    const ONE: SegmentId = SegmentId::from_bytes([0xa1; 16]);
    const TWO: SegmentId = SegmentId::from_bytes([0xb2; 16]);

    fn imprint(seed: u8) -> Imprint {
        KeyHasher::new(HashId::Xxh3, Seed::from_bytes([seed; 16])).imprint()
    }

    fn folder_of(disk: &MemoryDisk, store: StoreId, seed: u8) -> SidecarFolder {
        let disk = Arc::new(disk.clone());
        let folder = SidecarFolder::new(disk, "/sieve".into(), store, imprint(seed));
        folder.prepare().unwrap();
        folder
    }

    fn folder(disk: &MemoryDisk) -> SidecarFolder {
        folder_of(disk, STORE, 1)
    }

    fn sidecar(subject: Subject, word: u64) -> Sidecar {
        let imprint = match subject {
            Subject::Segment { .. } => imprint(1),
            Subject::Summary { .. } => imprint(1).remixed(),
        };
        Sidecar {
            store: STORE,
            imprint,
            subject,
            source: Source::RawKeys,
            entries: 3,
            rate: Rate::ONE_PERCENT,
            stages: vec![StageRecord {
                role: Role::Members,
                shape: Shape {
                    kind: Kind::Blocked,
                    bits: Bits::new(512),
                    probes: Probes::new(8),
                    groups: 2,
                },
                items: Items::new(3),
                words: vec![word; 8],
            }],
        }
    }

    fn of_segment(id: SegmentId, word: u64) -> Sidecar {
        sidecar(Subject::Segment(id), word)
    }

    fn put(disk: &MemoryDisk, name: &str, bytes: &[u8]) {
        let path = Path::new("/sieve").join(name);
        drop(disk.remove(&path));
        let mut file = disk.create_new(&path).unwrap();
        io::Write::write_all(&mut *file, bytes).unwrap();
    }

    fn bytes_of(disk: &MemoryDisk, id: SegmentId) -> Vec<u8> {
        let path = PathBuf::from(format!("/sieve/{id}.sieve"));
        disk::read_file(disk, &path, MAX_SIDECAR_BYTES).unwrap()
    }

    /// The bytes of a sidecar as a later version of the library might write it.
    fn newer() -> Vec<u8> {
        let mut bytes = format::encode(&of_segment(ONE, 0)).unwrap();
        let end = 148 - 4;
        bytes[8] = u8::MAX;
        let crc = crc32fast::hash(&bytes[..end]);
        bytes[end..148].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn what_is_stored_is_found_and_listed_until_it_is_removed() {
        let disk = MemoryDisk::new();
        let folder = folder(&disk);
        assert_eq!(folder.load(ONE).unwrap(), None);
        let length = folder.store(&of_segment(ONE, 5)).unwrap();
        assert_eq!(length, bytes_of(&disk, ONE).len() as u64);
        folder.store(&of_segment(ONE, 6)).unwrap();
        let summary = sidecar(
            Subject::Summary {
                key_space: 7,
                covers: vec![ONE],
            },
            8,
        );
        folder.store(&summary).unwrap();
        assert_eq!(folder.load(ONE).unwrap(), Some(of_segment(ONE, 6)));
        assert_eq!(folder.load_summary(7).unwrap(), Some(summary));
        assert_eq!(folder.load_summary(8).unwrap(), None);
        assert_eq!(folder.list().unwrap(), [ONE]);
        folder.remove(ONE).unwrap();
        folder.remove(ONE).unwrap();
        folder.remove_summary(7).unwrap();
        assert!(folder.list().unwrap().is_empty());
        assert_eq!(folder.load_summary(7).unwrap(), None);
    }

    #[test]
    fn a_sidecar_of_anything_else_is_refused() {
        let disk = MemoryDisk::new();
        let folder = folder(&disk);
        folder.store(&of_segment(ONE, 5)).unwrap();
        put(&disk, &format!("{TWO}.sieve"), &bytes_of(&disk, ONE));
        put(&disk, "summary-00000000.sieve", &bytes_of(&disk, ONE));
        let other_store = folder_of(&disk, StoreId::from_bytes([2; 16]), 1);
        let other_seed = folder_of(&disk, STORE, 2);
        for (refused, expected) in [
            (folder.load(TWO), "subject"),
            (folder.load_summary(0), "subject"),
            (other_store.load(ONE), "database"),
            (other_seed.load(ONE), "hash or seed"),
            (
                other_seed.store(&of_segment(ONE, 5)).map(|_| None),
                "hash or seed",
            ),
        ] {
            match refused {
                Err(SidecarError::Mismatch { what, .. }) => assert_eq!(what, expected),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_damaged_sidecar_is_reported_and_replaced() {
        let disk = MemoryDisk::new();
        let folder = folder(&disk);
        folder.store(&of_segment(ONE, 5)).unwrap();
        for damaged in [bytes_of(&disk, ONE).split_off(1), Vec::new()] {
            put(&disk, &format!("{ONE}.sieve"), &damaged);
            let error = folder.load(ONE).unwrap_err();
            assert!(matches!(error, SidecarError::Damaged { .. }), "{error}");
            assert!(error.to_string().contains("it will be rebuilt"));
            folder.store(&of_segment(ONE, 5)).unwrap();
            assert!(folder.load(ONE).unwrap().is_some());
        }
    }

    /// So that nobody asks for memory before it is known how much.
    #[test]
    fn a_header_is_read_without_the_rest_of_the_file() {
        let disk = MemoryDisk::new();
        let folder = folder(&disk);
        assert_eq!(folder.header(ONE).unwrap(), None);
        folder.store(&of_segment(ONE, 5)).unwrap();
        let mut bytes = bytes_of(&disk, ONE);
        bytes.truncate(148);
        put(&disk, &format!("{ONE}.sieve"), &bytes);
        let header = folder.header(ONE).unwrap().unwrap();
        assert_eq!(header.size(), Bits::new(512));
        folder.load(ONE).unwrap_err();
        bytes[40] ^= 1;
        put(&disk, &format!("{ONE}.sieve"), &bytes);
        let error = folder.header(ONE).unwrap_err();
        assert!(matches!(error, SidecarError::Damaged { .. }), "{error}");
    }

    #[test]
    fn a_newer_sidecar_is_neither_read_nor_replaced_nor_removed() {
        let disk = MemoryDisk::new();
        let folder = folder(&disk);
        put(&disk, &format!("{ONE}.sieve"), &newer());
        for refused in [
            folder.load(ONE).map(|_| ()),
            folder.store(&of_segment(ONE, 5)).map(|_| ()),
            folder.remove(ONE),
        ] {
            let error = refused.unwrap_err();
            assert!(matches!(error, SidecarError::Newer { .. }), "{error}");
        }
        assert_eq!(bytes_of(&disk, ONE), newer());
    }

    #[test]
    fn preparing_sweeps_our_unfinished_files_and_nothing_else() {
        let disk = MemoryDisk::new();
        let ours = format!("{ONE}.sieve.0123456789abcdef.tmp");
        let foreign = ["000012.sst", "x.0123456789abcdef.tmp", "LOCK"];
        folder(&disk);
        for name in foreign.iter().copied().chain([ours.as_str()]) {
            put(&disk, name, b"x");
        }
        let folder = folder(&disk);
        let mut expected = foreign.to_vec();
        expected.sort_unstable();
        assert_eq!(disk.list(Path::new("/sieve")).unwrap(), expected);
        assert!(folder.list().unwrap().is_empty());
    }

    /// An error is never `None`: "no such file" may start a rebuild that replaces what is there.
    #[test]
    fn a_disk_error_is_never_a_missing_file_nor_another_filter() {
        let disk = MemoryDisk::new();
        let folder = folder(&disk);
        folder.store(&of_segment(ONE, 5)).unwrap();
        let before = disk.operations();
        folder.load(ONE).unwrap();
        for n in 0..disk.operations() - before {
            disk.fail(n, Fault::Once(io::ErrorKind::PermissionDenied));
            let error = folder.load(ONE).unwrap_err();
            assert!(matches!(error, SidecarError::Disk { .. }), "{error}");
        }
    }

    #[test]
    fn a_power_cut_while_storing_leaves_the_old_or_the_new_sidecar() {
        let mut images = 0;
        for survivors in 0.. {
            let disk = MemoryDisk::new();
            let folder = folder(&disk);
            folder.store(&of_segment(ONE, 5)).unwrap();
            disk.fail(survivors, Fault::PowerCut);
            let stored = folder.store(&of_segment(ONE, 6));
            for image in disk.after_power_cut(survivors) {
                let found = self::folder(&image).load(ONE).unwrap().unwrap();
                let new = found == of_segment(ONE, 6);
                assert!(new || (stored.is_err() && found == of_segment(ONE, 5)));
                images += 1;
            }
            if stored.is_ok() {
                break;
            }
        }
        assert!(images > 50);
    }

    #[test]
    fn a_name_is_read_only_as_it_is_written() {
        for name in [Name::Segment(ONE), Name::Summary(0xab)] {
            assert_eq!(Name::parse(&name.to_string()), Some(name));
        }
        for other in [
            "summary-000000AB.sieve",
            "summary-+00000ab.sieve",
            "summary-ab.sieve",
            "../etc.sieve",
            "a1.sieve",
            ".sieve",
        ] {
            assert_eq!(Name::parse(other), None, "{other}");
        }
    }
}
