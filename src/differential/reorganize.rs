//! Freezing a generation, and moving the frozen ones into the main file.
//!
//! ```text
//! freeze   make the family of n+1 -> state: newest = n+1 | readers see it -> [no writer] writers do
//! move     batch: records to main -> batch -> ... | state: moved up to key -> batch -> ...
//!          | state: oldest = n+1 -> readers see it gone | drop the family
//! ```
//!
//! Each arrow may be the last thing that happens, and at each bar all that was written before is made
//! durable. A family without a state is dropped at the next open, and so is one that the state has left
//! behind; a batch that was not acknowledged is there as a whole or not at all. Moving a record twice
//! does what moving it once does.
//!
//! The bars are there because RocksDB keeps the order of writes within a log alone: one that it ends is
//! synced when its memtable is next flushed, and a power cut may take of it what the next log, durable
//! by chance, builds on.

use std::ops::ControlFlow;
use std::sync::Arc;

use rocksdb::{DBRawIteratorWithThreadMode, ReadOptions, WriteBatch};

use super::error::DifferentialError;
use super::generation::Generation;
use super::state::{STATE_KEY, State, family_name};
use super::store::{DifferentialStore, SYNC};
use crate::planted::planted;
use crate::rocks::{Engine, Family, SieveDb};
use crate::sync::unpoisoned;

/// How far a reorganisation is, after each batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The generation that is moved.
    pub generation: u64,
    /// Records moved by this call, over all generations.
    pub moved: u64,
    /// Records that there were to move, about.
    pub of: u64,
}

/// What a reorganisation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reorganized {
    /// Records moved by this call.
    pub records: u64,
    /// Generations that are gone.
    pub generations: u64,
    /// Whether every record that was there at the start is in the main file now.
    pub finished: bool,
}

type Records<'a> = DBRawIteratorWithThreadMode<'a, Engine>;

/// Batches after which it is noted how far a generation is moved: a process that dies moves no more of
/// them again.
const NOTED: usize = 64;

impl DifferentialStore {
    /// Starts a new generation: what was written before can be moved, what is written from here on
    /// goes elsewhere. Does nothing when nothing was written since the last time.
    ///
    /// # Errors
    /// When the new generation cannot be made or noted down; writes then go where they went.
    pub fn freeze(&self) -> Result<(), DifferentialError> {
        let mut state = unpoisoned(self.state.lock());
        let generations = self.generations();
        if generations[0].is_empty()? {
            return Ok(());
        }
        let next = state.frozen();
        let fresh = Arc::new(self.make_generation(next.newest)?);
        self.note(&next, "note a new generation")?;
        if !planted!(FrozenBeforeDurable) {
            self.sync()?;
        }
        let newest = std::iter::once(Arc::clone(&fresh));
        let all = newest.chain(generations.iter().cloned());
        self.view.publish(all.collect());
        if !planted!(WritesIntoFrozen) {
            *unpoisoned(self.writing.write()) = fresh;
        }
        *state = next;
        Ok(())
    }

    fn make_generation(&self, number: u64) -> Result<Generation, DifferentialError> {
        let name = family_name(number);
        if self.db.cf_handle(&name).is_none() {
            let made = self.db.create_cf(&name, &self.engine_options);
            made.map_err(|source| DifferentialError::Freeze {
                generation: number,
                source,
            })?;
        }
        let family = self
            .db
            .family(&name)
            .expect("made above, dropped nowhere else");
        Ok(Generation::new(number, family, self.options.filter)?)
    }

    /// Moves everything that was written before the call into the main file; reads and writes go
    /// on. `watch` is called after each batch and may stop it: a later call goes on from there, in
    /// this process or another. Calls take turns, with those of [`DifferentialStore::load`] too, so
    /// `watch` must make neither: it would wait for itself.
    ///
    /// # Errors
    /// When the main file is another database's, or the engine fails; a later call goes on.
    pub fn reorganize(
        &self,
        mut watch: impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Reorganized, DifferentialError> {
        self.main_is_ours()?;
        let _one_at_a_time = unpoisoned(self.moving.lock());
        self.drop_left_behind()?;
        self.freeze()?;
        let generations = self.generations();
        let mut done = Reorganized::default();
        let of = self.extent()?.records.get();
        for generation in generations.iter().skip(1).rev() {
            let mut watch = |moved| {
                watch(&Progress {
                    generation: generation.number(),
                    moved,
                    of: of.max(moved),
                })
            };
            let end = self.move_records(generation, &mut done.records, &mut watch)?;
            if end.is_break() {
                return Ok(done);
            }
            self.retire(generation)?;
            done.generations += 1;
        }
        self.note_moved();
        self.let_logs_go();
        done.finished = true;
        Ok(done)
    }

    /// Writes what was moved to tables, so that the engine can remove its logs. Nothing depends on it: the
    /// records are durable, and a memtable that fills is flushed in any case.
    fn let_logs_go(&self) {
        for family in [&self.main, &self.home] {
            if let Err(error) = family.flush_at_once() {
                tracing::warn!(%error, "the logs of a reorganisation stay for now");
            }
        }
    }

    /// Lets the next call move the oldest generation from its start, once more where it was moved.
    /// For whoever is about to write over what it has brought into the main file.
    pub(super) fn move_again(&self) -> Result<(), DifferentialError> {
        let mut state = unpoisoned(self.state.lock());
        if state.moved.is_some() {
            let next = state.unmoved();
            self.note(&next, "begin a generation again")?;
            *state = next;
            if !planted!(LoadedBeforeDurable) {
                self.sync()?;
            }
        }
        Ok(())
    }

    /// Drops what an earlier call left behind when the engine failed it.
    fn drop_left_behind(&self) -> Result<(), DifferentialError> {
        let oldest = unpoisoned(self.state.lock()).oldest;
        let behind = (1..oldest).rev();
        let behind = behind.take_while(|&number| self.db.cf_handle(&family_name(number)).is_some());
        for number in behind {
            drop_moved(&self.db, number)
                .map_err(DifferentialError::write("drop a generation that was moved"))?;
        }
        Ok(())
    }

    /// Moves what is left of the oldest generation.
    fn move_records(
        &self,
        generation: &Generation,
        count: &mut u64,
        watch: &mut impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, DifferentialError> {
        let moved = unpoisoned(self.state.lock()).moved.clone();
        let mut records = records_after(generation.family(), moved.as_deref());
        for batches in 1.. {
            let Some((batch, last, more)) = self.next_batch(generation, &mut records)? else {
                break;
            };
            self.commit(batch, "move records")?;
            *count += more;
            let go_on = watch(*count);
            if go_on.is_break() || batches % NOTED == 0 {
                self.advance(|state| state.moved_to(&last))?;
            }
            if go_on.is_break() {
                return Ok(go_on);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The next records as writes to the main file, the last key and their number; `None` at the end.
    fn next_batch(
        &self,
        generation: &Generation,
        records: &mut Records<'_>,
    ) -> Result<Option<(WriteBatch, Vec<u8>, u64)>, DifferentialError> {
        let main = self.main.handle();
        let mut batch = WriteBatch::default();
        let (mut last, mut count) = (Vec::new(), 0);
        // One at least: no record would look like the end.
        let none = |count| count == 0 && !planted!(BatchFullWhenEmpty);
        while (none(count) || batch.size_in_bytes() < self.options.batch_bytes)
            && let Some((key, bytes)) = records.item()
        {
            match generation.decode(key, bytes)? {
                Some(value) => batch.put_cf(main, key, value),
                None => batch.delete_cf(main, key),
            }
            key.clone_into(&mut last);
            count += 1;
            records.next();
        }
        let status = records.status();
        if !planted!(MoveStopsShort) {
            status.map_err(DifferentialError::read("differential"))?;
        }
        Ok((count > 0).then_some((batch, last, count)))
    }

    /// Takes the oldest generation, all of which is in the main file, from before it.
    fn retire(&self, generation: &Generation) -> Result<(), DifferentialError> {
        self.advance(State::retired)?;
        drop_moved(&self.db, generation.number())
            .map_err(DifferentialError::write("drop a generation that was moved"))
    }

    /// Notes what the records that were moved lead to, once they are durable.
    fn advance(&self, next: impl FnOnce(&State) -> State) -> Result<(), DifferentialError> {
        if !planted!(NotedBeforeDurable) {
            self.sync()?;
        }
        let mut state = unpoisoned(self.state.lock());
        let next = next(&state);
        self.note(&next, "note what was moved")?;
        if next.oldest > state.oldest {
            let generations = self.generations();
            let left = &generations[..generations.len() - 1];
            self.view.publish(left.into());
        }
        *state = next;
        Ok(())
    }

    fn note(&self, state: &State, operation: &'static str) -> Result<(), DifferentialError> {
        let mut batch = WriteBatch::default();
        batch.put_cf(self.home.handle(), STATE_KEY, state.encode());
        self.commit(batch, operation)
    }
}

/// Drops a generation that the state has left behind, once the state is durable: until then a power
/// cut could take it back, and the generation would be missed.
pub(super) fn drop_moved(db: &SieveDb, generation: u64) -> Result<(), rocksdb::Error> {
    if !planted!(DroppedBeforeDurable) {
        db.engine().flush_wal(SYNC)?;
    }
    db.drop_cf(&family_name(generation))
}

/// An iterator that stands after this key, or at the start.
fn records_after<'a>(family: &'a Family, key: Option<&[u8]>) -> Records<'a> {
    let mut options = ReadOptions::default();
    // Each record is read once: let those of others stay in the cache.
    options.fill_cache(false);
    let mut records = family.iterate(options);
    match key {
        None => records.seek_to_first(),
        Some(key) => {
            records.seek(key);
            if records.key() == Some(key) {
                records.next();
                if planted!(MoveSkipsAKey) {
                    records.next();
                }
            }
        }
    }
    records
}
