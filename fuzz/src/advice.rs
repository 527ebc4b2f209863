//! Any known properties of a filter: advice that keeps its promises, or a reason.

use arbitrary::{Arbitrary, Result, Unstructured};
use lsm_sieve_cli::advise::front::Measured;
use lsm_sieve_filter::math::{Bits, Items, Probes, Rate};
use lsm_sieve_lab::advise::design::Design;
use lsm_sieve_lab::advise::filter::{Advice, Wish};

/// Reads the input as a request, and as measurements.
pub fn run(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    if let Ok(wish) = wish(&mut input)
        && let Ok(advice) = wish.advise()
    {
        kept(&wish, &advice);
    }
    _ = front(&mut input);
}

fn wish(input: &mut Unstructured<'_>) -> Result<Wish> {
    Ok(Wish {
        kind: *input.choose(&Design::ALL)?,
        items: perhaps(input)?.map(Items::new),
        rate: perhaps(input)?.and_then(|rate| Rate::new(f64::from_bits(rate)).ok()),
        bits: perhaps(input)?.map(Bits::new),
        probes: perhaps(input)?.map(Probes::new),
        growth: perhaps(input)?.map(f64::from_bits),
        tightening: super::store::tightening(input)?,
    })
}

fn perhaps<'a, T: Arbitrary<'a>>(input: &mut Unstructured<'a>) -> Result<Option<T>> {
    input.arbitrary()
}

fn kept(wish: &Wish, advice: &Advice) {
    let context = || format!("{wish:?}: {advice:?}");
    if let Some(items) = wish.items {
        assert_eq!(advice.items, items.get(), "{}", context());
    }
    if let Some(bits) = wish.bits {
        assert!(advice.bits <= bits.get(), "{}", context());
    }
    assert!(advice.rate > 0.0 && advice.rate < 1.0, "{}", context());
    assert!(advice.stages >= 1 && advice.bits >= 1, "{}", context());
    assert!(advice.lines_per_miss >= 0.0, "{}", context());
}

fn front(input: &mut Unstructured<'_>) -> Result<()> {
    let measured = Measured {
        reads: input.arbitrary()?,
        misses: input.arbitrary()?,
        writes: input.arbitrary()?,
        miss_ns: f64::from_bits(input.arbitrary()?),
        hit_ns: f64::from_bits(input.arbitrary()?),
        front_ns: f64::from_bits(input.arbitrary()?),
        write_ns: f64::from_bits(input.arbitrary()?),
        rate: Rate::new(f64::from_bits(input.arbitrary()?)).unwrap_or(Rate::ONE_PERCENT),
        memory: perhaps(input)?.map(Bits::new),
    };
    let verdict = measured.verdict();
    assert!(
        (0.0..=1.0).contains(&verdict.miss_share),
        "{measured:?}: {verdict:?}"
    );
    assert!(!verdict.reason.is_empty());
    Ok(())
}
