//! The paper's formulas as printed, in rational arithmetic, so that no digit is lost to their
//! alternating signs. The exponent of ψ_S is kn, not the km of the text.

use super::vectors::{S1, S2};
use super::{Bits, Items, Probes, classic, standard};
use crate::math::assert_close;
use num::bigint::Sign;
use num::{BigInt, BigRational, One, ToPrimitive, Zero};
use std::sync::LazyLock;

/// m, k, n.
type Filter = (u32, u32, u32);

fn whole(number: u32) -> BigInt {
    BigInt::from(number)
}

fn ratio(above: u32, below: u32) -> BigRational {
    BigRational::new(whole(above), whole(below))
}

fn exponent(number: u32) -> i32 {
    number.try_into().unwrap()
}

/// Pascal's triangle, as far as any m here.
static CHOOSE: LazyLock<Vec<Vec<BigInt>>> = LazyLock::new(|| {
    let next = |row: &Vec<BigInt>| {
        let inner = row.windows(2).map(|pair| &pair[0] + &pair[1]);
        let (first, last) = ([BigInt::one()], [BigInt::one()]);
        Some(first.into_iter().chain(inner).chain(last).collect())
    };
    std::iter::successors(Some(vec![BigInt::one()]), next)
        .take(129)
        .collect()
});

fn choose(from: u32, some: u32) -> &'static BigInt {
    &CHOOSE[from as usize][some as usize]
}

/// (−1)^j.
fn sign(j: u32) -> BigInt {
    let sign = if j.is_multiple_of(2) {
        Sign::Plus
    } else {
        Sign::Minus
    };
    BigInt::from_biguint(sign, One::one())
}

/// FPP_S = Σ_x (x/m)^k C(m, x) Σ_j (−1)^j C(x, j) ((x−j)/m)^kn: equation (9).
fn standard_summed((m, k, n): Filter) -> BigRational {
    let throws = k * n;
    let powers: Vec<BigInt> = (0..=m).map(|bits| whole(bits).pow(throws)).collect();
    let onto = |x: u32| -> BigInt {
        let term = |j: u32| sign(j) * choose(x, j) * &powers[(x - j) as usize];
        (0..=x).map(term).sum()
    };
    let ways: BigInt = (0..=m)
        .map(|x| whole(x).pow(k) * choose(m, x) * onto(x))
        .sum();
    BigRational::new(ways, whole(m).pow(throws + k))
}

/// ψ(h, m) = ψ(h−1, m) − c ψ(h−1, m−1) with ψ(0, ·) = 1, up to ψ(k, m): equations (10) and (19),
/// which differ in c, a function of h and m.
fn iterated((m, k, _): Filter, clear: impl Fn(u32, u32) -> BigRational) -> BigRational {
    let mut psi = vec![BigRational::one(); k as usize + 1];
    for h in 1..=k {
        for less in 0..=k - h {
            let next = psi[less as usize + 1].clone();
            psi[less as usize] -= clear(h, m - less) * next;
        }
    }
    psi.swap_remove(0)
}

/// Equation (10): c = (1 − 1/m)^(kn+h−1).
fn standard_iterated(filter: Filter) -> BigRational {
    let (_, k, n) = filter;
    let clear = |h: u32, m: u32| ratio(m - 1, m).pow(exponent(k * n + h - 1));
    iterated(filter, clear)
}

/// FPP_C = Σ_j (−1)^j C(k, j) [C(m−j, k) / C(m, k)]^n: equation (18).
fn classic_summed((m, k, n): Filter) -> BigRational {
    let term = |j: u32| {
        let missed = BigRational::new(choose(m - j, k).clone(), choose(m, k).clone());
        BigRational::from(sign(j) * choose(k, j)) * missed.pow(exponent(n))
    };
    (0..=k)
        .map(term)
        .fold(BigRational::zero(), |sum, term| sum + term)
}

/// Equation (19): c = (1 − k/m)^n.
fn classic_iterated(filter: Filter) -> BigRational {
    let (_, k, n) = filter;
    iterated(filter, |_, m| ratio(m - k, m).pow(exponent(n)))
}

/// The filters of the vectors, and those for which the paper finds its largest differences.
fn filters() -> impl Iterator<Item = Filter> {
    let [dense, sparse] = [(&S1, 16, [25, 39]), (&S2, 8, [35, 45])].map(|(rows, n, far)| {
        let listed = rows.iter().map(|row| row.probes);
        listed.chain(far).map(move |k| (128, k, n))
    });
    dense.chain(sparse)
}

fn assert_is(found: impl Fn(Bits, Probes, Items) -> f64, filter: Filter, exact: &BigRational) {
    let (m, k, n) = filter;
    let found = found(Bits::new(m.into()), Probes::new(k), Items::new(n.into()));
    assert_close(found, exact.to_f64().unwrap(), 1e-12);
}

#[test]
fn standard_sum_and_iteration_equal_the_safe_form() {
    for filter in filters() {
        let summed = standard_summed(filter);
        assert_eq!(standard_iterated(filter), summed, "{filter:?}");
        assert_is(standard, filter, &summed);
    }
}

#[test]
fn classic_sum_and_iteration_equal_the_safe_form() {
    for filter in filters() {
        let summed = classic_summed(filter);
        assert_eq!(classic_iterated(filter), summed, "{filter:?}");
        assert_is(classic, filter, &summed);
    }
}
