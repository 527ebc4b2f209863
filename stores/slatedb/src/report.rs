//! What is published for a database, and whether it is right.

use crate::bucket::Bucket;
use crate::current::{Publication, Seen, look};
use crate::error::OpenError;
use crate::options::Options;
use crate::pinned::PinnedReader;
use crate::ssts::{Sst, for_each_key};

/// What a reader that opens now would have.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Inspection {
    /// The checkpoint that is published.
    pub publication: Publication,
    /// SSTs of its manifest.
    pub ssts: u64,
    /// Whether all of them are covered.
    pub is_covered: bool,
    /// Bytes of the summary; 0 without one.
    pub summary_bytes: u64,
    /// SSTs outside the summary whose filters a reader holds.
    pub resident_filters: u64,
}

/// The outcome of [`verify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verification {
    /// SSTs that were read.
    pub ssts: u64,
    /// Rows of these SSTs.
    pub rows: u64,
    /// Rows whose keys the filters deny. None, or readers lose them.
    pub denied: u64,
    /// SSTs that could not be read, with the reason.
    pub unreadable: Vec<String>,
}

impl Verification {
    /// Whether every SST was read and no row is denied.
    pub fn is_good(&self) -> bool {
        self.denied == 0 && self.unreadable.is_empty()
    }
}

/// Opens what is published, as a reader would. Stores nothing.
///
/// # Errors
/// The errors of [`SieveReader::open`](crate::SieveReader::open).
pub async fn inspect(bucket: &Bucket, options: &Options) -> Result<Inspection, OpenError> {
    let pinned = open(bucket, options).await?;
    Ok(Inspection {
        publication: pinned.publication(),
        ssts: Sst::of_manifest(&pinned.engine().manifest()).len() as u64,
        is_covered: pinned.is_covered(),
        summary_bytes: pinned.summary_bytes(),
        resident_filters: pinned.resident_filters() as u64,
    })
}

/// Reads every row of the published checkpoint, and checks the filters for its key.
///
/// # Errors
/// The errors of [`SieveReader::open`](crate::SieveReader::open).
pub async fn verify(bucket: &Bucket, options: &Options) -> Result<Verification, OpenError> {
    let pinned = open(bucket, options).await?;
    let manifest = pinned.engine().manifest();
    let mut found = Verification::default();
    for sst in Sst::of_manifest(&manifest) {
        let (mut rows, mut denied) = (0, 0);
        let take = |key: &[u8]| {
            rows += 1;
            denied += u64::from(pinned.answer(key).is_absent());
        };
        let transformer = options.transformer.clone();
        match for_each_key(bucket, &manifest, &sst, transformer, take).await {
            Ok(()) => found.ssts += 1,
            Err(reason) => found.unreadable.push(format!("{}: {reason}", sst.name())),
        }
        found.rows += rows;
        found.denied += denied;
    }
    Ok(found)
}

async fn open(bucket: &Bucket, options: &Options) -> Result<PinnedReader, OpenError> {
    let Seen::Other(current) = look(bucket, None).await? else {
        return Err(OpenError::NotPublished(bucket.current_path()));
    };
    let options = options.clone().with_store_filters(false);
    PinnedReader::open(bucket, &options, current.publication, None).await
}
