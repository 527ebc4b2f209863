//! The steps of a case: one step is one line of a case file.
//!
//! Every list of steps is a case: a step on a family or a snapshot that does not exist does
//! nothing. So a failing case can be shrunk by leaving steps out. Case files keep their names: a
//! name that has changed here has its old one in `serde(rename)`.

use serde::{Deserialize, Serialize};

use super::model::Change;
use super::settings::FilterSettings;

/// A change of one key of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    pub family: usize,
    pub key: usize,
    pub change: Change,
}

/// Some neighbouring keys of one family, by rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRange {
    pub family: usize,
    pub from: usize,
    pub count: usize,
}

/// How a write reaches the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// By the method of `SieveDb`.
    #[serde(rename = "front")]
    SieveDb,
    /// By a batch.
    Batch,
    /// By a batch, without the log.
    Unlogged,
    /// By the bare engine.
    Engine,
    /// By a transaction, which reads each key before and after.
    Transaction,
}

/// How keys are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
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

/// A step on the database and its model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    Write {
        update: Update,
        way: Way,
    },
    Batch {
        updates: Vec<Update>,
        way: Way,
    },
    DeleteRange {
        keys: KeyRange,
        way: Way,
    },
    /// Puts a key of its own and single-deletes it, with or without a flush between.
    Once {
        family: usize,
        number: u64,
        flush: bool,
    },
    /// Ingests every second key of a range as an SST file. Every third of these is a delete.
    Ingest {
        keys: KeyRange,
        number: u64,
        way: Way,
    },
    Read {
        keys: KeyRange,
        api: Api,
    },
    Scan {
        keys: KeyRange,
        back: bool,
    },
    /// Takes a snapshot. Only a few are held, and the oldest is dropped.
    Snapshot,
    Release,
    Flush {
        family: usize,
    },
    Compact {
        keys: KeyRange,
    },
    Consolidate,
    Cover,
    Rate(f64),
    /// Checks every filter against the raw keys of every SST.
    Verify,
    Create {
        family: usize,
        way: Way,
    },
    Drop {
        family: usize,
        way: Way,
    },
    /// Opens a checkpoint beside the database, with or without a copy of its filters.
    Checkpoint {
        filters: bool,
    },
    /// A secondary catches up: one that is opened now, or the one from before.
    #[serde(rename = "follow")]
    CatchUp {
        #[serde(rename = "anew")]
        reopen: bool,
    },
    Reopen(Reopening),
    /// The model receives a put, the database does not. Never drawn: a test uses it to show that a
    /// lost read is found.
    #[serde(rename = "lie")]
    LoseWrite {
        family: usize,
        key: usize,
    },
}

/// What happens while the database is closed, and how it is reopened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reopening {
    /// Other options of `SieveDb` from here on.
    #[serde(rename = "front")]
    pub filters: Option<FilterSettings>,
    /// Whether it is opened with read-only filters: none of their files is changed.
    pub read_only_filters: bool,
    #[serde(rename = "mishaps")]
    pub events: Vec<OfflineEvent>,
}

/// What can happen to a closed database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OfflineEvent {
    /// One filter file in this many is removed; 1 removes the whole folder.
    Remove { one_in: u64, seed: u64 },
    /// One filter in this many is damaged.
    Damage { one_in: u64, seed: u64 },
    /// A process opens it read only, with the plugin, and reads everything.
    ReadOnly,
    /// A process without the plugin reads everything, writes, and perhaps compacts.
    Plain { updates: Vec<Update>, compact: bool },
}
