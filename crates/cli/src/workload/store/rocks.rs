//! RocksDB as a [`Store`], alone and with lsm-sieve's filters.

use std::io;
use std::path::{Path, PathBuf};

use rocksdb::perf::{PerfContext, PerfMetric, PerfStatsLevel, set_perf_stats};
use rocksdb::{AsColumnFamilyRef, DB, Options, WriteBatch};

use super::{Space, Store, WithFilters};
use lsm_sieve::{OpenError, SieveDb, SieveOptions};

/// The keys of a batch are not sorted.
const SORTED: bool = false;

/// Why a database cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenStoreError {
    /// The folder cannot be read.
    #[error("there is no database at {}: check the path", path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder holds something else.
    #[error(
        "{} is not a RocksDB database (it has no file CURRENT): name the folder that holds the SSTs",
        path.display()
    )]
    NotDatabase {
        /// The folder.
        path: PathBuf,
    },
    /// RocksDB cannot open it.
    #[error("RocksDB cannot open {}", path.display())]
    Engine {
        /// The folder.
        path: PathBuf,
        /// RocksDB's error.
        source: rocksdb::Error,
    },
    /// lsm-sieve cannot open it.
    #[error("cannot open {} with lsm-sieve", path.display())]
    Front {
        /// The folder.
        path: PathBuf,
        /// The error.
        source: OpenError,
    },
}

/// The column families of the database in a folder.
///
/// # Errors
/// [`OpenStoreError`] unless there is a database that can be read.
pub fn column_families(path: &Path) -> Result<Vec<String>, OpenStoreError> {
    match path.read_dir() {
        Err(source) => {
            return Err(OpenStoreError::NoFolder {
                path: path.to_owned(),
                source,
            });
        }
        Ok(_) if !path.join("CURRENT").is_file() => {
            return Err(OpenStoreError::NotDatabase {
                path: path.to_owned(),
            });
        }
        Ok(_) => {}
    }
    DB::list_cf(&Options::default(), path).map_err(|source| OpenStoreError::Engine {
        path: path.to_owned(),
        source,
    })
}

/// The column families to open: the existing ones and those of `spaces`.
fn with_spaces(path: &Path, spaces: &[Space]) -> Result<Vec<String>, OpenStoreError> {
    let mut names = if path.join("CURRENT").is_file() {
        column_families(path)?
    } else {
        Vec::new()
    };
    for space in spaces {
        if !names.iter().any(|name| name == space.name()) {
            names.push(space.name().to_owned());
        }
    }
    Ok(names)
}

/// RocksDB alone.
pub struct Plain(DB);

impl Plain {
    /// Opens the database in `path`, with a column family for each of `spaces`.
    ///
    /// # Errors
    /// [`OpenStoreError::Engine`].
    pub fn open(options: &Options, path: &Path, spaces: &[Space]) -> Result<Self, OpenStoreError> {
        let names = with_spaces(path, spaces)?;
        // `DB::open_cf` would open them with default options: no filter and a small cache.
        let families = names.into_iter().map(|name| (name, options.clone()));
        DB::open_cf_with_opts(options, path, families)
            .map(Self)
            .map_err(|source| OpenStoreError::Engine {
                path: path.to_owned(),
                source,
            })
    }

    /// The engine.
    pub const fn engine(&self) -> &DB {
        &self.0
    }
}

impl Store for Plain {
    type Error = rocksdb::Error;

    #[inline]
    fn read(&self, space: Space, key: &[u8]) -> Result<bool, rocksdb::Error> {
        let value = match space {
            Space::Default => self.0.get_pinned(key),
            _ => self.0.get_pinned_cf(family(&self.0, space), key),
        };
        value.map(|value| value.is_some())
    }

    fn read_many(&self, keys: &[&[u8]]) -> Result<usize, rocksdb::Error> {
        let family = family(&self.0, Space::Default);
        count_found(self.0.batched_multi_get_cf(family, keys, SORTED))
    }

    fn blocks_read(&self) -> u64 {
        blocks_read()
    }

    fn write(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<(), rocksdb::Error> {
        match space {
            Space::Default => self.0.put(key, value),
            _ => self.0.put_cf(family(&self.0, space), key, value),
        }
    }

    fn write_many(&mut self, keys: &[[u8; 16]], value: &[u8]) -> Result<(), rocksdb::Error> {
        self.0.write(batch_of(keys, value))
    }

    fn flush(&mut self) -> Result<(), rocksdb::Error> {
        [Space::Default, Space::Main, Space::Differential]
            .iter()
            .filter_map(|space| self.0.cf_handle(space.name()))
            .try_for_each(|family| self.0.flush_cf(family))
    }
}

fn family(db: &DB, space: Space) -> &rocksdb::ColumnFamily {
    db.cf_handle(space.name())
        .expect("opened with every space of its workload")
}

/// RocksDB with lsm-sieve's filters.
pub struct Sieve(SieveDb);

impl Sieve {
    /// Opens the database in `path`, with a column family for each of `spaces`.
    ///
    /// # Errors
    /// [`OpenStoreError`].
    pub fn open(
        options: &Options,
        sieve: &SieveOptions,
        path: &Path,
        spaces: &[Space],
    ) -> Result<Self, OpenStoreError> {
        let names = with_spaces(path, spaces)?;
        SieveDb::builder(path)
            .options(options)
            .filters(sieve)
            .cfs(names)
            .open()
            .map(Self)
            .map_err(|source| OpenStoreError::Front {
                path: path.to_owned(),
                source,
            })
    }

    /// The database with its filters.
    pub const fn db(&self) -> &SieveDb {
        &self.0
    }
}

fn sieve_family(db: &SieveDb, space: Space) -> impl AsColumnFamilyRef {
    db.cf_handle(space.name())
        .expect("opened with every space of its workload")
}

impl Store for Sieve {
    type Error = rocksdb::Error;

    #[inline]
    fn read(&self, space: Space, key: &[u8]) -> Result<bool, rocksdb::Error> {
        let value = match space {
            Space::Default => self.0.get_pinned(key),
            _ => self.0.get_pinned_cf(&sieve_family(&self.0, space), key),
        };
        value.map(|value| value.is_some())
    }

    fn read_many(&self, keys: &[&[u8]]) -> Result<usize, rocksdb::Error> {
        let family = sieve_family(&self.0, Space::Default);
        count_found(self.0.batched_multi_get_cf(&family, keys, SORTED))
    }

    fn blocks_read(&self) -> u64 {
        blocks_read()
    }

    fn write(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<(), rocksdb::Error> {
        match space {
            Space::Default => self.0.put(key, value),
            _ => self.0.put_cf(&sieve_family(&self.0, space), key, value),
        }
    }

    fn write_many(&mut self, keys: &[[u8; 16]], value: &[u8]) -> Result<(), rocksdb::Error> {
        self.0.write(batch_of(keys, value))
    }

    fn flush(&mut self) -> Result<(), rocksdb::Error> {
        [Space::Default, Space::Main, Space::Differential]
            .iter()
            .filter_map(|space| self.0.cf_handle(space.name()))
            .try_for_each(|family| self.0.flush_cf(&family))
    }
}

impl WithFilters for Sieve {
    fn rules_out(&self, space: Space, key: &[u8]) -> bool {
        let answer = match space {
            Space::Default => self.0.filters().answer(key),
            _ => self
                .0
                .filters()
                .answer_cf(&sieve_family(&self.0, space), key),
        };
        answer.is_absent()
    }

    fn read_past(&self, space: Space, key: &[u8]) -> Result<bool, rocksdb::Error> {
        let value = match space {
            Space::Default => self.0.get_unfiltered(key),
            _ => self.0.get_unfiltered_cf(&sieve_family(&self.0, space), key),
        };
        value.map(|value| value.is_some())
    }
}

/// Lets RocksDB count the blocks that this thread's reads read from disk. This costs each read a
/// few nanoseconds.
pub fn count_blocks() {
    set_perf_stats(PerfStatsLevel::EnableCount);
}

fn blocks_read() -> u64 {
    PerfContext::default().metric(PerfMetric::BlockReadCount)
}

fn batch_of(keys: &[[u8; 16]], value: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::default();
    keys.iter().for_each(|key| batch.put(key, value));
    batch
}

fn count_found<T>(
    values: impl IntoIterator<Item = Result<Option<T>, rocksdb::Error>>,
) -> Result<usize, rocksdb::Error> {
    values
        .into_iter()
        .try_fold(0, |found, value| Ok(found + usize::from(value?.is_some())))
}
