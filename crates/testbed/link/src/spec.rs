//! Links described as text: `--rate 20mbit --rtt 500ms --queue 1bdp --loss-down 0.1%`.
//!
//! [`LinkOptions`] takes one option at a time, independently of how the program reads its command line, and builds a
//! [`Path`] from them. An option that ends in `-up` or `-down` applies to that direction, and a plain option to both;
//! the more specific one takes precedence. Errors state the problem and what to write instead.

mod router;
mod side;
pub mod value;

use crate::scenario;
use crate::topology::Duplex;
use crate::trace::Trace;
use longhaul_units::named;
pub use side::OPTIONS;
use side::Side;
use std::sync::Arc;
use value::ValueError;

named! {
    /// Direction of a link.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Direction {
        /// From the client to the server.
        Up = "up",
        /// From the server to the client.
        Down = "down",
    }
}

/// Error in the options of a link, with its remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(String);

impl SpecError {
    /// Returns the error of an option that is given twice; `name` is without the leading `--`.
    pub fn twice(name: &str) -> Self {
        Self(format!("--{name} is given twice; leave one of them out"))
    }

    fn unknown(name: &str) -> Self {
        let known: Vec<_> = OPTIONS.iter().map(|(name, ..)| format!("--{name}")).collect();
        let known = known.join(", ");
        Self(format!("there is no option --{name}; the options are {known}, most of them also with -up or -down"))
    }

    fn value(name: &str, error: &ValueError) -> Self {
        Self(format!("--{name} {error}"))
    }
}

/// A link built from options.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The link, with up as `there` and down as `back`.
    pub link: Duplex,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Options as given, before they are combined.
#[derive(Clone, Debug, Default)]
pub struct LinkOptions {
    both: Side,
    up: Side,
    down: Side,
    scenario: Option<String>,
    swap: Option<()>,
    seed: Option<u64>,
}

impl LinkOptions {
    /// Creates an empty set of options, which describes a link without delay and without limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether the option takes a value, or `None` if there is no such option. `name` is without the leading
    /// `--`.
    pub fn takes_value(name: &str) -> Option<bool> {
        let (name, _) = split(name);
        OPTIONS.iter().find(|(known, ..)| *known == name).map(|(_, value, _)| !value.is_empty())
    }

    /// Reads options, as `--name value`, as `--name=value`, or as flags, up to the first argument that is none of
    /// these options. Returns the number of arguments read.
    pub fn read<S: AsRef<str>>(&mut self, arguments: &[S]) -> Result<usize, SpecError> {
        let mut read = 0;
        while let Some(name) = arguments.get(read).and_then(|argument| argument.as_ref().strip_prefix("--")) {
            let (name, joined) = name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
            let Some(takes_value) = Self::takes_value(name) else { break };
            let next = arguments.get(read + 1).map(AsRef::as_ref);
            let value = if takes_value { joined.or(next) } else { joined };
            self.set(name, value)?;
            read += if takes_value && joined.is_none() { 2 } else { 1 };
        }
        Ok(read)
    }

    /// Sets one option; `name` is without the leading `--`.
    ///
    /// # Errors
    /// Returns an error if there is no such option, if its value is missing or invalid, or if it contradicts an
    /// earlier one.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), SpecError> {
        let (plain, direction) = split(name);
        let option = OPTIONS.iter().find(|(known, ..)| *known == plain);
        let Some(&(plain, placeholder, _)) = option else { return Err(SpecError::unknown(name)) };
        let text = match (value, placeholder.is_empty()) {
            (Some(value), false) => value,
            (None, true) => "",
            (None, false) => return Err(SpecError(format!("--{name} needs a value"))),
            (Some(_), true) => return Err(SpecError(format!("--{name} takes no value"))),
        };
        match (plain, direction) {
            ("scenario" | "swap" | "seed", Some(_)) => Err(SpecError::unknown(name)),
            ("scenario", None) => once(&mut self.scenario, name, text.to_owned()),
            ("swap", None) => once(&mut self.swap, name, ()),
            ("seed", None) => {
                let seed = value::whole(text, "number").map_err(|error| SpecError::value(name, &error))?;
                once(&mut self.seed, name, seed)
            }
            (_, None) => self.both.set(plain, name, text),
            (_, Some(Direction::Up)) => self.up.set(plain, name, text),
            (_, Some(Direction::Down)) => self.down.set(plain, name, text),
        }
    }

    /// Builds the link. `read` returns the text of a file.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or is not a trace, if options contradict each other, or if the
    /// link's configuration is invalid.
    pub fn build(&self, mut read: impl FnMut(&str) -> Result<String, String>) -> Result<Path, SpecError> {
        let mut trace = |file: &str| {
            let text = read(file).map_err(|error| SpecError(format!("{file}: {error}")))?;
            let trace = Trace::parse(&text).map_err(|error| SpecError(format!("{file}: {error}")))?;
            Ok(Arc::new(trace))
        };
        let mut base = match &self.scenario {
            None if self.swap.is_some() => {
                let remedy = "name one, or exchange the options -up and -down";
                return Err(SpecError(format!("--swap reverses a scenario and needs --scenario; {remedy}")));
            }
            None => Duplex::default(),
            Some(name) => scenario::find(name).ok_or_else(|| unknown_scenario(name))?.link(),
        };
        // Swap the scenario's directions before applying options, so that -up always means away from the client.
        if self.swap.is_some() {
            std::mem::swap(&mut base.there, &mut base.back);
        }
        let (up, down) = (self.up.clone().or(&self.both), self.down.clone().or(&self.both));
        let (mut there, mut back) =
            (up.apply(Direction::Up, base.there, &mut trace)?, down.apply(Direction::Down, base.back, &mut trace)?);
        let rtt = there.delay + back.delay;
        up.limit(Direction::Up, &mut there, rtt)?;
        down.limit(Direction::Down, &mut back, rtt)?;
        for (direction, link) in [(Direction::Up, &there), (Direction::Down, &back)] {
            link.validate().map_err(|error| SpecError(format!("{}: {error}", direction.name())))?;
        }
        Ok(Path { link: Duplex { there, back }, seed: self.seed.unwrap_or(1) })
    }
}

fn unknown_scenario(name: &str) -> SpecError {
    let known: Vec<_> = scenario::all().iter().map(|scenario| scenario.name).collect();
    SpecError(format!("there is no scenario {name:?}; the scenarios are {}", known.join(", ")))
}

fn split(name: &str) -> (&str, Option<Direction>) {
    if let Some(name) = name.strip_suffix("-up") {
        (name, Some(Direction::Up))
    } else if let Some(name) = name.strip_suffix("-down") {
        (name, Some(Direction::Down))
    } else {
        (name, None)
    }
}

fn once<V>(place: &mut Option<V>, name: &str, value: V) -> Result<(), SpecError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(SpecError::twice(name)),
    }
}

#[cfg(test)]
mod tests;
