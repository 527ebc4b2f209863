//! The vocabulary of a case: one step is one line of a case file.
//!
//! Every list of steps is a case: a step about a family or a snapshot that is not there does
//! nothing. So a failing case can be shortened by leaving steps out.

use serde::{Deserialize, Serialize};

use super::model::Change;
use super::settings::FrontSettings;

/// A change of one key of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Update {
    pub(super) family: usize,
    pub(super) key: usize,
    pub(super) change: Change,
}

/// Some neighbouring keys of one family, by rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stretch {
    pub(super) family: usize,
    pub(super) from: usize,
    pub(super) count: usize,
}

/// How a write reaches the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Way {
    /// By the front's method for it.
    Front,
    /// By a batch.
    Batch,
    /// By a batch, past the log.
    Unlogged,
    /// By the bare engine.
    Engine,
    /// By a transaction, which reads each key before and after.
    Transaction,
}

/// How keys are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Api {
    Get,
    GetWithOptions,
    Pinned,
    Multi,
    Answer,
    MayExist,
    Unfiltered,
    /// By a transaction that wrote nothing.
    Transaction,
    /// By the oldest snapshot that is held.
    OldSnapshot,
    /// By the newest.
    NewSnapshot,
}

/// What happens to the database, its model in step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Step {
    Write {
        update: Update,
        way: Way,
    },
    Batch {
        updates: Vec<Update>,
        way: Way,
    },
    DeleteRange {
        keys: Stretch,
        way: Way,
    },
    /// Puts a key of its own and single-deletes it, with a flush between or none.
    Once {
        family: usize,
        number: u64,
        flush: bool,
    },
    /// Brings every second key of a stretch in by a table file; every third of these is a delete.
    Ingest {
        keys: Stretch,
        number: u64,
        way: Way,
    },
    Read {
        keys: Stretch,
        api: Api,
    },
    Scan {
        keys: Stretch,
        back: bool,
    },
    /// Takes a snapshot; at most a few are held, and the oldest goes.
    Snapshot,
    Release,
    Flush {
        family: usize,
    },
    Compact {
        keys: Stretch,
    },
    Consolidate,
    Cover,
    Rate(f64),
    /// Checks every filter against the raw keys of every table.
    Verify,
    Create {
        family: usize,
        way: Way,
    },
    Drop {
        family: usize,
        way: Way,
    },
    /// Opens a checkpoint beside the database, with a copy of its filters or without.
    Checkpoint {
        filters: bool,
    },
    /// A secondary catches up; one that is opened now, or that of before.
    Follow {
        anew: bool,
    },
    Reopen(Closed),
    /// The model hears of a put, the database does not. Never drawn: it is there to show that a
    /// lost read is found.
    Lie {
        family: usize,
        key: usize,
    },
}

/// What happens while the database is closed, and how it is opened again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Closed {
    /// Other settings of the front from here on.
    pub(super) front: Option<FrontSettings>,
    /// Whether it is opened to look only: nothing about the filters is changed.
    pub(super) frozen: bool,
    pub(super) mishaps: Vec<Mishap>,
}

/// What can happen to a closed database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Mishap {
    /// One file of the filters in so many is gone; 1 takes the whole folder.
    Remove { one_in: u64, seed: u64 },
    /// One filter in so many is not what was written.
    Damage { one_in: u64, seed: u64 },
    /// A process opens it to read only, with the plugin, and reads all.
    Look,
    /// A process without the plugin reads all, writes, and compacts or not.
    Plain { updates: Vec<Update>, compact: bool },
}
