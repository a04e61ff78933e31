//! Random scenarios: paths and competing traffic drawn from a distribution, one scenario per seed.
//!
//! [`text`] returns an experiment with a cell per controller and scenario, which is checked, run, stored and reported
//! like any other. `docs/lab.md` describes the distribution and the score.

mod definition;
mod describe;
mod draw;
mod error;
mod limit;
mod request;

pub use definition::text;
pub use draw::{Aqm, Competition, Loss, Policer, Reordering, Scenario, Step, Traffic};
pub use error::RandomError;
pub use request::{Request, Seeds, Set, names};

/// Version of the distribution. The scenario of a seed never changes within a version.
pub const VERSION: u32 = 1;
