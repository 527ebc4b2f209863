//! The properties that hold for any input, checked on the inputs that were worth keeping: the
//! seeds, one input for each bug that was found, and mutants of both. The fuzzer itself is `make
//! fuzz`.
//!
//! `LSM_SIEVE_MUTANTS=n` tries n mutants of each target, 200 by default.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::fuzz_targets::TARGETS;
use crate::support::environment::number_from;
use crate::support::model_db::Dice;

const MUTANTS: u64 = 200;

/// The files of a target in a folder of `fuzz/`. A folder may be missing only if there was no bug.
fn inputs(folder: &str, target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let fuzz = above.find_map(|above| Some(above.join("fuzz")).filter(|it| it.is_dir()));
    let folder = fuzz.unwrap().join(folder).join(target);
    let Ok(files) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

#[test]
fn seeds_and_regressions_hold() {
    for (target, run) in TARGETS {
        let seeds = inputs("seeds", target);
        assert!(seeds.len() >= 4, "{target} has {} seeds", seeds.len());
        for (path, bytes) in seeds.into_iter().chain(inputs("regressions", target)) {
            println!("{}", path.display());
            run(&bytes);
        }
    }
}

#[test]
fn mutants_hold() {
    let mutants = number_from("LSM_SIEVE_MUTANTS").unwrap_or(MUTANTS);
    let seed = number_from("LSM_SIEVE_SEED").unwrap_or(1982);
    println!("LSM_SIEVE_SEED={seed}");
    assert!(mutants > 0, "no mutant of no target shows nothing");
    let start = Instant::now();
    for (target, run) in TARGETS {
        let mut dice = Dice(seed);
        let seeds = inputs("seeds", target);
        for mutant in 0..mutants {
            println!("mutant {mutant} of {target}");
            run(&mutated(&seeds, &mut dice));
        }
    }
    let (inputs, seconds) = (
        mutants * TARGETS.len() as u64,
        start.elapsed().as_secs_f64(),
    );
    println!("fuzz mutants={inputs} violations=0 seconds={seconds:.1}");
}

/// One seed with the end of another, some bytes changed, and cut.
fn mutated(seeds: &[(PathBuf, Vec<u8>)], dice: &mut Dice) -> Vec<u8> {
    let mut any = |limit: usize| dice.below(limit.max(1) as u64) as usize;
    let (head, tail) = (&seeds[any(seeds.len())].1, &seeds[any(seeds.len())].1);
    let (to, from) = (any(head.len() + 1), any(tail.len() + 1));
    let mut bytes = match any(3) {
        0 => [&head[..to], &tail[from..]].concat(),
        1 => head[..to].to_vec(),
        _ => head.clone(),
    };
    for _ in 0..any(6) {
        let (at, byte) = (any(bytes.len()), any(256));
        bytes
            .get_mut(at)
            .into_iter()
            .for_each(|old| *old = byte as u8);
    }
    bytes
}
