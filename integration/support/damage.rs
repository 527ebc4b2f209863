//! Files that are damaged, or wrong with right checksums.

use lsm_sieve_format::disk::{RealDisk, publish, read_file};
use lsm_sieve_format::format::{decode, encode};

use super::model_db::Dice;

/// Ways to damage a file: its bytes replaced by others.
pub(crate) fn damaged_variants(bytes: &[u8], dice: &mut Dice) -> Vec<(String, Vec<u8>)> {
    let mut kinds = vec![("emptied".to_owned(), Vec::new())];
    for _ in 0..3 {
        let length = dice.below(bytes.len() as u64) as usize;
        kinds.push((format!("cut to {length}"), bytes[..length].to_vec()));
    }
    for _ in 0..4 {
        let bit = dice.below(bytes.len() as u64 * 8) as usize;
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        kinds.push((format!("bit {bit} flipped"), flipped));
    }
    kinds.push(("lengthened".to_owned(), [bytes, b"\0"].concat()));
    kinds.push(("zeroed".to_owned(), vec![0; bytes.len()]));
    kinds
}

/// Clears all bits of a stored filter and recomputes the checksums.
pub(crate) fn without_keys(file: &std::path::Path) {
    let bytes = read_file(&RealDisk, file, 1 << 30).expect("a sidecar");
    let mut sidecar = decode(&bytes).expect("a whole one");
    for stage in &mut sidecar.stages {
        stage.words.fill(0);
    }
    let bytes = encode(&sidecar).expect("it encodes as before");
    let folder = file.parent().expect("the folder of filters");
    let name = file.file_name().expect("a name").to_string_lossy();
    publish(&RealDisk, folder, &name, &bytes).expect("it is stored");
}
