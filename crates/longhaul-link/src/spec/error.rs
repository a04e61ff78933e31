//! Options that describe no link.

use super::value::ValueError;
use super::{Direction, OPTIONS};
use crate::scenario;
use crate::trace::TraceError;
use crate::validate::ConfigError;

/// Why options describe no link.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// No such option.
    #[error("there is no option --{0}; there are {known}, most also with -up or -down", known = options())]
    UnknownOption(String),
    /// An option without what it needs.
    #[error("--{0} needs a value")]
    MissingValue(String),
    /// A flag with a value.
    #[error("--{0} takes no value")]
    UnexpectedValue(String),
    /// A value that is none.
    #[error("--{option} {error}")]
    Value {
        /// The option.
        option: String,
        /// What is wrong.
        error: ValueError,
    },
    /// An option that is there already.
    #[error("--{0} is given twice; leave one of them out")]
    Twice(String),
    /// Options that exclude each other.
    #[error("--{one} and --{other} exclude each other; leave one of them out")]
    Contradiction {
        /// One.
        one: String,
        /// The other.
        other: String,
    },
    /// An option that means nothing without another.
    #[error("{direction}: --{option} needs {needs}", direction = name(*direction))]
    Needs {
        /// In which direction.
        direction: Direction,
        /// The option.
        option: String,
        /// What else is needed.
        needs: &'static str,
    },
    /// A scenario that is to be turned round, and none is named.
    #[error(
        "--swap turns a scenario round and needs --scenario; name one, or give options -up and -down the other way round"
    )]
    SwapsNothing,
    /// No such scenario.
    #[error("there is no scenario {0:?}; there are {known}", known = scenarios())]
    UnknownScenario(String),
    /// A file that cannot be read.
    #[error("{file}: {error}")]
    File {
        /// Its name.
        file: String,
        /// What the system says.
        error: String,
    },
    /// A file that is no trace.
    #[error("{file}: {error}")]
    Trace {
        /// Its name.
        file: String,
        /// What is wrong.
        error: TraceError,
    },
    /// A link that cannot be.
    #[error("{direction}: {error}", direction = name(*direction))]
    Impossible {
        /// In which direction.
        direction: Direction,
        /// What is wrong.
        error: ConfigError,
    },
}

impl SpecError {
    pub(super) fn value(option: &str, error: ValueError) -> Self {
        Self::Value { option: option.into(), error }
    }
}

fn name(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    }
}

fn options() -> String {
    OPTIONS.iter().map(|(name, ..)| format!("--{name}")).collect::<Vec<_>>().join(", ")
}

fn scenarios() -> String {
    scenario::all().iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ")
}
