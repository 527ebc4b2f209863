//! The printed error rates, by filter size in bits and number of hash functions.
//!
//! Both tables are quoted from Nikitin, *Bloom filters and their applications*, 2006. There, the
//! sizes of Gremillion's rows are lost, and Mullin's sizes are headed as bytes. Mullin's rows,
//! which are among Gremillion's, determine four sizes. The others continue the pattern 16 K, 20 K,
//! 24 K, 32 K, 40 K, 48 K, 64 K; the first is the least certain.

use crate::math::{Bits, Probes};

pub use lsm_sieve_cli::workload::gremillion::{ACCESSED, TRANSACTIONS, UPDATED};

/// One size, one number of functions, and the rates printed for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// The filter's size.
    pub bits: Bits,
    /// Its number of hash functions.
    pub probes: Probes,
    /// Gremillion's simulated rate, 1982.
    pub simulated: f64,
    /// Mullin's theoretical rate, 1983, if he gives one.
    pub theoretical: Option<f64>,
}

/// Bits; Gremillion's rates for 4, 6 and 8 functions; Mullin's for 4 and 6.
type Row = (u64, [f64; 3], Option<[f64; 2]>);

const ROWS: [Row; 7] = [
    (16_384, [0.356, 0.431, 0.516], None),
    (20_480, [0.273, 0.333, 0.407], None),
    (24_576, [0.210, 0.252, 0.322], Some([0.214, 0.302])),
    (32_768, [0.125, 0.146, 0.197], Some([0.109, 0.142])),
    (40_960, [0.078, 0.082, 0.107], None),
    (49_152, [0.056, 0.055, 0.063], Some([0.036, 0.036])),
    (65_536, [0.035, 0.029, 0.044], Some([0.014, 0.011])),
];

const PROBES: [u32; 3] = [4, 6, 8];

/// The numbers of hash functions, in ascending order.
pub fn probes() -> impl Iterator<Item = Probes> {
    PROBES.into_iter().map(Probes::new)
}

/// The 21 cells, by size and then by functions.
pub fn cells() -> impl Iterator<Item = Printed> {
    ROWS.into_iter().flat_map(|(bits, simulated, theoretical)| {
        (0..PROBES.len()).map(move |column| Printed {
            bits: Bits::new(bits),
            probes: Probes::new(PROBES[column]),
            simulated: simulated[column],
            theoretical: theoretical.and_then(|rates| rates.get(column).copied()),
        })
    })
}
