//! A link as text: `--rate 20mbit --rtt 500ms --queue 1bdp --loss-down 0.1%`.
//!
//! [`LinkOptions`] takes the options one by one, in whatever way a program reads its command line, and makes a [`Path`]
//! of them. An option that ends in `-up` or `-down` is for that direction; a plain one is for both, and the more specific
//! wins. Faults are values whose text says what is wrong and what to write instead.

mod error;
mod router;
mod side;
pub mod value;

pub use error::SpecError;

use crate::config::LinkConfig;
use crate::scenario;
use crate::topology::Duplex;
use crate::trace::Trace;
use side::Side;
use std::sync::Arc;

/// What there is to be said about a link: each option with what follows it and what it means.
pub const OPTIONS: &[(&str, &str, &str)] = &[
    ("rate", "RATE", "constant rate: 20mbit"),
    ("trace", "FILE", "delivery opportunities in mahimahi's format, instead of a rate"),
    ("rtt", "TIME", "round-trip propagation time, half of it each way: 500ms"),
    ("delay", "TIME", "one-way propagation time, instead of --rtt"),
    ("queue", "LIMIT", "what may wait: 1000p, 150kB, 1bdp (of that direction's rate) or infinite"),
    ("aqm", "NAME", "droptail, drophead, priority, rc3, peach, codel, red, pie or dualpi2"),
    ("ecn", "", "mark instead of drop where codel, red or pie would"),
    ("loss", "SHARE", "lose packets at random: 0.1%"),
    (
        "loss-ge",
        "P,R[,BAD[,GOOD]]",
        "lose in bursts (Gilbert-Elliott): to bad, to good, loss in bad (100%) and good (0%)",
    ),
    ("ber", "SHARE", "lose packets with a wrong bit: 1e-7"),
    ("loss-list", "N,...", "lose the packets of these numbers, from 1"),
    (
        "reorder",
        "SHARE,PLACES[,TIME]",
        "move packets so many places back, for at most a time (100ms: more on slow links)",
    ),
    ("late", "SHARE,TIME,TIME", "make packets later by a time between these two"),
    ("duplicate", "SHARE", "deliver packets twice"),
    ("corrupt", "SHARE[,SHARE]", "flip a bit; of these packets the second share arrives (0%)"),
    ("jitter", "TIME", "add up to so much delay, without reordering"),
    ("overhead", "SIZE|ethernet|aal5", "what the link adds to each packet: 18B, ethernet, aal5 or none"),
    ("policer", "RATE,SIZE", "token bucket before the queue: rate and burst"),
    ("outage", "TIME,TIME[,hold]", "from a time for a time lose everything, or hold it; may be repeated"),
    ("step", "TIME,RATE,RTT", "from a time on another rate and RTT, either may be -; may be repeated"),
    ("mtu", "SIZE[,TIME]", "larger IP packets vanish, from a time on"),
    (
        "router",
        "NAME[(OPTION=VALUE,...)]",
        "answer what segments ask of routers: quick-start, rcp, xcp or none; rcp(gamma=0.95,beta=1)",
    ),
    ("scenario", "NAME", "start from a named link, which the other options change"),
    ("swap", "", "turn the named link round: its up is down, its down is up"),
    ("seed", "N", "what decides everything random (1)"),
];

/// The directions of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// A link as options described it.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Up is `there`, down is `back`.
    pub link: Duplex,
    /// What decides everything random.
    pub seed: u64,
}

/// Options as they were given.
#[derive(Clone, Debug, Default)]
pub struct LinkOptions {
    both: Side,
    up: Side,
    down: Side,
    scenario: Option<String>,
    swap: bool,
    seed: Option<u64>,
}

impl LinkOptions {
    /// No options yet: a link without delay and limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is such an option, without its `--`; whether it takes a value, if so.
    #[must_use]
    pub fn takes_value(name: &str) -> Option<bool> {
        let (name, _) = split(name);
        OPTIONS.iter().find(|(known, ..)| *known == name).map(|(_, value, _)| !value.is_empty())
    }

    /// Reads `--name value` pairs, `--name=value`, and flags, until the first argument that is none of these options, and
    /// returns how many arguments that were.
    ///
    /// # Errors
    /// If an option's value is missing or wrong, or contradicts what was there before.
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

    /// Takes one option, without its `--`.
    ///
    /// # Errors
    /// If there is no such option, its value is missing or wrong, or it contradicts what was there before.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), SpecError> {
        let Some(takes_value) = Self::takes_value(name) else { return Err(SpecError::UnknownOption(name.into())) };
        let value = match (value, takes_value) {
            (Some(value), true) => value,
            (None, false) => "",
            (None, true) => return Err(SpecError::MissingValue(name.into())),
            (Some(_), false) => return Err(SpecError::UnexpectedValue(name.into())),
        };
        let (plain, direction) = split(name);
        match (plain, direction) {
            ("scenario" | "swap" | "seed", Some(_)) => Err(SpecError::UnknownOption(name.into())),
            ("scenario", None) => once(&mut self.scenario, name, value.to_owned()),
            ("swap", None) if self.swap => Err(SpecError::Twice(name.into())),
            ("swap", None) => {
                self.swap = true;
                Ok(())
            }
            ("seed", None) => {
                let seed = value::whole(value, "number").map_err(|error| SpecError::value(name, error))?;
                once(&mut self.seed, name, seed)
            }
            (_, None) => self.both.set(plain, name, value),
            (_, Some(Direction::Up)) => self.up.set(plain, name, value),
            (_, Some(Direction::Down)) => self.down.set(plain, name, value),
        }
    }

    /// Makes the link. `read` gives the text of a file.
    ///
    /// # Errors
    /// If a file cannot be read or is no trace, options contradict each other, or there can be no such link.
    pub fn build(&self, mut read: impl FnMut(&str) -> Result<String, String>) -> Result<Path, SpecError> {
        let mut trace = |file: &str| {
            let text = read(file).map_err(|error| SpecError::File { file: file.into(), error })?;
            let trace = Trace::parse(&text).map_err(|error| SpecError::Trace { file: file.into(), error })?;
            Ok(Arc::new(trace))
        };
        let base = match &self.scenario {
            None if self.swap => return Err(SpecError::SwapsNothing),
            None => Duplex::default(),
            Some(name) => scenario::find(name).ok_or_else(|| SpecError::UnknownScenario(name.clone()))?.link(),
        };
        // Up stays away from the client, whatever the scenario calls it: options with -up and -down apply after this.
        let base = if self.swap { Duplex { there: base.back, back: base.there } } else { base };
        let (up, down) = (self.up.clone().or(&self.both), self.down.clone().or(&self.both));
        let (mut there, mut back) =
            (up.apply(Direction::Up, base.there, &mut trace)?, down.apply(Direction::Down, base.back, &mut trace)?);
        let rtt = there.delay + back.delay;
        up.limit(Direction::Up, &mut there, rtt)?;
        down.limit(Direction::Down, &mut back, rtt)?;
        check(Direction::Up, &there)?;
        check(Direction::Down, &back)?;
        Ok(Path { link: Duplex { there, back }, seed: self.seed.unwrap_or(1) })
    }
}

/// The option and the direction it is for. Names that end in a direction themselves there are none.
fn split(name: &str) -> (&str, Option<Direction>) {
    if let Some(name) = name.strip_suffix("-up") {
        (name, Some(Direction::Up))
    } else if let Some(name) = name.strip_suffix("-down") {
        (name, Some(Direction::Down))
    } else {
        (name, None)
    }
}

fn check(direction: Direction, link: &LinkConfig) -> Result<(), SpecError> {
    link.validate().map_err(|error| SpecError::Impossible { direction, error })
}

fn once<V>(place: &mut Option<V>, name: &str, value: V) -> Result<(), SpecError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(SpecError::Twice(name.into())),
    }
}

#[cfg(test)]
mod tests;
