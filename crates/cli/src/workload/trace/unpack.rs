//! Detects the compression of a trace file from its first bytes, and decompresses it.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Not compressed.
    None,
    /// gzip, RFC 1952.
    Gzip,
    /// xz.
    Xz,
    /// Zstandard, RFC 8878.
    Zstd,
}

/// The length of the longest magic number: that of xz.
const MAGIC_BYTES_MAX: usize = 6;

impl Packing {
    /// The compression of a file with these first bytes.
    fn of(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0x00, ..] => Self::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::None,
        }
    }
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "plain",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        })
    }
}

/// The whole file again, after its first bytes were read.
type Whole = BufReader<Chain<Cursor<Vec<u8>>, File>>;

/// A reader of the decompressed bytes.
pub(super) fn unpack(mut file: File) -> io::Result<(Packing, Box<dyn BufRead + Send>)> {
    let mut head = Vec::with_capacity(MAGIC_BYTES_MAX);
    file.by_ref()
        .take(MAGIC_BYTES_MAX as u64)
        .read_to_end(&mut head)?;
    let packing = Packing::of(&head);
    let whole: Whole = BufReader::new(Cursor::new(head).chain(file));
    let bytes: Box<dyn BufRead + Send> = match packing {
        Packing::None => Box::new(whole),
        Packing::Gzip => Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(whole))),
        Packing::Xz => Box::new(BufReader::new(
            liblzma::bufread::XzDecoder::new_multi_decoder(whole),
        )),
        Packing::Zstd => Box::new(BufReader::new(zstd::Decoder::with_buffer(whole)?)),
    };
    Ok((packing, bytes))
}
