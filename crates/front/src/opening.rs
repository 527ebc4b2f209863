//! What the filters of one database share while it opens: its identity, the folder of filters, and
//! the filters that an earlier run left there.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cf_filter::{CfFilter, FirstSummary};
use crate::disk::Disk;
use crate::filter::{Scalable, Stage};
use crate::filter_store::FilterStore;
use crate::format::Identity;
use crate::hash::{HashId, KeyHasher};
use crate::math::{Bits, Items};
use crate::options::FrontOptions;
use crate::segment::{Candidate, IdentityError, Registry, SidecarError, SidecarFolder};
use crate::wakeup::Wakeup;

/// The name and the id of the key space of a store that has only one.
const ONE_KEY_SPACE: &str = "default";
pub(crate) const ONE_KEY_SPACE_ID: u32 = 0;

/// What the filters of one database's column families share while it opens.
pub struct Opening {
    pub hasher: KeyHasher,
    pub(crate) registry: Arc<Registry>,
    pub filter_store: Arc<FilterStore>,
    pub wakeup: Arc<Wakeup>,
}

/// The folder of filters cannot be used. No key was touched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterFolderError {
    /// The folder cannot be created, or is not a folder of filters.
    #[error(transparent)]
    Folder(SidecarError),
    /// The identity by which all filters are read cannot be read or written.
    #[error(transparent)]
    Identity(IdentityError),
    /// Another process, or another part of this one, has the folder open.
    #[error("{} is in use: one store at a time may have it open", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The folder cannot be locked.
    #[error("cannot lock {}: {source}", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The file whose lock says that a folder of filters is in use.
const LOCK_FILE: &str = "LOCK";

/// Keeps others out of a folder of filters, for engines that have no lock of their own: E10.
#[derive(Debug)]
pub struct FolderLock(#[expect(dead_code, reason = "the lock is held while it is open")] File);

impl FolderLock {
    /// Creates the folder if it is missing, and locks it.
    pub fn of(folder: &Path) -> Result<Self, FilterFolderError> {
        let path = folder.join(LOCK_FILE);
        let open = || {
            fs::create_dir_all(folder)?;
            let mut options = OpenOptions::new();
            options.create(true).truncate(false).write(true).open(&path)
        };
        let failed = |source| FilterFolderError::Lock {
            path: path.clone(),
            source,
        };
        // Its files would be in whatever folder is the current one.
        if folder.as_os_str().is_empty() {
            let reason = "the folder of the filters has no name; give its path";
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, reason)));
        }
        let file = open().map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(FilterFolderError::InUse {
                path: folder.to_owned(),
            }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }
}

impl Opening {
    /// Opens the folder of a store with one key space: see [`Opening::of_own_folder`]. Returns the
    /// filters of the key space too.
    pub fn of_one_key_space(
        disk: Arc<dyn Disk>,
        folder: &Path,
        options: &FrontOptions,
        hash: HashId,
    ) -> Result<(Self, Arc<CfFilter>), FilterFolderError> {
        let opening = Self::of_own_folder(disk, folder, options, hash)?;
        let cf_filter = opening.cf_filter(ONE_KEY_SPACE, options, Bits::new(0));
        cf_filter.key_space().memtable_created(ONE_KEY_SPACE_ID);
        Ok((opening, cf_filter))
    }

    /// Opens a folder that no other process may use: reads what an earlier run left there, and
    /// stores the identity.
    pub fn of_own_folder(
        disk: Arc<dyn Disk>,
        folder: &Path,
        options: &FrontOptions,
        hash: HashId,
    ) -> Result<Self, FilterFolderError> {
        let identity = FilterFolderError::Identity;
        let (opening, candidate) = Self::prepare(disk, folder, options, hash).map_err(identity)?;
        opening
            .prepare_folder()
            .map_err(FilterFolderError::Folder)?;
        opening.keep(&candidate).map_err(identity)?;
        Ok(opening)
    }

    /// Reads what an earlier run left in the filter folder. Writes nothing: the database may be in
    /// use.
    pub fn prepare(
        disk: Arc<dyn Disk>,
        folder: &Path,
        options: &FrontOptions,
        hash: HashId,
    ) -> Result<(Self, Candidate), IdentityError> {
        let candidate = Self::identity(&*disk, folder, options, hash)?;
        let identity = candidate.identity();
        let hasher = identity.hasher();
        let folder = SidecarFolder::new(disk, folder.to_owned(), identity.store, hasher.imprint());
        let opening = Self {
            hasher,
            registry: Arc::new(Registry::new(hasher)),
            filter_store: Arc::new(FilterStore::new(folder)),
            wakeup: Arc::default(),
        };
        Ok((opening, candidate))
    }

    /// The database's identity. Read-only filters accept stored filters of any hash.
    fn identity(
        disk: &dyn Disk,
        folder: &Path,
        options: &FrontOptions,
        hash: HashId,
    ) -> Result<Candidate, IdentityError> {
        let kept = if options.read_only_filters {
            Identity::load(disk, folder)?
        } else {
            None
        };
        let hash = kept.map_or(hash, |kept| kept.hash);
        Identity::load_or_new(disk, folder, hash)
    }

    /// Creates the folder of filters, and checks that it is ours alone.
    pub fn prepare_folder(&self) -> Result<(), SidecarError> {
        self.filter_store.folder().prepare()
    }

    /// Stores the identity, now that no other process can.
    pub fn keep(&self, identity: &Candidate) -> Result<(), IdentityError> {
        let folder = self.filter_store.folder();
        identity.keep(folder.disk(), folder.path())
    }

    /// With read-only filters: checks that the database is still the one whose filters were read.
    pub fn confirm(&self, identity: &Candidate) -> Result<(), IdentityError> {
        let folder = self.filter_store.folder();
        identity.confirm(folder.disk(), folder.path())
    }

    /// New filters, beside others whose summary filters take `taken` of the budget.
    pub fn cf_filter(&self, name: &str, front: &FrontOptions, taken: Bits) -> Arc<CfFilter> {
        let imprint = self.hasher.imprint().for_summary();
        let options = front.summary(Items::new(0), taken);
        let room = front.room_beside(taken).unwrap_or(Bits::new(u64::MAX));
        let (summary, covered, rate, prefixes) = match self.filter_store.load_summary(name, room) {
            Some(stored) => {
                let first = stored.chain.stages().first();
                let keys = first.map(Stage::items).unwrap_or_default();
                let options = if first.is_some_and(Stage::is_static) {
                    front.static_summary(keys, taken)
                } else {
                    front.summary(keys, taken)
                };
                let summary = Scalable::starting_with(imprint, options, stored.chain);
                let prefixes = front.prefixes.among(&stored.prefixes);
                (summary, stored.covered, Some(stored.rate), prefixes)
            }
            None => {
                let nothing = Scalable::new(imprint, options);
                (nothing, HashSet::new(), None, front.prefixes.all())
            }
        };
        let summary = Arc::new(summary);
        let (registry, wakeup) = (Arc::clone(&self.registry), Arc::clone(&self.wakeup));
        let first = FirstSummary {
            filter: Arc::clone(&summary),
            covered,
            prefixes,
            // A stored one has those that came after its range filter, which is not stored.
            has_blocks: rate.is_none(),
        };
        let cf_filter = CfFilter::new(name, self.hasher, registry, wakeup, front, first);
        // Otherwise it is stored again with what it lacks.
        if rate == Some(summary.options().rate) && prefixes == front.prefixes.all() {
            cf_filter
                .coverage()
                .note_saved(cf_filter.coverage().to_save(&summary));
        }
        cf_filter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store's filters used to lock a file in the current folder, and then to find that they have
    /// no folder.
    #[test]
    fn folder_without_a_name_is_refused_before_anything_is_created() {
        let refused = FolderLock::of(Path::new("")).unwrap_err();
        assert!(refused.to_string().contains("has no name"), "{refused}");
        assert!(!Path::new(LOCK_FILE).exists());
    }
}
