//! Opens a store: checks first, opens the files that the state names, then drops stray ones.

use std::path::Path;
use std::sync::Arc;

use rocksdb::{DB, DEFAULT_COLUMN_FAMILY_NAME, ErrorKind, Options, ReadOptions, WriteBatch};

use super::MAIN;
use super::error::OpenDifferentialError;
use super::generation::Generation;
use super::options::{DifferentialOptions, MainFile};
use super::reorganize::drop_moved;
use super::state::{
    FORMAT, FORMAT_KEY, STATE_KEY, State, StateError, VERSION, family_name, generation_of,
};
use super::store::{DifferentialStore, Parts, SYNC};
use lsm_sieve::{CfReader, OpenError, RocksDb, SieveDb, drops_entries, read_only};
use lsm_sieve_support::fault::fault;

type Result<T> = std::result::Result<T, OpenDifferentialError>;

const LOG_IS_AN_ERROR: bool = false;

impl DifferentialStore {
    /// Opens a store. Creates one if there is none and `create_if_missing` is set. A reorganisation
    /// that was interrupted can be continued.
    ///
    /// # Errors
    /// [`OpenDifferentialError`] says what is wrong and what to do.
    pub fn open(
        engine: &Options,
        options: &DifferentialOptions,
        path: impl AsRef<Path>,
    ) -> Result<Self> {
        open(engine, options, path.as_ref())
    }
}

fn open(engine: &Options, options: &DifferentialOptions, path: &Path) -> Result<DifferentialStore> {
    Opening {
        path,
        engine,
        options,
    }
    .run()
}

struct Opening<'a> {
    path: &'a Path,
    engine: &'a Options,
    options: &'a DifferentialOptions,
}

impl Opening<'_> {
    fn run(&self) -> Result<DifferentialStore> {
        if drops_entries(self.engine) {
            let path = self.path.to_owned();
            return Err(OpenDifferentialError::DropsEntries { path });
        }
        let names = self.families()?;
        let db = self.open_families(&names)?;
        let home = self.family(&db, DEFAULT_COLUMN_FAMILY_NAME)?;
        let state = self.state(&db, &home)?;
        let main = match &self.options.main {
            MainFile::Here if self.options.ask_main => self.family(&db, MAIN)?,
            MainFile::Here => self.family(&db, MAIN)?.without_filters(),
            MainFile::Elsewhere { path, family } => self.main_elsewhere(path, family)?,
        };
        let numbers = (state.oldest..=state.newest).rev();
        let generations: Vec<Arc<Generation>> = numbers
            .map(|number| self.generation(&db, number).map(Arc::new))
            .collect::<Result<_>>()?;
        self.drop_strays(&db, &state, &home, &names)?;
        Ok(DifferentialStore::assemble(Parts {
            current: Arc::clone(&generations[0]),
            generations,
            main,
            home,
            state,
            engine_options: self.engine.clone(),
            options: self.options.clone(),
            db,
        }))
    }

    /// The column families to open: those of the existing store, or those of a new one.
    fn families(&self) -> Result<Vec<String>> {
        let new = || [MAIN.to_owned(), family_name(1)].to_vec();
        if !self.path.join("CURRENT").exists() {
            return Ok(new());
        }
        let names = DB::list_cf(self.engine, self.path).map_err(|error| self.refused(error))?;
        let ours = |name: &str| {
            name == DEFAULT_COLUMN_FAMILY_NAME || name == MAIN || generation_of(name).is_some()
        };
        if let Some(other) = names.iter().find(|name| !ours(name)) {
            return Err(self.not_a_store(format!("it has a column family {other:?}")));
        }
        let main = names.iter().any(|name| name == MAIN);
        if main && names.iter().any(|name| generation_of(name).is_some()) {
            return Ok(names);
        }
        // A database without these is either being created right now or belongs to something else.
        // In the latter case, no column family may be added to it.
        match (self.was_written()?, main) {
            (false, _) => Ok(new()),
            (true, true) => Err(self.damaged("it has no differential file".to_owned())),
            (true, false) => Err(self.not_a_store("it has no main file".to_owned())),
        }
    }

    fn was_written(&self) -> Result<bool> {
        let names = [DEFAULT_COLUMN_FAMILY_NAME];
        let engine = read_only(self.engine);
        let peek = RocksDb::open_cf_for_read_only(&engine, self.path, names, LOG_IS_AN_ERROR);
        let peek = peek.map_err(|error| self.refused(error))?;
        Ok(peek.latest_sequence_number() > 0)
    }

    fn open_families(&self, names: &[String]) -> Result<SieveDb> {
        let mut engine = self.engine.clone();
        engine.create_missing_column_families(true);
        let families = names.iter().map(|name| (name, self.engine.clone()));
        let front = &self.options.filters;
        SieveDb::open_cf_with_opts(&engine, front, self.path, families).map_err(|error| match error
        {
            OpenError::Engine { source, .. } => self.refused(source),
            other => OpenDifferentialError::Front(other),
        })
    }

    /// Reads the stored state. Creates one in a database that was never written to.
    fn state(&self, db: &SieveDb, home: &CfReader) -> Result<State> {
        let read = |key| self.read(home, key);
        let Some(bytes) = read(STATE_KEY)? else {
            return self.make_state(db, home);
        };
        if read(FORMAT_KEY)?.as_deref() != Some(FORMAT) {
            return Err(self.not_a_store("its format record is missing".to_owned()));
        }
        self.check_order(home)?;
        let path = self.path.to_owned();
        let state = State::decode(&bytes).map_err(|error| match error {
            StateError::Newer(found) => OpenDifferentialError::Newer {
                path,
                found,
                known: VERSION,
            },
            StateError::Damaged(reason) => self.damaged(reason),
        })?;
        self.check_main(&state)?;
        Ok(state)
    }

    fn make_state(&self, db: &SieveDb, home: &CfReader) -> Result<State> {
        let mut is_used = db.latest_sequence_number() > 0;
        fault!(MissingStateRecreated, is_used = false);
        if is_used {
            return Err(self.not_a_store("its state record is missing".to_owned()));
        }
        let state = State::new(self.options.main == MainFile::Here);
        let mut batch = WriteBatch::default();
        batch.put_cf(home.handle(), FORMAT_KEY, FORMAT);
        batch.put_cf(home.handle(), STATE_KEY, state.encode());
        // Otherwise a record in a later log could be durable without the state.
        db.write(batch)
            .and_then(|()| db.flush_wal(SYNC))
            .map_err(|source| self.failed("note the state", source))?;
        self.check_order(home)?;
        Ok(state)
    }

    /// Checks for bytewise order: of the two records that every store has, `format` must come
    /// first.
    fn check_order(&self, home: &CfReader) -> Result<()> {
        let mut records = home.iterate(ReadOptions::default());
        records.seek_to_first();
        match records.key() {
            Some(FORMAT_KEY) => Ok(()),
            Some(STATE_KEY) => Err(OpenDifferentialError::Order {
                path: self.path.to_owned(),
            }),
            _ => {
                let looked = records.status();
                looked.map_err(|source| self.failed("read the state", source))?;
                Err(self.not_a_store("its first record is not its own".to_owned()))
            }
        }
    }

    fn check_main(&self, state: &State) -> Result<()> {
        let (here, elsewhere) = (MainFile::Here.place(), "another database's");
        if state.main_is_here == (self.options.main == MainFile::Here) {
            return Ok(());
        }
        Err(OpenDifferentialError::OtherMain {
            path: self.path.to_owned(),
            kept: if state.main_is_here { here } else { elsewhere },
            asked: self.options.main.place(),
        })
    }

    fn main_elsewhere(&self, path: &Path, family: &str) -> Result<CfReader> {
        let refused = |source| OpenDifferentialError::MainElsewhere {
            path: path.to_owned(),
            family: family.to_owned(),
            source,
        };
        let families = [(family, self.engine.clone())];
        let engine = read_only(self.engine);
        let engine =
            RocksDb::open_cf_with_opts_for_read_only(&engine, path, families, LOG_IS_AN_ERROR);
        let engine = Arc::new(engine.map_err(refused)?);
        Ok(CfReader::new(&engine, family).expect("opened by this name"))
    }

    /// Drops generations that were moved, and those without a record: the state names a generation
    /// before it takes the first one.
    fn drop_strays(
        &self,
        db: &SieveDb,
        state: &State,
        home: &CfReader,
        names: &[String],
    ) -> Result<()> {
        let numbers = || names.iter().filter_map(|name| generation_of(name));
        for number in numbers().filter(|&number| number > state.newest) {
            self.refuse_records(db, number, state)?;
        }
        if numbers().any(|number| number < state.oldest) {
            // The log that the state was read from need not be durable. Write it again, to a synced
            // log.
            db.put_cf(home.handle(), STATE_KEY, state.encode())
                .map_err(|source| self.failed("note the state", source))?;
        }
        for number in numbers() {
            let dropped = if number < state.oldest {
                drop_moved(db, number)
            } else if number > state.newest {
                db.drop_cf(&family_name(number))
            } else {
                continue;
            };
            dropped.map_err(|source| self.failed("drop a stray generation", source))?;
        }
        Ok(())
    }

    fn refuse_records(&self, db: &SieveDb, number: u64, state: &State) -> Result<()> {
        let family = self.family(db, &family_name(number))?;
        let mut records = family.iterate(ReadOptions::default());
        records.seek_to_first();
        if records.valid() {
            let newest = state.newest;
            return Err(self.damaged(format!(
                "generation {number} holds records, but the state names none after {newest}: \
                 part of the log is missing"
            )));
        }
        let looked = records.status();
        looked.map_err(|source| self.failed("look into a stray generation", source))
    }

    fn generation(&self, db: &SieveDb, number: u64) -> Result<Generation> {
        let family = self.family(db, &family_name(number))?;
        let generation = Generation::new(number, family, self.options.filter)?;
        generation
            .recover()
            .map_err(|source| self.failed("read the keys of the differential file", source))?;
        Ok(generation)
    }

    fn family(&self, db: &SieveDb, name: &str) -> Result<CfReader> {
        db.cf(name)
            .ok_or_else(|| self.damaged(format!("its column family {name:?} is missing")))
    }

    fn read(&self, home: &CfReader, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let value = home.read(key, &ReadOptions::default());
        let value = value.map_err(|source| self.failed("read the state", source))?;
        Ok(value.map(|value| value.to_vec()))
    }

    /// Turns RocksDB's error on opening into one of the store.
    fn refused(&self, source: rocksdb::Error) -> OpenDifferentialError {
        let path = self.path.to_owned();
        let text = source.as_ref();
        match source.kind() {
            ErrorKind::IOError if is_held_lock(text) => {
                OpenDifferentialError::Locked { path, source }
            }
            ErrorKind::InvalidArgument if text.contains("does not exist (create_if_missing") => {
                OpenDifferentialError::Missing { path }
            }
            ErrorKind::Corruption => self.damaged(text.to_owned()),
            _ => self.failed("open the database", source),
        }
    }

    fn failed(&self, operation: &'static str, source: rocksdb::Error) -> OpenDifferentialError {
        OpenDifferentialError::Engine {
            operation,
            path: self.path.to_owned(),
            source,
        }
    }

    fn damaged(&self, reason: String) -> OpenDifferentialError {
        OpenDifferentialError::Damaged {
            path: self.path.to_owned(),
            reason,
        }
    }

    fn not_a_store(&self, reason: String) -> OpenDifferentialError {
        OpenDifferentialError::NotAStore {
            path: self.path.to_owned(),
            reason,
        }
    }
}

/// Whether RocksDB's error text means that the lock is held: by this process, or by another one,
/// in which case the system says that it would have to wait.
fn is_held_lock(text: &str) -> bool {
    let here = "IO error: lock hold by current process, ";
    let elsewhere = "IO error: While lock file: ";
    let wait = "/LOCK: Resource temporarily unavailable";
    text.starts_with(here) || (text.starts_with(elsewhere) && text.ends_with(wait))
}
