//! The LSM in memory as a door whose histories are checked. It promises that a batch is written at
//! one moment, and that `multi_get` reads at one.

use std::sync::Arc;

use lsm_sieve_histories::{Change, Crashed, Door, Found, Key};

use super::memory_lsm::{Store, Stored};
use crate::cf_filter::CfFilter;
use crate::math::{Bits, Items};
use crate::options::FrontOptions;
use crate::prefix::Prefix;
use crate::ranges::{RangeKeys, Span};
use crate::sync::{Mutex, unpoisoned, yield_now};

pub(super) struct MemoryDoor {
    store: Store,
    options: FrontOptions,
    /// The filters of a further column family, which has the same keys.
    family: Mutex<Arc<CfFilter>>,
    has_thread: bool,
    /// The first byte of each key.
    first: u8,
}

/// Settings that change what maintenance does. No audit, which would repair what is to be found.
fn options(choice: u32) -> FrontOptions {
    let mut options = FrontOptions {
        expected_keys: Some(Items::new(2)),
        audit: None,
        // Without them there is a log of keys.
        ranges: (choice % 8 > 4).then(|| Arc::new(RangeKeys::new(Prefix::fixed(1), 10).unwrap())),
        ..FrontOptions::default()
    };
    match choice % 4 {
        0 => options.segment_rate = None,
        1 => return options.at_rest(),
        2 => options.memory_budget = Some(Bits::from_bytes(4 << 10)).into(),
        _ => {}
    }
    options
}

impl MemoryDoor {
    /// An empty store. Without a thread, maintenance runs where it is disturbed alone.
    pub(super) fn open(choice: u32, has_thread: bool) -> Self {
        Self::open_again(Stored::new(), options(choice), has_thread)
    }

    fn open_again(stored: Stored, options: FrontOptions, has_thread: bool) -> Self {
        let store = match has_thread {
            true => Store::open(stored, &options),
            false => Store::open_without_thread(stored, &options),
        };
        store.watch(Some(Box::new(|_| {
            yield_now();
            true
        })));
        let family = Mutex::new(store.renew_family("other", None));
        Self {
            store,
            options,
            family,
            has_thread,
            first: 0,
        }
    }
}

impl Door for MemoryDoor {
    fn write(&self, changes: &[(Key, Change)], choice: u32) -> Result<&'static str, Crashed> {
        let value = |change: &Change| match change {
            Change::Put(value) => Some(value.clone()),
            Change::Delete | Change::Merge(_) => None,
        };
        let entries = changes
            .iter()
            .map(|(key, change)| (vec![self.first, *key], value(change)));
        if choice.is_multiple_of(4)
            && let Some(puts) = entries
                .clone()
                .map(|(key, value)| Some((key, value?)))
                .collect()
        {
            self.store.ingest_over_memtables(puts);
            return Ok("ingest");
        }
        self.store.write(entries.collect());
        Ok("write")
    }

    fn read(&self, keys: &[Key], choice: u32) -> Result<Found, Crashed> {
        let keys: Vec<_> = keys.iter().map(|key| vec![self.first, *key]).collect();
        let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
        Ok(match keys[..] {
            [key] if choice.is_multiple_of(3) => {
                let is_absent = self.store.rules_out_span(Span::Closed(key, key));
                let read = || self.store.get_past_filters(key);
                ("range", vec![(!is_absent).then(read).flatten()])
            }
            [key] if choice.is_multiple_of(2) => ("get", vec![self.store.get(key)]),
            [key] => {
                let family = unpoisoned(self.family.lock()).clone();
                ("get_behind", vec![self.store.get_behind(&family, key)])
            }
            _ => {
                let values = self.store.multi_get(&keys).into_iter();
                ("multi_get", values.map(Result::unwrap).collect())
            }
        })
    }

    fn disturb(&self, choice: u32) {
        match choice % 10 {
            0 => self.store.flush(),
            1 => self.store.compact(),
            2 => self.store.seal_memtable(),
            3 => self.store.move_oldest_to_last_level(),
            4..7 => {
                let wakeup = &self.store.filters.wakeup;
                wakeup.request(|requests| requests.consolidate = true);
            }
            7 => {
                let mut family = unpoisoned(self.family.lock());
                *family = self.store.renew_family("other", Some(&family));
            }
            _ => {}
        }
        self.store.look();
    }

    fn renew_keys(&mut self) {
        self.first += 1;
    }

    fn reopen(self, choice: u32) -> Self {
        let (stored, log) = match choice % 2 {
            0 => (self.store.close(), Vec::new()),
            _ => {
                let (stored, log) = self.store.crash(choice.into());
                (stored, log.into_iter().collect())
            }
        };
        let door = Self::open_again(stored, self.options, self.has_thread);
        door.store.write(log);
        Self {
            first: self.first,
            ..door
        }
    }
}
