//! A record of the differential file: a value, or the mark of a delete.
//!
//! ```text
//! value     1, then its bytes
//! deleted   2
//! ```

const VALUE: u8 = 1;
const DELETED: u8 = 2;

/// The differential file's entry for a key; `None` means deleted.
pub(super) type Record<T> = Option<T>;

/// Encodes a record.
pub(super) fn encode(record: Record<&[u8]>) -> Vec<u8> {
    match record {
        Some(value) => {
            let mut bytes = Vec::with_capacity(1 + value.len());
            bytes.push(VALUE);
            bytes.extend_from_slice(value);
            bytes
        }
        None => vec![DELETED],
    }
}

/// Decodes a record, or says what is wrong with the bytes.
pub(super) fn decode(bytes: &[u8]) -> Result<Record<&[u8]>, String> {
    match bytes {
        [VALUE, value @ ..] => Ok(Some(value)),
        [DELETED] => Ok(None),
        [tag, ..] => Err(format!("a record of {} bytes with tag {tag}", bytes.len())),
        [] => Err("an empty record".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for record in [None, Some(&b""[..]), Some(b"\x02"), Some(b"value")] {
            assert_eq!(decode(&encode(record)), Ok(record));
        }
    }

    #[test]
    fn other_bytes_are_no_record() {
        for bytes in [&b""[..], b"\x00", b"\x03value", b"\x02value"] {
            decode(bytes).unwrap_err();
        }
    }
}
