//! Writes the seeds of all targets into `seeds/`: run `cargo run --bin seeds` in the folder `fuzz`.
//!
//! Whole files of every kind, which no fuzzer guesses. For the targets that read their input as
//! choices, the first bytes of a random stream.

use std::fs;
use std::io;
use std::path::Path;

use arbitrary::Unstructured;
use lsm_sieve_format::format;
use lsm_sieve_fuzz::{LAB, damage, plugin, state, trace};

/// Choices of these lengths: few steps, and many.
const LENGTHS: [usize; 6] = [40, 100, 250, 600, 1_500, 4_000];
const SIDECARS: u64 = 16;

fn main() -> io::Result<()> {
    for (target, _) in plugin::TARGETS.into_iter().chain(LAB) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("seeds")
            .join(target);
        fs::create_dir_all(&folder)?;
        for (number, seed) in seeds(target)?.iter().enumerate() {
            fs::write(folder.join(format!("{number:02}")), seed)?;
        }
    }
    Ok(())
}

fn seeds(target: &str) -> io::Result<Vec<Vec<u8>>> {
    Ok(match target {
        "sidecar" => sidecars(),
        "state" => state::examples(),
        "trace" => traces()?,
        _ => (0..)
            .zip(LENGTHS)
            .map(|(stream, length)| choices(stream, length))
            .collect(),
    })
}

/// SplitMix64, as bytes.
fn choices(stream: u64, length: usize) -> Vec<u8> {
    let numbers = (stream << 32..).flat_map(|i| lsm_sieve_fuzz::spread(i).get().to_le_bytes());
    numbers.take(length).collect()
}

fn sidecars() -> Vec<Vec<u8>> {
    let streams = (100..).map(|stream| choices(stream, 400));
    let written = streams.filter_map(|bytes| damage::written(&mut Unstructured::new(&bytes)).ok());
    let files = written.filter_map(|sidecar| format::encode(&sidecar).ok());
    files.take(SIDECARS as usize).collect()
}

/// For each format one trace, plain and packed. The first byte names the format.
fn traces() -> io::Result<Vec<Vec<u8>>> {
    let records: [&[u8]; 4] = [
        b"5 3 0 1\n9 1 0 2\n18446744073709551610 5 0 3\n",
        &[
            0, 0, 0, 0, 0, 0, 1, 0, 255, 255, 255, 255, 255, 255, 255, 255,
        ],
        &[0, 0, 1, 0, 0, 0, 0, 2],
        b"7\n3\r\n18446744073709551615\n",
    ];
    let mut seeds = Vec::new();
    for (format, plain) in (0..).zip(records) {
        let packed = trace::packed(plain)?.map(|(_, bytes)| bytes);
        let files = [plain.to_vec()].into_iter().chain(packed);
        seeds.extend(files.map(|file| [&[format][..], &file].concat()));
    }
    Ok(seeds)
}
