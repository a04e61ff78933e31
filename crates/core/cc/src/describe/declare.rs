//! Declaration of an algorithm's options: their names and ranges in text, the struct that holds them, and its defaults.

use super::{OptionKind, OptionSpec, Value, Values};

/// A type that holds the value of an option.
pub trait FromValue: Sized {
    /// The widest kind of option whose every value the type holds. A choice without words stands for any words.
    const HOLDS: OptionKind;

    /// Converts `value`. [`options!`](crate::options) refuses to compile an option of another kind; a value of another
    /// kind becomes the type's zero or first word.
    fn from_value(value: Value) -> Self;
}

macro_rules! integers {
    ($($type:ty),+) => {$(
        impl FromValue for $type {
            const HOLDS: OptionKind = OptionKind::Int { min: 0, max: <$type>::MAX as u64, default: 0 };

            fn from_value(value: Value) -> Self {
                if let Value::Int(value) = value { Self::try_from(value).unwrap_or(Self::MAX) } else { 0 }
            }
        }
    )+};
}

integers!(u8, u32, u64, usize);

impl FromValue for f64 {
    const HOLDS: OptionKind = OptionKind::Float { min: Self::MIN, max: Self::MAX, default: 0.0 };

    fn from_value(value: Value) -> Self {
        if let Value::Float(value) = value { value } else { 0.0 }
    }
}

impl FromValue for bool {
    const HOLDS: OptionKind = OptionKind::Flag { default: false };

    fn from_value(value: Value) -> Self {
        value == Value::Flag(true)
    }
}

impl FromValue for &'static str {
    const HOLDS: OptionKind = OptionKind::Choice { names: &[] };

    fn from_value(value: Value) -> Self {
        if let Value::Choice(word) = value { word } else { "" }
    }
}

impl Values<'_> {
    /// Reads the next value, or the default of `option` after the last.
    #[doc(hidden)]
    pub fn read<T: FromValue>(&mut self, option: &OptionSpec) -> T {
        T::from_value(self.0.next().copied().unwrap_or_else(|| option.default_value()))
    }
}

/// Functions for the expansion of [`options!`](crate::options), evaluated at compile time.
#[doc(hidden)]
impl OptionSpec {
    /// Returns the same option. Compilation fails if `T` does not hold its values.
    pub const fn held_by<T: FromValue>(self) -> Self {
        let fits = match (self.kind, T::HOLDS) {
            (OptionKind::Int { max, .. }, OptionKind::Int { max: largest, .. }) => max <= largest,
            (OptionKind::Choice { names }, OptionKind::Choice { names: known }) => {
                known.is_empty() || names.len() == known.len()
            }
            (OptionKind::Float { .. }, OptionKind::Float { .. })
            | (OptionKind::Flag { .. }, OptionKind::Flag { .. }) => true,
            _ => false,
        };
        assert!(fits, "the field's type does not hold the option's values");
        self
    }

    /// Returns the same option. Compilation fails if the argument of the conversion does not hold its values.
    pub const fn converted_by<A: FromValue, T>(self, _conversion: fn(A) -> T) -> Self {
        self.held_by::<A>()
    }

    pub const fn count(parts: &[&[Self]]) -> usize {
        let (mut count, mut part) = (0, 0);
        while part < parts.len() {
            count += parts[part].len();
            part += 1;
        }
        count
    }

    pub const fn concat<const N: usize>(parts: &[&[Self]]) -> [Self; N] {
        let mut all = [Self::flag("", false, ""); N];
        let (mut count, mut part) = (0, 0);
        while part < parts.len() {
            let mut item = 0;
            while item < parts[part].len() {
                all[count] = parts[part][item];
                (count, item) = (count + 1, item + 1);
            }
            part += 1;
        }
        all
    }
}

/// Declares the options of an algorithm as the fields of a struct or the words of an enum.
///
/// A struct gets
///
/// * its fields, each as visible as the struct, `#[non_exhaustive]`, and `Clone`, `Copy`, `Debug`, `PartialEq`;
/// * `OPTIONS` for [`Entry::options`](crate::registry::Entry::options), in the order of the fields;
/// * `from_values` for the constructor of the [`Entry`](crate::registry::Entry), which reads the values by position;
/// * `Default`, the defaults of the options.
///
/// A field has one of these forms:
///
/// * `name: Type = option,` where `Type` is `u8`, `u32`, `u64`, `usize`, `f64`, `bool` or an enum of this macro;
/// * `name: Type [conversion] = option,` with a function from one of these types, or from `&'static str` for a choice;
/// * `name: Type,` for the options of another such struct;
/// * `name: Type => value,` for a field without an option, such as the initial state of an algorithm that needs no other
///   struct.
///
/// If the type cannot hold every value of the option, the declaration does not compile. `_ = option,` at the end
/// declares an option that another part of the controller reads, such as [`ECN_BETA`](crate::compose::ECN_BETA).
///
/// An enum gets `#[non_exhaustive]`, `Clone`, `Copy`, `Debug`, `PartialEq`, `Eq`, and `NAMES`, its words for
/// [`OptionSpec::choice`](crate::registry::OptionSpec::choice); the first is the default.
///
/// ```
/// use longhaul_cc::options;
/// use longhaul_cc::registry::OptionSpec;
/// use longhaul_units::Span;
///
/// options! {
///     /// How fast the window rises.
///     enum Rise {
///         Slow = "slow",
///         Fast = "fast",
///     }
/// }
///
/// options! {
///     /// The constants of Gentle.
///     struct GentleConfig {
///         /// Segments per round trip.
///         alpha: f64 = OptionSpec::float("alpha", 0.1, 1.0, 0.5, "segments per round trip"),
///         rise: Rise = OptionSpec::choice("rise", Rise::NAMES, "how fast the window rises"),
///         pause: Span [Span::from_millis] = OptionSpec::int("pause", 0, 1000, 10, "pause after a loss, ms"),
///         _ = longhaul_cc::compose::ECN_BETA,
///     }
/// }
///
/// let config = GentleConfig::default();
/// assert_eq!((config.alpha, config.rise, config.pause), (0.5, Rise::Slow, Span::from_millis(10)));
/// assert_eq!(GentleConfig::OPTIONS.len(), 4);
/// ```
///
/// ```compile_fail
/// use longhaul_cc::registry::OptionSpec;
///
/// longhaul_cc::options! {
///     struct Wrong {
///         small: u8 = OptionSpec::int("small", 0, 256, 0, "one more than the type holds"),
///     }
/// }
/// ```
#[macro_export]
macro_rules! options {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty $([$with:expr])? $(= $option:expr)? $(=> $fixed:expr)?,)*
        $(_ = $other:expr,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        $vis struct $name {
            $($(#[$doc])* $vis $field: $type,)*
        }

        impl $name {
            /// The options whose values the fields have.
            $vis const OPTIONS: &'static [$crate::internal::options::OptionSpec] = {
                use $crate::internal::options::OptionSpec;
                const PARTS: &[&[OptionSpec]] = &[
                    $($crate::options!(@options [$type] $([with $with])? $([= $option])? $([=> $fixed])?),)*
                    &[$($other),*],
                ];
                &OptionSpec::concat::<{ OptionSpec::count(PARTS) }>(PARTS)
            };

            /// Reads the fields, in order, from the values of the options.
            $vis fn from_values(values: &mut $crate::internal::options::Values<'_>) -> Self {
                $(let $field =
                    $crate::options!(@read values [$type] $([with $with])? $([= $option])? $([=> $fixed])?);)*
                Self { $($field),* }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::from_values(&mut $crate::internal::options::Values::default())
            }
        }
    };
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$doc:meta])* $variant:ident = $word:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        $vis enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// The words of the variants, in order.
            $vis const NAMES: &'static [&'static str] = &[$($word),+];
        }

        impl $crate::internal::options::FromValue for $name {
            const HOLDS: $crate::internal::options::OptionKind = $crate::internal::options::OptionKind::Choice { names: Self::NAMES };

            fn from_value(value: $crate::internal::options::Value) -> Self {
                match value {
                    $($crate::internal::options::Value::Choice($word) => Self::$variant,)+
                    _ => [$(Self::$variant),+][0],
                }
            }
        }
    };
    (@options [$type:ty] [= $option:expr]) => { &[$option.held_by::<$type>()] };
    (@options [$type:ty] [with $with:expr] [= $option:expr]) => { &[$option.converted_by($with)] };
    (@options [$type:ty] [=> $fixed:expr]) => { &[] };
    (@options [$type:ty]) => { <$type>::OPTIONS };
    (@read $values:ident [$type:ty] [= $option:expr]) => { $values.read::<$type>(&$option) };
    (@read $values:ident [$type:ty] [with $with:expr] [= $option:expr]) => { ($with)($values.read(&$option)) };
    (@read $values:ident [$type:ty] [=> $fixed:expr]) => { $fixed };
    (@read $values:ident [$type:ty]) => { <$type>::from_values($values) };
}
