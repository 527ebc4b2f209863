//! Trace files: ids in the order in which a real system looked them up.
//!
//! | format | one record | ids |
//! |---|---|---|
//! | `lis` | text line `start count ignored number` | `start`, `start + 1` ... (`count` of them) |
//! | `u64be` | 8 bytes, big-endian | one |
//! | `u32be` | 4 bytes, big-endian | one |
//! | `lines` | text line with a decimal number | one |
//!
//! A file may be plain or compressed with gzip, xz or zstd. This is detected from its first bytes
//! and not from its name. Files are streamed, so their size does not matter. Nothing is skipped: an
//! incomplete or invalid record ends the trace with an error that says where it is.

mod decode;
mod unpack;

use std::fs::File;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use decode::{Decode, Flaw};
pub use unpack::Packing;

/// How the bytes of a trace are read as ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Text lines `start_page page_count ignored request_number`, each naming `page_count` pages.
    Lis,
    /// Big-endian 64-bit ids.
    #[value(name = "u64be")]
    U64Be,
    /// Big-endian 32-bit ids.
    #[value(name = "u32be")]
    U32Be,
    /// Text lines, each a decimal id.
    Lines,
}

/// Why a trace cannot be read any further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be opened.
    #[error("cannot open the trace {}: check the path and its permissions", path.display())]
    Open {
        /// The trace.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file has no id.
    #[error("the trace {} names no key: give a file that holds at least one record, or check --format", path.display())]
    Empty {
        /// The trace.
        path: PathBuf,
    },
    /// The compressed stream is damaged or truncated.
    #[error(
        "the {packing} stream of the trace {} is truncated or damaged after {ids} ids: fetch the file again",
        path.display()
    )]
    Packed {
        /// The trace.
        path: PathBuf,
        /// How it is compressed.
        packing: Packing,
        /// Ids that were read before.
        ids: u64,
        /// The decoder's error.
        source: io::Error,
    },
    /// The file cannot be read any further.
    #[error("the trace {} cannot be read after {ids} ids: check the disk", path.display())]
    Read {
        /// The trace.
        path: PathBuf,
        /// Ids that were read before.
        ids: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The file ends in the middle of a record of fixed width.
    #[error(
        "the trace {} ends {left} bytes into a record of {width} bytes after {ids} ids: fetch the file again, or check --format",
        path.display()
    )]
    CutRecord {
        /// The trace.
        path: PathBuf,
        /// Bytes of a complete record.
        width: usize,
        /// Bytes of the last record.
        left: usize,
        /// Ids that were read before.
        ids: u64,
    },
    /// A line does not have the required format.
    #[error("line {line} of the trace {} {reason}: {text:?}; correct it, or check --format", path.display())]
    BadLine {
        /// The trace.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// What is wrong.
        reason: &'static str,
        /// The beginning of the line.
        text: String,
    },
}

/// The ids of a trace file, as a stream that ends after the first error.
pub struct Trace {
    path: PathBuf,
    packing: Packing,
    bytes: Box<dyn BufRead + Send>,
    decode: Decode,
    ids: u64,
    ended: bool,
}

impl Trace {
    /// Opens a trace and detects its compression.
    ///
    /// # Errors
    /// [`TraceError::Open`] if the file cannot be opened, or its decoder cannot be created.
    pub fn open(path: &Path, format: Format) -> Result<Self, TraceError> {
        let path = path.to_owned();
        let opened = File::open(&path).and_then(unpack::unpack);
        match opened {
            Ok((packing, bytes)) => {
                let decode = Decode::new(format);
                Ok(Self {
                    path,
                    packing,
                    bytes,
                    decode,
                    ids: 0,
                    ended: false,
                })
            }
            Err(source) => Err(TraceError::Open { path, source }),
        }
    }

    /// How the file is compressed.
    pub const fn packing(&self) -> Packing {
        self.packing
    }

    fn error(&self, flaw: Flaw) -> TraceError {
        let (path, ids) = (self.path.clone(), self.ids);
        match flaw {
            Flaw::Read(source) if self.packing == Packing::None => {
                TraceError::Read { path, ids, source }
            }
            Flaw::Read(source) => TraceError::Packed {
                path,
                packing: self.packing,
                ids,
                source,
            },
            Flaw::Cut { width, left } => TraceError::CutRecord {
                path,
                width,
                left,
                ids,
            },
            Flaw::Line { line, reason, text } => TraceError::BadLine {
                path,
                line,
                reason,
                text,
            },
        }
    }
}

impl Iterator for Trace {
    type Item = Result<u64, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.decode.next(&mut *self.bytes);
        self.ended = !matches!(next, Ok(Some(_)));
        match next {
            Ok(Some(id)) => {
                self.ids += 1;
                Some(Ok(id))
            }
            Ok(None) if self.ids == 0 => Some(Err(TraceError::Empty {
                path: self.path.clone(),
            })),
            Ok(None) => None,
            Err(flaw) => Some(Err(self.error(flaw))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    const LINES: &[u8] = b"7\n3\n18446744073709551615\n";
    const IDS: [u64; 3] = [7, 3, u64::MAX];

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn read(bytes: &[u8], format: Format) -> Result<Vec<u64>, TraceError> {
        let file = file(bytes);
        Trace::open(file.path(), format)?.collect()
    }

    fn packed(bytes: &[u8]) -> Vec<(Packing, Vec<u8>)> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(bytes).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 6);
        xz.write_all(bytes).unwrap();
        vec![
            (Packing::Gzip, gzip.finish().unwrap()),
            (Packing::Xz, xz.finish().unwrap()),
            (Packing::Zstd, zstd::encode_all(bytes, 3).unwrap()),
        ]
    }

    #[test]
    fn every_format_reads_its_records() {
        assert_eq!(
            read(b"5 3 0 1\n9 1 0 2", Format::Lis).unwrap(),
            [5, 6, 7, 9]
        );
        assert_eq!(read(LINES, Format::Lines).unwrap(), IDS);
        assert_eq!(read(b"8\r\n9\r\n", Format::Lines).unwrap(), [8, 9]);
        assert_eq!(
            read(&[0, 0, 1, 0, 0, 0, 0, 2], Format::U32Be).unwrap(),
            [256, 2]
        );
        assert_eq!(
            read(&[0, 0, 0, 0, 0, 0, 1, 0], Format::U64Be).unwrap(),
            [256]
        );
    }

    #[test]
    fn packing_is_detected_from_the_first_bytes() {
        for (packing, bytes) in packed(LINES) {
            let file = file(&bytes);
            let trace = Trace::open(file.path(), Format::Lines).unwrap();
            assert_eq!(trace.packing(), packing);
            let ids: Result<Vec<u64>, _> = trace.collect();
            assert_eq!(ids.unwrap(), IDS, "{packing}");
        }
    }

    #[test]
    fn concatenated_members_are_one_trace() {
        for (packing, bytes) in packed(LINES) {
            let twice = [bytes.clone(), bytes].concat();
            assert_eq!(
                read(&twice, Format::Lines).unwrap(),
                [IDS, IDS].concat(),
                "{packing}"
            );
        }
    }

    /// A stream cut anywhere is an error, never a shorter trace.
    #[test]
    fn every_truncation_of_a_packed_trace_is_an_error() {
        let ids: Vec<u8> = (0..500_u64)
            .flat_map(|id| (id * id).to_be_bytes())
            .collect();
        for (packing, bytes) in packed(&ids) {
            for length in 0..bytes.len() {
                let cut = read(&bytes[..length], Format::U64Be);
                assert!(
                    cut.is_err(),
                    "{packing} cut to {length} of {} bytes",
                    bytes.len()
                );
            }
        }
    }

    #[test]
    fn error_of_a_damaged_stream_names_its_packing() {
        for (packing, mut bytes) in packed(&[b'1', b'\n'].repeat(4000)) {
            let middle = bytes.len() / 2;
            bytes[middle..].fill(0xa5);
            let error = read(&bytes, Format::Lines).unwrap_err();
            assert!(matches!(error, TraceError::Packed { packing: p, .. } if p == packing));
            assert!(error.to_string().contains(&packing.to_string()), "{error}");
        }
    }

    #[test]
    fn error_of_a_cut_record_gives_its_remaining_bytes() {
        let error = read(&[1; 19], Format::U64Be).unwrap_err();
        assert!(matches!(
            error,
            TraceError::CutRecord {
                width: 8,
                left: 3,
                ids: 2,
                ..
            }
        ));
    }

    #[test]
    fn an_empty_trace_is_an_error() {
        for format in [Format::Lis, Format::Lines, Format::U32Be, Format::U64Be] {
            assert!(matches!(read(b"", format), Err(TraceError::Empty { .. })));
        }
        assert!(matches!(
            read(b"5 0 0 1\n", Format::Lis),
            Err(TraceError::Empty { .. })
        ));
        for (_, bytes) in packed(b"") {
            assert!(matches!(
                read(&bytes, Format::Lines),
                Err(TraceError::Empty { .. })
            ));
        }
    }

    #[test]
    fn error_of_a_bad_line_gives_its_number() {
        let long = [b'1'; 5000];
        let bad: [(&[u8], Format); 8] = [
            (b"1\n\n2\n", Format::Lines),
            (b"1\n-2\n", Format::Lines),
            (b"1\n18446744073709551616\n", Format::Lines),
            (b"1\n\xff\xfe\n", Format::Lines),
            (b"1 1 0 1\n2 1 0\n", Format::Lis),
            (b"1 1 0 1\n2 1 0 1 1\n", Format::Lis),
            (b"1 1 0 1\n2 x 0 1\n", Format::Lis),
            (b"1 1 0 1\n18446744073709551615 2 0 1\n", Format::Lis),
        ];
        for (bytes, format) in bad {
            let error = read(bytes, format).unwrap_err();
            assert!(
                matches!(error, TraceError::BadLine { line: 2, .. }),
                "{error}"
            );
        }
        assert!(matches!(
            read(&long, Format::Lines),
            Err(TraceError::BadLine { line: 1, .. })
        ));
    }

    #[test]
    fn a_trace_ends_after_its_first_error() {
        let file = file(b"1\nx\n2\n");
        let mut trace = Trace::open(file.path(), Format::Lines).unwrap();
        assert!(trace.next().unwrap().is_ok());
        assert!(trace.next().unwrap().is_err());
        assert!(trace.next().is_none());
    }

    #[test]
    fn a_missing_file_is_an_error_with_its_path() {
        let error = Trace::open(Path::new("/no/such/trace"), Format::Lis)
            .err()
            .unwrap();
        assert!(error.to_string().contains("/no/such/trace"), "{error}");
    }
}
