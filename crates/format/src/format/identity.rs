//! The small file that names a database and holds the secret seed of its hash; see `format/mod.rs`.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::error::{FormatError, Part};
use super::fields::{Fields, checked};
use super::layout::{AT_FLAGS, AT_MAGIC, check_length, short};
use super::sidecar::StoreId;
use crate::hash::{HashId, Seed};

const MAGIC: [u8; 8] = *b"\x89SIDEN\r\n";
const VERSION: u16 = 1;

/// All files share the fields before this one.
const AT_LENGTH: usize = AT_FLAGS + 2;
const AT_STORE: usize = AT_LENGTH + 4;
const AT_SEED: usize = AT_STORE + 16;
const AT_HASH: usize = AT_SEED + 16;
const AT_RESERVED: usize = AT_HASH + 1;
const AT_CRC: usize = AT_RESERVED + 7;
const LENGTH: usize = AT_CRC + 4;

/// The id of a database, and the hash function and seed of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The database's id, repeated in every sidecar.
    pub store: StoreId,
    /// The hash function of the database's keys.
    pub hash: HashId,
    /// The secret seed of that hash function.
    pub seed: Seed,
}

/// Encodes an identity file. The bytes contain the secret seed.
pub fn encode_identity(identity: &Identity) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LENGTH);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&0_u16.to_le_bytes());
    bytes.extend_from_slice(&(LENGTH as u32).to_le_bytes());
    bytes.extend_from_slice(identity.store.as_bytes());
    bytes.extend_from_slice(identity.seed.as_bytes());
    bytes.push(identity.hash as u8);
    bytes.extend_from_slice(&[0; AT_CRC - AT_RESERVED]);
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

/// Decodes an identity file and verifies every byte.
///
/// # Errors
/// [`FormatError`] says which byte is wrong, and why.
pub fn decode_identity(bytes: &[u8]) -> Result<Identity, FormatError> {
    let start = Fields::new(Part::Identity, bytes);
    start.magic(AT_MAGIC, 0, MAGIC)?;
    let stated = start.u32(AT_LENGTH)?.into();
    check_length(
        "length of the identity",
        AT_LENGTH,
        stated,
        bytes.len() as u64,
    )?;
    let (fields, _) = checked(Part::Identity, 0, bytes)?;
    let fields = Fields::new(Part::Identity, fields);
    fields.known_version(VERSION)?;
    if bytes.len() != LENGTH {
        return Err(short(Part::Identity, LENGTH, bytes.len()));
    }
    let hash = fields.u8(AT_HASH)?;
    Ok(Identity {
        store: StoreId::from_bytes(fields.array(AT_STORE)?),
        seed: Seed::from_bytes(fields.array(AT_SEED)?),
        hash: HashId::from_u8(hash).ok_or(FormatError::Field {
            field: "hash",
            offset: AT_HASH as u64,
            found: hash.into(),
            expected: "1 or 2",
        })?,
    })
}
