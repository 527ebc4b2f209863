//! The object that says which checkpoint is published.
//!
//! ```text
//!  0 magic 8 (89 'S' 'C' 'U' 'R' 'R' 0d 0a) | 8 version u16 | 10 reserved u16 | 12 length u32
//! 16 store 16 | 32 epoch u64 | 40 manifest u64 | 48 checkpoint 16 | 64 CRC-32 of all before
//! ```
//!
//! Integers are little-endian. The object is replaced only if it is still the one that was read
//! (`If-Match`), and only by a newer publication, so a publisher of an older epoch cannot move it
//! back. Readers go forward only, too. The object is a hint all the same: what a reader may deny
//! follows from the manifest that SlateDB opens and from the summary, not from here.
//!
//! A bucket that is restored from a backup goes back in time, as a whole or in part. Then a
//! publication is *undone*: the newest manifest of the database is before it. It holds up neither
//! publishers nor readers.

use crate::bucket::{self, Bucket};
use crate::error::{BucketError, OpenError, PublishError};
use bytes::Bytes;
use lsm_sieve_format::format::{FormatError, Part, StoreId};
use lsm_sieve_support::fault::fault;
use slatedb::admin::AdminBuilder;
use slatedb::object_store::{
    Error, GetOptions, ObjectStore, PutMode, PutOptions, PutPayload, UpdateVersion, path::Path,
};
use std::fmt;
use uuid::Uuid;

const MAGIC: [u8; 8] = *b"\x89SCURR\r\n";
const VERSION: u16 = 1;
const LENGTH: usize = 68;
const AT_CRC: usize = 64;
/// A newer version may be longer.
const MOST_BYTES: u64 = 4_096;
/// More publishers at once than this are a mistake.
const TRIES: u32 = 100;

/// A checkpoint whose summary is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The epoch of the writer that wrote the manifest.
    pub epoch: u64,
    /// The manifest that the checkpoint keeps.
    pub manifest: u64,
    /// The checkpoint.
    pub checkpoint: Uuid,
}

impl Publication {
    /// Publications are ordered by epoch, then manifest.
    pub(crate) fn order(&self) -> (u64, u64) {
        (self.epoch, self.manifest)
    }
}

impl fmt::Display for Publication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "manifest {} of epoch {}, checkpoint {}",
            self.manifest, self.epoch, self.checkpoint
        )
    }
}

/// What `sieve/current` holds, with what a request needs that depends on it.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    pub(crate) publication: Publication,
    pub(crate) version: UpdateVersion,
}

/// The outcome of a read of `sieve/current`.
pub(crate) enum Seen {
    /// Still the version that was seen before.
    Same,
    /// Another one.
    Other(Current),
}

/// Reads what is published, if it is not the version of this tag.
pub(crate) async fn look(bucket: &Bucket, known: Option<&Current>) -> Result<Seen, OpenError> {
    let at = bucket.current_path();
    let tag = known.and_then(|known| known.version.e_tag.clone());
    let options = GetOptions {
        if_none_match: tag,
        ..GetOptions::default()
    };
    match fetch(bucket, &at, options).await {
        Ok(None) => Err(OpenError::NotPublished(at)),
        Ok(Some((bytes, version))) => {
            let (store, publication) = decode(&bytes).map_err(|source| BucketError::Format {
                path: at.clone(),
                source,
            })?;
            if store != bucket.binding().store() {
                return Err(OpenError::Foreign(at));
            }
            Ok(Seen::Other(Current {
                publication,
                version,
            }))
        }
        Err(BucketError::Store { source, .. }) if is_not_modified(&source) => Ok(Seen::Same),
        Err(error) => Err(error.into()),
    }
}

fn is_not_modified(error: &Error) -> bool {
    matches!(error, Error::NotModified { .. })
}

async fn fetch(
    bucket: &Bucket,
    at: &Path,
    options: GetOptions,
) -> Result<Option<(Bytes, UpdateVersion)>, BucketError> {
    match bucket.store().get_opts(at, options).await {
        Ok(found) => {
            let (bytes, meta) = bucket::read(found, at, MOST_BYTES).await?;
            let version = UpdateVersion {
                e_tag: meta.e_tag,
                version: meta.version,
            };
            Ok(Some((bytes, version)))
        }
        Err(Error::NotFound { .. }) => Ok(None),
        Err(source) => Err(bucket::failed("read", at, source)),
    }
}

/// Publishes, unless something newer is published.
pub(crate) async fn advance(bucket: &Bucket, to: Publication) -> Result<(), PublishError> {
    let at = bucket.current_path();
    for _ in 0..TRIES {
        let mode = match fetch(bucket, &at, GetOptions::default()).await? {
            None => PutMode::Create,
            Some((bytes, version)) => match published(bucket, &at, &bytes)? {
                Some(is) if is == to => return Ok(()),
                Some(is) if is.order() > to.order() && !is_undone(bucket, is).await? => {
                    return Err(PublishError::Superseded {
                        epoch: is.epoch,
                        manifest: is.manifest,
                    });
                }
                _ => PutMode::Update(version),
            },
        };
        if put(bucket, &at, to, mode).await? {
            return Ok(());
        }
    }
    Err(PublishError::Contended(at, TRIES))
}

/// What these bytes say is published; damaged ones say nothing.
///
/// # Errors
/// If they are of another database or a newer version.
fn published(
    bucket: &Bucket,
    at: &Path,
    bytes: &[u8],
) -> Result<Option<Publication>, PublishError> {
    match decode(bytes) {
        Ok((store, _)) if store != bucket.binding().store() => {
            Err(PublishError::Foreign(at.clone()))
        }
        Ok((_, is)) => Ok(Some(is)),
        Err(source) if source.is_newer() => Err(BucketError::Format {
            path: at.clone(),
            source,
        }
        .into()),
        Err(reason) => {
            tracing::warn!(%reason, path = %at, "a damaged object is replaced");
            Ok(None)
        }
    }
}

/// Whether the database was restored from before this publication. Epochs and manifests of a
/// database only grow otherwise, and its newest manifest is never collected.
pub(crate) async fn is_undone(
    bucket: &Bucket,
    publication: Publication,
) -> Result<bool, slatedb::Error> {
    fault!(RestoredBucketUnnoticed, return Ok(false));
    let (path, store) = (bucket.path().clone(), bucket.store().clone());
    let admin = AdminBuilder::new(path, store).build();
    let newest = admin.read_manifest(None).await?;
    let newest = newest.map(|newest| (newest.writer_epoch(), newest.id()));
    let is_undone = newest.is_some_and(|newest| newest < publication.order());
    if is_undone {
        tracing::warn!(%publication, "the database was restored from before what was published");
    }
    Ok(is_undone)
}

/// Writes; false if another publisher was faster.
async fn put(
    bucket: &Bucket,
    at: &Path,
    to: Publication,
    mode: PutMode,
) -> Result<bool, BucketError> {
    let bytes = encode(bucket.binding().store(), to);
    let write = |mode: PutMode| {
        let payload = PutPayload::from(bytes.clone());
        bucket.store().put_opts(at, payload, PutOptions::from(mode))
    };
    let written = match write(mode).await {
        // Of the stores only local folders have no conditional update. There, a publisher that is
        // slow may move readers that open later to an older checkpoint, until the next publication.
        Err(Error::NotImplemented { .. }) => write(PutMode::Overwrite).await,
        other => other,
    };
    match written {
        Ok(_) => Ok(true),
        Err(Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotFound { .. }) => {
            Ok(false)
        }
        Err(source) => Err(bucket::failed("write", at, source)),
    }
}

fn encode(store: StoreId, publication: Publication) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LENGTH);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&0_u16.to_le_bytes());
    bytes.extend_from_slice(&(LENGTH as u32).to_le_bytes());
    bytes.extend_from_slice(store.as_bytes());
    bytes.extend_from_slice(&publication.epoch.to_le_bytes());
    bytes.extend_from_slice(&publication.manifest.to_le_bytes());
    bytes.extend_from_slice(publication.checkpoint.as_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

/// Decodes and verifies every byte.
fn decode(bytes: &[u8]) -> Result<(StoreId, Publication), FormatError> {
    let magic: [u8; 8] = field(bytes, 0)?;
    if magic != MAGIC {
        return Err(wrong(
            "magic",
            0,
            u64::from_le_bytes(magic),
            "89 SCURR 0d 0a",
        ));
    }
    let version = u16::from_le_bytes(field(bytes, 8)?);
    let flags = u16::from_le_bytes(field(bytes, 10)?);
    let (covered, crc) = bytes.split_at(bytes.len().saturating_sub(4));
    let found = u32::from_le_bytes(field(crc, 0)?);
    let expected = crc32fast::hash(covered);
    if found != expected {
        return Err(FormatError::Checksum {
            part: Part::Header,
            offset: covered.len() as u64,
            expected,
            found,
        });
    }
    if version != VERSION || flags != 0 {
        return Err(FormatError::Newer {
            offset: 8,
            version,
            flags,
        });
    }
    let length = u32::from_le_bytes(field(bytes, 12)?);
    if bytes.len() != LENGTH || length as usize != LENGTH {
        return Err(wrong("length", 12, bytes.len() as u64, "68"));
    }
    debug_assert_eq!(covered.len(), AT_CRC);
    let publication = Publication {
        epoch: u64::from_le_bytes(field(bytes, 32)?),
        manifest: u64::from_le_bytes(field(bytes, 40)?),
        checkpoint: Uuid::from_bytes(field(bytes, 48)?),
    };
    Ok((StoreId::from_bytes(field(bytes, 16)?), publication))
}

/// The field of `N` bytes at this offset.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], FormatError> {
    let rest = bytes.get(at..).and_then(|rest| rest.first_chunk());
    rest.copied()
        .ok_or_else(|| wrong("length", 12, bytes.len() as u64, "68"))
}

fn wrong(field: &'static str, offset: u64, found: u64, expected: &'static str) -> FormatError {
    FormatError::Field {
        field,
        offset,
        found,
        expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publication() -> Publication {
        Publication {
            epoch: 3,
            manifest: 77,
            checkpoint: Uuid::from_bytes([5; 16]),
        }
    }

    #[test]
    fn every_flipped_byte_and_every_truncation_is_found() {
        let store = StoreId::from_bytes([9; 16]);
        let bytes = encode(store, publication());
        assert_eq!(bytes.len(), LENGTH);
        assert_eq!(decode(&bytes).unwrap(), (store, publication()));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert!(decode(&damaged).is_err(), "byte {at}, bit {bit}");
            }
            assert!(decode(&bytes[..at]).is_err(), "{at} bytes");
        }
        let longer = [bytes, vec![0]].concat();
        assert!(decode(&longer).is_err());
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let mut bytes = encode(StoreId::from_bytes([9; 16]), publication());
        bytes[8] = 2;
        assert!(!decode(&bytes).unwrap_err().is_newer());
        let crc = crc32fast::hash(&bytes[..AT_CRC]).to_le_bytes();
        bytes[AT_CRC..].copy_from_slice(&crc);
        assert!(decode(&bytes).unwrap_err().is_newer());
    }
}
