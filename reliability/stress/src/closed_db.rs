//! A closed database: how it is opened, and what can happen to its files meanwhile.

#![expect(
    clippy::disallowed_methods,
    reason = "files are damaged past the door to files, as a disk or a user would"
)]

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use lsm_sieve::{OpenError, RocksDb, SieveDb, SieveOptions};
use lsm_sieve_cli::workload::random::Random;
use rocksdb::{IteratorMode, Options};

use super::check::{Certainty, Checked, Tally, Violation};
use super::checker::{Checker, everything};
use super::keys::KeySpace;
use super::model::{FAMILIES, Model, number};
use super::session::write_to;
use super::settings::Settings;
use super::step::{OfflineEvent, Update};

type FamilyOptions = Vec<(&'static str, Options)>;

/// The options of a database and of the families in the model.
pub fn options(
    settings: &Settings,
    model: &Model,
) -> Result<(Options, FamilyOptions), rocksdb::Error> {
    let families = model.existing();
    let families = families.map(|family| Ok((FAMILIES[family], settings.family(family)?)));
    Ok((settings.family(0)?, families.collect::<Result<_, _>>()?))
}

/// Opens a database with the families in the model.
pub fn open(
    settings: &Settings,
    sieve: &SieveOptions,
    path: &Path,
    model: &Model,
) -> Result<SieveDb, Violation> {
    let (database, families) = options(settings, model)?;
    let sieve = settings.with_transactions(sieve);
    let opened: Result<_, OpenError> =
        SieveDb::open_cf_with_opts(&database, &sieve, path, families);
    Ok(opened?)
}

/// A closed database and its model.
pub struct ClosedDb<'a> {
    pub path: &'a Path,
    pub settings: &'a Settings,
    pub sieve: &'a SieveOptions,
    pub keys: &'a KeySpace,
    pub model: &'a mut Model,
    pub tally: &'a mut Tally,
}

impl ClosedDb<'_> {
    pub fn apply(&mut self, event: &OfflineEvent) -> Checked {
        match event {
            OfflineEvent::Remove { one_in: 1, .. } => remove_folder(&filters(self.path))?,
            OfflineEvent::Remove { one_in, seed } => {
                let mut random = Random::new(*seed);
                for file in files(&filters(self.path))? {
                    if random.one_in((*one_in).max(1)) {
                        remove_if_there(&file)?;
                    }
                }
            }
            OfflineEvent::Damage { one_in, seed } => {
                let mut random = Random::new(*seed);
                for file in sidecars(&filters(self.path))? {
                    if random.one_in((*one_in).max(1)) {
                        damage(&file, &mut random)?;
                    }
                }
            }
            OfflineEvent::ReadOnly => self.read_only()?,
            OfflineEvent::Plain { updates, compact } => self.open_plain(updates, *compact)?,
        }
        Ok(())
    }

    /// Another process, which only reads.
    fn read_only(&mut self) -> Checked {
        let before = lengths(self.path)?;
        let (database, families) = options(self.settings, self.model)?;
        let db = SieveDb::builder(self.path)
            .options(&database)
            .filters(self.sieve)
            .cfs_with_opts(families)
            .read_only(false)
            .open()?;
        let checker = Checker::new(&db, self.settings, self.keys);
        checker.agree(self.model, self.tally)?;
        checker.verify(self.tally)?;
        checker.agree(self.model, self.tally)?;
        drop(checker);
        drop(db);
        if lengths(self.path)? != before {
            return Err(Violation::other("a read-only open changed a file"));
        }
        Ok(())
    }

    /// Another process, without the plugin.
    fn open_plain(&mut self, updates: &[Update], compact: bool) -> Checked {
        let (database, families) = options(self.settings, self.model)?;
        let engine = RocksDb::open_cf_with_opts(&database, self.path, families)?;
        self.agree(&engine)?;
        for update in updates {
            let name = FAMILIES.get(update.family).copied().unwrap_or_default();
            let (Some(handle), Some(key)) = (engine.cf_handle(name), self.keys.get(update.key))
            else {
                continue;
            };
            write_to(&engine, &handle, key, update.change)?;
            if let Some(contents) = self.model.family_mut(update.family) {
                contents.apply(update.key, update.change);
            }
        }
        self.tally.wrote(updates.len());
        for family in self.model.existing().filter(|_| compact) {
            if let Some(handle) = engine.cf_handle(FAMILIES[family]) {
                engine.flush_cf(&handle)?;
                engine.compact_range_cf(&handle, None::<&[u8]>, None::<&[u8]>);
            }
        }
        self.agree(&engine)
    }

    /// A database that was written with the plugin reads right without it.
    fn agree(&mut self, engine: &RocksDb) -> Checked {
        for family in self.model.existing() {
            let (Some(handle), Some(contents)) = (
                engine.cf_handle(FAMILIES[family]),
                self.model.family(family),
            ) else {
                return Err(Violation::lost("a family is gone without the plugin"));
            };
            let found = engine.iterator_cf_opt(&handle, everything(), IteratorMode::Start);
            let mut records = 0;
            for record in found {
                let (_, value) = record?;
                records += 1;
                if number(&value).is_none() {
                    return Err(Violation::other("a value is none without the plugin"));
                }
            }
            let held = contents.held(0..self.keys.len());
            let mut expected = 0;
            for (rank, value) in held {
                expected += 1;
                self.tally.read(Certainty::MustExist);
                let key = self.keys.get(rank).unwrap_or_default();
                let found = engine.get_cf(&handle, key)?;
                if found.and_then(|bytes| number(&bytes)) != Some(value) {
                    return Err(Violation::lost(format!("key {rank} without the plugin")));
                }
            }
            if records != expected {
                let what = format!("{records} records without the plugin, not {expected}");
                return Err(Violation::other(what));
            }
        }
        Ok(())
    }
}

// ------------------------------------------------------------------ files

fn filters(database: &Path) -> PathBuf {
    database.join(SieveOptions::FOLDER)
}

/// Copies the filters as they are, while maintenance may change them.
pub fn copy_filters(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(filters(to))?;
    for file in files(&filters(from))? {
        let name = file.file_name().unwrap_or_default();
        match fs::copy(&file, filters(to).join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The files of a folder, sorted; none if the folder does not exist.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths = entries.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// All files of a database and of its filters, with their lengths.
fn lengths(database: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let files = [files(database)?, files(&filters(database))?].concat();
    let lengths = files.into_iter().map(|file| {
        let length = fs::metadata(&file)?.len();
        Ok((file, length))
    });
    lengths.collect()
}

/// The sidecars only: a damaged identity is a different case.
fn sidecars(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = files(folder)?;
    files.retain(|path| path.extension().is_some_and(|end| end == "sieve"));
    Ok(files)
}

pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Flips a bit of a file, or cuts, lengthens, empties or blanks a part of it.
fn damage(path: &Path, random: &mut Random) -> io::Result<()> {
    let mut bytes = fs::read(path)?;
    if bytes.is_empty() {
        return Ok(());
    }
    let at = random.index(bytes.len());
    match random.below(6) {
        0..=1 => bytes[at] ^= 1 << random.below(8),
        2 => bytes.truncate(at),
        3 => bytes.push(0),
        4 => bytes.clear(),
        _ => bytes[at..].fill(0),
    }
    fs::write(path, bytes)
}
