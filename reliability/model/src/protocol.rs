//! How the summary filter of a column family is replaced beside writes without a flush, as a model
//! that a checker exhausts. (Today a consolidation flushes the memtables, and a memtable is bound to
//! its filters at its first key.)
//!
//! ```text
//! write           insert into the memtable -> load the set of summaries -> add the key to each ->
//!                 make it visible                     (unordered writes add before they insert)
//! flush           append the keys to the log -> install the SST -> forget the memtable
//! consolidation   publish the set {old, new} -> wait for insertions that loaded {old} ->
//!                 collect the live memtables -> read each -> list the SSTs -> read each, or the
//!                 log -> publish the view {new} -> publish the set {new}
//! external write  announce -> install the SST -> end
//! cover           note the epoch -> list the SSTs -> read the uncovered ones -> publish, if the
//!                 epoch is still the same
//! save            note which SSTs are covered -> copy the filter -> store both
//! ```
//!
//! The promise: **no lookup denies a key that was visible before it began.**
//!
//! Each action is one step that other threads see whole. A memtable is read key by key, beside
//! insertions. There are two keys, two writers, one lookup at a time, and one maintenance thread;
//! [`Budget`] says how often each of the other things happens. Deletions are left out: they add no
//! key, and a summary filter is never told of them.
//!
//! [`Rule`] breaks one rule of the protocol. The checker must then find a lost
//! key, or the model is too small to prove anything.

use stateright::{Model, Property};

use crate::reached::REACHED;
use crate::rules::Rule;
use crate::state::{External, KEYS, Keys, Lookup, Memtable, Phase, State, Step, Task, Writer, bit};
use crate::writers::look_up;

/// When a write adds its key to the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Feeds {
    /// After the memtable has it, and before it is visible.
    AfterInsertion,
    /// Before the memtable has it, which makes it visible: RocksDB's unordered writes.
    BeforeInsertion,
}

/// How often each thing may happen in one history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) writes: u8,
    pub(crate) lookups: u8,
    pub(crate) seals: u8,
    pub(crate) compactions: u8,
    pub(crate) external_writes: u8,
    pub(crate) consolidations: u8,
    pub(crate) failures: u8,
    pub(crate) saves: u8,
    pub(crate) crashes: u8,
    pub(crate) drops: u8,
}

/// The protocol within a budget, perhaps with one rule broken.
#[derive(Clone, Debug)]
pub(crate) struct Protocol {
    pub(crate) feeds: Feeds,
    /// Whether the database has a log of keys from the start.
    pub(crate) has_log: bool,
    pub(crate) budget: Budget,
    pub(crate) broken: Option<Rule>,
}

/// One step of one thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Enter {
        writer: usize,
        key: Keys,
    },
    Insert(usize),
    Load(usize),
    Feed(usize),
    Show(usize),
    Seal,
    Log(u8),
    Install(u8),
    Forget(u8),
    Compact,
    Announce(Keys),
    Ingest,
    End,
    Ask(Keys),
    LoadView,
    Probe,
    Consolidate,
    Cover,
    Save,
    /// The next step of the maintenance thread.
    Go,
    /// A consolidation fails, or the database closes.
    Fail,
    /// The process ends, at any point, and the database is opened again.
    Crash,
    Drop,
    Create,
}

impl Protocol {
    pub(crate) fn breaks(&self, rule: Rule) -> bool {
        self.broken == Some(rule)
    }

    pub(crate) fn start(&self) -> State {
        State {
            family: Some(0),
            families: 1,
            memtables: vec![Memtable {
                id: 0,
                keys: 0,
                phase: Phase::Active,
            }],
            ssts: Vec::new(),
            visible: 0,
            log: self.has_log.then_some(0),
            summaries: vec![0],
            set: bit(0),
            current: 0,
            is_complete: true,
            covered: 0,
            epochs: 0,
            external: External::Idle,
            stored: None,
            writers: [Writer::Idle; 2],
            lookup: Lookup::Idle,
            task: Task::Idle,
            left: self.budget,
            next_memtable: 1,
            next_sst: 0,
            is_lost: false,
            is_freed_read: false,
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.actions_of_writers(state, actions);
        self.actions_of_the_engine(state, actions);
        let left = &state.left;
        let exists = state.family.is_some();
        match state.lookup {
            Lookup::Idle if left.lookups > 0 && exists => {
                let keys = (0..KEYS)
                    .map(|key| 1 << key)
                    .filter(|key| state.visible & key != 0);
                actions.extend(keys.map(Action::Ask));
            }
            Lookup::Idle => {}
            Lookup::Begun(_) => actions.push(Action::LoadView),
            Lookup::Loaded { .. } => actions.push(Action::Probe),
        }
        match &state.task {
            Task::Idle if exists => {
                if left.consolidations > 0 && state.is_complete {
                    actions.push(Action::Consolidate);
                }
                if !state.is_complete && state.external == External::Idle {
                    actions.push(Action::Cover);
                }
                if left.saves > 0 && state.is_complete {
                    actions.push(Action::Save);
                }
            }
            Task::Idle => {}
            task => {
                let waits = match task {
                    Task::Consolidate {
                        new,
                        step: Step::Wait,
                        ..
                    } => state.some_loaded_a_set_without(*new, self),
                    _ => false,
                };
                if !waits {
                    actions.push(Action::Go);
                }
                if left.failures > 0 && matches!(task, Task::Consolidate { .. }) {
                    actions.push(Action::Fail);
                }
            }
        }
        if left.crashes > 0 {
            actions.push(Action::Crash);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Enter { .. }
            | Action::Insert(_)
            | Action::Load(_)
            | Action::Feed(_)
            | Action::Show(_) => self.write(&mut state, action),
            Action::Ask(_) | Action::LoadView | Action::Probe => look_up(&mut state, action),
            Action::Consolidate | Action::Cover | Action::Save => self.begin(&mut state, action),
            Action::Go => self.go(&mut state),
            Action::Fail => {
                state.left.failures -= 1;
                self.give_up(&mut state);
            }
            _ => self.engine(&mut state, action),
        }
        state.tidy();
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("no visible key is denied", |_, state: &State| {
                !state.is_lost && !state.denies_a_visible_key()
            }),
            Property::always(
                "no memtable is read after it was freed",
                |_, state: &State| !state.is_freed_read,
            ),
        ];
        if self.broken.is_none() {
            let reached = REACHED.iter();
            properties.extend(reached.map(|&(name, is)| Property::sometimes(name, is)));
        }
        properties
    }
}
