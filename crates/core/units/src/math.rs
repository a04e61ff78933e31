//! Bit-reproducible logarithm, exponential, power and cube root.
//!
//! The functions use only additions, multiplications and divisions, whose results IEEE 754 defines to the last bit. It
//! does not define those of a platform's mathematics library: the precision of [`f64::ln`], [`f64::exp`],
//! [`f64::powi`], [`f64::powf`] and [`f64::cbrt`] depends on the platform and may change with the compiler. With this
//! module, a simulation seed gives the same trace on every machine and in every build. [`f64::sqrt`] is correctly
//! rounded everywhere and needs no replacement.
//!
//! ```
//! use longhaul_units::math;
//! assert!((math::cbrt(27.0) - 3.0).abs() < 3e-15);
//! assert!((math::pow(0.5, 10.0) - 1.0 / 1024.0).abs() < 1e-17);
//! ```

use core::f64::consts::{LN_2, SQRT_2};

/// 2^54. Its product with any subnormal number is a normal number.
const TWO_54: f64 = (1u64 << 54) as f64;
/// The first 32 significant bits of ln 2. Its product with the binary exponent of any `f64` is exact.
const LN_2_HIGH: f64 = f64::from_bits(LN_2.to_bits() & !((1 << 21) - 1));
/// ln 2 - [`LN_2_HIGH`]. ln 2 is 0.693147180559945309417232121458176568, which exceeds [`LN_2`] by
/// 2.3190468138462996e-17.
const LN_2_LOW: f64 = (LN_2 - LN_2_HIGH) + 2.319_046_813_846_299_6e-17;
const FRACTION: u64 = (1 << 52) - 1;

/// Returns the natural logarithm of `x`, with an absolute error of at most `4e-16 * (1 + |ln x|)`.
///
/// The logarithm of zero is minus infinity; the logarithm of a negative number is NaN.
#[must_use]
pub fn ln(x: f64) -> f64 {
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x.is_infinite() {
        return x;
    }
    if x < f64::MIN_POSITIVE {
        return ln(x * TWO_54) - 54.0 * LN_2;
    }
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut mantissa = f64::from_bits(bits & FRACTION | 1023 << 52);
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)). The argument is below 0.172, so 11 terms of the series are exact to the
    // last bit.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let series = (0..11).rev().fold(0.0, |sum, n| sum * (z * z) + 1.0 / f64::from(2 * n + 1));
    f64::from(exponent) * LN_2 + 2.0 * z * series
}

/// Returns e to the power of `x`, with a relative error of at most 1e-15.
///
/// The result is 0 if `x` is below -700, and infinity if `x` is above 700.
#[must_use]
pub fn exp(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if !(-700.0..=700.0).contains(&x) {
        return if x < 0.0 { 0.0 } else { f64::INFINITY };
    }
    let exponent = (x / LN_2).round_ties_even();
    let rest = x - exponent * LN_2_HIGH - exponent * LN_2_LOW;
    // |rest| is at most ln 2 / 2, for which 18 terms of the Taylor series suffice.
    let mantissa = (1..=18).rev().fold(1.0, |sum, n| 1.0 + rest / f64::from(n) * sum);
    mantissa * f64::from_bits(((exponent as i64 + 1023) as u64) << 52)
}

/// Returns `base` to the power of `exponent` for a positive `base`, with a relative error of at most
/// `1e-15 * (1 + |exponent ln base|)`.
///
/// The result underflows to 0 and overflows to infinity at the limits of [`exp`].
#[must_use]
pub fn pow(base: f64, exponent: f64) -> f64 {
    exp(exponent * ln(base))
}

/// Returns the cube root of `x`, with the sign of `x` and a relative error of at most 1e-15.
#[must_use]
pub fn cbrt(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let size = x.abs();
    if size < f64::MIN_POSITIVE {
        return cbrt(x * TWO_54) / f64::from(1 << 18);
    }
    if size > f64::MAX / 4.0 {
        // The iteration computes root^3 + 2 * size, which would overflow.
        return cbrt(x / 8.0) * 2.0;
    }
    // Dividing the bit pattern by 3 divides the exponent by 3 and approximates the fraction: within 7 % of the root.
    let mut root = f64::from_bits(size.to_bits() / 3 + (1023 << 52) / 3 * 2);
    // Each round of Halley's iteration triples the number of correct digits. The last one only removes rounding errors.
    for _ in 0..4 {
        let cube = root * root * root;
        root *= (cube + 2.0 * size) / (2.0 * cube + size);
    }
    root.copysign(x)
}

#[cfg(test)]
mod tests {
    use core::f64::consts::{E, LN_10};

    use super::*;

    fn off(ours: f64, expected: f64) -> f64 {
        (ours / expected - 1.0).abs()
    }

    /// Numbers between the smallest and the largest magnitude of an `f64`, spread about evenly on a logarithmic scale.
    fn sizes() -> impl Iterator<Item = f64> {
        (1..4_000).flat_map(|n| {
            let x = f64::from(n) * 0.37 + 1e-9 / f64::from(n);
            [x, 1.0 / x, x * 1e-12, x * 1e200, x * 1e-250, 1.0 + 1e-9 * x, 1.0 - 1e-9 * x]
        })
    }

    #[test]
    fn results_agree_with_the_mathematics_library() {
        for x in sizes() {
            assert!((ln(x) - x.ln()).abs() <= 4e-16 * (1.0 + x.ln().abs()), "ln {x}");
            assert!(off(cbrt(x), x.cbrt()) < 1e-15, "cbrt {x}");
            assert!(off(cbrt(-x), (-x).cbrt()) < 1e-15, "cbrt -{x}");
        }
        for n in -4_600..=4_600 {
            let y = f64::from(n) * 0.152 + 1e-3 / (0.5 + f64::from(n));
            assert!(off(exp(y), y.exp()) < 1e-15, "exp {y}");
        }
    }

    #[test]
    fn powers_agree_with_the_mathematics_library() {
        for n in 1..3_000 {
            let base = f64::from(n) * 0.7;
            for exponent in [-3.0, -0.5, 1.0 / 3.0, 1.0, 1.2, 20.0] {
                let size = 1.0 + (exponent * base.ln()).abs();
                assert!(off(pow(base, exponent), base.powf(exponent)) < 1e-15 * size, "{base} to the {exponent}");
            }
            assert!(
                off(pow(0.6, f64::from(n % 100)), 0.6_f64.powi(n % 100)) < 1e-15 * (1.0 + 0.52 * f64::from(n % 100))
            );
        }
    }

    /// Checks values that are known exactly, without comparison to the platform's library.
    #[test]
    fn known_values() {
        for n in 1..2_000u32 {
            let x = f64::from(n);
            assert!((cbrt(x * x * x) - x).abs() <= x * 5e-16, "{n}");
        }
        assert_eq!((exp(0.0), ln(1.0), pow(7.0, 0.0), cbrt(1.0), cbrt(8.0)), (1.0, 0.0, 1.0, 1.0, 2.0));
        assert!(off(exp(1.0), E) < 3e-16 && off(ln(10.0), LN_10) < 3e-16);
    }

    #[test]
    fn extreme_arguments() {
        assert_eq!(
            (exp(-1e9), exp(1e9), ln(0.0), ln(f64::INFINITY)),
            (0.0, f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY)
        );
        assert!(ln(-1.0).is_nan() && ln(f64::NAN).is_nan() && exp(f64::NAN).is_nan() && cbrt(f64::NAN).is_nan());
        assert_eq!((cbrt(0.0), cbrt(f64::INFINITY), cbrt(f64::NEG_INFINITY)), (0.0, f64::INFINITY, f64::NEG_INFINITY));
        let least = f64::from_bits(1);
        assert!(off(cbrt(least), least.cbrt()) < 1e-15 && (ln(least) - least.ln()).abs() < 1e-12);
        assert!(off(cbrt(f64::MAX), f64::MAX.cbrt()) < 1e-15 && off(ln(f64::MAX), f64::MAX.ln()) < 1e-15);
    }
}
