//! The command `lsm-sieve-lab-stress`: `lsm-sieve-stress` over the differential store.

mod differential;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use lsm_sieve_cli::workload::Watch;
use lsm_sieve_stress::case::{Case, Failure, Plan, draw_length, plan, random_of, read, written};
use lsm_sieve_stress::check::{Tally, Violation};
use lsm_sieve_stress::shrink::{self, Shrunk};
use serde::{Deserialize, Serialize};

use differential::Differential;

fn main() -> ExitCode {
    lsm_sieve_stress::main::<StoreCase>(env!("CARGO_BIN_NAME"))
}

/// A case on a differential store.
#[derive(Debug)]
struct StoreCase(Plan<Differential>);

/// The first line of a case file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Head {
    Differential(Differential),
}

impl Case for StoreCase {
    /// One thread does all steps, whatever was asked for.
    fn draw(seed: u64, _: usize) -> Self {
        let mut random = random_of(seed);
        let steps = draw_length(&mut random);
        Self(Plan::new(differential::draw(&mut random, steps)))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let (Head::Differential(target), lines) = read(text)?;
        Ok(Self(plan(target, lines)?))
    }

    fn text(&self) -> String {
        let head = Head::Differential(self.0.target.clone());
        written(&head, self.0.lines())
    }

    fn run(&self, home: &Path, tally: &mut Tally, watch: &mut impl Watch) -> Result<(), Failure> {
        self.0.run(home, tally, watch)
    }

    fn shrunk(
        &self,
        step: usize,
        violation: Violation,
        home: &Path,
        limit: Duration,
        watch: &mut impl Watch,
    ) -> Shrunk<Self> {
        shrink::shrink(&self.0, step, violation, home, limit, watch).wrap(Self)
    }
}

#[cfg(test)]
mod tests {
    use lsm_sieve_stress::case::checks;

    use super::*;

    #[test]
    fn case_follows_from_its_seed_and_survives_as_text() {
        checks::is_drawn_and_read_alike::<StoreCase>(&[1]);
    }

    #[test]
    fn invalid_line_is_reported() {
        checks::reports_an_invalid_line::<StoreCase>();
    }
}
