//! The maintenance thread.

use crate::protocol::{Action, Protocol};
use crate::rules::Rule;
use crate::state::{KEYS, Memtable, Phase, SaveStep, State, Step, Stored, Task, bit, members};

impl Protocol {
    pub(crate) fn begin(&self, state: &mut State, action: Action) {
        let Some(family) = state.family else { return };
        match action {
            Action::Consolidate => {
                state.left.consolidations -= 1;
                let old = state.current;
                let new = state.new_summary();
                state.set = bit(old) | bit(new);
                if self.breaks(Rule::OldSummaryIsFed) {
                    state.set = bit(new);
                }
                if self.breaks(Rule::NewSummaryIsFed) {
                    state.set = bit(old);
                }
                let skips_wait = self.breaks(Rule::GracePeriodIsWaitedFor);
                let mut step = if skips_wait {
                    Step::Collect
                } else {
                    Step::Wait
                };
                if self.breaks(Rule::MemtablesAreReadBeforeSstsAreListed) {
                    step = Step::Note;
                }
                state.task = Task::Consolidate { family, new, step };
            }
            Action::Cover => {
                let epoch = state.epoch();
                state.task = Task::Cover {
                    family,
                    step: Step::List { epoch },
                };
            }
            _ => {
                state.left.saves -= 1;
                let epoch = state.epoch();
                let step = match self.breaks(Rule::CoverageIsNotedBeforeTheCopy) {
                    true => {
                        let keys = state.summaries[usize::from(state.current)];
                        SaveStep::Store {
                            stored: Stored { keys, covered: 0 },
                        }
                    }
                    false => SaveStep::List { epoch },
                };
                state.task = Task::Save { family, step };
            }
        }
    }

    pub(crate) fn go(&self, state: &mut State) {
        match std::mem::replace(&mut state.task, Task::Idle) {
            Task::Idle => {}
            Task::Consolidate { family, new, step } => {
                if let Some(step) = self.consolidate(state, family, new, step) {
                    state.task = Task::Consolidate { family, new, step };
                }
            }
            Task::Cover { family, step } => {
                if let Some(step) = self.read_ssts(state, family, state.current, step, true) {
                    state.task = Task::Cover { family, step };
                }
            }
            Task::Save { family, step } => {
                if let Some(step) = self.save(state, family, step) {
                    state.task = Task::Save { family, step };
                }
            }
        }
    }

    fn consolidate(&self, state: &mut State, family: u8, new: u8, step: Step) -> Option<Step> {
        let lists_first = self.breaks(Rule::MemtablesAreReadBeforeSstsAreListed);
        match step {
            Step::Wait => Some(Step::Collect),
            Step::Collect => {
                let takes = |memtable: &&Memtable| {
                    let is_active = memtable.phase == Phase::Active;
                    let is_hidden = memtable.phase == Phase::Logged
                        && self.breaks(Rule::MemtableIsForgottenAfterInstall);
                    let is_left_out = match is_active {
                        true => self.breaks(Rule::ActiveMemtableIsRead),
                        false => self.breaks(Rule::SealedMemtablesAreRead),
                    };
                    !is_left_out && !is_hidden
                };
                let of_family = state.is_family(family);
                let live = state.memtables.iter().filter(takes).filter(|_| of_family);
                let left = live.map(|memtable| bit(memtable.id)).sum();
                Some(Step::Memtables { left, key: 0 })
            }
            Step::Memtables { left: 0, .. } => match lists_first {
                true => Some(Step::Publish {
                    epoch: state.epoch(),
                    listed: state.listed(),
                }),
                false => Some(Step::Note),
            },
            Step::Memtables { left, key } => {
                let id = members(left).next().expect("one is left");
                let rest = left & !bit(id);
                // Flushed since they were collected.
                let Some(memtable) = state.memtables.iter().find(|memtable| memtable.id == id)
                else {
                    return Some(Step::Memtables { left: rest, key: 0 });
                };
                let read = memtable.keys & (1 << key);
                state.add(new, read);
                let is_over = key + 1 == KEYS || self.breaks(Rule::MemtablesAreReadToTheEnd);
                Some(match is_over {
                    true => Step::Memtables { left: rest, key: 0 },
                    false => Step::Memtables { left, key: key + 1 },
                })
            }
            Step::Switch => {
                if state.is_family(family) {
                    state.set = bit(new);
                }
                None
            }
            step => {
                let next = self.read_ssts(state, family, new, step, false);
                match next {
                    Some(Step::Publish { .. }) if lists_first => Some(Step::Collect),
                    next => next,
                }
            }
        }
    }

    /// Lists the SSTs, reads those that the summary lacks into it, and publishes it.
    fn read_ssts(
        &self,
        state: &mut State,
        family: u8,
        summary: u8,
        step: Step,
        covers: bool,
    ) -> Option<Step> {
        let of_family = state.is_family(family);
        match step {
            Step::Note => Some(Step::List {
                epoch: state.epoch(),
            }),
            Step::List { epoch } => {
                let listed = if of_family { state.listed() } else { 0 };
                let from_log = state.log.filter(|_| !covers);
                if let Some(log) = from_log {
                    state.add(summary, log);
                    return Some(Step::Publish { epoch, listed });
                }
                let known = if covers { state.covered } else { 0 };
                Some(Step::Read {
                    epoch,
                    listed,
                    left: listed & !known,
                })
            }
            Step::Read {
                mut epoch,
                listed,
                left: 0,
            } => {
                if self.breaks(Rule::EpochIsNotedBeforeTheListing) {
                    epoch = state.epoch();
                }
                Some(Step::Publish { epoch, listed })
            }
            Step::Read {
                epoch,
                listed,
                left,
            } => {
                let id = members(left).next().expect("one is left");
                match state.sst(id).map(|sst| sst.keys) {
                    Some(keys) => state.add(summary, keys),
                    // Compacted since the listing: its successor must be listed.
                    None if !self.breaks(Rule::VanishedSstsAreListedAgain) && of_family => {
                        return Some(Step::Note);
                    }
                    None => {}
                }
                Some(Step::Read {
                    epoch,
                    listed,
                    left: left & !bit(id),
                })
            }
            Step::Publish { epoch, listed } => {
                let is_current = epoch.number == state.epochs || self.breaks(Rule::EpochIsChecked);
                let is_quiet = epoch.quiet || self.breaks(Rule::EpochIsQuiet);
                if !of_family && !self.breaks(Rule::FiltersBelongToOneFamily) {
                    return None;
                }
                if !is_current || !is_quiet {
                    return match covers {
                        true => None,
                        false => Some(Step::Note),
                    };
                }
                (state.current, state.covered, state.is_complete) = (summary, listed, true);
                if covers {
                    return None;
                }
                Some(Step::Switch)
            }
            _ => unreachable!("a consolidation's own"),
        }
    }

    fn save(&self, state: &mut State, family: u8, step: SaveStep) -> Option<SaveStep> {
        let of_family = state.is_family(family);
        match step {
            SaveStep::List { epoch } => Some(SaveStep::Note {
                epoch,
                listed: state.listed(),
            }),
            SaveStep::Note { epoch, listed } => {
                let is_current = epoch.number == state.epochs && epoch.quiet;
                if !of_family || !state.is_complete || !is_current {
                    return None;
                }
                state.covered = listed;
                Some(SaveStep::Copy { covered: listed })
            }
            SaveStep::Copy { covered } => {
                let keys = state.summaries[usize::from(state.current)];
                Some(SaveStep::Store {
                    stored: Stored { keys, covered },
                })
            }
            SaveStep::Store { mut stored } => {
                if self.breaks(Rule::CoverageIsNotedBeforeTheCopy) {
                    stored.covered = state.listed();
                }
                // The file of a dropped family may come back: it covers none of its successor's
                // SSTs.
                state.stored = Some(stored);
                None
            }
        }
    }

    /// The old summary stays.
    pub(crate) fn give_up(&self, state: &mut State) {
        if let Task::Consolidate { family, new, .. } = state.task {
            if state.is_family(family) && state.current != new {
                state.set = match self.breaks(Rule::FailedConsolidationKeepsTheOldSummary) {
                    true => bit(new),
                    false => bit(state.current),
                };
            } else if state.is_family(family) {
                state.set = bit(new);
            }
        }
        state.task = Task::Idle;
    }
}
