//! Freezes a generation, and moves frozen ones into the main file.
//!
//! ```text
//! freeze   create family n+1 -> state: newest = n+1 | readers see it -> [no writer] writers use it
//! move     batch: records to main -> batch -> ... | state: moved up to key -> batch -> ...
//!          | state: oldest = n+1 -> readers see it gone | drop the family
//! ```
//!
//! A crash may happen at each arrow, and at each bar everything written before is made durable. The
//! next open drops a family that the state does not name yet, and one that the state no longer
//! names. A batch that was not acknowledged is there as a whole or not at all. Moving a record
//! twice has the same effect as moving it once.
//!
//! The bars are needed because RocksDB keeps the order of writes only within one log. A log that it
//! ends is synced when its memtable is next flushed. Before that, a power cut may remove from it
//! writes that the next log, durable by chance, depends on.

use std::ops::ControlFlow;
use std::sync::Arc;

use rocksdb::{DBRawIteratorWithThreadMode, ReadOptions, WriteBatch};

use super::error::DifferentialError;
use super::generation::Generation;
use super::state::{STATE_KEY, State, family_name};
use super::store::{DifferentialStore, SYNC};
use lsm_sieve::{CfReader, RocksDb, SieveDb};
use lsm_sieve_support::fault::fault;
use lsm_sieve_support::sync::unpoisoned;

/// The progress of a reorganisation, after each batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The generation being moved.
    pub generation: u64,
    /// Records moved by this call so far, over all generations.
    pub moved: u64,
    /// Approximate number of records to move.
    pub of: u64,
}

/// The result of a reorganisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reorganized {
    /// Records moved by this call.
    pub records: u64,
    /// Generations that were dropped.
    pub generations: u64,
    /// Whether every record that existed at the start is in the main file now.
    pub finished: bool,
}

type Records<'a> = DBRawIteratorWithThreadMode<'a, RocksDb>;

/// Number of batches after which the store notes how far a generation has been moved. A process
/// that dies repeats at most this many.
const NOTED: usize = 64;

impl DifferentialStore {
    /// Starts a new generation. Records written before can then be moved; later ones go to the new
    /// generation. Does nothing if nothing was written since the last freeze.
    ///
    /// # Errors
    /// If the new generation cannot be created or noted. Writes then go to the old one as before.
    pub fn freeze(&self) -> Result<(), DifferentialError> {
        let mut state = unpoisoned(self.state.lock());
        let generations = self.generations();
        if generations[0].is_empty()? {
            return Ok(());
        }
        let next = state.with_new_generation();
        let fresh = Arc::new(self.make_generation(next.newest)?);
        self.record(&next, "note a new generation")?;
        fault!(FrozenBeforeDurable, {
            self.start_generation(fresh);
            *state = next;
            return Ok(());
        });
        self.sync()?;
        self.start_generation(fresh);
        *state = next;
        Ok(())
    }

    /// Publishes a new generation, which takes all further writes; needs the lock of `state`.
    fn start_generation(&self, fresh: Arc<Generation>) {
        let generations = self.generations();
        let newest = std::iter::once(Arc::clone(&fresh));
        let all = newest.chain(generations.iter().cloned());
        self.view.publish(all.collect());
        fault!(WritesIntoFrozen, return);
        *unpoisoned(self.writing.write()) = fresh;
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
        let family = self.db.cf(&name).expect("made above, dropped nowhere else");
        Ok(Generation::new(number, family, self.options.filter)?)
    }

    /// Moves every record that was written before the call into the main file. Reads and writes
    /// continue meanwhile. `watch` is called after each batch and may stop the reorganisation: a
    /// later call continues from there, in this process or another. Only one call runs at a time,
    /// and none while [`DifferentialStore::load`] runs. So `watch` must call neither: it would wait
    /// for itself.
    ///
    /// # Errors
    /// If the main file is in another database, or the engine fails. A later call continues.
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

    /// Flushes the moved records, so that the engine can remove its logs. Nothing depends on it:
    /// the records are durable, and a full memtable is flushed in any case.
    fn let_logs_go(&self) {
        for family in [&self.main, &self.home] {
            if let Err(error) = family.begin_flush() {
                tracing::warn!(%error, "cannot flush moved records; their logs stay for now");
            }
        }
    }

    /// Makes the next call move the oldest generation from its start again. Called before records
    /// in the main file are overwritten that may have been moved there.
    pub(super) fn move_again(&self) -> Result<(), DifferentialError> {
        let mut state = unpoisoned(self.state.lock());
        if state.moved.is_none() {
            return Ok(());
        }
        let next = state.unmoved();
        self.record(&next, "begin a generation again")?;
        *state = next;
        fault!(LoadedBeforeDurable, return Ok(()));
        self.sync()
    }

    /// Drops generations that an earlier call did not drop because the engine failed.
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

    /// Moves the rest of the oldest generation.
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

    /// The next records as a batch for the main file, with the last key and the number of records;
    /// `None` at the end.
    fn next_batch(
        &self,
        generation: &Generation,
        records: &mut Records<'_>,
    ) -> Result<Option<(WriteBatch, Vec<u8>, u64)>, DifferentialError> {
        let main = self.main.handle();
        let mut batch = WriteBatch::default();
        let (mut last, mut count) = (Vec::new(), 0);
        // At least one record: an empty batch would look like the end.
        let mut least = 1;
        fault!(BatchFullWhenEmpty, least = 0);
        while (count < least || batch.size_in_bytes() < self.options.batch_bytes)
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
        let next = (count > 0).then_some((batch, last, count));
        fault!(MoveStopsShort, return Ok(next));
        let status = records.status();
        status.map_err(DifferentialError::read("differential"))?;
        Ok(next)
    }

    /// Removes the oldest generation, all of whose records are in the main file.
    fn retire(&self, generation: &Generation) -> Result<(), DifferentialError> {
        self.advance(State::retired)?;
        drop_moved(&self.db, generation.number())
            .map_err(DifferentialError::write("drop a generation that was moved"))
    }

    /// Makes the moved records durable, then stores the state that follows from them.
    fn advance(&self, next: impl FnOnce(&State) -> State) -> Result<(), DifferentialError> {
        fault!(NotedBeforeDurable, return self.note(next));
        self.sync()?;
        self.note(next)
    }

    /// Stores the state that follows from the one before. If it no longer has the oldest
    /// generation, readers no longer get that either.
    fn note(&self, next: impl FnOnce(&State) -> State) -> Result<(), DifferentialError> {
        let mut state = unpoisoned(self.state.lock());
        let next = next(&state);
        self.record(&next, "note what was moved")?;
        if next.oldest > state.oldest {
            let generations = self.generations();
            let left = &generations[..generations.len() - 1];
            self.view.publish(left.into());
        }
        *state = next;
        Ok(())
    }

    fn record(&self, state: &State, operation: &'static str) -> Result<(), DifferentialError> {
        let mut batch = WriteBatch::default();
        batch.put_cf(self.home.handle(), STATE_KEY, state.encode());
        self.commit(batch, operation)
    }
}

/// Makes the state durable, then drops a generation that it no longer names. Otherwise a power cut
/// could bring the old state back, and the generation would be missing.
pub(super) fn drop_moved(db: &SieveDb, generation: u64) -> Result<(), rocksdb::Error> {
    fault!(
        DroppedBeforeDurable,
        return db.drop_cf(&family_name(generation))
    );
    db.flush_wal(SYNC)?;
    db.drop_cf(&family_name(generation))
}

/// An iterator positioned after this key, or at the start.
fn records_after<'a>(family: &'a CfReader, key: Option<&[u8]>) -> Records<'a> {
    let mut options = ReadOptions::default();
    // Each record is read only once: do not displace others from the cache.
    options.fill_cache(false);
    let mut records = family.iterate(options);
    match key {
        None => records.seek_to_first(),
        Some(key) => {
            records.seek(key);
            if records.key() == Some(key) {
                records.next();
                fault!(MoveSkipsAKey, records.next());
            }
        }
    }
    records
}
