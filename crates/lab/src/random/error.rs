//! Errors of requests for random scenarios.

use longhaul_cc::registry::SpecError;

use super::request::MOST_CELLS;
use super::{Seeds, Set};

/// Error of a request for random scenarios.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RandomError {
    /// There is no set with this name.
    #[error("{0:?} is not a set of scenarios; there are: training, test, any")]
    UnknownSet(String),
    /// The text is not a range of seeds.
    #[error("{0:?} is not a range of seeds; write the first and the last one, as in 1..300")]
    NotARange(String),
    /// The range contains no seed.
    #[error("the range of seeds {0} is empty, because its end is before its start")]
    Empty(Seeds),
    /// The range exceeds the set.
    #[error("the seeds {seeds} are not within the set {set}, which has {all}; `any` has all seeds")]
    Outside {
        /// The requested seeds.
        seeds: Seeds,
        /// The set.
        set: Set,
        /// The seeds of the set.
        all: Seeds,
    },
    /// The set has no seeds of its own.
    #[error("the set any needs --seeds, as in --seeds 1..10")]
    NoSeeds,
    /// No controller was requested.
    #[error("no congestion controller is given; name one with -C, as in -C cubic")]
    NoController,
    /// A name is not that of a controller.
    #[error("-C {name}: {error}")]
    Controller {
        /// The name.
        name: String,
        /// The fault.
        error: Box<SpecError>,
    },
    /// A controller was requested twice.
    #[error("-C {0} is given twice")]
    Twice(String),
    /// There are too many runs for one experiment.
    #[error("{scenarios} scenarios with {controllers} controllers are more than {MOST_CELLS} runs")]
    TooMany {
        /// Number of scenarios.
        scenarios: u64,
        /// Number of controllers.
        controllers: usize,
    },
}
