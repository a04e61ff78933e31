//! Quantity types used by all longhaul crates: [`Time`], [`Span`], [`Bytes`] and [`Rate`].
//!
//! Each type counts in 64 bits, so windows of gigabytes and durations of years are exact to the byte and to the
//! nanosecond. An `Option` of a time or duration takes no more memory. Subtraction saturates at zero, because a
//! clock that steps back or a window that shrinks below the data in flight is a normal event, not a bug. Addition
//! saturates at the maximum.
//!
//! ```
//! use longhaul_units::{Bytes, Rate, Span, Time};
//! let rate = Rate::from_bits_per_sec(155_000_000);
//! let bdp = rate.bytes_in(Span::from_millis(65));
//! assert_eq!(bdp, Bytes(1_259_375));
//! assert_eq!(rate.time_for(bdp), Span::from_millis(65));
//! assert_eq!(Time::ZERO + Span::from_secs(1) - Time::ZERO, Span::from_secs(1));
//! ```
#![forbid(unsafe_code)]

mod bytes;
mod count;
pub mod math;
mod operators;
mod rate;
mod time;

pub use bytes::Bytes;
pub use rate::Rate;
pub use time::{Span, Time};

/// Implements `Debug` for a struct with many fields: `{:?}` shows the fields of the first list, `{:#?}` those of both.
/// Fields of a third list are never shown.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_in_part {
    ($type:ty; $($shown:ident)*; $($other:ident)* $(; $($hidden:ident)*)?) => {
        impl ::std::fmt::Debug for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let Self { $($shown,)* $($other,)* $($($hidden: _,)*)? } = self;
                let shows_all = f.alternate();
                let mut all = f.debug_struct(stringify!($type));
                all$(.field(stringify!($shown), $shown))*;
                if !shows_all {
                    return all.finish_non_exhaustive();
                }
                all$(.field(stringify!($other), $other))*.finish()
            }
        }
    };
}

/// Declares an enum with a name for each variant, as `Variant = "name"`. It has the function `name`, and `Display`
/// prints the name. With `, ALL` after its name, it has a constant with all variants.
#[doc(hidden)]
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        $vis enum $type {
            $($(#[$doc])* $variant,)+
        }

        impl $type {
            /// Returns the name.
            #[must_use]
            $vis const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl ::core::fmt::Display for $type {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
    ($(#[$meta:meta])* $vis:vis enum $type:ident, ALL { $($(#[$doc:meta])* $variant:ident = $name:literal,)+ }) => {
        $crate::named! { $(#[$meta])* $vis enum $type { $($(#[$doc])* $variant = $name,)+ } }

        impl $type {
            /// All values, in the order of their declaration.
            $vis const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];
        }
    };
}
