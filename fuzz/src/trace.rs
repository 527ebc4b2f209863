//! Any bytes as a trace: every id or an error, never fewer ids, and the same ids from a packed file
//! as from a plain one.

use super::meter;
use lsm_sieve_cli::workload::trace::{Format, Packing, Trace, TraceError};
use std::io::{self, Seek as _, Write as _};

/// A line of a `lis` trace may name any number of ids; this many are read.
const IDS: usize = 10_000;
/// Buffers of reader and decoder, and the tables of the decoder, whose size depends on the format
/// and not on the file.
const READING_BYTES: usize = 256 << 10;

type Ids = Result<Vec<u64>, TraceError>;

/// The first byte chooses the format, and the rest is the file. Then the file is packed in each
/// way.
pub fn run(bytes: &[u8]) {
    let Some((choice, file)) = bytes.split_first() else {
        return;
    };
    let formats = [Format::Lis, Format::U64Be, Format::U32Be, Format::Lines];
    let format = formats[usize::from(*choice) % formats.len()];
    let (packing, ids) = read(file, format);
    if packing != Some(Packing::None) {
        return;
    }
    right(file, format, &ids);
    // Long ones cost time and find nothing more.
    if file.len() < 4096 && Some(Packing::None) == packing {
        for (expected, packed) in packed(file).expect("memory takes every write") {
            let (packing, again) = read(&packed, format);
            assert_eq!(packing, Some(expected));
            assert_eq!(summary(&again), summary(&ids), "{expected}");
        }
    }
}

fn read(bytes: &[u8], format: Format) -> (Option<Packing>, Ids) {
    let mut file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
    file.write_all(bytes)
        .and_then(|()| file.rewind())
        .expect("room for temporary files");
    let opened = meter::within(READING_BYTES, || Trace::open(file.path(), format));
    let mut trace = match opened {
        Ok(trace) => trace,
        Err(error) => return (None, Err(error)),
    };
    let packing = trace.packing();
    let ids = meter::within(READING_BYTES + IDS * 16, || {
        trace.by_ref().take(IDS).collect()
    });
    if Ids::is_err(&ids) {
        assert!(trace.next().is_none(), "a trace ends after its first error");
    }
    (Some(packing), ids)
}

/// The expected ids of a plain trace of fixed width, computed here.
fn right(file: &[u8], format: Format, ids: &Ids) {
    let (width, expected): (_, Vec<u64>) = match format {
        Format::U64Be => (
            8,
            file.as_chunks()
                .0
                .iter()
                .map(|&id| u64::from_be_bytes(id))
                .collect(),
        ),
        Format::U32Be => (
            4,
            file.as_chunks()
                .0
                .iter()
                .map(|&id| u32::from_be_bytes(id).into())
                .collect(),
        ),
        Format::Lis | Format::Lines => return,
    };
    match ids {
        Ok(ids) => {
            let seen = expected.len().min(IDS);
            assert!(ids.len() == IDS || file.len().is_multiple_of(width));
            assert_eq!(ids[..], expected[..seen]);
        }
        Err(TraceError::CutRecord { ids, left, .. }) => {
            assert_eq!((*ids, *left), (expected.len() as u64, file.len() % width));
        }
        Err(error) => assert!(file.is_empty(), "{error}"),
    }
}

/// The results that must not depend on the packing: the ids, or where they break off and why.
fn summary(ids: &Ids) -> Result<&[u64], String> {
    ids.as_deref().map_err(|error| match error {
        TraceError::BadLine { line, reason, .. } => format!("line {line} {reason}"),
        TraceError::CutRecord { left, ids, .. } => format!("{left} bytes after {ids} ids"),
        TraceError::Empty { .. } => "empty".to_owned(),
        other => format!("{other}"),
    })
}

/// The same bytes, packed.
pub fn packed(bytes: &[u8]) -> io::Result<[(Packing, Vec<u8>); 3]> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(bytes)?;
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 0);
    xz.write_all(bytes)?;
    Ok([
        (Packing::Gzip, gzip.finish()?),
        (Packing::Xz, xz.finish()?),
        (Packing::Zstd, zstd::encode_all(bytes, 1)?),
    ])
}
