//! Writers and lookups.

use crate::protocol::{Action, Feeds, Protocol};
use crate::rules::Rule;
use crate::state::{KEYS, Keys, Lookup, State, Writer, bit, members};

impl Protocol {
    pub(crate) fn actions_of_writers(&self, state: &State, actions: &mut Vec<Action>) {
        let after = self.feeds == Feeds::AfterInsertion;
        let mut has_idle = false;
        for (writer, at) in state.writers.iter().enumerate() {
            match *at {
                // The writers are alike: the first that is idle goes.
                Writer::Idle if !has_idle && state.left.writes > 0 && state.family.is_some() => {
                    has_idle = true;
                    actions.extend((0..KEYS).map(|key| Action::Enter {
                        writer,
                        key: 1 << key,
                    }));
                }
                Writer::Idle => {}
                Writer::Entered(_) if after => {
                    let loads_first = self.breaks(Rule::SetIsLoadedAfterInsertion);
                    actions.push(match loads_first {
                        true => Action::Load(writer),
                        false => Action::Insert(writer),
                    });
                }
                Writer::Entered(_) | Writer::Inserted(_) => {
                    actions.push(Action::Load(writer));
                    if self.breaks(Rule::FedBeforeVisible) && state.visible & key_of(*at) == 0 {
                        actions.push(Action::Show(writer));
                    }
                }
                Writer::Feeding { left, .. } if left != 0 => actions.push(Action::Feed(writer)),
                Writer::Feeding { .. } => {}
                Writer::Fed { .. } if after => actions.push(Action::Show(writer)),
                Writer::Fed { .. } => actions.push(Action::Insert(writer)),
            }
        }
    }

    pub(crate) fn write(&self, state: &mut State, action: Action) {
        let after = self.feeds == Feeds::AfterInsertion;
        let loads_first = self.breaks(Rule::SetIsLoadedAfterInsertion);
        match action {
            Action::Enter { writer, key } => {
                state.left.writes -= 1;
                state.writers[writer] = Writer::Entered(key);
            }
            Action::Insert(writer) => {
                let key = key_of(state.writers[writer]);
                state.active().keys |= key;
                state.writers[writer] = Writer::Inserted(key);
                if !after {
                    state.visible |= key;
                    state.writers[writer] = Writer::Idle;
                }
            }
            Action::Load(writer) => {
                let (key, set) = (key_of(state.writers[writer]), state.set);
                state.writers[writer] = Writer::Feeding {
                    key,
                    set,
                    left: set,
                };
                if after && loads_first {
                    // The read of the set has ended.
                    state.writers[writer] = Writer::Fed { key, set };
                }
            }
            Action::Feed(writer) => {
                if let Writer::Feeding { key, set, left } = state.writers[writer] {
                    let summary = members(left).next().expect("one is left");
                    state.add(summary, key);
                    let left = left & !bit(summary);
                    state.writers[writer] = match left {
                        0 => Writer::Fed { key, set },
                        _ => Writer::Feeding { key, set, left },
                    };
                }
            }
            Action::Show(writer) => {
                let at = state.writers[writer];
                state.visible |= key_of(at);
                if let Writer::Fed { key, set } = at {
                    if after && loads_first {
                        state.active().keys |= key;
                        members(set).for_each(|summary| state.add(summary, key));
                    }
                    state.writers[writer] = Writer::Idle;
                }
            }
            _ => unreachable!("not a writer's"),
        }
    }
}

pub(crate) fn key_of(writer: Writer) -> Keys {
    match writer {
        Writer::Idle => 0,
        Writer::Entered(key)
        | Writer::Inserted(key)
        | Writer::Feeding { key, .. }
        | Writer::Fed { key, .. } => key,
    }
}

pub(crate) fn look_up(state: &mut State, action: Action) {
    match (action, state.lookup) {
        (Action::Ask(key), _) => {
            state.left.lookups -= 1;
            state.lookup = Lookup::Begun(key);
        }
        (Action::LoadView, Lookup::Begun(key)) => {
            let summary = state.is_complete.then_some(state.current);
            state.lookup = Lookup::Loaded { key, summary };
        }
        (Action::Probe, Lookup::Loaded { key, summary }) => {
            let has = |summary: u8| state.summaries[usize::from(summary)] & key != 0;
            state.is_lost |= summary.is_some_and(|summary| !has(summary));
            state.lookup = Lookup::Idle;
        }
        _ => unreachable!("not a lookup's"),
    }
}
