//! The file `identity`: the database's id, and the secret seed of its hash.
//!
//! A database whose identity is lost gets a new one, which no sidecar matches: lookups go to the
//! engine until each filter is rebuilt. So a damaged identity is renamed, to be inspected if
//! somebody wants to, and a new one takes its place.

use crate::disk::{self, Disk, PublishError};
use crate::fault::fault;
use crate::format::{FormatError, Identity, StoreId, decode_identity, encode_identity};
use crate::hash::{HashId, KeyHasher, Seed};
use std::io;
use std::path::{Path, PathBuf};

/// The name of the file in the database's folder.
pub const IDENTITY_FILE: &str = "identity";

/// Part of the name of an identity that is distrusted.
const VOID: &str = "void";

/// Maximum length of an identity file of any version, in bytes.
const MAX_IDENTITY_BYTES: u64 = 4096;

/// The identity of a database could neither be read nor created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The disk, or the system's random number generator, reported an error.
    #[error("cannot {operation} {}: {remedy}", path.display(), remedy = remedy_of_path(path, source).unwrap_or(REPAIR))]
    System {
        /// The operation that failed.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file was written by a later version.
    #[error("{} was written by a newer version and is left as it is: upgrade, or move the file away to start with a new identity", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// What this version does not know.
        source: FormatError,
    },
    /// The identity that was read during opening is no longer stored: it was distrusted, damaged or
    /// replaced before this process had locked the database.
    #[error(
        "{} changed while the database was being opened, and filters built under it may have given \
         false negatives: open the database again",
        path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The identity that the filters were built under cannot be read.
    #[error(
        "{} is missing, damaged or of another database, so no filter beside it is known to belong \
         to this one; each is rebuilt once the database is opened for writing",
        path.display()
    )]
    Lost {
        /// The file.
        path: PathBuf,
    },
    /// A new identity could not be published.
    #[error("cannot store the identity, so the database is not opened")]
    Publish(#[from] PublishError),
}

/// What to do about a path that no file can have: the disk is not to blame. `None` about other
/// errors.
pub(super) fn remedy_of_path(path: &Path, error: &io::Error) -> Option<&'static str> {
    fault!(PathBlamedOnDisk, return None);
    match error.kind() {
        io::ErrorKind::InvalidFilename => Some("use a shorter path"),
        io::ErrorKind::NotADirectory => Some("a part of the path is a file: use another path"),
        _ => {
            let has_zero = path.as_os_str().as_encoded_bytes().contains(&0);
            has_zero.then_some("use a path without a zero byte")
        }
    }
}

const REPAIR: &str = "repair the disk or its permissions, or remove the folder of the filters, \
                      which are rebuilt; then open the database again";

impl Identity {
    /// Draws a new identity from the operating system's random number generator.
    ///
    /// # Errors
    /// If the system cannot supply random bytes.
    pub fn random(hash: HashId) -> io::Result<Self> {
        Ok(Self {
            store: StoreId::random()?,
            hash,
            seed: Seed::random()?,
        })
    }

    /// Loads the identity stored in `folder`, whatever its hash; `None` if it is missing or
    /// damaged.
    ///
    /// # Errors
    /// If the file is of a newer version or cannot be read.
    pub fn load(disk: &dyn Disk, folder: &Path) -> Result<Option<Self>, IdentityError> {
        match find(disk, &folder.join(IDENTITY_FILE))? {
            Found::Whole(identity) => Ok(Some(identity)),
            Found::Nothing | Found::Damaged => Ok(None),
        }
    }

    /// Loads the identity stored in `folder`. Draws a new one if it is missing or damaged, or if
    /// its hash is not `hash`: a weak hash may have leaked the seed, so no strong one may be keyed
    /// by it. Changes nothing. Call [`Candidate::keep`] once the database is locked.
    ///
    /// # Errors
    /// If the file is of a newer version or cannot be read.
    pub fn load_or_new(
        disk: &dyn Disk,
        folder: &Path,
        hash: HashId,
    ) -> Result<Candidate, IdentityError> {
        let path = folder.join(IDENTITY_FILE);
        let new = || at("draw randomness for", &path, Self::random(hash));
        let (identity, is_stored) = match find(disk, &path)? {
            Found::Whole(identity) if identity.hash == hash => (identity, true),
            Found::Whole(Self { store, .. }) => (Self { store, ..new()? }, false),
            Found::Nothing | Found::Damaged => (new()?, false),
        };
        Ok(Candidate {
            identity,
            is_stored,
        })
    }

    /// Removes the identity, durably. The filters stored under it then belong to no known database,
    /// and are rebuilt at the next open. The file is renamed to `identity.void-<16 hex digits>`,
    /// which needs no disk space. It may be missing.
    ///
    /// # Errors
    /// If the file cannot be renamed, or the new name may not survive a power cut.
    pub fn distrust_stored(disk: &dyn Disk, folder: &Path) -> Result<(), IdentityError> {
        let path = folder.join(IDENTITY_FILE);
        if !matches!(find(disk, &path)?, Found::Nothing) {
            put_aside(disk, folder, &path, VOID)?;
        }
        at("sync", folder, disk.sync_folder(folder))
    }

    /// Number of identities in this folder that were distrusted: none, unless a false negative was
    /// found.
    ///
    /// # Errors
    /// If the folder cannot be listed.
    pub fn distrusted_runs(disk: &dyn Disk, folder: &Path) -> Result<usize, IdentityError> {
        let start = format!("{IDENTITY_FILE}.{VOID}-");
        match disk.list(folder) {
            Ok(names) => Ok(names.iter().filter(|name| name.starts_with(&start)).count()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => at("list", folder, Err(error)),
        }
    }

    /// The hasher with this identity's hash function and seed.
    pub fn hasher(&self) -> KeyHasher {
        KeyHasher::new(self.hash, self.seed)
    }
}

/// The identity of a database that this process has not locked yet.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    identity: Identity,
    is_stored: bool,
}

impl Candidate {
    /// The identity, for reading filters.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Checks that an identity that was read is still stored. Changes nothing.
    ///
    /// # Errors
    /// [`IdentityError::Changed`]; also if the file is of a newer version or cannot be read.
    pub fn confirm(&self, disk: &dyn Disk, folder: &Path) -> Result<(), IdentityError> {
        self.look_again(disk, &folder.join(IDENTITY_FILE)).map(drop)
    }

    /// Stores a new identity, or checks that one that was read is still stored. A damaged file is
    /// renamed to `identity.damaged-<16 hex digits>`.
    ///
    /// # Errors
    /// If the file is of a newer version or cannot be read, or if a new one cannot be stored; and
    /// [`IdentityError::Changed`].
    pub fn keep(&self, disk: &dyn Disk, folder: &Path) -> Result<(), IdentityError> {
        let path = folder.join(IDENTITY_FILE);
        match self.look_again(disk, &path)? {
            Found::Whole(kept) if kept == self.identity => return Ok(()),
            Found::Damaged => put_aside(disk, folder, &path, "damaged")?,
            Found::Whole(_) | Found::Nothing => {}
        }
        Ok(disk::publish(
            disk,
            folder,
            IDENTITY_FILE,
            &encode_identity(&self.identity),
        )?)
    }

    /// Reads the file again. An identity that was read and distrusted since must not come back.
    fn look_again(&self, disk: &dyn Disk, path: &Path) -> Result<Found, IdentityError> {
        let found = find(disk, path)?;
        let same = matches!(&found, Found::Whole(kept) if *kept == self.identity);
        if self.is_stored && !same {
            let path = path.to_owned();
            return Err(IdentityError::Changed { path });
        }
        Ok(found)
    }
}

enum Found {
    Whole(Identity),
    Damaged,
    Nothing,
}

fn find(disk: &dyn Disk, path: &Path) -> Result<Found, IdentityError> {
    let bytes = match disk::read_file(disk, path, most_bytes()) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => return Ok(Found::Damaged),
        Err(error) => return at("read", path, Err(error)),
    };
    match decode_identity(&bytes) {
        Ok(identity) => Ok(Found::Whole(identity)),
        Err(source) if source.is_newer() => Err(IdentityError::Newer {
            path: path.to_owned(),
            source,
        }),
        Err(_) => Ok(Found::Damaged),
    }
}

fn most_bytes() -> u64 {
    fault!(AnyIdentityRead, return u64::MAX);
    MAX_IDENTITY_BYTES
}

fn put_aside(disk: &dyn Disk, folder: &Path, path: &Path, why: &str) -> Result<(), IdentityError> {
    let tag = getrandom::u64().map_err(io::Error::from);
    let tag = at("draw randomness for", path, tag)?;
    let aside = folder.join(format!("{IDENTITY_FILE}.{why}-{tag:016x}"));
    at("put aside", path, disk.rename(path, &aside))
}

fn at<T>(operation: &'static str, path: &Path, result: io::Result<T>) -> Result<T, IdentityError> {
    result.map_err(|source| IdentityError::System {
        operation,
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Fault, MemoryDisk, RealDisk};

    const FOLDER: &str = "/f";

    fn disk() -> MemoryDisk {
        let disk = MemoryDisk::new();
        disk.create_folder(Path::new(FOLDER)).unwrap();
        disk.sync_folder(Path::new("/")).unwrap();
        disk
    }

    fn load(disk: &MemoryDisk, hash: HashId) -> Result<Identity, IdentityError> {
        let candidate = Identity::load_or_new(disk, Path::new(FOLDER), hash)?;
        candidate.keep(disk, Path::new(FOLDER))?;
        Ok(*candidate.identity())
    }

    fn replace(disk: &MemoryDisk, bytes: &[u8]) {
        disk::publish(disk, Path::new(FOLDER), IDENTITY_FILE, bytes).unwrap();
    }

    #[test]
    fn an_identity_is_made_once_and_survives_a_power_cut() {
        let disk = disk();
        let made = load(&disk, HashId::Xxh3).unwrap();
        assert_eq!(load(&disk, HashId::Xxh3).unwrap(), made);
        for image in disk.after_power_cut(1) {
            assert_eq!(load(&image, HashId::Xxh3).unwrap(), made);
        }
    }

    #[test]
    fn another_hash_gets_another_seed_in_the_same_database() {
        let disk = disk();
        let first = load(&disk, HashId::Xxh3).unwrap();
        let second = load(&disk, HashId::SipHash13).unwrap();
        assert_eq!(first.store, second.store);
        assert_ne!(first.seed, second.seed);
        assert_eq!(second.hasher().id(), HashId::SipHash13);
        assert_eq!(load(&disk, HashId::SipHash13).unwrap(), second);
    }

    #[test]
    fn damaged_identity_is_renamed_and_replaced() {
        let good = encode_identity(&Identity::random(HashId::Xxh3).unwrap());
        let mut flipped = good.clone();
        flipped[20] ^= 1;
        for damaged in [&[][..], &good[..59], &flipped, &[0; 5000]] {
            let disk = disk();
            replace(&disk, damaged);
            let made = load(&disk, HashId::Xxh3).unwrap();
            assert_eq!(load(&disk, HashId::Xxh3).unwrap(), made);
            let names = disk.list(Path::new(FOLDER)).unwrap();
            let [identity, aside] = names.as_slice() else {
                panic!("{names:?}");
            };
            assert_eq!(identity, IDENTITY_FILE);
            assert!(aside.starts_with("identity.damaged-"));
            let kept = disk::read_file(&disk, &Path::new(FOLDER).join(aside), 1 << 20);
            assert_eq!(kept.unwrap(), damaged);
        }
    }

    /// The disk used to be blamed for a path that no disk takes, and the reason came last.
    #[test]
    #[cfg(unix)]
    fn error_of_an_impossible_path_does_not_blame_the_disk() {
        let home = tempfile::tempdir().unwrap();
        drop(RealDisk.create_new(&home.path().join("file")).unwrap());
        let says = |folder: &str| {
            let folder = home.path().join(folder);
            let error = Identity::load_or_new(&RealDisk, &folder, HashId::Xxh3);
            let error = error.unwrap_err();
            let IdentityError::System { source, .. } = &error else {
                panic!("{error}");
            };
            (error.to_string(), source.to_string())
        };
        for (folder, remedy, reason) in [
            ("a".repeat(6_000), "use a shorter path", "name too long"),
            ("file".to_owned(), "use another path", "ot a directory"),
            ("a\0b".to_owned(), "without a zero byte", "NUL byte"),
        ] {
            let (text, source) = says(&folder);
            assert!(text.ends_with(remedy) && !text.contains("repair"), "{text}");
            assert!(source.contains(reason), "{source}");
        }
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let denied = at::<()>("read", Path::new("/f"), Err(denied)).unwrap_err();
        assert!(denied.to_string().contains("repair the disk"), "{denied}");
    }

    /// Otherwise, a user who can lengthen the file would decide how much memory an open needs.
    #[test]
    fn oversized_identity_file_is_not_read() {
        let disk = disk();
        let identity = encode_identity(&Identity::random(HashId::Xxh3).unwrap());
        let folder = Path::new(FOLDER);
        for (length, operations) in [(60, 2), (4_096, 2), (4_097, 1), (1 << 20, 1)] {
            let mut bytes = identity.clone();
            bytes.resize(length, 0);
            replace(&disk, &bytes);
            let before = disk.operations();
            let found = Identity::load(&disk, folder).unwrap();
            assert_eq!(found.is_some(), length == identity.len());
            assert_eq!(disk.operations() - before, operations, "{length} bytes");
        }
    }

    #[test]
    fn distrusted_identity_stays_so_after_a_power_cut() {
        let disk = disk();
        let made = load(&disk, HashId::Xxh3).unwrap();
        disk.limit_free_bytes(0);
        assert_eq!(
            Identity::distrusted_runs(&disk, Path::new(FOLDER)).unwrap(),
            0
        );
        for _ in 0..2 {
            Identity::distrust_stored(&disk, Path::new(FOLDER)).unwrap();
            assert_eq!(
                Identity::distrusted_runs(&disk, Path::new(FOLDER)).unwrap(),
                1
            );
        }
        for image in disk.after_power_cut(1) {
            let found = Identity::load(&image, Path::new(FOLDER)).unwrap();
            assert!(found.is_none(), "{found:?}");
        }
        let next = Identity::load_or_new(&disk, Path::new(FOLDER), HashId::Xxh3).unwrap();
        let next = next.identity();
        assert_ne!((next.store, next.seed), (made.store, made.seed));
        let [aside] = &disk.list(Path::new(FOLDER)).unwrap()[..] else {
            panic!("one file is left");
        };
        assert!(aside.starts_with("identity.void-"));
    }

    #[test]
    fn concurrent_open_does_not_restore_distrusted_identity() {
        let disk = disk();
        let folder = Path::new(FOLDER);
        load(&disk, HashId::Xxh3).unwrap();
        let under_way = Identity::load_or_new(&disk, folder, HashId::Xxh3).unwrap();
        Identity::distrust_stored(&disk, folder).unwrap();
        for outcome in [
            under_way.keep(&disk, folder),
            under_way.confirm(&disk, folder),
        ] {
            let error = outcome.unwrap_err();
            assert!(matches!(error, IdentityError::Changed { .. }), "{error}");
        }
        assert_eq!(Identity::load(&disk, folder).unwrap(), None);
    }

    #[test]
    fn newer_identity_is_refused_and_kept() {
        let mut newer = encode_identity(&Identity::random(HashId::Xxh3).unwrap());
        newer[8] = 2;
        let crc = crc32fast::hash(&newer[..56]);
        newer[56..].copy_from_slice(&crc.to_le_bytes());
        let disk = disk();
        replace(&disk, &newer);
        let error = load(&disk, HashId::Xxh3).unwrap_err();
        assert!(matches!(error, IdentityError::Newer { .. }), "{error}");
        assert_eq!(disk.list(Path::new(FOLDER)).unwrap(), [IDENTITY_FILE]);
    }

    /// If an error were taken for a missing file, no sidecar would match the database any more.
    #[test]
    fn a_disk_error_makes_no_new_identity() {
        let disk = disk();
        let made = load(&disk, HashId::Xxh3).unwrap();
        for n in 0..2 {
            disk.fail(n, Fault::Once(io::ErrorKind::PermissionDenied));
            load(&disk, HashId::Xxh3).unwrap_err();
        }
        assert_eq!(load(&disk, HashId::Xxh3).unwrap(), made);
    }
}
