//! The calls of several threads, and whether they are linearizable.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use todc_utils::linearizability::history::Action::{self, Response};
use todc_utils::linearizability::{WGLChecker, history};
use todc_utils::specifications::Specification;

/// A key, by its number. Few keys, so that calls meet.
pub type Key = u8;

/// All keys.
pub const ALL: [Key; 4] = [0, 1, 2, 3];

/// What was put, and what was merged since.
pub type Value = Vec<u8>;

/// The name of a function, and the values that it found.
pub type Found = (&'static str, Vec<Option<Value>>);

/// What a write does to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets the value.
    Put(Value),
    /// Removes the key.
    Delete,
    /// Appends to the value; a key that is absent has an empty one.
    Merge(u8),
}

/// What a call did, all at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Changes, in this order.
    Write(Vec<(Key, Change)>),
    /// The keys that were read, each with its value, if it had one.
    Read(Vec<(Key, Option<Value>)>),
}

/// A call of one thread. `begin` and `end` are numbers of one clock.
#[derive(Clone, Debug)]
pub struct Call {
    thread: usize,
    begin: u64,
    /// `None` if a crash cut it short.
    end: Option<u64>,
    /// The function that was called.
    by: &'static str,
    operation: Operation,
}

/// Numbers the begins and ends of calls.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// The next number. Also orders this thread's accesses with those of others, as a test must:
    /// what came before has happened before.
    pub fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// Records the calls of one thread.
#[derive(Debug)]
pub struct Recorder<'a> {
    clock: &'a Clock,
    thread: usize,
    calls: Vec<Call>,
}

impl<'a> Recorder<'a> {
    /// A recorder for the thread of this number.
    pub fn new(clock: &'a Clock, thread: usize) -> Self {
        let calls = Vec::new();
        Self {
            clock,
            thread,
            calls,
        }
    }

    /// Records a write by `call`, which returns the name of the function that it called, or `None` if
    /// a crash cut it short. So does this.
    pub fn write(
        &mut self,
        changes: Vec<(Key, Change)>,
        call: impl FnOnce(&[(Key, Change)]) -> Option<&'static str>,
    ) -> Option<()> {
        let begin = self.clock.tick();
        let function = call(&changes);
        self.record(begin, function, Operation::Write(changes));
        function.map(|_| ())
    }

    /// Records a read, and returns what it found. One that a crash cut short leaves no trace.
    ///
    /// # Panics
    /// If it did not find as many values as there are keys.
    pub fn read(
        &mut self,
        keys: &[Key],
        call: impl FnOnce(&[Key]) -> Option<Found>,
    ) -> Option<Vec<Option<Value>>> {
        let begin = self.clock.tick();
        let (by, values) = call(keys)?;
        assert_eq!(values.len(), keys.len(), "values of {by}");
        let found = keys.iter().copied().zip(values.iter().cloned());
        self.record(begin, Some(by), Operation::Read(found.collect()));
        Some(values)
    }

    fn record(&mut self, begin: u64, by: Option<&'static str>, operation: Operation) {
        let end = self.clock.tick();
        self.calls.push(Call {
            thread: self.thread,
            begin,
            end: by.map(|_| end),
            by: by.unwrap_or("cut short:"),
            operation,
        });
    }

    /// Records what the store had before.
    pub fn found(&mut self, values: &[Option<Value>]) {
        let put = |(key, value): (Key, &Option<Value>)| Some((key, Change::Put(value.clone()?)));
        let values = ALL.into_iter().zip(values).filter_map(put);
        self.write(values.collect(), |_| Some("before"));
    }

    /// All calls so far.
    pub fn into_calls(self) -> Vec<Call> {
        self.calls
    }
}

/// The calls of all threads, on a map that is empty at first.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The calls, in any order.
    pub calls: Vec<Call>,
    /// When the store crashed.
    pub crash: Option<u64>,
}

/// A map of all keys: what the store must look like.
struct Map;

impl Specification for Map {
    type State = Vec<Option<Value>>;
    type Operation = Operation;

    fn init() -> Self::State {
        vec![None; ALL.len()]
    }

    fn apply(operation: &Operation, state: &Self::State) -> (bool, Self::State) {
        let mut state = state.clone();
        let is_valid = match operation {
            Operation::Read(found) => found
                .iter()
                .all(|(key, value)| state[usize::from(*key)] == *value),
            Operation::Write(changes) => {
                for (key, change) in changes {
                    let value = &mut state[usize::from(*key)];
                    match change {
                        Change::Put(new) => *value = Some(new.clone()),
                        Change::Delete => *value = None,
                        Change::Merge(more) => value.get_or_insert_default().push(*more),
                    }
                }
                true
            }
        };
        (is_valid, state)
    }
}

impl History {
    /// Whether the calls are those of a map that does one at a time.
    pub fn is_linearizable(&self) -> bool {
        let pending = self.calls.iter().filter(|call| call.end.is_none()).count();
        let mut took_effect = 0..1_u32 << pending;
        took_effect.any(|took_effect| self.is_linearizable_with(took_effect))
    }

    /// Whether they are if of the calls that the crash cut short those of the bits set took effect.
    fn is_linearizable_with(&self, took_effect: u32) -> bool {
        let (mut events, mut pending) = (Vec::new(), 0);
        for (at, call) in self.calls.iter().enumerate() {
            let end = call.end.or(self.crash).unwrap_or(u64::MAX);
            pending += u32::from(call.end.is_none());
            if call.end.is_none() && took_effect & (1 << (pending - 1)) == 0 {
                continue;
            }
            events.push((call.begin, at, Action::Call(call.operation.clone())));
            events.push((end, at, Response(call.operation.clone())));
        }
        events.sort_by_key(|(tick, at, _)| (*tick, *at));
        let events: Vec<_> = events
            .into_iter()
            .map(|(_, at, event)| (at, event))
            .collect();
        events.is_empty()
            || WGLChecker::<Map>::is_linearizable(history::History::from_actions(events))
    }

    /// A history that is not linearizable without the reads that do not matter.
    #[must_use]
    pub fn reduced(&self) -> Self {
        let mut least = self.clone();
        for at in (0..least.calls.len()).rev() {
            let mut less = least.clone();
            let call = less.calls.remove(at);
            if matches!(call.operation, Operation::Read(_)) && !less.is_linearizable() {
                least = less;
            }
        }
        least
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(changes) => changes.iter().try_for_each(|(key, change)| match change {
                Change::Put(value) => write!(f, " k{key}={value:?}"),
                Change::Delete => write!(f, " k{key} deleted"),
                Change::Merge(more) => write!(f, " k{key}+{more}"),
            }),
            Self::Read(found) => found.iter().try_for_each(|(key, value)| match value {
                Some(value) => write!(f, " k{key} is {value:?}"),
                None => write!(f, " k{key} is absent"),
            }),
        }
    }
}

/// A line for each call, by its begin: its thread, the numbers of its begin and end, what it did.
impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut calls: Vec<_> = self.calls.iter().collect();
        calls.sort_by_key(|call| call.begin);
        for call in calls {
            let end = call.end.or(self.crash).unwrap_or(u64::MAX);
            let (thread, begin, by) = (call.thread, call.begin, call.by);
            writeln!(
                f,
                "thread {thread}  {begin:>3}..{end:<3}  {by}{}",
                call.operation
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
