//! Logarithm and exponential from additions, multiplications and divisions only.
//!
//! IEEE 754 fixes the result of those to the last bit, but not of the functions of a platform's mathematics library:
//! with these, a seed gives the same trace on every machine.

use core::f64::consts::{LN_2, SQRT_2};

/// The natural logarithm of a positive, normal number.
pub(crate) fn ln(x: f64) -> f64 {
    debug_assert!(x.is_normal() && x > 0.0);
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)), where the argument is below 0.172: eleven terms reach the last bit.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let series = (0..11).rev().fold(0.0, |sum, n| sum * (z * z) + 1.0 / f64::from(2 * n + 1));
    f64::from(exponent) * LN_2 + 2.0 * z * series
}

/// e to the power of `x`; 0 below -700, infinity above 700.
pub(crate) fn exp(x: f64) -> f64 {
    if !(-700.0..=700.0).contains(&x) {
        return if x < 0.0 { 0.0 } else { f64::INFINITY };
    }
    let exponent = (x / LN_2).round_ties_even();
    let rest = x - exponent * LN_2;
    // Of at most ln 2 / 2: eighteen terms of the series.
    let mantissa = (1..=18).rev().fold(1.0, |sum, n| 1.0 + rest / f64::from(n) * sum);
    mantissa * f64::from_bits(((exponent as i64 + 1023) as u64) << 52)
}

/// `base` to the power of `exponent`, for a positive base.
pub(crate) fn pow(base: f64, exponent: f64) -> f64 {
    exp(exponent * ln(base))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_mathematics_library_within_rounding() {
        for n in 1..4_000 {
            let x = f64::from(n) * 0.37 + 1e-9 / f64::from(n);
            for x in [x, 1.0 / x, x * 1e-12] {
                assert!((ln(x) - x.ln()).abs() <= 4e-16 * (1.0 + x.ln().abs()), "ln {x}");
            }
            let y = f64::from(n - 2_000) * 0.3;
            assert!((exp(y) / y.exp() - 1.0).abs() < 3e-13, "exp {y}");
        }
        assert!((pow(0.998, 1_000.0) - 0.998f64.powi(1_000)).abs() < 1e-13);
        assert_eq!((exp(0.0), ln(1.0), exp(-1e9), exp(1e9)), (1.0, 0.0, 0.0, f64::INFINITY));
    }
}
