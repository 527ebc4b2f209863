//! Two replicas with different keys find out from each other's filters which keys to send, and send
//! hardly any key twice: `cargo run --example reconcile`
//!
//! A key is sent if the other replica's filter says *absent*. A false positive withholds one key in
//! a hundred. The next round has another seed, so two or three rounds suffice.

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use lsm_sieve_classics::filter::{Kind, Mismatch, Stage, StageError};
use lsm_sieve_filter::hash::{HashId, KeyHash, KeyHasher, Seed};
use lsm_sieve_filter::math::{Items, Rate};
use std::collections::BTreeSet;

type Replica = BTreeSet<u64>;

fn hash(round: u8, key: u64) -> KeyHash {
    KeyHasher::new(HashId::Xxh3, Seed::from_bytes([round; 16])).hash(&key.to_be_bytes())
}

/// Both replicas use the same size, so that their filters can be compared.
fn filter(round: u8, keys: &Replica) -> Result<Stage, StageError> {
    let filter = Stage::with_rate(Kind::Partitioned, Items::new(60_000), Rate::ONE_PERCENT)?;
    keys.iter()
        .for_each(|&key| _ = filter.insert(hash(round, key)));
    Ok(filter)
}

fn lacking(round: u8, ours: &Replica, theirs: &Stage) -> Vec<u64> {
    let absent = |key: &&u64| !theirs.may_contain(hash(round, **key));
    ours.iter().filter(absent).copied().collect()
}

fn main() -> Result<(), Mismatch> {
    let mut left: Replica = (0..50_000).collect();
    let mut right: Replica = (3_000..52_000).collect();
    for round in 1.. {
        let (ours, theirs) = (filter(round, &left)?, filter(round, &right)?);
        // |A ∩ B| = |A| + |B| − |A ∪ B|, each estimated from set bits; AND gives an upper bound.
        let union = ours.try_clone()?;
        union.or_with(&theirs)?;
        let estimate = |stage: &Stage| stage.estimated_items().get();
        let common = (estimate(&ours) + estimate(&theirs)).saturating_sub(estimate(&union));
        let bound = estimate(&ours.and(&theirs)?);

        let (to_right, to_left) = (
            lacking(round, &left, &theirs),
            lacking(round, &right, &ours),
        );
        let sent = (to_right.len(), to_left.len());
        println!("round {round}: about {common} in common (AND: {bound}), {sent:?} sent");
        right.extend(&to_right);
        left.extend(&to_left);
        // A real system would compare digests of the two sets.
        if left == right {
            break;
        }
    }
    Ok(())
}
