//! The state: which files exist, and how far the oldest generation has been moved. It is one
//! record, changed in one write.
//!
//! It is stored in the default column family under `state`, beside the constant `format`:
//!
//! ```text
//! byte   0        1               2        10       18            19
//!        version  main file       oldest   newest   1 if the      the last key moved
//!        1        1 here          u64 LE   u64 LE   next follows
//!                 2 elsewhere
//! ```
//!
//! The generations are `oldest..=newest`, without a gap. The first is 1, and `newest` is less than
//! the maximum, so that there is a number for the next. A column family with a smaller number has
//! been moved and waits to be dropped. One with a larger number was created but never noted in the
//! state. Records are not moved into a main file elsewhere.

/// The key, in the default column family, of [`FORMAT`].
pub(super) const FORMAT_KEY: &[u8] = b"format";
pub(super) const FORMAT: &[u8] = b"lsm-sieve differential store";
/// The key of the state. It sorts after [`FORMAT_KEY`].
pub(super) const STATE_KEY: &[u8] = b"state";

/// The version of the layout above.
pub(super) const VERSION: u8 = 1;

const HERE: u8 = 1;
const ELSEWHERE: u8 = 2;

/// The files of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) main_is_here: bool,
    pub(super) oldest: u64,
    pub(super) newest: u64,
    /// The oldest generation is in the main file up to this key.
    pub(super) moved: Option<Vec<u8>>,
}

/// Why a state cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StateError {
    Newer(u8),
    Damaged(String),
}

impl State {
    /// The state of a new store: one generation.
    pub(super) fn new(main_is_here: bool) -> Self {
        Self {
            main_is_here,
            oldest: 1,
            newest: 1,
            moved: None,
        }
    }

    /// With one more generation.
    pub(super) fn with_new_generation(&self) -> Self {
        Self {
            newest: self.newest + 1,
            ..self.clone()
        }
    }

    /// With the oldest generation moved up to this key.
    pub(super) fn moved_to(&self, key: &[u8]) -> Self {
        Self {
            moved: Some(key.to_owned()),
            ..self.clone()
        }
    }

    /// With the oldest generation to be moved from its start again.
    pub(super) fn unmoved(&self) -> Self {
        Self {
            moved: None,
            ..self.clone()
        }
    }

    /// Without the oldest generation.
    pub(super) fn retired(&self) -> Self {
        Self {
            oldest: self.oldest + 1,
            moved: None,
            ..self.clone()
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, if self.main_is_here { HERE } else { ELSEWHERE }];
        bytes.extend_from_slice(&self.oldest.to_le_bytes());
        bytes.extend_from_slice(&self.newest.to_le_bytes());
        bytes.push(u8::from(self.moved.is_some()));
        bytes.extend_from_slice(self.moved.as_deref().unwrap_or_default());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, StateError> {
        let damaged = |what: &str| StateError::Damaged(format!("its state {what}"));
        let Some((&version, fields)) = bytes.split_first() else {
            return Err(damaged("is empty"));
        };
        if version > VERSION {
            return Err(StateError::Newer(version));
        }
        let (Some((head, moved)), VERSION) = (fields.split_first_chunk::<18>(), version) else {
            return Err(damaged("is cut short or of no known version"));
        };
        let [main, numbers @ .., follows] = head;
        let ([oldest, newest], []) = numbers.as_chunks::<8>() else {
            return Err(damaged("has no generations"));
        };
        let state = Self {
            main_is_here: *main == HERE,
            oldest: u64::from_le_bytes(*oldest),
            newest: u64::from_le_bytes(*newest),
            moved: (*follows == 1).then(|| moved.to_owned()),
        };
        let known =
            matches!(*main, HERE | ELSEWHERE) && matches!((follows, moved), (1, _) | (0, []));
        let numbered = (1..=state.newest).contains(&state.oldest) && state.newest < u64::MAX;
        if known && numbered && (state.main_is_here || state.oldest == 1) {
            Ok(state)
        } else {
            Err(damaged("contradicts itself"))
        }
    }
}

/// The name of a generation's column family.
pub(super) fn family_name(generation: u64) -> String {
    format!("differential-{generation}")
}

/// The generation that a column family belongs to, if any.
pub(super) fn generation_of(family: &str) -> Option<u64> {
    let number: u64 = family.strip_prefix("differential-")?.parse().ok()?;
    (number > 0 && family_name(number) == family).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states() -> [State; 5] {
        let new = State::new(true);
        let read_only_filters = new.with_new_generation();
        let moved = read_only_filters.moved_to(b"key");
        let elsewhere = State::new(false).with_new_generation();
        [
            read_only_filters.moved_to(b""),
            moved.retired(),
            moved,
            read_only_filters,
            elsewhere,
        ]
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        for state in states() {
            assert_eq!(State::decode(&state.encode()), Ok(state));
        }
    }

    #[test]
    fn the_layout_is_the_one_in_the_picture() {
        let state = State::new(true).with_new_generation().moved_to(b"k");
        let numbers = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(state.encode(), [&[1, 1][..], &numbers, &[1, b'k']].concat());
    }

    #[test]
    fn a_state_that_is_cut_short_or_contradicts_itself_is_damaged() {
        let good = State::new(true).encode();
        let mut changed: Vec<Vec<u8>> = (0..good.len()).map(|to| good[..to].to_vec()).collect();
        for (at, byte) in [(0, 0), (1, 3), (2, 2), (2, 0), (18, 2)] {
            let mut bytes = good.clone();
            bytes[at] = byte;
            changed.push(bytes);
        }
        changed.push([&good[..], b"more"].concat());
        let last = State {
            newest: u64::MAX,
            ..State::new(true)
        };
        let moved_elsewhere = State::new(false).with_new_generation().retired();
        changed.extend([last.encode(), moved_elsewhere.encode()]);
        for bytes in changed {
            let error = State::decode(&bytes).unwrap_err();
            assert!(
                matches!(error, StateError::Damaged(_)),
                "{bytes:?}: {error:?}"
            );
        }
    }

    #[test]
    fn a_later_version_is_told_from_damage() {
        assert_eq!(State::decode(&[2, 9]), Err(StateError::Newer(2)));
    }

    #[test]
    fn only_the_canonical_name_is_a_generation() {
        assert_eq!(generation_of(&family_name(17)), Some(17));
        for other in [
            "differential",
            "differential-",
            "differential-0",
            "differential-017",
            "differential-+1",
            "main",
        ] {
            assert_eq!(generation_of(other), None);
        }
    }
}
