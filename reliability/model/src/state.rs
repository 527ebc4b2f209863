//! What the model holds: the engine, the filters, and where each thread is.

use crate::protocol::{Budget, Feeds, Protocol};
use crate::rules::Rule;

/// A set of keys, one bit each.
pub(crate) type Keys = u8;

/// A set of summaries, SSTs or memtables by their numbers, one bit each.
pub(crate) type Set = u16;

pub(crate) const KEYS: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// Takes keys.
    Active,
    Sealed,
    /// Its keys are in the log of keys, if there is one.
    Logged,
    /// Its SST is live.
    Installed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Memtable {
    pub(crate) id: u8,
    pub(crate) keys: Keys,
    pub(crate) phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sst {
    pub(crate) id: u8,
    pub(crate) keys: Keys,
}

/// A summary filter on disk, and the SSTs that it covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    pub(crate) keys: Keys,
    pub(crate) covered: Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Writer {
    Idle,
    /// In RocksDB, whose memtable is not switched meanwhile.
    Entered(Keys),
    /// The memtable has the key; the set of summaries was not loaded yet.
    Inserted(Keys),
    /// Under a read of the set: `left` of it lack the key.
    Feeding {
        key: Keys,
        set: Set,
        left: Set,
    },
    /// All of the set have the key.
    Fed {
        key: Keys,
        set: Set,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lookup {
    Idle,
    /// For a key that is visible.
    Begun(Keys),
    /// With a view: the summary that may deny, if coverage is complete.
    Loaded {
        key: Keys,
        summary: Option<u8>,
    },
}

/// A point in the history of external writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Epoch {
    pub(crate) number: u8,
    /// Whether none was under way.
    pub(crate) quiet: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    Idle,
    Consolidate { family: u8, new: u8, step: Step },
    Cover { family: u8, step: Step },
    Save { family: u8, step: SaveStep },
}

/// Where a consolidation is, or reading what is uncovered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// Insertions that loaded the old set are under way.
    Wait,
    /// The live memtables are collected next.
    Collect,
    /// These memtables are left; of the lowest, the keys from this one on.
    Memtables {
        left: Set,
        key: u8,
    },
    /// The SSTs are listed next, after the epoch is noted.
    Note,
    List {
        epoch: Epoch,
    },
    Read {
        epoch: Epoch,
        listed: Set,
        left: Set,
    },
    Publish {
        epoch: Epoch,
        listed: Set,
    },
    /// The view has the new summary; the set has both.
    Switch,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SaveStep {
    List { epoch: Epoch },
    Note { epoch: Epoch, listed: Set },
    Copy { covered: Set },
    Store { stored: Stored },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum External {
    Idle,
    Announced(Keys),
    Installed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// Grows when the column family is made again under its name; `None` while it is dropped.
    pub(crate) family: Option<u8>,
    pub(crate) families: u8,
    /// The registry of live memtables, oldest first.
    pub(crate) memtables: Vec<Memtable>,
    pub(crate) ssts: Vec<Sst>,
    pub(crate) visible: Keys,
    /// The log of keys, which a flush appends to.
    pub(crate) log: Option<Keys>,
    /// The contents of the summaries that anything refers to.
    pub(crate) summaries: Vec<Keys>,
    /// Those that insertions add their keys to.
    pub(crate) set: Set,
    /// The view of lookups: its summary, and whether that has every key.
    pub(crate) current: u8,
    pub(crate) is_complete: bool,
    /// SSTs whose keys are all in the current summary.
    pub(crate) covered: Set,
    pub(crate) epochs: u8,
    pub(crate) external: External,
    pub(crate) stored: Option<Stored>,
    pub(crate) writers: [Writer; 2],
    pub(crate) lookup: Lookup,
    pub(crate) task: Task,
    pub(crate) left: Budget,
    pub(crate) next_memtable: u8,
    pub(crate) next_sst: u8,
    /// A lookup denied a visible key.
    pub(crate) is_lost: bool,
    /// A memtable was read after it was freed.
    pub(crate) is_freed_read: bool,
}

pub(crate) fn bit(number: u8) -> Set {
    1 << number
}

pub(crate) fn members(set: Set) -> impl Iterator<Item = u8> {
    (0..16).filter(move |&number| set & bit(number) != 0)
}

impl State {
    pub(crate) fn is_family(&self, family: u8) -> bool {
        self.family == Some(family)
    }

    pub(crate) fn epoch(&self) -> Epoch {
        Epoch {
            number: self.epochs,
            quiet: self.external == External::Idle,
        }
    }

    pub(crate) fn listed(&self) -> Set {
        self.ssts.iter().map(|sst| bit(sst.id)).sum()
    }

    pub(crate) fn sst(&self, id: u8) -> Option<&Sst> {
        self.ssts.iter().find(|sst| sst.id == id)
    }

    pub(crate) fn memtable(&mut self, id: u8) -> &mut Memtable {
        let mut all = self.memtables.iter_mut();
        all.find(|memtable| memtable.id == id)
            .expect("a live memtable")
    }

    pub(crate) fn active(&mut self) -> &mut Memtable {
        self.memtables.last_mut().expect("a memtable takes keys")
    }

    pub(crate) fn add(&mut self, summary: u8, keys: Keys) {
        self.summaries[usize::from(summary)] |= keys;
    }

    pub(crate) fn new_summary(&mut self) -> u8 {
        self.summaries.push(0);
        (self.summaries.len() - 1) as u8
    }

    pub(crate) fn new_memtable(&mut self, keys: Keys) {
        let id = self.next_memtable;
        self.next_memtable += 1;
        self.memtables.push(Memtable {
            id,
            keys,
            phase: Phase::Active,
        });
    }

    pub(crate) fn new_sst(&mut self, protocol: &Protocol, keys: Keys) {
        let mut id = self.next_sst;
        self.next_sst += 1;
        if protocol.breaks(Rule::SstIdsAreNeverReused) {
            id = (0..).find(|&id| self.sst(id).is_none()).expect("a number");
        }
        self.ssts.push(Sst { id, keys });
    }

    /// Whether a lookup could deny a visible key now.
    pub(crate) fn denies_a_visible_key(&self) -> bool {
        let denied = !self.summaries[usize::from(self.current)];
        self.family.is_some() && self.is_complete && self.visible & denied != 0
    }

    /// Whether insertions are under way that loaded a set without this summary.
    pub(crate) fn some_loaded_a_set_without(&self, summary: u8, protocol: &Protocol) -> bool {
        let spans_insertion = protocol.feeds == Feeds::BeforeInsertion
            && !protocol.breaks(Rule::ReadOfTheSetSpansInsertion);
        self.writers.iter().any(|writer| match *writer {
            Writer::Feeding { set, .. } => set & bit(summary) == 0,
            Writer::Fed { set, .. } => spans_insertion && set & bit(summary) == 0,
            _ => false,
        })
    }

    /// Whether the maintenance thread is inside this memtable.
    pub(crate) fn is_read(&self, memtable: u8) -> bool {
        let Task::Consolidate {
            step: Step::Memtables { left, key },
            ..
        } = self.task
        else {
            return false;
        };
        key > 0 && members(left).next() == Some(memtable)
    }

    /// Forgets what nothing refers to, so that equal states are equal.
    pub(crate) fn tidy(&mut self) {
        let mut used = self.set | bit(self.current);
        for writer in &self.writers {
            if let Writer::Feeding { set, .. } | Writer::Fed { set, .. } = *writer {
                used |= set;
            }
        }
        if let Lookup::Loaded {
            summary: Some(summary),
            ..
        } = self.lookup
        {
            used |= bit(summary);
        }
        if let Task::Consolidate { new, .. } = self.task {
            used |= bit(new);
        }
        for (number, keys) in self.summaries.iter_mut().enumerate() {
            if used & (1 << number) == 0 {
                *keys = 0;
            }
        }
        // The writers are alike.
        self.writers.sort_unstable();
    }
}
