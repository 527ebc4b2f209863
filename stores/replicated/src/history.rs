//! What the clients know of their writes, to be held against what the nodes answer.
//!
//! A state of a node is what the log says up to one entry. So a key that was created by entry `c`
//! and deleted by entry `d` is in the states from `c` to `d - 1`, and in no other. A key whose
//! last write has no known outcome may exist or not.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;

use crate::{Client, Failure, Outcome, Request, Store};

/// The indexes of the states in which a key exists; `None` if they are not known.
type Fate = Option<Range<u64>>;

/// The fate of each key that a client tried to write.
#[derive(Default)]
pub struct History {
    fates: Mutex<BTreeMap<u64, Fate>>,
}

/// What a check found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Keys that were read.
    pub reads: u64,
    /// Of these, keys that the filters deny.
    pub denied: u64,
    /// Keys that must exist and were not found, or not with their value.
    pub lost: u64,
    /// Keys that must not exist and were found.
    pub revived: u64,
    /// Keys that were answered in one way by [`SieveDb`](lsm_sieve::SieveDb) and in another past the
    /// filters.
    pub different: u64,
}

impl Tally {
    /// Whether every answer was right.
    pub fn is_clean(&self) -> bool {
        (self.lost, self.revived, self.different) == (0, 0, 0)
    }
}

impl History {
    /// The key with this number.
    pub fn key(number: u64) -> String {
        format!("request-{number:08}")
    }

    /// A key that no client writes, beside the one with this number.
    pub fn absent_key(number: u64) -> String {
        format!("request-{number:08}-never")
    }

    fn value(number: u64) -> String {
        format!("result of request {number}")
    }

    fn fates(&self) -> MutexGuard<'_, BTreeMap<u64, Fate>> {
        self.fates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the keys of some numbers, and deletes the keys of others if they were created, by
    /// eight clients at once. Each write is tried once.
    ///
    /// # Errors
    /// If a write was acknowledged and found another state than the history says.
    pub async fn write(
        self: &Arc<Self>,
        client: &Client,
        creates: Range<u64>,
        deletes: Vec<u64>,
    ) -> Result<(), Failure> {
        const CLIENTS: usize = 8;
        let mut shares = vec![Vec::new(); CLIENTS];
        let creates = creates.map(|number| (number, true));
        let deletes = deletes.into_iter().map(|number| (number, false));
        for (at, write) in creates.chain(deletes).enumerate() {
            shares[at % CLIENTS].push(write);
        }
        let mut clients = JoinSet::new();
        for share in shares {
            let (history, client) = (Arc::clone(self), client.clone());
            clients.spawn(async move {
                for (number, create) in share {
                    history.write_once(&client, number, create).await?;
                }
                Ok(())
            });
        }
        clients.join_all().await.into_iter().collect()
    }

    async fn write_once(&self, client: &Client, number: u64, create: bool) -> Result<(), Failure> {
        let (key, value) = (Self::key(number), Self::value(number));
        // Until there is an answer, the key may exist or not.
        let before = self.fates().insert(number, None).flatten();
        let request = match (create, &before) {
            (true, _) => Request::Create { key, value },
            (false, Some(_)) => Request::Delete { key },
            (false, None) => return Ok(()),
        };
        match client.write(request).await {
            Outcome::Unknown => Ok(()),
            Outcome::Acknowledged { changed: false, .. } => {
                Err(format!("of request {number}, the store has another state").into())
            }
            Outcome::Acknowledged { index, .. } => {
                let states = before.map_or(index..u64::MAX, |states| states.start..index);
                self.fates().insert(number, Some(states));
                Ok(())
            }
        }
    }

    /// The number of keys whose fate is not known.
    pub fn unknown(&self) -> usize {
        self.fates().values().filter(|fate| fate.is_none()).count()
    }

    /// Reads every key from one state of a node, and for each a key that no client writes. Adds
    /// what it finds to `tally`.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn check(&self, store: &Store, tally: &mut Tally) -> Result<(), Failure> {
        // The view first: what is acknowledged later has a later index.
        let view = store.view()?;
        let fates = self.fates().clone();
        let mut read = |key: &str, exists: Option<bool>, value: &str| {
            let denied = view.denies(key);
            let found = view.get(key)?;
            let unfiltered = view.get_unfiltered(key)?;
            let is_right = found.as_deref() == Some(value.as_bytes());
            tally.reads += 1;
            tally.denied += u64::from(denied);
            tally.lost += u64::from(exists == Some(true) && !is_right);
            tally.revived += u64::from(exists == Some(false) && found.is_some());
            let is_different = found != unfiltered || (denied && unfiltered.is_some());
            tally.different += u64::from(is_different);
            Ok::<(), Failure>(())
        };
        for (&number, fate) in &fates {
            let states = fate.as_ref();
            let exists = states.map(|states| states.contains(&view.applied()));
            read(&Self::key(number), exists, &Self::value(number))?;
            read(&Self::absent_key(number), Some(false), "")?;
        }
        Ok(())
    }
}
