//! Each plan in the situation in which it should be chosen, with the numbers that the design is
//! based on.

use super::*;
use crate::hash::{HashId, KeyHasher, Seed};
use crate::math::Probes;

const LOOSE: Budget = Budget {
    rate: Rate::ONE_PERCENT,
    probed_stages: 8,
    bits: Bits::new(1 << 40),
};
const DISJOINT: Facts = Facts {
    keys: Keys::OnDisk,
    overlap: Fraction::NONE,
};

fn imprint(seed: u8) -> Imprint {
    KeyHasher::new(HashId::Xxh3, Seed::from_bytes([seed; 16])).imprint()
}

fn rate(rate: f64) -> Fraction {
    Fraction::new(rate).unwrap()
}

/// A blocked filter of this many lines, filled to this false-positive rate.
fn blocked(lines: u64, predicted: f64) -> Input {
    let shape = Shape {
        kind: Kind::Blocked,
        bits: Bits::new(lines * LINE_BITS),
        probes: Probes::new(8),
        groups: 2,
    };
    of_stages(&[(shape, predicted)])
}

/// A standard filter of 10 bits per key with 7 probes, all keys inserted: half full, 0.8 %.
fn half_full() -> Input {
    let shape = Shape {
        kind: Kind::Standard,
        bits: Bits::new(10_000),
        probes: Probes::new(7),
        groups: 0,
    };
    of_stages(&[(shape, (1.0 - (-0.7_f64).exp()).powi(7))])
}

fn of_stages(stages: &[(Shape, f64)]) -> Input {
    Input {
        id: SegmentId::from_bytes([1; 16]),
        items: Items::new(1000),
        imprint: imprint(1),
        stages: stages
            .iter()
            .map(|(shape, predicted)| InputStage {
                shape: *shape,
                rate: rate(*predicted),
            })
            .collect(),
    }
}

fn budget(percent: f64) -> Budget {
    Budget {
        rate: Rate::new(percent / 100.0).unwrap(),
        ..LOOSE
    }
}

#[track_caller]
fn assert_percent(found: Fraction, percent: f64, digits: f64) {
    let found = found.get() * 100.0;
    assert!(
        (found - percent).abs() < digits / 2.0,
        "{found} %, not {percent} %"
    );
}

/// An OR costs nothing where it is chosen; elsewhere it ruins the false-positive rate.
#[test]
fn half_full_filters_are_ruined_by_or_and_not_by_chaining() {
    let input = half_full();
    assert_percent(input.rate(), 0.8, 0.1);
    let shape = input.stages[0].shape;
    let ored = |n| ored_rate(&vec![input.rate(); n], shape, Fraction::NONE);
    assert_percent(ored(2), 13.8, 0.1);
    assert_percent(ored(4), 64.0, 1.0);
    for (n, percent) in [(2, 1.6), (4, 3.2)] {
        let decision = plan(&vec![input.clone(); n], &DISJOINT, &budget(5.0));
        assert_eq!(decision.action, Action::Chain);
        assert_percent(decision.predicted_rate, percent, 0.1);
        assert_eq!(decision.cost.probed_stages, n as f64);
        assert_eq!(decision.cost.bits, Bits::new(10_000 * n as u64));
    }
    let decision = plan(&vec![input; 2], &DISJOINT, &budget(14.0));
    assert_eq!(decision.action, Action::Or(OrRole::Replacement));
    assert_percent(decision.predicted_rate, 13.8, 0.1);
}

#[test]
fn inputs_with_the_same_keys_are_ored_for_nothing() {
    let inputs = [half_full(), half_full()];
    let facts = Facts {
        overlap: Fraction::ALL,
        ..DISJOINT
    };
    let decision = plan(&inputs, &facts, &LOOSE);
    assert_eq!(decision.action, Action::Or(OrRole::Replacement));
    assert_percent(decision.predicted_rate, 0.8, 0.1);
    assert_eq!(decision.cost.bits, inputs[0].bits());
}

#[test]
fn more_overlap_never_makes_an_or_worse() {
    let input = half_full();
    let shape = input.stages[0].shape;
    let ored = |overlap| ored_rate(&[input.rate(), rate(0.001)], shape, rate(overlap));
    let rates: Vec<_> = (0..=10)
        .map(|tenth| ored(f64::from(tenth) / 10.0))
        .collect();
    assert!(rates.windows(2).all(|pair| pair[1] < pair[0]), "{rates:?}");
}

#[test]
fn keys_at_hand_are_always_rebuilt_from() {
    let facts = Facts {
        keys: Keys::AtHand,
        ..DISJOINT
    };
    for inputs in [
        vec![],
        vec![half_full()],
        vec![half_full(), blocked(2, 0.5)],
    ] {
        let decision = plan(&inputs, &facts, &LOOSE);
        let items = Items::new(1000 * inputs.len() as u64);
        let from = Keys::AtHand;
        assert_eq!(decision.action, Action::Rebuild { from, items });
        assert_eq!(decision.cost.keys_read, Items::new(0));
    }
}

#[test]
fn one_input_within_the_budget_is_kept() {
    let decision = plan(&[half_full()], &DISJOINT, &LOOSE);
    assert_eq!(decision.action, Action::Keep);
    let decision = plan(&[half_full()], &DISJOINT, &budget(0.5));
    assert!(matches!(decision.action, Action::Rebuild { .. }));
}

#[test]
fn an_over_allocated_filter_is_folded_as_far_as_the_rate_allows() {
    let decision = plan(&[blocked(1024, 1e-9)], &DISJOINT, &LOOSE);
    let Action::Fold { to } = decision.action else {
        panic!("{decision:?}");
    };
    assert!(decision.predicted_rate <= rate(0.01));
    let further = ored_rate(
        &[decision.predicted_rate; 2],
        blocked(1, 0.0).stages[0].shape,
        Fraction::NONE,
    );
    assert!(further > rate(0.01), "one more fold had kept the rate");
    assert_eq!(to, decision.cost.bits);
    assert!(to.get().is_power_of_two() && to < Bits::new(1024 * LINE_BITS));
}

#[test]
fn an_empty_filter_folds_to_one_line() {
    let to = Bits::new(LINE_BITS);
    let decision = plan(&[blocked(1024, 0.0)], &DISJOINT, &LOOSE);
    assert_eq!(decision.action, Action::Fold { to });
}

#[test]
fn only_powers_of_two_are_folded_or_ored_across_sizes() {
    let action = |a, b| plan(&[blocked(a, 1e-3), blocked(b, 1e-3)], &DISJOINT, &LOOSE).action;
    assert_eq!(action(1000, 600), Action::Chain);
    assert_eq!(action(1000, 1000), Action::Chain);
    let spacious = plan(
        &[blocked(1000, 1e-5), blocked(600, 1e-5)],
        &DISJOINT,
        &LOOSE,
    );
    assert_eq!(spacious.action, Action::Chain);
    let mut standard = half_full().stages[0].shape;
    standard.bits = Bits::new(1 << 13);
    for alone in [blocked(1000, 0.0), of_stages(&[(standard, 0.0)])] {
        assert_eq!(plan(&[alone], &DISJOINT, &LOOSE).action, Action::Keep);
    }
    let inputs = [blocked(1024, 1e-5), blocked(256, 1e-5)];
    let decision = plan(&inputs, &DISJOINT, &LOOSE);
    assert_eq!(decision.action, Action::Or(OrRole::Replacement));
    assert_eq!(decision.cost.bits, inputs[0].bits());
}

#[test]
fn a_scalable_filter_is_ored_stage_by_stage() {
    let [small, large] = [1000, 2000].map(|lines| blocked(lines, 1e-5).stages[0].shape);
    let inputs = vec![of_stages(&[(small, 1e-5), (large, 1e-5)]); 2];
    let decision = plan(&inputs, &DISJOINT, &LOOSE);
    assert_eq!(decision.action, Action::Or(OrRole::Replacement));
    assert_eq!(decision.cost.probed_stages, 2.0);
    let unlike = [inputs[0].clone(), of_stages(&[(small, 1e-5)])];
    assert_eq!(plan(&unlike, &DISJOINT, &LOOSE).action, Action::Chain);
}

#[test]
fn unlike_schemes_are_chained_and_unlike_seeds_rebuilt() {
    let mut probes = half_full();
    probes.stages[0].shape.probes = Probes::new(6);
    let decision = plan(&[half_full(), probes], &DISJOINT, &budget(50.0));
    assert_eq!(decision.action, Action::Chain);
    let mut seed = half_full();
    seed.imprint = imprint(2);
    let decision = plan(&[half_full(), seed], &DISJOINT, &budget(50.0));
    assert!(matches!(decision.action, Action::Rebuild { .. }));
}

#[test]
fn a_chain_beyond_the_budget_is_rebuilt_in_the_background() {
    let inputs = vec![half_full(); 2];
    let decision = plan(&inputs, &DISJOINT, &LOOSE);
    let items = Items::new(2000);
    let from = Keys::OnDisk;
    assert_eq!(decision.action, Action::Rebuild { from, items });
    assert_eq!(decision.cost.keys_read, items);
    assert!(decision.reason.contains("rate"), "{}", decision.reason);
    let few_probes = Budget {
        probed_stages: 3,
        ..budget(60.0)
    };
    let decision = plan(&vec![half_full(); 4], &DISJOINT, &few_probes);
    assert!(
        matches!(decision.action, Action::Rebuild { .. }),
        "{decision:?}"
    );
    assert!(decision.reason.contains("probes"), "{}", decision.reason);
}

#[test]
fn a_coarse_parent_spares_a_long_chain() {
    let inputs = vec![blocked(1000, 1e-6); 8];
    let few_probes = Budget {
        probed_stages: 3,
        ..LOOSE
    };
    let decision = plan(&inputs, &DISJOINT, &few_probes);
    assert_eq!(decision.action, Action::Or(OrRole::Parent));
    assert!(decision.cost.probed_stages < 3.0);
    assert_eq!(decision.cost.bits, Bits::new(9 * 1000 * LINE_BITS));
    assert_percent(decision.predicted_rate, 0.0008, 0.0001);
}

/// A merge whose inputs are not all covered must not result in filters that look complete.
#[test]
fn an_uncovered_input_is_never_covered_by_the_others() {
    for inputs in [vec![], vec![half_full(), of_stages(&[])]] {
        let decision = plan(&inputs, &DISJOINT, &budget(99.0));
        assert!(matches!(decision.action, Action::Rebuild { .. }));
    }
}

#[test]
fn what_does_not_fit_the_memory_is_dropped_whole() {
    let tight = Budget {
        bits: Bits::new(9_000),
        ..LOOSE
    };
    let decision = plan(&[half_full()], &DISJOINT, &tight);
    assert_eq!(decision.action, Action::Drop);
    assert_eq!(decision.cost.bits, Bits::new(0));
    assert_eq!(decision.predicted_rate, Fraction::ALL);
    let enough = Budget {
        bits: Bits::new(9_600),
        ..LOOSE
    };
    let decision = plan(&[half_full()], &DISJOINT, &enough);
    assert!(matches!(decision.action, Action::Rebuild { .. }));
    assert!(decision.cost.bits <= enough.bits);
}

/// A plan that exactly reaches a budget is within it.
#[test]
fn a_budget_may_be_spent_to_its_end() {
    let inputs = [blocked(1024, 1e-4)];
    let folded = plan(&inputs, &DISJOINT, &LOOSE);
    let exact = Budget {
        rate: Rate::new(folded.predicted_rate.get()).unwrap(),
        ..LOOSE
    };
    assert!(matches!(folded.action, Action::Fold { .. }));
    assert_eq!(plan(&inputs, &DISJOINT, &exact), folded);

    let items = half_full().items;
    let exact = Budget {
        bits: standard_bits(items, Rate::ONE_PERCENT),
        ..LOOSE
    };
    let decision = plan(&[half_full()], &DISJOINT, &exact);
    assert!(matches!(decision.action, Action::Rebuild { .. }));

    // A chain that exactly reaches the rate fails by its probes, and then by its memory.
    let inputs = vec![half_full(); 4];
    let of_all = any_of(inputs.iter().map(Input::rate));
    let exact = Budget {
        rate: Rate::new(of_all.get()).unwrap(),
        probed_stages: 3,
        ..LOOSE
    };
    let decision = plan(&inputs, &DISJOINT, &exact);
    assert!(decision.reason.contains("probes"), "{}", decision.reason);
    let exact = Budget {
        probed_stages: 4,
        bits: Bits::new(39_999),
        ..exact
    };
    let decision = plan(&inputs, &DISJOINT, &exact);
    assert!(decision.reason.contains("memory"), "{}", decision.reason);
}

#[test]
fn a_decision_can_be_logged() {
    let decision = plan(&vec![half_full(); 2], &DISJOINT, &budget(5.0));
    assert_eq!(
        decision.to_string(),
        "chain: the inputs' filters cover the outputs, within the budget \
         (rate 1.63 %, 20000 bits, 2 stages a look-up, 0 keys to read)"
    );
}

#[test]
fn a_fraction_outside_its_interval_is_refused() {
    for bad in [-0.1, 1.1, f64::NAN] {
        assert_eq!(Fraction::new(bad), None);
    }
}
