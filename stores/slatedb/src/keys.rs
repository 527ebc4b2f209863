//! The hashes of an SST's keys, and the filters that are made of them.

use crate::binding::{Binding, SegmentFilter};
use lsm_sieve_filter::SegmentId;
use lsm_sieve_filter::filter::{Chain, Kind, Stage, StageError};
use lsm_sieve_filter::hash::KeyHash;
use lsm_sieve_filter::math::{Items, Rate};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Up to this many keys make a static filter, which needs a third fewer bits. Solving takes 32 bytes
/// per key of four million at a time, and time that grows with their number.
const MOST_STATIC: usize = 64 << 20;

/// No layout is stricter than this by much.
const STRICTEST: f64 = 1e-9;

/// Collects the keys of one SST, in order.
#[derive(Debug)]
pub(crate) struct KeyHashes {
    binding: Binding,
    hashes: Vec<KeyHash>,
    last: Option<KeyHash>,
    entries: u64,
    lacks_memory: bool,
}

impl KeyHashes {
    pub(crate) fn new(binding: Binding) -> Self {
        Self {
            binding,
            hashes: Vec::new(),
            last: None,
            entries: 0,
            lacks_memory: false,
        }
    }

    /// Adds the key of one row. Rows of the same key are consecutive and count once.
    pub(crate) fn add(&mut self, key: &[u8]) {
        let hash = self.binding.hash(key);
        self.entries += 1;
        if self.last.replace(hash) == Some(hash) {
            return;
        }
        match self.hashes.try_reserve(1) {
            Ok(()) => self.hashes.push(hash),
            Err(_) => self.lacks_memory = true,
        }
    }

    /// The number of rows.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// The hashes of all keys; `None` if memory did not suffice for one of them.
    pub(crate) fn hashes(&self) -> Option<&[KeyHash]> {
        (!self.lacks_memory).then_some(&self.hashes)
    }

    /// [`KeyHashes::hashes`], by value.
    pub(crate) fn into_hashes(self) -> Option<Vec<KeyHash>> {
        (!self.lacks_memory).then_some(self.hashes)
    }

    /// The filter of the SST. `None` if memory does not suffice.
    pub(crate) fn seal(self, id: SegmentId, rate: Rate) -> Option<SegmentFilter> {
        let (entries, imprint) = (self.entries, self.binding.imprint());
        let stage = stage_of(self.into_hashes()?, rate).ok()?;
        let chain = Chain::new(imprint, vec![stage]);
        Some(SegmentFilter::new(id, chain, entries, rate))
    }
}

/// The smallest stage of these keys: static, unless they are very many.
pub(crate) fn stage_of(hashes: Vec<KeyHash>, rate: Rate) -> Result<Stage, StageError> {
    let rate = Rate::clamped(rate.get().max(STRICTEST));
    if hashes.len() <= MOST_STATIC {
        return Stage::ribbon(hashes, rate);
    }
    let items = Items::new(hashes.len().max(1) as u64);
    let mut stage = Stage::with_rate(Kind::Blocked, items, rate)?;
    stage.insert_many(&hashes);
    Ok(stage)
}

/// The key hashes of SSTs that were written lately, by the random id of the filter inside them.
/// Oldest are forgotten first.
#[derive(Debug)]
pub(crate) struct RecentKeys {
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    segments: VecDeque<(SegmentId, Arc<[KeyHash]>)>,
    hashes: usize,
}

impl RecentKeys {
    /// Keeps up to `most` hashes.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            kept: Mutex::default(),
        }
    }

    pub(crate) fn keep(&self, id: SegmentId, hashes: &[KeyHash]) {
        if hashes.len() > self.most {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.hashes += hashes.len();
        kept.segments.push_back((id, hashes.into()));
        while kept.hashes > self.most {
            let Some((_, oldest)) = kept.segments.pop_front() else {
                break;
            };
            kept.hashes -= oldest.len();
        }
    }

    /// Takes out the hashes of a segment.
    pub(crate) fn take(&self, id: SegmentId) -> Option<Arc<[KeyHash]>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.segments.iter().position(|(kept, _)| *kept == id)?;
        let (_, hashes) = kept.segments.remove(at)?;
        kept.hashes -= hashes.len();
        Some(hashes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.segments.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_one_key_count_once() {
        let mut keys = KeyHashes::new(Binding::of_a_test());
        for key in [b"a", b"a", b"b"] {
            keys.add(key);
        }
        assert_eq!(keys.entries(), 3);
        assert_eq!(keys.into_hashes().unwrap().len(), 2);
    }

    #[test]
    fn recent_keys_are_taken_once_and_the_oldest_are_forgotten() {
        let recent = RecentKeys::new(10);
        let id = |byte| SegmentId::from_bytes([byte; 16]);
        let hashes = vec![KeyHash::new(7); 4];
        (0..4).for_each(|byte| recent.keep(id(byte), &hashes));
        assert!(recent.take(id(0)).is_none() && recent.take(id(1)).is_none());
        assert_eq!(recent.take(id(3)).unwrap().len(), 4);
        assert!(recent.take(id(3)).is_none());
        recent.keep(id(5), &[KeyHash::new(7); 11]);
        assert!(recent.take(id(5)).is_none());
        assert!(!recent.is_empty());
    }
}
