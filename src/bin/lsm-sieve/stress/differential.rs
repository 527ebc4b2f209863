//! Cases on a [`DifferentialStore`].
//!
//! The model knows the values, and which generation has a record of which key: so that
//! `is_modified` is held to the letter, and a load, which goes below what is modified, is too.

use std::collections::{HashSet, VecDeque};
use std::ops::{Bound, ControlFlow};
use std::path::Path;

use lsm_sieve::differential::{
    Batch, DifferentialOptions, DifferentialStore, FilterChoice, Scan, Snapshot, Trigger,
};
use lsm_sieve::math::Probes;
use lsm_sieve::workload::Watch;
use lsm_sieve::workload::random::Random;
use lsm_sieve::{Bits, Items};
use serde::{Deserialize, Serialize};

use super::case::{Failure, Subject};
use super::keys::{KeySettings, KeySpace};
use super::model::{Change, Contents, number, value};
use super::session::PATIENCE;
use super::settings::{self, FrontSettings, Texts};
use super::verdict::{Certainty, Checked, Tally, Violation};

/// Steps between two looks at the watch.
const PATCH: usize = 256;

/// What is fixed of a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Differential {
    keys: KeySettings,
    front: FrontSettings,
    engine: Texts,
    /// Bits and probes of a fixed filter; none for the scalable one.
    fixed: Option<(u64, u32)>,
    ask_main: bool,
    batch_bytes: usize,
}

/// Neighbouring keys by rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Run {
    from: usize,
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Api {
    Get,
    Multi,
    Unfiltered,
    Modified,
    Snapshot,
    SnapshotMulti,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Step {
    Put {
        key: usize,
        number: u64,
    },
    Delete {
        key: usize,
    },
    Batch(Vec<(usize, Option<u64>)>),
    /// Every second key straight into the main file.
    Load {
        keys: Run,
        number: u64,
    },
    Read {
        keys: Run,
        api: Api,
    },
    Scan {
        keys: Run,
        now: bool,
    },
    Snapshot,
    Freeze,
    /// Stopped after so many batches, or not.
    Reorganize {
        stop_after: Option<u64>,
    },
    /// Asks whether it is time, by so many records, and reorganises if so.
    IfDue {
        records: u64,
    },
    Flush,
    Consolidate,
    Cover,
    Checkpoint,
    Reopen,
    /// The model hears of a put, the store does not. Never drawn.
    Lie {
        key: usize,
    },
}

/// Settings and steps.
pub(super) fn draw(random: &mut Random, steps: usize) -> (Differential, Vec<Step>) {
    const FIXED: [(u64, u32); 4] = [(64, 1), (128, 2), (16_384, 6), (1 << 20, 64)];
    let subject = Differential {
        keys: KeySettings::draw(random),
        front: FrontSettings::draw(random),
        engine: settings::draw_alike(random),
        fixed: random.one_in(2).then(|| *random.pick(&FIXED)),
        ask_main: random.one_in(2),
        batch_bytes: *random.pick(&[64, 1_000, 1 << 16]),
    };
    let calm = 50 << random.below(5);
    let keys = subject.keys.count;
    let steps = (0..steps).map(|_| draw_step(random, keys, calm)).collect();
    (subject, steps)
}

impl Subject for Differential {
    type Step = Step;

    fn run(
        &self,
        steps: &[Step],
        home: &Path,
        tally: &mut Tally,
        watch: &mut impl Watch,
    ) -> Result<(), Failure> {
        let keys = KeySpace::new(&self.keys);
        let mut life = Life {
            subject: self,
            home,
            model: Model::new(keys.len()),
            keys: &keys,
            tally,
            done: 0,
        };
        while life.open_and_do(steps, watch)? {}
        Ok(())
    }

    fn simpler(&self) -> Vec<Self> {
        let mut simpler = vec![];
        if self.front != FrontSettings::default() {
            simpler.push(Self {
                front: FrontSettings::default(),
                ..self.clone()
            });
        }
        if self.fixed.is_some() {
            simpler.push(Self {
                fixed: None,
                ..self.clone()
            });
        }
        for at in 0..self.engine.len() {
            let mut less = self.clone();
            less.engine.remove(at);
            simpler.push(less);
        }
        simpler
    }
}

fn draw_step(random: &mut Random, keys: usize, calm: u64) -> Step {
    let run = |random: &mut Random, most: usize| Run {
        from: random.index(keys),
        count: 1 + random.index(most),
    };
    let key = |random: &mut Random| random.index(keys) & !1;
    if random.one_in(calm) {
        return match random.below(40) {
            0..=7 => Step::Freeze,
            8..=11 => Step::Reorganize { stop_after: None },
            12..=15 => Step::Reorganize {
                stop_after: Some(random.below(4)),
            },
            16..=17 => Step::IfDue {
                records: random.below(2 * keys as u64),
            },
            18..=22 => Step::Flush,
            23..=26 => Step::Load {
                keys: run(random, 100),
                number: random.word(),
            },
            27..=29 => Step::Cover,
            30 => Step::Consolidate,
            31 => Step::Checkpoint,
            32..=35 => Step::Reopen,
            _ => Step::Snapshot,
        };
    }
    match random.below(20) {
        0..=7 => Step::Put {
            key: key(random),
            number: random.word(),
        },
        8..=9 => Step::Delete { key: key(random) },
        10 => {
            let length = random.index(20);
            let update = |random: &mut Random| {
                let number = (!random.one_in(4)).then(|| random.word());
                (key(random), number)
            };
            Step::Batch((0..length).map(|_| update(random)).collect())
        }
        11 => Step::Scan {
            keys: run(random, 200),
            now: random.one_in(2),
        },
        _ => Step::Read {
            keys: run(random, 64),
            api: *random.pick(&[
                Api::Get,
                Api::Multi,
                Api::Unfiltered,
                Api::Modified,
                Api::Snapshot,
                Api::SnapshotMulti,
            ]),
        },
    }
}

/// What a store must say.
#[derive(Clone)]
struct Model {
    contents: Contents,
    /// The keys that each generation has a record of, the newest first; never empty.
    generations: VecDeque<HashSet<usize>>,
}

impl Model {
    fn new(keys: usize) -> Self {
        Self {
            contents: Contents::empty(keys),
            generations: VecDeque::from([HashSet::new()]),
        }
    }

    fn write(&mut self, key: usize, number: Option<u64>) {
        self.contents
            .apply(key, number.map_or(Change::Delete, Change::Put));
        self.generations[0].insert(key);
    }

    fn load(&mut self, key: usize, number: u64) {
        if !self.is_modified(key) {
            self.contents.apply(key, Change::Put(number));
        }
    }

    fn is_modified(&self, key: usize) -> bool {
        self.generations
            .iter()
            .any(|records| records.contains(&key))
    }

    fn freeze(&mut self) {
        if !self.generations[0].is_empty() {
            self.generations.push_front(HashSet::new());
        }
    }

    fn dropped(&mut self, generations: u64) {
        (0..generations).for_each(|_| _ = self.generations.pop_back());
        if self.generations.is_empty() {
            self.generations.push_back(HashSet::new());
        }
    }
}

impl Differential {
    fn open(&self, path: &Path) -> Result<DifferentialStore, Violation> {
        let options = DifferentialOptions {
            front: self.front.options().map_err(Violation::other)?,
            filter: match self.fixed {
                None => FilterChoice::Scalable,
                Some((bits, probes)) => FilterChoice::Fixed {
                    bits: Bits::new(bits),
                    probes: Probes::new(probes),
                },
            },
            ask_main: self.ask_main,
            batch_bytes: self.batch_bytes,
            ..DifferentialOptions::default()
        };
        Ok(DifferentialStore::open(
            &settings::parse(&self.engine)?,
            &options,
            path,
        )?)
    }
}

/// A store from its making to its end.
struct Life<'a> {
    subject: &'a Differential,
    home: &'a Path,
    keys: &'a KeySpace,
    model: Model,
    tally: &'a mut Tally,
    /// Steps done.
    done: usize,
}

impl Life<'_> {
    /// Opens the store and does steps until it is to be opened again, or until the end; returns
    /// whether there is more to do.
    fn open_and_do(&mut self, steps: &[Step], watch: &mut impl Watch) -> Result<bool, Failure> {
        let opened = self.subject.open(&self.home.join("store"));
        let store = opened.map_err(Failure::at(self.done))?;
        self.tally.opened += 1;
        let more = self.work(&store, steps, watch)?;
        let closed = store.close();
        closed.map_err(|error| Failure::at(self.done)(error.into()))?;
        Ok(more)
    }

    fn work(
        &mut self,
        store: &DifferentialStore,
        steps: &[Step],
        watch: &mut impl Watch,
    ) -> Result<bool, Failure> {
        let done = &mut self.done;
        let mut session = Session {
            subject: self.subject,
            store,
            keys: self.keys,
            model: &mut self.model,
            tally: self.tally,
            home: self.home,
            moment: None,
        };
        session.agree().map_err(Failure::at(*done))?;
        for step in &steps[*done..] {
            if *step == Step::Reopen {
                *done += 1;
                return Ok(true);
            }
            session.apply(step).map_err(Failure::at(*done))?;
            *done += 1;
            if done.is_multiple_of(PATCH) {
                watch.advance(PATCH as u64)?;
            }
        }
        session.agree().map_err(Failure::at(*done))?;
        Ok(false)
    }
}

/// An open store beside its model.
struct Session<'a> {
    subject: &'a Differential,
    store: &'a DifferentialStore,
    keys: &'a KeySpace,
    model: &'a mut Model,
    tally: &'a mut Tally,
    home: &'a Path,
    moment: Option<(Snapshot<'a>, Model)>,
}

impl Session<'_> {
    fn apply(&mut self, step: &Step) -> Checked {
        match step {
            Step::Put { key, number } => self.write(&[(*key, Some(*number))])?,
            Step::Delete { key } => self.write(&[(*key, None)])?,
            Step::Batch(updates) => self.write_batch(updates)?,
            Step::Load { keys, number } => self.load(keys, *number)?,
            Step::Read { keys, api } => self.read(keys, *api)?,
            Step::Scan { keys, now } => self.scan(keys, *now)?,
            Step::Snapshot => self.moment = Some((self.store.snapshot(), self.model.clone())),
            Step::Freeze => {
                self.store.freeze()?;
                self.model.freeze();
            }
            Step::Reorganize { stop_after } => self.reorganize(*stop_after)?,
            Step::IfDue { records } => {
                if self.store.is_due(Trigger::Records(Items::new(*records)))? {
                    self.reorganize(None)?;
                }
            }
            Step::Flush => self.store.flush()?,
            Step::Consolidate => self.store.front().consolidate()?,
            Step::Cover => {
                if !self.store.front().wait_until_covered(PATIENCE) {
                    return Err(Violation::other("the filters of a store do not cover"));
                }
            }
            Step::Checkpoint => self.checkpoint()?,
            Step::Reopen => {}
            Step::Lie { key } => self.model.write(*key, Some(0)),
        }
        Ok(())
    }

    // -------------------------------------------------------------- writes

    fn write(&mut self, updates: &[(usize, Option<u64>)]) -> Checked {
        for &(rank, number) in updates {
            let Some(key) = self.keys.get(rank) else {
                continue;
            };
            match number {
                Some(number) => self.store.put(key, value(number))?,
                None => self.store.delete(key)?,
            }
            self.model.write(rank, number);
            self.tally.wrote(1);
        }
        Ok(())
    }

    fn write_batch(&mut self, updates: &[(usize, Option<u64>)]) -> Checked {
        let mut batch = Batch::default();
        for &(rank, number) in updates {
            let Some(key) = self.keys.get(rank) else {
                continue;
            };
            match number {
                Some(number) => batch.put(key, value(number)),
                None => batch.delete(key),
            }
            self.model.write(rank, number);
        }
        self.tally.wrote(batch.len());
        Ok(self.store.write(&batch)?)
    }

    fn load(&mut self, keys: &Run, number: u64) -> Checked {
        let ranks = self.ranks(keys).filter(|rank| rank.is_multiple_of(2));
        let records: Vec<_> = ranks.map(|rank| (rank, number ^ rank as u64)).collect();
        let spelt = records
            .iter()
            .map(|&(rank, number)| (self.keys.get(rank).unwrap_or_default(), value(number)));
        self.store.load(spelt)?;
        self.tally.wrote(records.len());
        records
            .iter()
            .for_each(|&(rank, number)| self.model.load(rank, number));
        Ok(())
    }

    fn reorganize(&mut self, stop_after: Option<u64>) -> Checked {
        let mut left = stop_after;
        let done = self.store.reorganize(|_| match &mut left {
            None => ControlFlow::Continue(()),
            Some(0) => ControlFlow::Break(()),
            Some(left) => {
                *left -= 1;
                ControlFlow::Continue(())
            }
        })?;
        self.model.freeze();
        self.model.dropped(done.generations);
        if stop_after.is_none() && !done.finished {
            return Err(Violation::other("a reorganisation stopped by itself"));
        }
        Ok(())
    }

    // -------------------------------------------------------------- reads

    fn ranks(&self, keys: &Run) -> std::ops::Range<usize> {
        let end = keys.from.saturating_add(keys.count).min(self.keys.len());
        keys.from.min(end)..end
    }

    fn read(&mut self, run: &Run, api: Api) -> Checked {
        let ranks = self.ranks(run);
        let keys: Vec<&[u8]> = ranks
            .clone()
            .filter_map(|rank| self.keys.get(rank))
            .collect();
        let store = self.store;
        let found: Vec<_> = match (api, &self.moment) {
            (Api::Modified, _) => return ranks.into_iter().try_for_each(|rank| self.ask(rank)),
            (Api::Multi, _) => store.multi_get(&keys),
            (Api::Unfiltered, _) => keys.iter().map(|key| store.get_unfiltered(key)).collect(),
            (Api::Snapshot, Some((moment, _))) => keys.iter().map(|key| moment.get(key)).collect(),
            (Api::SnapshotMulti, Some((moment, _))) => moment.multi_get(&keys),
            _ => keys.iter().map(|key| store.get(key)).collect(),
        };
        let model = match (api, &self.moment) {
            (Api::Snapshot | Api::SnapshotMulti, Some((_, model))) => model,
            _ => &*self.model,
        };
        for (rank, found) in ranks.clone().zip(found) {
            let (found, expected) = (found?, model.contents.get(rank));
            self.tally.read(Certainty::of(expected));
            if found.is_some() != expected.is_some()
                || found.as_deref().and_then(number) != expected
            {
                let found = found.as_deref().map(number);
                return Err(Violation {
                    lost: found.is_none(),
                    what: format!("{api:?} of key {rank}: {found:?}, where {expected:?} is right"),
                });
            }
        }
        ranks.into_iter().try_for_each(|rank| self.ask(rank))
    }

    /// What the filters say of the differential file, and of a key that is nowhere.
    fn ask(&mut self, rank: usize) -> Checked {
        let Some(key) = self.keys.get(rank) else {
            return Ok(());
        };
        let (may_be, expected) = (
            self.store.may_be_modified(key),
            self.model.is_modified(rank),
        );
        if expected && !may_be {
            return Err(Violation::lost(format!(
                "key {rank} is modified and not in the filters"
            )));
        }
        if self.store.is_modified(key)? != expected {
            return Err(Violation::lost(format!(
                "is_modified of key {rank} is not {expected}"
            )));
        }
        if may_be {
            self.tally.let_by += u64::from(!expected);
        } else {
            self.tally.checked_negatives += 1;
        }
        Ok(())
    }

    fn scan(&mut self, run: &Run, now: bool) -> Checked {
        let ranks = self.ranks(run);
        let Some(from) = self.keys.get(ranks.start) else {
            return Ok(());
        };
        let end = self
            .keys
            .get(ranks.end)
            .map_or(Bound::Unbounded, Bound::Excluded);
        let range = (Bound::Included(from), end);
        let (found, model) = match &self.moment {
            Some((moment, model)) if !now => (moment.scan::<&[u8]>(range), model),
            _ => (self.store.scan::<&[u8]>(range), &*self.model),
        };
        let records = same(found, self.keys, &model.contents, ranks)?;
        (0..records).for_each(|_| self.tally.read(Certainty::MustExist));
        Ok(())
    }

    fn agree(&mut self) -> Checked {
        let all = Run {
            from: 0,
            count: self.keys.len(),
        };
        self.read(&all, Api::Multi)?;
        self.scan(&all, true)
    }

    fn checkpoint(&mut self) -> Checked {
        let path = self.home.join("copy");
        self.store.checkpoint(&path)?;
        let copy = self.subject.open(&path)?;
        self.tally.opened += 1;
        let mut session = Session {
            subject: self.subject,
            store: &copy,
            keys: self.keys,
            model: self.model,
            tally: self.tally,
            home: self.home,
            moment: None,
        };
        session.agree()?;
        drop(session);
        copy.close()?;
        Ok(std::fs::remove_dir_all(&path)?)
    }
}

/// How many records a scan met, each of them right.
fn same(
    scan: Scan<'_>,
    keys: &KeySpace,
    contents: &Contents,
    ranks: std::ops::Range<usize>,
) -> Result<usize, Violation> {
    let mut expected = contents.held(ranks);
    let mut records = 0;
    for record in scan {
        let (key, value) = record?;
        let right = expected.next().is_some_and(|(rank, right)| {
            keys.get(rank) == Some(&key) && number(&value) == Some(right)
        });
        if !right {
            let key = key.escape_ascii();
            return Err(Violation::other(format!(
                "a scan stands at {key}, out of turn"
            )));
        }
        records += 1;
    }
    match expected.next() {
        None => Ok(records),
        Some((rank, _)) => Err(Violation::lost(format!("a scan passes over key {rank}"))),
    }
}
