//! Random scenarios: paths and competing traffic drawn from a distribution, one scenario per seed.
//!
//! [`text`] returns an experiment with a cell per controller and scenario, which is checked, run, stored and reported
//! like any other. `docs/lab.md` describes the distribution and the score.

mod changing;
mod definition;
mod draw;
mod request;

pub(crate) use definition::text;
pub(crate) use request::{Request, Seeds, Set, names};

/// Version of the distribution. The scenario of a seed never changes within a version.
pub(crate) const VERSION: u32 = 1;
