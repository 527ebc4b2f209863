//! The data that the differential store itself writes: its state, its records, the names of its
//! families. The decoders are included by path, since they are private to the store.

use super::meter;

#[expect(dead_code, reason = "the store uses the rest")]
#[path = "../../lab/differential/src/state.rs"]
mod kept;
#[path = "../../lab/differential/src/record.rs"]
mod record;

use kept::{State, StateError, VERSION};

/// Reads the bytes as a state, as a record and as the name of a column family.
pub fn run(bytes: &[u8]) {
    match meter::within(meter::allowance(bytes.len()), || State::decode(bytes)) {
        Ok(state) => holds(&state, bytes),
        Err(StateError::Newer(version)) => assert!(version > VERSION),
        Err(StateError::Damaged(why)) => assert!(!why.is_empty()),
    }
    if let Ok(record) = record::decode(bytes) {
        assert_eq!(record::encode(record), bytes, "one record, one encoding");
    }
    if let Some(name) = str::from_utf8(bytes).ok()
        && let Some(generation) = kept::generation_of(name)
    {
        assert!(generation > 0);
        assert_eq!(kept::family_name(generation), name);
    }
}

/// A decoded state has one encoding, and so have the states that follow it.
fn holds(state: &State, bytes: &[u8]) {
    assert_eq!(state.encode(), bytes, "one state, one encoding");
    assert!((1..=state.newest).contains(&state.oldest));
    assert!(state.main_is_here || state.oldest == 1);
    assert!(
        state.with_new_generation().newest > state.newest,
        "no number is left"
    );
    for next in [state.moved_to(bytes), state.moved_to(b""), state.unmoved()] {
        assert_eq!(State::decode(&next.encode()), Ok(next));
    }
}

/// A few accepted inputs of each kind.
pub fn examples() -> Vec<Vec<u8>> {
    let new = State::new(true);
    let states = [
        new.clone(),
        new.with_new_generation().moved_to(b"key"),
        new.retired(),
        State::new(false),
    ];
    let states = states.iter().map(State::encode);
    let records = [None, Some(&b"value"[..])].map(record::encode);
    states
        .chain(records)
        .chain([kept::family_name(17).into_bytes()])
        .collect()
}
