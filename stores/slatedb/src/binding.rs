//! What binds a filter to the keys of one database: the id of the store, and the hash with its seed.

use lsm_sieve_filter::SegmentId;
use lsm_sieve_filter::filter::{Chain, Stage};
use lsm_sieve_filter::hash::{Imprint, KeyHash, KeyHasher};
use lsm_sieve_filter::math::Rate;
use lsm_sieve_format::format::{
    self, FormatError, Identity, ReadError, Sidecar, Source, StoreId, Subject,
};
use std::collections::HashSet;

/// The store and the hash of one database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    store: StoreId,
    hasher: KeyHasher,
    imprint: Imprint,
}

/// The filter of one SST.
#[derive(Debug)]
pub(crate) struct SegmentFilter {
    /// Inside an SST, random bytes; beside it, the id of the SST.
    pub(crate) id: SegmentId,
    pub(crate) chain: Chain,
    /// Of `chain`, as it was when it was made or read.
    checksum: u32,
    pub(crate) entries: u64,
    pub(crate) rate: Rate,
}

/// One filter of the keys of all SSTs of a manifest.
#[derive(Debug)]
pub(crate) struct Summary {
    /// The ids of these SSTs. They, and not the number of the manifest, say what the filter covers:
    /// a number may come back after a database was deleted and created again.
    pub(crate) covered: HashSet<SegmentId>,
    pub(crate) chain: Chain,
    /// Of `chain`, as it was when it was read.
    checksum: u32,
    pub(crate) bytes: u64,
}

impl SegmentFilter {
    pub(crate) fn new(id: SegmentId, chain: Chain, entries: u64, rate: Rate) -> Self {
        Self {
            id,
            checksum: chain.checksum(),
            chain,
            entries,
            rate,
        }
    }

    /// Whether no bit has changed in memory.
    pub(crate) fn is_intact(&self) -> bool {
        self.chain.checksum() == self.checksum
    }
}

impl Summary {
    /// Whether no bit has changed in memory.
    pub(crate) fn is_intact(&self) -> bool {
        self.chain.checksum() == self.checksum
    }
}

/// Why a filter does not count.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error("the filter is of another database or seed")]
    Foreign,
    #[error("the filter is not of the SST or manifest that its name says")]
    OtherSubject,
}

impl Binding {
    pub(crate) fn new(identity: &Identity) -> Self {
        let hasher = KeyHasher::new(identity.hash, identity.seed);
        Self {
            store: identity.store,
            imprint: hasher.imprint(),
            hasher,
        }
    }

    pub(crate) fn store(&self) -> StoreId {
        self.store
    }

    pub(crate) fn imprint(&self) -> Imprint {
        self.imprint
    }

    pub(crate) fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        self.hasher.hash(key)
    }

    /// Encodes the filter of an SST.
    pub(crate) fn encode_segment(
        &self,
        filter: &SegmentFilter,
        source: Source,
    ) -> Result<Vec<u8>, FormatError> {
        format::encode(&Sidecar {
            store: self.store,
            imprint: self.imprint,
            subject: Subject::Segment(filter.id),
            source,
            entries: filter.entries,
            rate: filter.rate,
            prefixes: Vec::new(),
            stages: filter.chain.stages().iter().collect::<Vec<&Stage>>(),
        })
    }

    /// Decodes the filter of an SST. The caller checks that it belongs to the right SST.
    pub(crate) fn decode_segment(&self, bytes: &[u8]) -> Result<SegmentFilter, Unusable> {
        let sidecar = self.decode(bytes, self.imprint)?;
        let Subject::Segment(id) = sidecar.subject else {
            return Err(Unusable::OtherSubject);
        };
        let chain = Chain::new(self.imprint, sidecar.stages);
        let (entries, rate) = (sidecar.entries, sidecar.rate);
        Ok(SegmentFilter::new(id, chain, entries, rate))
    }

    /// The imprint of summaries. Their hashes differ from those of the SSTs' filters, so that a
    /// false positive of the summary is as rarely one of the SST as of any other filter.
    pub(crate) fn summary_imprint(&self) -> Imprint {
        self.imprint.for_summary()
    }

    /// Encodes a summary of these SSTs.
    pub(crate) fn encode_summary(
        &self,
        covered: Vec<SegmentId>,
        stage: &Stage,
        entries: u64,
        rate: Rate,
    ) -> Result<Vec<u8>, FormatError> {
        format::encode(&Sidecar {
            store: self.store,
            imprint: self.summary_imprint(),
            subject: Subject::Summary {
                key_space: 0,
                covered,
            },
            source: Source::RawKeys,
            entries,
            rate,
            prefixes: Vec::new(),
            stages: vec![stage],
        })
    }

    pub(crate) fn decode_summary(&self, bytes: &[u8]) -> Result<Summary, Unusable> {
        let sidecar = self.decode(bytes, self.summary_imprint())?;
        let Subject::Summary { covered, .. } = sidecar.subject else {
            return Err(Unusable::OtherSubject);
        };
        let chain = Chain::new(self.summary_imprint(), sidecar.stages);
        Ok(Summary {
            covered: covered.into_iter().collect(),
            checksum: chain.checksum(),
            chain,
            bytes: bytes.len() as u64,
        })
    }

    /// Decodes a filter, if it is of this database and imprint.
    fn decode(&self, bytes: &[u8], imprint: Imprint) -> Result<Sidecar<Stage>, Unusable> {
        let sidecar = whole(bytes)?;
        if sidecar.store != self.store || sidecar.imprint != imprint {
            return Err(Unusable::Foreign);
        }
        Ok(sidecar)
    }
}

#[cfg(test)]
impl Binding {
    /// Some database.
    pub(crate) fn of_a_test() -> Self {
        use lsm_sieve_filter::hash::{HashId, Seed};
        Self::new(&Identity {
            store: StoreId::from_bytes([1; 16]),
            hash: HashId::Xxh3,
            seed: Seed::from_bytes([2; 16]),
        })
    }
}

/// Decodes and verifies every byte.
fn whole(bytes: &[u8]) -> Result<Sidecar<Stage>, FormatError> {
    let length = bytes.len() as u64;
    let read = format::Reader::begin(bytes, length).and_then(format::Reader::read);
    read.map_err(|error| match error {
        ReadError::Format(error) => error,
        // Bytes in memory cannot fail to be read.
        _ => FormatError::Field {
            field: "length",
            offset: 0,
            found: length,
            expected: "bytes that can be read",
        },
    })
}
