//! The suite: histories of a store, then of its mutants.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::kv::{FilteredStore, Recovery};
use crate::laws::damage::copy;
use crate::laws::history::{self, Broken, Counts, settle};
use crate::laws::mutant_store::MutantStore;
use crate::laws::subject::{BoxError, StoreSubject, Subject, TestStore};
use crate::math::Items;
use lsm_sieve_front::filter_options::FilterOptions;
use lsm_sieve_front::mutant::Mutant;

/// Histories in which a mutant must be found.
const TRIES: u64 = 20;

type PowerCut = Box<dyn Fn(&Path, &FilterOptions) -> Result<(), BoxError>>;

/// The folder of a store's filters in its own.
const FILTERS: &str = "filter";

/// Opens a store in a folder; see [`history::Open`].
type Open<S> = Box<dyn Fn(&Path, &FilterOptions, u64) -> Result<S, BoxError>>;

/// The suite for one store. The [module](super) says what it tests.
pub struct Suite<S> {
    open: Open<S>,
    filters: Option<&'static str>,
    /// What external writes announce must survive a power cut.
    power_cut: PowerCut,
    mutants: Vec<Mutant>,
    histories: u64,
    steps: u64,
    seed: u64,
    options: FilterOptions,
}

/// What the suite did and found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// Histories of the store.
    pub histories: u64,
    /// Steps of these histories.
    pub operations: u64,
    /// Reads that were compared with the store.
    pub reads: u64,
    /// Times that it went on from what a crash left.
    pub crashes: u64,
    /// Times that it was closed and opened.
    pub reopens: u64,
    /// Files of filters that were damaged.
    pub damaged: u64,
    /// Savepoints that were restored.
    pub restores: u64,
    /// Crashes within external writes, among all crashes.
    pub within: u64,
    /// Times that older files of the store were put back while it was closed.
    pub put_back: u64,
    /// The share of absent keys that the filters denied.
    pub denied: f64,
    /// The mutants, and how long it took to find each.
    pub mutants: Vec<(Mutant, Duration)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            histories,
            operations,
            reads,
            crashes,
            reopens,
            damaged,
            restores,
            within,
            put_back,
            denied,
            mutants,
        } = self;
        write!(
            f,
            "{histories} histories, {operations} operations, {reads} reads compared, {crashes} \
             crashes, {within} of them within external writes, {reopens} reopens, {restores} \
             restores, {put_back} files put back, {damaged} damaged filters: 0 lost; {:.2} % of \
             absent keys denied",
            denied * 100.0
        )?;
        for (mutant, took) in mutants {
            write!(f, "; {mutant:?} found in {:.1} s", took.as_secs_f64())?;
        }
        Ok(())
    }
}

impl<S: Subject> Suite<S> {
    /// The suite for a store that `open` opens in a folder of its own, its filters in the same
    /// folder, with the options that it is given.
    pub fn new(open: impl Fn(&Path, &FilterOptions) -> Result<S, BoxError> + 'static) -> Self {
        Self {
            open: Box::new(move |folder, options, _| open(folder, options)),
            filters: None,
            power_cut: Box::new(|_, _| Ok(())),
            mutants: Vec::new(),
            histories: 20,
            steps: 200,
            seed: 0,
            // Small, so that filters grow within a history.
            options: FilterOptions::default().expected_keys(Items::new(64)),
        }
    }

    /// The number of histories: 20 by default.
    #[must_use]
    pub fn histories(mut self, histories: u64) -> Self {
        self.histories = histories;
        self
    }

    /// The number of steps of each: 200 by default.
    #[must_use]
    pub fn steps(mut self, steps: u64) -> Self {
        self.steps = steps;
        self
    }

    /// The seed of the first history: 0 by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The options of the filters, in the place of those for few keys.
    #[must_use]
    pub fn options(mut self, options: FilterOptions) -> Self {
        self.options = options;
        self
    }

    /// The mutants to find. By default those that the kind of store has.
    #[must_use]
    pub fn mutants(mut self, mutants: impl IntoIterator<Item = Mutant>) -> Self {
        self.mutants = mutants.into_iter().collect();
        self
    }

    /// Runs the suite.
    ///
    /// # Panics
    /// If the store breaks a rule, with the history; if it fails; or if a mutant is not found.
    pub fn run(self) -> Report {
        let mut counts = Counts::default();
        if let Err(broken) = self.power_cut(None) {
            panic!("power cut: {broken}");
        }
        for seed in self.seed..self.seed + self.histories {
            match self.history(seed, None) {
                Ok(new) => counts.add(new),
                Err(broken) => panic!("history {seed}: {broken}"),
            }
        }
        let found = self
            .mutants
            .iter()
            .map(|&mutant| (mutant, self.find(mutant)));
        Report {
            mutants: found.collect(),
            histories: self.histories,
            operations: counts.operations,
            reads: counts.reads,
            crashes: counts.crashes,
            reopens: counts.reopens,
            damaged: counts.damaged,
            restores: counts.restores,
            within: counts.within,
            put_back: counts.put_back,
            denied: counts.denied as f64 / counts.absent as f64,
        }
    }

    /// How long it takes to find a mutant.
    fn find(&self, mutant: Mutant) -> Duration {
        let began = Instant::now();
        let is_found = |seed| self.history(seed, Some(mutant)).is_err();
        let found =
            self.power_cut(Some(mutant)).is_err() || (self.seed..self.seed + TRIES).any(is_found);
        assert!(found, "{mutant:?} is not found in {TRIES} histories");
        began.elapsed()
    }

    fn power_cut(&self, mutant: Option<Mutant>) -> Result<(), BoxError> {
        let home = Home::new()?;
        (self.power_cut)(&home.0, &self.options.clone().mutant(mutant))
    }

    fn history(&self, seed: u64, mutant: Option<Mutant>) -> Result<Counts, Broken> {
        let options = self.options.clone().mutant(mutant);
        let home = Home::new().expect("a folder for temporary files");
        let open = |folder: &Path, word| (self.open)(folder, &options, word);
        history::run(&open, self.filters, &home.0, (seed, self.steps))
    }
}

impl<S: Subject> Suite<S> {
    /// The suite for an LSM store whose filters are [`LsmFilters`](crate::lsm::LsmFilters), opened
    /// with the options that `open` is given.
    pub fn lsm(open: impl Fn(&Path, &FilterOptions) -> Result<S, BoxError> + 'static) -> Self {
        Self::new(open).mutants(Mutant::OF_LSM)
    }
}

impl<S: TestStore> Suite<StoreSubject<S>> {
    /// The suite for a [`Store`](crate::kv::Store) that `open` opens in a folder of its own.
    pub fn store(
        open: impl Fn(&Path) -> Result<S, BoxError> + 'static,
        recovery: Recovery,
    ) -> Self {
        let has_records = recovery != Recovery::Scan;
        let of_records = Mutant::OF_RECORDS.into_iter().filter(move |_| has_records);
        let mutants = Mutant::OF_STORE.into_iter().chain(of_records);
        Self::store_with(open, &[recovery]).mutants(mutants)
    }

    /// [`Suite::store`], and each open takes another of these recoveries. By default no mutants: a
    /// change of the recovery hides some.
    ///
    /// # Panics
    /// If there are none.
    pub fn store_with(
        open: impl Fn(&Path) -> Result<S, BoxError> + 'static,
        recoveries: &[Recovery],
    ) -> Self {
        assert!(!recoveries.is_empty(), "no recovery");
        let recoveries = recoveries.to_vec();
        let alone = Rc::new(open);
        let of_filters = Rc::clone(&alone);
        let open = move |folder: &Path, options: &FilterOptions, word: u64| {
            let mutant = options.get_mutant();
            let store = MutantStore::new(of_filters(folder)?, mutant);
            let filters = folder.join(FILTERS);
            let recovery = recoveries[(word % recoveries.len() as u64) as usize];
            let store = FilteredStore::open(store, &filters, options, recovery)?;
            Ok(StoreSubject::new(store, mutant))
        };
        let open = Rc::new(open);
        let of_cuts = Rc::clone(&open);
        let power_cut = move |home: &Path, options: &FilterOptions| {
            let open = |folder: &Path| of_cuts(folder, options, 0);
            cut_power(&open, &*alone, home)
        };
        let unopened = |_: &Path, _: &FilterOptions| Err("it is opened otherwise".into());
        Self {
            open: Box::new(move |folder, options, word| open(folder, options, word)),
            power_cut: Box::new(power_cut),
            filters: Some(FILTERS),
            ..Self::new(unopened)
        }
    }
}

/// Cuts the power when external writes were announced, brings a key that is durable by itself, and
/// puts an older copy of the filters back: the store must have said durably that they lack keys.
fn cut_power<S: TestStore>(
    open: &dyn Fn(&Path) -> Result<StoreSubject<S>, BoxError>,
    open_alone: &dyn Fn(&Path) -> Result<S, BoxError>,
    home: &Path,
) -> Result<(), BoxError> {
    let [folder, image, kept] = ["store", "image", "kept"].map(|name| home.join(name));
    let key = |number: u8| vec![b'k', number];
    let store = open(&folder)?;
    for number in 0..20 {
        store.write(&[(key(number), true)])?;
    }
    settle(&store)?;
    store.inner().sync()?;
    drop(store);
    copy(&folder.join(FILTERS), &kept)?;
    let store = open(&folder)?;
    let mut is_cut = None;
    let mut meanwhile = || {
        if is_cut.is_none() {
            copy(&folder, &image)?;
            is_cut = Some(S::cut_power(&image)?);
        }
        Ok(())
    };
    store.write_externally(None, &[key(20)], &mut meanwhile)?;
    drop(store);
    if is_cut != Some(true) {
        return Ok(());
    }
    let alone = open_alone(&image)?;
    alone.commit(S::batch(&[(key(21), true)]), &[])?;
    alone.sync()?;
    drop(alone);
    fs::remove_dir_all(image.join(FILTERS))?;
    copy(&kept, &image.join(FILTERS))?;
    let store = open(&image)?;
    settle(&store)?;
    match store.is_denied(&key(21)) {
        true => Err("LOST: a filter from before external writes is trusted".into()),
        false => Ok(()),
    }
}

/// A folder that is removed with all that is in it.
struct Home(PathBuf);

impl Home {
    fn new() -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("lsm-sieve-laws-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}
