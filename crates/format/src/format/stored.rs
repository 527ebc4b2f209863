//! The representations that a sidecar's stages can have: plain records, or filters ready for
//! lookups.

use super::sidecar::{StageHeader, StageRecord};
use crate::filter::{Stage, StageError};

/// A stage that can be written.
pub trait Stored {
    /// The stage's header.
    fn header(&self) -> StageHeader;

    /// The stage's words, in order.
    fn words(&self) -> impl ExactSizeIterator<Item = u64>;
}

/// A stage that can be built from what was read.
pub trait Restored: Sized {
    /// Builds the stage that this header describes, with these words.
    ///
    /// # Errors
    /// If they do not make a valid stage, or if memory does not suffice.
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

/// Writes a filter without a copy of its words.
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
