//! A case: settings and steps, drawn from a seed or read from a file.
//!
//! ```text
//! # a line of text                       any number of these
//! {"sieve":{"keys":...}}                  the settings
//! {"write":{...}}                         a step
//! {"read":{...}}                          and so on
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use lsm_sieve_cli::workload::random::Random;
use lsm_sieve_cli::workload::{Interrupted, Watch};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::check::{Tally, Violation};
use super::{concurrent, differential, sieve_db};

/// The settings and steps of one kind of store.
pub(super) trait Target: Clone + Serialize + DeserializeOwned {
    type Step: Clone + Serialize + DeserializeOwned;

    /// Carries out the steps in a new folder.
    fn run(
        &self,
        steps: &[Self::Step],
        home: &Path,
        tally: &mut Tally,
        watch: &mut impl Watch,
    ) -> Result<(), Failure>;

    /// Every variant with one setting less.
    fn simpler(&self) -> Vec<Self>;
}

/// Why a run did not complete.
#[derive(Debug)]
pub(super) enum Failure {
    /// At the step with this index, or after the last.
    Violation {
        step: usize,
        violation: Violation,
    },
    Interrupted,
}

impl Failure {
    /// A violation at the step with this index.
    pub(super) fn at(step: usize) -> impl FnOnce(Violation) -> Self {
        move |violation| Self::Violation { step, violation }
    }
}

impl From<Interrupted> for Failure {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

/// The settings of a store and the steps on it.
#[derive(Clone, Debug)]
pub(super) struct Plan<S: Target> {
    pub(super) target: S,
    pub(super) steps: Vec<S::Step>,
}

impl<S: Target> Plan<S> {
    fn new((target, steps): (S, Vec<S::Step>)) -> Self {
        Self { target, steps }
    }

    /// Runs the case in a new folder below `home`, which is removed. A panic is a violation.
    pub(super) fn run(
        &self,
        home: &Path,
        tally: &mut Tally,
        watch: &mut impl Watch,
    ) -> Result<(), Failure> {
        let folder = tempfile::Builder::new().prefix("case-").tempdir_in(home);
        let folder = folder.map_err(|error| Failure::at(0)(error.into()))?;
        let run = || self.target.run(&self.steps, folder.path(), tally, watch);
        let ran = catch_unwind(AssertUnwindSafe(run));
        ran.unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
            let what = format!("a panic: {}", said.unwrap_or("without a word"));
            Err(Failure::at(self.steps.len())(Violation::other(what)))
        })
    }

    fn lines(&self) -> Vec<String> {
        self.steps.iter().map(line).collect()
    }
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| format!("# not to be written: {error}"))
}

/// A case on one kind of store.
#[derive(Clone, Debug)]
pub(super) enum Case {
    Sieve(Plan<sieve_db::Sieve>),
    Differential(Plan<differential::Differential>),
    Concurrent(Plan<concurrent::Concurrent>),
}

/// The first line of a case file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Head {
    Sieve(sieve_db::Sieve),
    Differential(differential::Differential),
    #[serde(rename = "crowd")]
    Concurrent(concurrent::Concurrent),
}

impl Case {
    /// One case in this many is about the differential store.
    const DIFFERENTIAL: u64 = 8;

    /// The case of a seed, for this many threads.
    pub(super) fn draw(seed: u64, threads: usize) -> Self {
        let mut random = Random::new(seed);
        // Neighbouring seeds have different first words; the second operand is unique to each seed.
        let mut random = Random::new(random.word() ^ seed.rotate_left(32));
        if threads > 1 {
            let target = concurrent::Concurrent::draw(&mut random, threads);
            return Self::Concurrent(Plan {
                target,
                steps: Vec::new(),
            });
        }
        let steps = 300 << random.below(6);
        let steps = steps + random.index(steps);
        if random.one_in(Self::DIFFERENTIAL) {
            Self::Differential(Plan::new(differential::draw(&mut random, steps)))
        } else {
            Self::Sieve(Plan::new(sieve_db::draw(&mut random, steps)))
        }
    }

    /// The case that a text describes.
    ///
    /// # Errors
    /// A sentence that names the line.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().enumerate();
        let mut lines = lines.filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
        let (at, first) = lines.next().ok_or("there is no case in it")?;
        match parsed(at, first)? {
            Head::Sieve(target) => Ok(Self::Sieve(plan(target, lines)?)),
            Head::Differential(target) => Ok(Self::Differential(plan(target, lines)?)),
            Head::Concurrent(target) => Ok(Self::Concurrent(plan(target, lines)?)),
        }
    }

    /// The text that [`Case::parse`] understands.
    pub(super) fn text(&self) -> String {
        let (head, steps): (_, Vec<String>) = match self {
            Self::Sieve(plan) => (Head::Sieve(plan.target.clone()), plan.lines()),
            Self::Differential(plan) => (Head::Differential(plan.target.clone()), plan.lines()),
            Self::Concurrent(plan) => (Head::Concurrent(plan.target.clone()), plan.lines()),
        };
        let lines = std::iter::once(line(&head)).chain(steps);
        lines.map(|line| line + "\n").collect()
    }

    pub(super) fn run(
        &self,
        home: &Path,
        tally: &mut Tally,
        watch: &mut impl Watch,
    ) -> Result<(), Failure> {
        match self {
            Self::Sieve(plan) => plan.run(home, tally, watch),
            Self::Differential(plan) => plan.run(home, tally, watch),
            Self::Concurrent(plan) => plan.run(home, tally, watch),
        }
    }
}

fn plan<'a, S: Target>(
    target: S,
    lines: impl Iterator<Item = (usize, &'a str)>,
) -> Result<Plan<S>, String> {
    let steps = lines
        .map(|(at, line)| parsed(at, line))
        .collect::<Result<_, _>>()?;
    Ok(Plan { target, steps })
}

fn parsed<T: DeserializeOwned>(at: usize, line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_follows_from_its_seed_and_survives_as_text() {
        for (seed, threads) in (0..40).zip([1, 1, 1, 4].into_iter().cycle()) {
            let text = Case::draw(seed, threads).text();
            assert!(text == Case::draw(seed, threads).text(), "seed {seed}");
            let read = Case::parse(&format!("# a story\n\n{text}")).unwrap();
            assert!(read.text() == text, "seed {seed} is read as another case");
        }
    }

    #[test]
    fn invalid_line_is_reported() {
        let text = Case::draw(3, 1).text() + "{\"jump\":1}\n";
        let last = text.lines().count();
        let error = Case::parse(&text).unwrap_err();
        assert!(error.starts_with(&format!("line {last}: ")), "{error}");
        assert!(Case::parse("# nothing but a story\n").is_err());
    }
}
