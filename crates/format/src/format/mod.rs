//! The bytes of the files that the crate stores. Pure encoding and decoding; no file is touched
//! here.
//!
//! # A sidecar, version 1
//!
//! One filter, stored beside the data that it covers. All integers are little-endian and of fixed
//! width.
//!
//! ```text
//! +---------+------------------------------+---------+
//! | header  | block | block | ... | block  | trailer |
//! +---------+------------------------------+---------+
//!
//! header   0  magic            8   89 'S' 'I' 'E' 'V' 'E' 0d 0a
//!          8  version        u16   1
//!         10  flags          u16   low byte: the reader must understand them; high byte: it may
//!                                  ignore them. 0x0100: there is a prefix table. All others are 0
//!         12  header length  u32   from the magic to the header's CRC-32, both included
//!         16  total length   u64   of the file
//!         24  store           16   the database that the filter belongs to
//!         40  hash            u8   of the imprint: `HashId`
//!         41  subject         u8   1 a segment, 2 a summary filter of a key space
//!         42  source          u8   where the keys came from: `Source`
//!         43  stages          u8   1 to 32
//!         44  key space      u32   of a summary filter; else 0
//!         48  seed id        u64   of the imprint
//!         56  known answer   u64   of the imprint
//!         64  segment         16   the segment; else 0
//!         80  covers         u64   number of segments that a summary filter covers; else 0
//!         88  entries        u64   raw entries that were read or written to make the filter
//!         96  keys           u64   the sum of the stages' items
//!        104  rate           f64   the false-positive rate asked for; strictly between 0 and 1;
//!                                  no size depends on it
//!        112  payload length u64   before it is cut into blocks
//!        120  stage table     24   for each stage:
//!               0  kind       u8   3 blocked, 5 static; 1 standard, 2 partitioned and 4 classic are
//!                                  described, and refused by a store, which builds another
//!               1  groups     u8   2 or 4 for blocked stages; for static ones the sixteenths of a
//!                                  bit beside the whole bits of a slot; else 0
//!               2  probes    u16   1 to 32; for static stages the whole bits of a slot
//!               4  reserved    4   0
//!               8  bits      u64   1 to 2^48
//!              16  items     u64
//!          .  prefix table         only with the flag: their number, u8, 1 to 8; then for each:
//!               0  version   u32   of the function that gives the prefixes
//!               4  length     u8   of its name: 1 to 128
//!               5  name            UTF-8
//!          .  header CRC     u32   of all header bytes before it
//!
//! payload: the ids of the covered segments, 16 bytes each; then the words of each stage,
//!          ceil(bits / 64) u64; the files in `filter/` have the pictures.
//! block:   4,092 bytes of the payload (the last may have fewer), then their CRC-32.
//!
//! trailer  0  total length   u64
//!          8  check          u32   CRC-32 of header CRC, all block CRCs, total length
//!         12  magic            8   "SIEVE" 'E' 'N' 'D'
//! ```
//!
//! CRC-32 is the IEEE polynomial. It detects every error of up to three bits in blocks of up to
//! about 11 KB, hence small blocks. The trailer ties the blocks to each other and to the header, so
//! that no block can be swapped, lost or taken from another file. It is no authentication: anyone
//! who may write to the folder can remove the data anyway.
//!
//! # Guarantees for all versions
//!
//! Every version begins with magic, version, flags and header length. Its header ends with the
//! header's CRC-32, at most 4,096 bytes from the start. So a reader can distinguish an intact file
//! of a newer version from a damaged one. It may replace or remove a damaged file. It neither
//! reads, replaces nor removes a newer one.
//!
//! # Decoding
//!
//! 1. The header is checked: length, magic, header length, header CRC, version, flags, fields,
//!    stage table, and the sum of all lengths against the actual length of the file.
//! 2. Only then is memory allocated, and at most as much as the actual bytes fill. If that fails,
//!    it is an error like every other.
//! 3. The blocks are read one by one: first the CRC is checked, then the words are written to their
//!    final place.
//! 4. The trailer is checked last. No caller gets the filter before that.
//!
//! Damage of any kind is a [`FormatError`], never a panic and never a filter with fewer keys. A
//! filter without stages has no encoding.
//!
//! # The identity file
//!
//! [`encode_identity`] and [`decode_identity`] convert the [`Identity`] of a database:
//!
//! ```text
//!  0 magic 8 (89 'S' 'I' 'D' 'E' 'N' 0d 0a) | 8 version u16 | 10 flags u16 | 12 length u32
//! 16 store 16 | 32 seed 16 | 48 hash u8 | 49 reserved 7 | 56 CRC-32 of all before
//! ```

mod blocks;
mod decode;
mod encode;
mod error;
mod fields;
mod header;
mod identity;
mod layout;
mod prefix_id;
mod sidecar;
mod stored;
#[cfg(test)]
mod tests;

pub use decode::{Reader, decode, verify};
pub use encode::{Writer, encode};
pub use error::{FormatError, Part, ReadError};
pub use header::decode_header;
pub use identity::{Identity, decode_identity, encode_identity};
pub use layout::MAX_HEADER_BYTES;
pub use prefix_id::PrefixId;
pub use sidecar::{
    Header, HeaderSubject, Sidecar, Source, StageHeader, StageRecord, StoreId, Subject,
};
pub use stored::{Restored, Stored};
