//! What the engine does by itself, and what users do to it beside writes.

use crate::protocol::{Action, Protocol};
use crate::rules::Rule;
use crate::state::{External, KEYS, Lookup, Phase, State, Writer, bit};

impl Protocol {
    pub(crate) fn actions_of_the_engine(&self, state: &State, actions: &mut Vec<Action>) {
        let left = &state.left;
        let exists = state.family.is_some();
        let no_writer = state.writers.iter().all(|&writer| writer == Writer::Idle);
        let active_has_keys = state
            .memtables
            .last()
            .is_some_and(|active| active.keys != 0);
        if left.seals > 0 && no_writer && active_has_keys {
            actions.push(Action::Seal);
        }
        // A flush takes the oldest memtable.
        for memtable in &state.memtables {
            match memtable.phase {
                Phase::Active => {}
                Phase::Sealed => actions.push(Action::Log(memtable.id)),
                Phase::Logged => actions.push(Action::Install(memtable.id)),
                Phase::Installed => {
                    let waits =
                        state.is_read(memtable.id) && !self.breaks(Rule::MemtableWaitsForItsReader);
                    if !waits {
                        actions.push(Action::Forget(memtable.id));
                    }
                    continue;
                }
            }
            break;
        }
        if left.compactions > 0 && state.ssts.len() > 1 {
            actions.push(Action::Compact);
        }
        match state.external {
            External::Idle if left.external_writes > 0 && exists => {
                actions.extend((0..KEYS).map(|key| Action::Announce(1 << key)));
            }
            External::Idle => {}
            External::Announced(_) => actions.push(Action::Ingest),
            External::Installed => actions.push(Action::End),
        }
        let is_read = state
            .memtables
            .iter()
            .any(|memtable| state.is_read(memtable.id));
        let is_busy = !no_writer || state.external != External::Idle || is_read;
        if left.drops > 0 && exists && !is_busy {
            actions.push(Action::Drop);
        }
        if !exists {
            actions.push(Action::Create);
        }
    }

    pub(crate) fn engine(&self, state: &mut State, action: Action) {
        match action {
            Action::Seal => {
                state.left.seals -= 1;
                state.active().phase = Phase::Sealed;
                state.new_memtable(0);
            }
            Action::Log(memtable) => {
                let memtable = state.memtable(memtable);
                memtable.phase = Phase::Logged;
                let keys = memtable.keys;
                if !self.breaks(Rule::LogHasTheKeysOfEachFlush) {
                    state.log = state.log.map(|log| log | keys);
                }
            }
            Action::Install(memtable) => {
                let memtable = state.memtable(memtable);
                memtable.phase = Phase::Installed;
                let keys = memtable.keys;
                state.new_sst(self, keys);
            }
            Action::Forget(memtable) => {
                state.is_freed_read |= state.is_read(memtable);
                state.memtables.retain(|other| other.id != memtable);
            }
            Action::Compact => {
                state.left.compactions -= 1;
                let keys = state.ssts[0].keys | state.ssts[1].keys;
                state.ssts.drain(..2);
                state.new_sst(self, keys);
            }
            Action::Announce(key) => {
                state.left.external_writes -= 1;
                state.external = External::Announced(key);
                let is_late = self.breaks(Rule::ExternalWritesAreAnnouncedFirst);
                if !is_late {
                    self.announce(state);
                }
            }
            Action::Ingest => {
                if let External::Announced(key) = state.external {
                    state.new_sst(self, key);
                    state.visible |= key;
                    state.external = External::Installed;
                }
            }
            Action::End => {
                state.external = External::Idle;
                if self.breaks(Rule::ExternalWritesAreAnnouncedFirst) {
                    self.announce(state);
                }
            }
            Action::Crash => self.crash(state),
            Action::Drop => {
                state.left.drops -= 1;
                state.family = None;
                state.memtables.clear();
                state.ssts.clear();
                (state.visible, state.covered, state.is_complete) = (0, 0, false);
                (state.log, state.lookup) = (None, Lookup::Idle);
                if !self.breaks(Rule::DropRemovesTheStoredFilter) {
                    state.stored = None;
                }
            }
            Action::Create => {
                state.family = Some(state.families);
                state.families += 1;
                state.new_memtable(0);
                state.current = state.new_summary();
                state.set = bit(state.current);
            }
            _ => unreachable!("not the engine's"),
        }
    }

    /// External writes begin: what was learnt before may not be published.
    fn announce(&self, state: &mut State) {
        state.epochs += 1;
        if !self.breaks(Rule::ExternalWritesWithdrawCoverage) {
            state.is_complete = false;
        }
        if !self.breaks(Rule::ExternalWritesEndTheLog) {
            state.log = None;
        }
    }

    /// What was written outlives the process: SSTs, the write-ahead log, a stored filter.
    fn crash(&self, state: &mut State) {
        let replayed = state
            .memtables
            .iter()
            .fold(0, |keys, memtable| keys | memtable.keys);
        let lasting = state.clone();
        *state = State {
            left: lasting.left,
            ..self.start()
        };
        state.left.crashes -= 1;
        state.family = lasting.family;
        state.families = lasting.families;
        (state.next_memtable, state.next_sst) = (lasting.next_memtable, lasting.next_sst);
        state.memtables.clear();
        (state.log, state.is_complete) = (None, false);
        state.ssts = lasting.ssts;
        state.stored = lasting.stored;
        if let Some(stored) = &state.stored {
            state.summaries[0] = stored.keys;
            state.covered = stored.covered;
            state.is_complete = self.breaks(Rule::UncoveredSstsAreReadAtOpen);
        }
        if state.family.is_some() {
            state.new_memtable(replayed);
            state.visible = state
                .ssts
                .iter()
                .fold(replayed, |keys, sst| keys | sst.keys);
            if !self.breaks(Rule::ReplayIsFed) {
                state.add(0, replayed);
            }
        }
    }
}
