//! Common code of the adapters of longhaul's congestion controllers to QUIC stacks: a [`Driver`] that turns a stack's
//! callbacks into the events of [`longhaul_cc`].
//!
//! This crate is a part of `longhaul-noq`, `longhaul-quinn` and `longhaul-s2n`, but not a public interface: semantic
//! versioning does not cover it.
#![forbid(unsafe_code)]

mod choice;
mod clock;
mod driver;
mod ring;
mod rounds;
mod rtt;
mod sampler;

pub use choice::{Choice, ChoiceError, Stack};
pub use clock::Clock;
pub use driver::{Acked, Driver, Kept, Lost};
