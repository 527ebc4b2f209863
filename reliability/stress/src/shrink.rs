//! Shrinks failing cases by delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating
//! Failure-Inducing Input", IEEE TSE 28(2), 2002): chunks of steps are left out.
//!
//! A failure may depend on the order of background threads. So each candidate is tried as often as
//! the case itself needed to fail again.

use std::path::Path;
use std::time::{Duration, Instant};

use lsm_sieve_cli::workload::Watch;

use super::case::{Failure, Plan, Target};
use super::check::{Tally, Violation};

/// Tries of a case until it is called irreproducible.
const TRIES: usize = 10;

/// Leaves out ever smaller chunks, as long as the rest `fails`.
pub fn shortest<T: Clone>(items: &[T], mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut items = items.to_vec();
    let mut chunk = items.len().div_ceil(2);
    while chunk > 0 {
        let mut at = 0;
        let mut shorter = false;
        while at < items.len() {
            let end = (at + chunk).min(items.len());
            let rest = [&items[..at], &items[end..]].concat();
            if fails(&rest) {
                items = rest;
                shorter = true;
            } else {
                at = end;
            }
        }
        if chunk == 1 && !shorter {
            break;
        }
        // Single items are tried again as long as one of them can be left out.
        chunk = chunk.div_ceil(2);
    }
    items
}

/// A shrunk failing case.
pub struct Shrunk<C> {
    pub case: C,
    /// The failure of the shrunk case.
    pub violation: Violation,
    /// Whether it failed when it was repeated.
    pub again: bool,
}

impl<C> Shrunk<C> {
    /// The same, as a case of a larger type.
    pub fn wrap<D>(self, case: impl FnOnce(C) -> D) -> Shrunk<D> {
        Shrunk {
            case: case(self.case),
            violation: self.violation,
            again: self.again,
        }
    }
}

/// Shrinks a case that failed at this step, within a time limit.
pub fn shrink<S: Target>(
    plan: &Plan<S>,
    step: usize,
    violation: Violation,
    home: &Path,
    limit: Duration,
    watch: &mut impl Watch,
) -> Shrunk<Plan<S>> {
    let deadline = Instant::now() + limit;
    Shrinking::new(home, deadline, violation).shrink(plan, step, watch)
}

struct Shrinking<'a> {
    home: &'a Path,
    deadline: Instant,
    tries: usize,
    violation: Violation,
}

impl<'a> Shrinking<'a> {
    fn new(home: &'a Path, deadline: Instant, violation: Violation) -> Self {
        Self {
            home,
            deadline,
            tries: TRIES,
            violation,
        }
    }

    fn shrink<S: Target>(
        mut self,
        plan: &Plan<S>,
        step: usize,
        watch: &mut impl Watch,
    ) -> Shrunk<Plan<S>> {
        let mut plan = plan.clone();
        plan.steps.truncate(step.saturating_add(1));
        let Some(needed) = self.tries_until_failure(&plan, watch) else {
            return Shrunk {
                case: plan,
                violation: self.violation,
                again: false,
            };
        };
        self.tries = needed;
        let target = plan.target.clone();
        let mut steps = self.shorten(&target, &plan.steps, watch);
        plan = self.simplify(
            Plan {
                target,
                steps: steps.clone(),
            },
            watch,
        );
        if steps.len() > 1 {
            // Simpler settings may need fewer steps.
            steps = self.shorten(&plan.target, &plan.steps, watch);
            plan.steps = steps;
        }
        Shrunk {
            case: plan,
            violation: self.violation,
            again: true,
        }
    }

    fn shorten<S: Target>(
        &mut self,
        target: &S,
        steps: &[S::Step],
        watch: &mut impl Watch,
    ) -> Vec<S::Step> {
        shortest(steps, |steps| {
            let plan = Plan {
                target: target.clone(),
                steps: steps.to_vec(),
            };
            self.fails(&plan, watch)
        })
    }

    /// Removes each setting that the failure does not need.
    fn simplify<S: Target>(&mut self, mut plan: Plan<S>, watch: &mut impl Watch) -> Plan<S> {
        let mut at = 0;
        while let Some(target) = plan.target.simpler().into_iter().nth(at) {
            let steps = plan.steps.clone();
            let simpler = Plan { target, steps };
            if self.fails(&simpler, watch) {
                plan = simpler;
            } else {
                at += 1;
            }
        }
        plan
    }

    fn fails<S: Target>(&mut self, plan: &Plan<S>, watch: &mut impl Watch) -> bool {
        self.tries_until_failure(plan, watch).is_some()
    }

    /// Runs until one fails in the same way; `None` if none does, or the time is up.
    fn tries_until_failure<S: Target>(
        &mut self,
        plan: &Plan<S>,
        watch: &mut impl Watch,
    ) -> Option<usize> {
        for tried in 1..=self.tries {
            if Instant::now() > self.deadline || watch.advance(0).is_err() {
                return None;
            }
            let ran = plan.run(self.home, &mut Tally::default(), &mut ());
            if let Err(Failure::Violation { violation, .. }) = ran
                && violation.lost == self.violation.lost
            {
                self.violation = violation;
                return Some(tried);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    fn violation(lost: bool) -> Violation {
        match lost {
            true => Violation::lost("a key"),
            false => Violation::other("a call"),
        }
    }

    /// Loses a key by the steps 3 and 7, and fails otherwise by one of them; or the other way round.
    #[derive(Clone, Serialize, Deserialize)]
    struct Fails {
        loses: bool,
    }

    impl Target for Fails {
        type Step = u32;

        fn run(
            &self,
            steps: &[u32],
            _: &Path,
            _: &mut Tally,
            _: &mut impl Watch,
        ) -> Result<(), Failure> {
            let lost = match [3, 7].map(|step| steps.contains(&step)) {
                [true, true] => self.loses,
                [false, false] => return Ok(()),
                _ => !self.loses,
            };
            Err(Failure::at(0)(violation(lost)))
        }

        fn simpler(&self) -> Vec<Self> {
            Vec::new()
        }
    }

    #[test]
    fn lost_key_and_another_failure_do_not_replace_each_other() {
        let home = tempfile::tempdir().unwrap();
        for loses in [true, false] {
            let plan = Plan::new((Fails { loses }, (0..10).collect()));
            let (violation, limit) = (violation(loses), Duration::from_secs(60));
            let shrunk = shrink(&plan, 9, violation, home.path(), limit, &mut ());
            assert_eq!(shrunk.case.steps, [3, 7]);
            assert_eq!(shrunk.violation.lost, loses);
        }
    }

    #[test]
    fn shrinking_keeps_only_what_the_failure_needs() {
        let items: Vec<u32> = (0..1_000).collect();
        for needed in [&[][..], &[0], &[999], &[3, 500, 501, 998], &[7, 8, 9]] {
            let mut runs = 0;
            let short = shortest(&items, |rest| {
                runs += 1;
                needed.iter().all(|item| rest.contains(item))
            });
            assert_eq!(short, needed);
            assert!(runs < 200, "{runs} runs for {needed:?}");
        }
    }

    /// Leaving out one item may make another unnecessary.
    #[test]
    fn single_items_are_tried_again_after_a_success() {
        let items = ['a', 'b', 'c'];
        let short = shortest(&items, |rest| {
            let has = |item| rest.contains(&item);
            has('c') && (has('b') || !has('a'))
        });
        assert_eq!(short, ['c']);
    }
}
