//! [`Time`], [`Span`], [`Bytes`] and [`Rate`]: the quantities that every longhaul crate speaks.
//!
//! All of them are unsigned 64-bit integers inside, so that a window of gigabytes and a path of weeks keep every
//! byte and every nanosecond. Subtraction saturates at zero (a clock that steps back or a window that shrinks under
//! the data in flight is an everyday event, not a bug), addition saturates at the maximum.
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
pub mod math;
mod operators;
mod rate;
mod time;

pub use bytes::Bytes;
pub use rate::Rate;
pub use time::{Span, Time};
