//! What a filter can say.

/// The answer of the filters to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// No row of the key exists.
    Absent,
    /// Nothing is ruled out: the store has to be read.
    Maybe,
}

impl Answer {
    /// Whether the key is ruled out.
    #[inline]
    pub const fn is_absent(self) -> bool {
        matches!(self, Self::Absent)
    }
}
