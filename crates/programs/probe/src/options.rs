//! Options of the methods: their defaults and ranges.

use longhaul_units::{Bytes, Rate, Span};

/// Error of an option that is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{part}: {option} is {value}, but must be from {low} to {high}")]
#[non_exhaustive]
pub struct InvalidOption {
    /// Name of the method.
    pub part: &'static str,
    /// Name of the option.
    pub option: &'static str,
    /// The rejected value: rates in bytes per second, times in seconds.
    pub value: f64,
    /// The lowest permitted value.
    pub low: f64,
    /// The highest permitted value.
    pub high: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Checks(pub(crate) &'static str);

impl Checks {
    pub(crate) fn within(self, option: &'static str, value: f64, (low, high): (f64, f64)) -> Result<(), InvalidOption> {
        if value >= low && value <= high {
            return Ok(());
        }
        Err(InvalidOption { part: self.0, option, value, low, high })
    }
}

pub(crate) trait Number {
    fn number(&self) -> f64;
}

macro_rules! numbers {
    ($($type:ty: $number:expr;)+) => {
        $(impl Number for $type {
            fn number(&self) -> f64 {
                let number: fn(Self) -> f64 = $number;
                number(*self)
            }
        })+
    };
}

numbers! {
    f64: |number| number;
    u32: f64::from;
    Bytes: Self::as_f64;
    Rate: |rate| rate.as_bytes_per_sec() as f64;
    Span: Self::as_secs_f64;
}

/// A field that is checked as a whole.
pub(crate) trait Part {
    fn check(&self, checks: Checks, name: &'static str) -> Result<(), InvalidOption>;
}

/// Any value is permitted.
impl Part for u64 {
    fn check(&self, _checks: Checks, _name: &'static str) -> Result<(), InvalidOption> {
        Ok(())
    }
}

impl Part for bool {
    fn check(&self, _checks: Checks, _name: &'static str) -> Result<(), InvalidOption> {
        Ok(())
    }
}

/// Declares options as the public fields of a struct, which gets `Default` and [`Part`].
///
/// A field is `name: Type = default, low..=high;`, and a bound is a number or the name of another field. A field
/// without a range is a [`Part`]. Names in errors begin with the prefix of the struct.
macro_rules! options {
    ($(#[$meta:meta])* pub struct $name:ident[$prefix:literal] {
        $($(#[$doc:meta])* $field:ident: $type:ty = $default:expr $(, $low:tt..=$high:tt)?;)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl $crate::options::Part for $name {
            fn check(
                &self,
                checks: $crate::options::Checks,
                _name: &'static str,
            ) -> Result<(), $crate::options::InvalidOption> {
                $({
                    let name = concat!($prefix, stringify!($field));
                    $crate::options::options!(@check self, checks, name, $field $(, $low, $high)?)?;
                })+
                Ok(())
            }
        }
    };
    (@check $self:ident, $checks:ident, $name:ident, $field:ident) => {
        $crate::options::Part::check(&$self.$field, $checks, $name)
    };
    (@check $self:ident, $checks:ident, $name:ident, $field:ident, $low:tt, $high:tt) => {
        $checks.within(
            $name,
            $crate::options::Number::number(&$self.$field),
            ($crate::options::options!(@bound $self, $low), $crate::options::options!(@bound $self, $high)),
        )
    };
    (@bound $self:ident, $field:ident) => { $crate::options::Number::number(&$self.$field) };
    (@bound $self:ident, $number:literal) => { $number };
}

pub(crate) use options;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_part_option_and_range() {
        let checks = Checks("pathload");
        assert_eq!(checks.within("streams", 1.0, (1.0, 100.0)), Ok(()));
        let error = checks.within("streams", 0.0, (1.0, 100.0)).expect_err("too few");
        assert_eq!(error.to_string(), "pathload: streams is 0, but must be from 1 to 100");
        assert!(checks.within("share", f64::NAN, (0.0, 1.0)).is_err());
    }
}
