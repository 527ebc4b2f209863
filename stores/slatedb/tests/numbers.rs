//! Keys by their numbers.

/// The key of a number: 16 bytes without an order that shows, of which the last eight are the number.
pub(crate) fn key(number: u64) -> [u8; 16] {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def0;
    for multiplier in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        x = (x ^ (x >> 30)).wrapping_mul(multiplier);
    }
    let mut key = [0; 16];
    key[..8].copy_from_slice(&(x ^ (x >> 31)).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}
