//! Links described as text: `--rate 20mbit --rtt 500ms --queue 1bdp --loss-down 0.1%`.
//!
//! [`LinkOptions`] takes options one by one, however the program reads its command line, and builds a [`Path`] from
//! them. An option that ends in `-up` or `-down` applies to that direction, a plain one to both; the more specific
//! one takes precedence. Errors say what is wrong and what to write instead.

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

/// All options of a link: name, placeholder of the value, and help text.
pub const OPTIONS: &[(&str, &str, &str)] = &[
    ("rate", "RATE", "constant rate: 20mbit"),
    ("trace", "FILE", "delivery opportunities in mahimahi's format, instead of a rate"),
    ("rtt", "TIME", "round-trip propagation time, half of it each way: 500ms"),
    ("delay", "TIME", "one-way propagation time, instead of --rtt"),
    ("queue", "LIMIT", "queue limit: 1000p, 150kB, 1bdp (of this direction's rate) or infinite"),
    ("aqm", "NAME", "droptail, drophead, priority, rc3, peach, codel, red or red:MIN,MAX (packets), pie or dualpi2"),
    ("ecn", "", "let codel, red and pie mark ECN-capable packets instead of dropping them"),
    ("loss", "SHARE", "lose packets independently: 0.1%"),
    (
        "loss-ge",
        "P,R[,BAD[,GOOD]]",
        "lose in bursts (Gilbert-Elliott): P of good to bad, R of bad to good, loss in bad (100%) and good (0%)",
    ),
    ("ber", "SHARE", "bit error rate; packets with a wrong bit are lost: 1e-7"),
    ("loss-list", "N,...", "lose the packets with these numbers, counted from 1"),
    (
        "reorder",
        "SHARE,PLACES[,TIME]",
        "hold packets until this many others have passed, for at most a time (100ms; use more on slow links)",
    ),
    ("late", "SHARE,TIME,TIME", "delay packets by an extra time between these two"),
    ("duplicate", "SHARE", "deliver packets twice"),
    ("corrupt", "SHARE[,SHARE]", "flip a bit; the second share of these packets is delivered (0%)"),
    ("jitter", "TIME", "add up to this much delay, without reordering"),
    ("overhead", "SIZE|ethernet|aal5", "bytes added to each packet on the link: 18B, ethernet, aal5 or none"),
    ("policer", "RATE,SIZE", "token bucket before the queue: rate and burst"),
    (
        "outage",
        "TIME,TIME[,hold]",
        "start and duration of an outage that loses all packets, or holds them; may be repeated",
    ),
    ("step", "TIME,RATE,RTT", "change rate and RTT at a time; - leaves one unchanged; may be repeated"),
    ("mtu", "SIZE[,TIME]", "drop larger IP packets silently, from a time on"),
    ("bleach", "FIELDS", "clear fields of the IP header: ecn, dscp or both"),
    (
        "router",
        "NAME[(OPTION=VALUE,...)]",
        "answer requests in segments: quick-start, rcp, xcp or none; rcp(gamma=0.95,beta=1)",
    ),
    ("scenario", "NAME", "start from a named link, which the other options change"),
    ("swap", "", "exchange up and down of the named link"),
    ("seed", "N", "seed of all random numbers (1)"),
];

/// Direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
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
    swap: bool,
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

    /// Builds the link. `read` returns the text of a file.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or is not a trace, if options contradict each other, or if the
    /// link's configuration is invalid.
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
        // Swap the scenario's directions before applying options, so that -up always means away from the client.
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

/// Splits off the direction that an option's name ends in. No option's own name ends in one.
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
