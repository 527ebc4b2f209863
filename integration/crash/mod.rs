//! Kill -9 at any moment, many times over: no key is lost.
//!
//! See [`kills`](crate::support::history::kills). `workload` has the steps, `store` carries them
//! out in the child, and `filter_check` compares what a kill left with a RocksDB without the plugin.

mod filter_check;
mod injected_losses;
mod random_options;
mod store;
mod workload;

use std::ops::AddAssign;
use std::path::Path;

use rand::RngExt as _;
use rand::rngs::StdRng;

use crate::support::history::Failed;
use crate::support::history::check::{Tally, Truth};
use crate::support::history::kills::kill_all;
use crate::support::history::model::Model;
use crate::support::history::world::{self, run_child};
use random_options::RandomOptions;
use store::Store;
use workload::{FAMILIES, KEYS, Step, Workload};

/// Kills of an ordinary run.
const KILLS: u64 = 50;

/// The child half of the harness. Does nothing unless its parent started it.
#[test]
fn child() {
    run_child::<World>();
}

#[test]
fn kill_9_loses_no_key() {
    let totals = kill_all::<World>(KILLS);
    let tally = totals.found.tally;
    println!(
        r#"{{"part":"kills","of_a":"front","seed":{},"kills":{},"keys_checked":{},"absent_checked":{},"folders":{},"lost":0}}"#,
        totals.seed, totals.kills, tally.keys, tally.absent, totals.folders
    );
    let crashes = totals.crashes.len() as u64;
    assert!(totals.kills + crashes >= totals.asked);
    assert!(crashes <= 1 + totals.asked / 1_000, "{totals:?}");
    assert!(tally.absent > tally.keys / 20, "{totals:?}");
}

/// A database of several column families, one of which may have no log.
struct World {
    setup: RandomOptions,
    model: Model,
}

#[derive(Debug, Default)]
struct Found {
    tally: Tally,
    /// Unfinished files that were removed at an open.
    swept: u64,
}

impl AddAssign for Found {
    fn add_assign(&mut self, more: Self) {
        self.tally += more.tally;
        self.swept += more.swept;
    }
}

impl World {
    /// Every key was read.
    fn settle(&mut self, truth: &Truth) {
        for family in 0..FAMILIES.len() {
            for key in 0..KEYS {
                let held = filter_check::held(truth, family, key);
                self.model.settle(family, key, held);
            }
        }
    }
}

impl world::World for World {
    type Step = Step;
    type Store = Store;
    type Found = Found;

    const CHILD: &'static str = "crash::child";
    const PLAIN: f64 = 0.08;

    fn new(seed: u64) -> Self {
        Self {
            setup: RandomOptions::new(seed),
            model: Model::empty(),
        }
    }

    fn settings(&self) -> String {
        format!("{:?}", self.setup)
    }

    fn steps(seed: u64, writer: u32) -> impl Iterator<Item = Step> + Send {
        Workload::new(seed, writer)
    }

    fn name(step: &Step) -> &'static str {
        step.name()
    }

    fn done(&mut self, step: &Step) {
        self.model.apply(step.changes());
    }

    fn may_be_done(&mut self, step: &Step) {
        self.model.may_apply(step.changes());
    }

    fn check(&mut self, copy: &Path, complete: bool, random: &mut StdRng) -> Result<Found, Failed> {
        if !complete {
            return Ok(Found::default());
        }
        let truth = filter_check::truth(&self.setup, copy)?;
        filter_check::check_model(&self.setup, &truth, &self.model)?;
        self.settle(&truth);
        if random.random_bool(0.2) {
            filter_check::damage(copy, random.random())?;
        }
        let sieve = self.setup.sieve(random.random());
        let (tally, swept) = filter_check::check(&self.setup, &sieve, copy, &truth)?;
        Ok(Found { tally, swept })
    }
}
