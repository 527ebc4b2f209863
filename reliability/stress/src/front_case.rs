//! The cases on a database with filters: by one thread, or by several.

use std::path::Path;
use std::time::Duration;

use lsm_sieve_cli::workload::Watch;
use serde::{Deserialize, Serialize};

use super::case::{Case, Failure, Plan, draw_length, plan, random_of, read, written};
use super::check::{Tally, Violation};
use super::shrink::{self, Shrunk};
use super::{concurrent, sieve_db};

#[derive(Clone, Debug)]
pub enum FrontCase {
    Sieve(Plan<sieve_db::Sieve>),
    Concurrent(Plan<concurrent::Concurrent>),
}

/// The first line of a case file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Head {
    Sieve(sieve_db::Sieve),
    #[serde(rename = "crowd")]
    Concurrent(concurrent::Concurrent),
}

impl Case for FrontCase {
    fn draw(seed: u64, threads: usize) -> Self {
        let mut random = random_of(seed);
        if threads > 1 {
            let target = concurrent::Concurrent::draw(&mut random, threads);
            return Self::Concurrent(Plan::new((target, Vec::new())));
        }
        let steps = draw_length(&mut random);
        Self::Sieve(Plan::new(sieve_db::draw(&mut random, steps)))
    }

    fn parse(text: &str) -> Result<Self, String> {
        match read(text)? {
            (Head::Sieve(target), lines) => Ok(Self::Sieve(plan(target, lines)?)),
            (Head::Concurrent(target), lines) => Ok(Self::Concurrent(plan(target, lines)?)),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Sieve(plan) => written(&Head::Sieve(plan.target.clone()), plan.lines()),
            Self::Concurrent(plan) => written(&Head::Concurrent(plan.target.clone()), plan.lines()),
        }
    }

    fn run(&self, home: &Path, tally: &mut Tally, watch: &mut impl Watch) -> Result<(), Failure> {
        match self {
            Self::Sieve(plan) => plan.run(home, tally, watch),
            Self::Concurrent(plan) => plan.run(home, tally, watch),
        }
    }

    fn shrunk(
        &self,
        step: usize,
        violation: Violation,
        home: &Path,
        limit: Duration,
        watch: &mut impl Watch,
    ) -> Shrunk<Self> {
        match self {
            Self::Sieve(plan) => {
                shrink::shrink(plan, step, violation, home, limit, watch).wrap(Self::Sieve)
            }
            Self::Concurrent(plan) => {
                shrink::shrink(plan, step, violation, home, limit, watch).wrap(Self::Concurrent)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::checks;

    use super::*;

    #[test]
    fn case_follows_from_its_seed_and_survives_as_text() {
        checks::is_drawn_and_read_alike::<FrontCase>(&[1, 1, 1, 4]);
    }

    #[test]
    fn invalid_line_is_reported() {
        checks::reports_an_invalid_line::<FrontCase>();
    }
}
