//! What the stages of a sidecar may be: plain records, or filters that can be asked.

use super::sidecar::{StageHeader, StageRecord};
use crate::filter::{Stage, StageError};

/// A stage that can be written.
pub trait Stored {
    /// What the header says of it.
    fn header(&self) -> StageHeader;

    /// Its words, in their order.
    fn words(&self) -> impl ExactSizeIterator<Item = u64>;
}

/// A stage that can be made of what was read.
pub trait Restored: Sized {
    /// The stage that this header describes, with these words.
    ///
    /// # Errors
    /// When it cannot be made of them, or memory does not suffice.
    fn restore(
        header: StageHeader,
        words: impl ExactSizeIterator<Item = u64>,
    ) -> Result<Self, StageError>;
}

impl Stored for StageRecord {
    fn header(&self) -> StageHeader {
        StageHeader {
            shape: self.shape,
            items: self.items,
        }
    }

    fn words(&self) -> impl ExactSizeIterator<Item = u64> {
        self.words.iter().copied()
    }
}

impl Restored for StageRecord {
    fn restore(
        header: StageHeader,
        words: impl ExactSizeIterator<Item = u64>,
    ) -> Result<Self, StageError> {
        let StageHeader { shape, items } = header;
        let mut all = Vec::new();
        let reserved = all.try_reserve_exact(words.len());
        reserved.map_err(|source| StageError::Memory {
            bits: shape.bits,
            source,
        })?;
        all.extend(words);
        Ok(Self {
            shape,
            items,
            words: all,
        })
    }
}

/// As it stands.
impl Stored for &Stage {
    fn header(&self) -> StageHeader {
        StageHeader {
            shape: self.shape(),
            items: self.items(),
        }
    }

    fn words(&self) -> impl ExactSizeIterator<Item = u64> {
        Stage::words(self)
    }
}

impl Restored for Stage {
    fn restore(
        header: StageHeader,
        words: impl ExactSizeIterator<Item = u64>,
    ) -> Result<Self, StageError> {
        Self::from_words(header.shape, header.items, words)
    }
}
