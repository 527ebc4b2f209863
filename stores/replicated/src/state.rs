//! What the column family `data` holds.
//!
//! ```text
//! key         value
//! 0           Applied: the last entry that was applied, and the membership
//! 1, bytes    a client's key and value
//! 2           the end of the range; no key
//! ```

use openraft::{EmptyNode, StoredMembership};
use serde::{Deserialize, Serialize};

use crate::{Failure, LogId, NodeId};

/// The first key, which holds the [`Applied`].
pub(crate) const STATE: &[u8] = &[0];
/// No key is as great.
pub(crate) const END: &[u8] = &[2];

/// A client's key in the column family.
pub(crate) fn stored_key(key: &str) -> Vec<u8> {
    [&[1], key.as_bytes()].concat()
}

/// Which state the keys are of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Applied {
    pub(crate) last: Option<LogId>,
    pub(crate) membership: StoredMembership<NodeId, EmptyNode>,
}

impl Applied {
    /// From the value of [`STATE`].
    pub(crate) fn decode(value: Option<Vec<u8>>) -> Result<Self, Failure> {
        let decoded = value.map(|value| serde_json::from_slice(&value));
        Ok(decoded.transpose()?.unwrap_or_default())
    }

    /// The index of the last entry; 0 if there is none.
    pub(crate) fn index(&self) -> u64 {
        self.last.map_or(0, |last| last.index)
    }
}
