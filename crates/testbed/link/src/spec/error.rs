//! Errors in the options of a link.

use super::value::ValueError;
use super::{Direction, OPTIONS};
use crate::scenario;
use crate::trace::TraceError;
use crate::validate::ConfigError;

/// Error in the options of a link.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// There is no such option.
    #[error("there is no option --{0}; the options are {known}, most of them also with -up or -down", known = options())]
    UnknownOption(String),
    /// An option lacks its value.
    #[error("--{0} needs a value")]
    MissingValue(String),
    /// A flag was given a value.
    #[error("--{0} takes no value")]
    UnexpectedValue(String),
    /// An option's value is invalid.
    #[error("--{option} {error}")]
    Value {
        /// The option.
        option: String,
        /// The reason why it is invalid.
        error: ValueError,
    },
    /// An option was given twice.
    #[error("--{0} is given twice; leave one of them out")]
    Twice(String),
    /// Two options exclude each other.
    #[error("--{one} and --{other} exclude each other; leave one of them out")]
    Contradiction {
        /// One option.
        one: String,
        /// The other option.
        other: String,
    },
    /// An option requires another one.
    #[error("{direction}: --{option} needs {needs}", direction = name(*direction))]
    Needs {
        /// The direction of the link.
        direction: Direction,
        /// The option.
        option: String,
        /// The option that is also required.
        needs: &'static str,
    },
    /// `--swap` was given without a scenario.
    #[error("--swap reverses a scenario and needs --scenario; name one, or exchange the options -up and -down")]
    SwapsNothing,
    /// There is no such scenario.
    #[error("there is no scenario {0:?}; the scenarios are {known}", known = scenarios())]
    UnknownScenario(String),
    /// A file could not be read.
    #[error("{file}: {error}")]
    File {
        /// The file's name.
        file: String,
        /// The operating system's error.
        error: String,
    },
    /// A file is not a trace.
    #[error("{file}: {error}")]
    Trace {
        /// The file's name.
        file: String,
        /// The reason why it is invalid.
        error: TraceError,
    },
    /// The options describe an invalid link.
    #[error("{direction}: {error}", direction = name(*direction))]
    Impossible {
        /// The direction of the link.
        direction: Direction,
        /// The reason why it is invalid.
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
