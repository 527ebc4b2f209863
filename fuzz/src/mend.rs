//! Recomputes checksums, so that the checks behind them are reached.

/// The checksum that ends a header and each block.
const CRC: usize = 4;
const BLOCK: usize = 4096;
const TRAILER: usize = 20;
/// The offset of a header's length.
const AT_HEADER_LENGTH: usize = 12;
const AT_TOTAL_LENGTH: usize = 16;

/// The same sidecar with matching lengths and checksums; the bytes unchanged if they are too short.
pub fn sidecar(bytes: &[u8]) -> Vec<u8> {
    let mut mended = bytes.to_vec();
    _ = mend(&mut mended);
    mended
}

fn mend(bytes: &mut [u8]) -> Option<()> {
    let total = (bytes.len() as u64).to_le_bytes();
    let stated = bytes.get(AT_HEADER_LENGTH..)?.first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*stated)).ok()?;
    let (header, rest) = bytes.split_at_mut_checked(length)?;
    header
        .get_mut(AT_TOTAL_LENGTH..AT_TOTAL_LENGTH + total.len())?
        .copy_from_slice(&total);
    let (blocks, trailer) = rest.split_at_mut_checked(rest.len().checked_sub(TRAILER)?)?;
    let mut check = checksum(header)?.to_vec();
    for block in blocks.chunks_mut(BLOCK) {
        check.extend(checksum(block)?);
    }
    check.extend(total);
    trailer[..total.len()].copy_from_slice(&total);
    trailer[total.len()..][..CRC].copy_from_slice(&crc32fast::hash(&check).to_le_bytes());
    Some(())
}

/// Sets the last four bytes to the checksum of those before, and returns it.
fn checksum(part: &mut [u8]) -> Option<[u8; CRC]> {
    let (data, crc) = part.split_last_chunk_mut::<CRC>()?;
    *crc = crc32fast::hash(data).to_le_bytes();
    Some(*crc)
}

/// The same identity with a matching length and checksum.
pub fn identity(bytes: &[u8]) -> Vec<u8> {
    let mut mended = bytes.to_vec();
    let length = u32::try_from(mended.len())
        .unwrap_or(u32::MAX)
        .to_le_bytes();
    if let Some(stated) = mended.get_mut(AT_HEADER_LENGTH..AT_HEADER_LENGTH + length.len()) {
        stated.copy_from_slice(&length);
        _ = checksum(&mut mended);
    }
    mended
}
