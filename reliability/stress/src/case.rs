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
use std::time::Duration;

use lsm_sieve_cli::workload::random::Random;
use lsm_sieve_cli::workload::{Interrupted, Watch};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::check::{Tally, Violation};
use super::shrink::Shrunk;

/// The settings and steps of one kind of store.
pub trait Target: Clone + Serialize + DeserializeOwned {
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
pub enum Failure {
    /// At the step with this index, or after the last.
    Violation {
        step: usize,
        violation: Violation,
    },
    Interrupted,
}

impl Failure {
    /// A violation at the step with this index.
    pub fn at(step: usize) -> impl FnOnce(Violation) -> Self {
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
pub struct Plan<S: Target> {
    pub target: S,
    pub steps: Vec<S::Step>,
}

impl<S: Target> Plan<S> {
    pub fn new((target, steps): (S, Vec<S::Step>)) -> Self {
        Self { target, steps }
    }

    /// Runs the case in a new folder below `home`, which is removed. A panic is a violation.
    pub fn run(
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

    pub fn lines(&self) -> Vec<String> {
        self.steps.iter().map(line).collect()
    }
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| format!("# not to be written: {error}"))
}

/// A case on one of several kinds of stores: all that the tool needs of it.
pub trait Case: Sized {
    /// The case of a seed, for this many threads.
    fn draw(seed: u64, threads: usize) -> Self;

    /// The case that a text describes.
    ///
    /// # Errors
    /// A sentence that names the line.
    fn parse(text: &str) -> Result<Self, String>;

    /// The text that [`Case::parse`] understands.
    fn text(&self) -> String;

    fn run(&self, home: &Path, tally: &mut Tally, watch: &mut impl Watch) -> Result<(), Failure>;

    /// Shrinks the case, which failed at this step, within a time limit.
    fn shrunk(
        &self,
        step: usize,
        violation: Violation,
        home: &Path,
        limit: Duration,
        watch: &mut impl Watch,
    ) -> Shrunk<Self>;
}

/// The random numbers of a seed.
pub fn random_of(seed: u64) -> Random {
    let mut random = Random::new(seed);
    // Neighbouring seeds have different first words; the second operand is unique to each seed.
    Random::new(random.word() ^ seed.rotate_left(32))
}

/// How many steps a case has.
pub fn draw_length(random: &mut Random) -> usize {
    let steps = 300 << random.below(6);
    steps + random.index(steps)
}

/// The first line of a text, parsed as the settings, and the lines of steps.
///
/// # Errors
/// A sentence that names the line.
pub fn read<H: DeserializeOwned>(text: &str) -> Result<(H, Lines<'_>), String> {
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
    let mut lines = lines.collect::<Vec<_>>().into_iter();
    let (at, first) = lines.next().ok_or("there is no case in it")?;
    Ok((parsed(at, first)?, lines))
}

/// Lines with their numbers, from 0.
pub type Lines<'t> = std::vec::IntoIter<(usize, &'t str)>;

/// The text of a case.
pub fn written(head: &impl Serialize, steps: Vec<String>) -> String {
    let lines = std::iter::once(line(head)).chain(steps);
    lines.map(|line| line + "\n").collect()
}

/// The settings of a store with the steps in these lines.
///
/// # Errors
/// A sentence that names the line.
pub fn plan<S: Target>(target: S, lines: Lines<'_>) -> Result<Plan<S>, String> {
    let steps = lines
        .map(|(at, line)| parsed(at, line))
        .collect::<Result<_, _>>()?;
    Ok(Plan { target, steps })
}

fn parsed<T: DeserializeOwned>(at: usize, line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))
}

/// Checks of a kind of case, for its tests.
pub mod checks {
    use super::Case;

    /// A case follows from its seed and its number of threads, and is read as it was written.
    pub fn is_drawn_and_read_alike<C: Case>(threads: &[usize]) {
        for (seed, &threads) in (0..40).zip(threads.iter().cycle()) {
            let text = C::draw(seed, threads).text();
            assert!(text == C::draw(seed, threads).text(), "seed {seed}");
            let read = C::parse(&format!("# a story\n\n{text}")).map(|case| case.text());
            assert!(read == Ok(text), "seed {seed} is read as another case");
        }
    }

    /// An invalid line is named by its number, and a text without a case is none.
    pub fn reports_an_invalid_line<C: Case>() {
        let text = C::draw(3, 1).text() + "{\"jump\":1}\n";
        let last = format!("line {}: ", text.lines().count());
        let error = C::parse(&text).err();
        assert!(
            error.is_some_and(|error| error.starts_with(&last)),
            "{last}"
        );
        assert!(C::parse("# nothing but a story\n").is_err());
    }
}
