//! Draws the steps of a case.
//!
//! Each case has its own mixture: how often it writes, how hot its hot keys are, how rarely it does
//! operations that take milliseconds.

use lsm_sieve_cli::workload::random::Random;

use super::model::{Change, FAMILIES};
use super::settings::{FilterSettings, draw_rate};
use super::step::{Api, KeyRange, OfflineEvent, Reopening, Step, Update, Way};

/// Draws steps over a key space of this many keys.
pub struct StepGenerator<'a> {
    random: &'a mut Random,
    keys: usize,
    /// Half of the writes go to this many keys.
    hot: usize,
    /// Writes per hundred ordinary steps.
    writes: u64,
    /// One step in this many works on whole SSTs, one in eight times as many on the whole database.
    sst_step_interval: u64,
}

/// Most keys that one step reads.
const MAX_KEYS_READ: usize = 64;

impl<'a> StepGenerator<'a> {
    pub fn new(random: &'a mut Random, keys: usize) -> Self {
        Self {
            hot: 1 + random.index(keys),
            writes: 20 + random.below(60),
            sst_step_interval: 200 << random.below(5),
            random,
            keys,
        }
    }

    pub fn draw(&mut self, steps: usize) -> Vec<Step> {
        (0..steps).map(|_| self.step()).collect()
    }

    fn step(&mut self) -> Step {
        if self.random.one_in(8 * self.sst_step_interval) {
            return self.work_on_database();
        }
        if self.random.one_in(self.sst_step_interval) {
            return self.work_on_tables();
        }
        if self.random.below(100) < self.writes {
            self.write()
        } else {
            self.read()
        }
    }

    fn write(&mut self) -> Step {
        match self.random.below(40) {
            0..=2 => {
                let count = 1 + self.random.index(20);
                let updates = (0..count).map(|_| self.update()).collect();
                let ways = [Way::Batch, Way::Unlogged, Way::Transaction];
                let way = *self.random.pick(&ways);
                Step::Batch { updates, way }
            }
            3 => Step::DeleteRange {
                keys: self.key_range(30),
                way: *self.random.pick(&[Way::SieveDb, Way::Batch, Way::Unlogged]),
            },
            4 => Step::Once {
                family: self.family(),
                number: self.random.word(),
                flush: self.random.one_in(50),
            },
            _ => Step::Write {
                update: self.update(),
                way: match self.random.below(400) {
                    0..=39 => Way::Batch,
                    40..=99 => Way::Unlogged,
                    100 => Way::Engine,
                    _ => Way::SieveDb,
                },
            },
        }
    }

    fn read(&mut self) -> Step {
        const APIS: [Api; 10] = [
            Api::Get,
            Api::GetWithOptions,
            Api::Pinned,
            Api::Multi,
            Api::Answer,
            Api::MayExist,
            Api::Unfiltered,
            Api::Transaction,
            Api::OldSnapshot,
            Api::NewSnapshot,
        ];
        match self.random.below(100) {
            0 => Step::Snapshot,
            1 => Step::Release,
            2 => Step::Scan {
                keys: self.key_range(MAX_KEYS_READ),
                back: self.random.one_in(2),
            },
            _ => Step::Read {
                keys: self.key_range(MAX_KEYS_READ),
                api: *self.random.pick(&APIS),
            },
        }
    }

    /// Work on whole SSTs: some milliseconds.
    fn work_on_tables(&mut self) -> Step {
        match self.random.below(12) {
            0..=3 => Step::Flush {
                family: self.family(),
            },
            4..=5 => Step::Compact {
                keys: self.key_range(self.keys),
            },
            6..=8 => Step::Ingest {
                keys: self.key_range(200),
                number: self.random.word(),
                way: *self.random.pick(&[Way::SieveDb, Way::SieveDb, Way::Engine]),
            },
            9..=10 => Step::Cover,
            _ => Step::Consolidate,
        }
    }

    /// Work on the whole database.
    fn work_on_database(&mut self) -> Step {
        let way = *self
            .random
            .pick(&[Way::SieveDb, Way::SieveDb, Way::SieveDb, Way::Engine]);
        let family = 1 + self.random.index(FAMILIES.len() - 1);
        match self.random.below(18) {
            0..=3 => Step::Create { family, way },
            4..=5 => Step::Drop { family, way },
            6 => Step::Rate(draw_rate(self.random)),
            7..=8 => Step::Verify,
            9..=10 => Step::Checkpoint {
                filters: self.random.one_in(2),
            },
            11..=12 => Step::CatchUp {
                reopen: self.random.one_in(3),
            },
            _ => Step::Reopen(self.closed()),
        }
    }

    fn closed(&mut self) -> Reopening {
        let events = match self.random.below(10) {
            0..=2 => vec![],
            3 => vec![self.remove()],
            4 => vec![self.damage()],
            5 => vec![self.plain()],
            6 => vec![self.damage(), self.plain(), self.remove()],
            7 => vec![self.plain(), self.damage()],
            8 => vec![OfflineEvent::ReadOnly],
            _ => vec![self.plain(), self.damage(), OfflineEvent::ReadOnly],
        };
        Reopening {
            filters: self
                .random
                .one_in(3)
                .then(|| FilterSettings::draw(self.random)),
            read_only_filters: self.random.one_in(6),
            events,
        }
    }

    fn remove(&mut self) -> OfflineEvent {
        OfflineEvent::Remove {
            one_in: 1 + self.random.below(4),
            seed: self.random.word(),
        }
    }

    fn damage(&mut self) -> OfflineEvent {
        OfflineEvent::Damage {
            one_in: 1 + self.random.below(4),
            seed: self.random.word(),
        }
    }

    fn plain(&mut self) -> OfflineEvent {
        let count = self.random.index(200);
        OfflineEvent::Plain {
            updates: (0..count).map(|_| self.update()).collect(),
            compact: self.random.one_in(2),
        }
    }

    fn update(&mut self) -> Update {
        let among = *self.random.pick(&[self.hot, self.keys]);
        Update {
            family: self.family(),
            // Odd ranks are never written.
            key: self.random.index(among) & !1,
            change: match self.random.below(10) {
                0..=5 => Change::Put(self.random.word()),
                6..=7 => Change::Merge(self.random.word()),
                _ => Change::Delete,
            },
        }
    }

    fn key_range(&mut self, most: usize) -> KeyRange {
        KeyRange {
            family: self.family(),
            from: self.random.index(self.keys),
            count: 1 + self.random.index(most),
        }
    }

    /// Mostly the first, so that some grow larger than others.
    fn family(&mut self) -> usize {
        self.random
            .index(FAMILIES.len())
            .min(self.random.index(FAMILIES.len()))
    }
}
