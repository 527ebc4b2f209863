//! The identity of a segment: 16 bytes that are stored inside the data itself.
//!
//! File numbers, names and times may come back with other contents after a crash, so they are never
//! used to bind a filter to its data.

use std::fmt;

/// Sixteen bytes that identify one immutable segment permanently.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId([u8; 16]);

impl SegmentId {
    /// A new identity from the operating system's randomness.
    ///
    /// # Errors
    /// If the system cannot provide randomness.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// An identity from its stored bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes to store.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Reads the 32 lower-case hex digits that [`fmt::Display`] writes; `None` for anything else.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 32 {
            return None;
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let [high, low] = pair else { return None };
            *byte = hex_value(*high)? << 4 | hex_value(*low)?;
        }
        Some(Self(bytes))
    }
}

const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SegmentId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_id_is_parsed_from_its_hex_only() {
        let id = SegmentId::from_bytes(*b"0123456789abcdef");
        assert_eq!(SegmentId::from_hex(&id.to_string()), Some(id));
        for bad in [
            "",
            "00",
            "../../../../../../../../etc/passw",
            "ZZ23456789abcdef0123456789abcdef",
        ] {
            assert_eq!(SegmentId::from_hex(bad), None, "{bad}");
        }
    }
}
