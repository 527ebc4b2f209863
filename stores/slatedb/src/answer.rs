//! What a filter can say.

/// The answer of the filters to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// No row of the key exists.
    Absent,
    /// A row may exist: the store must be read.
    Maybe,
}

impl Answer {
    /// Whether no row of the key exists.
    #[inline]
    pub const fn is_absent(self) -> bool {
        matches!(self, Self::Absent)
    }
}
