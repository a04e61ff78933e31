//! Both directions of a link on the monotonic clock.

use longhaul_link::spec::{Direction, Path};
use longhaul_link::{Histogram, Link, LinkConfig, LinkStats, Packet, Payload, RouterStats};
use longhaul_sys::linux::monotonic_now;
use longhaul_units::{Span, Time};

use crate::log::{Logs, Recorder};

/// Both directions, in the order of their numbers.
pub const DIRECTIONS: [Direction; 2] = [Direction::Up, Direction::Down];

/// A duplex link whose time begins with its making, and what it was late by.
#[derive(Debug)]
pub struct Engine<T> {
    links: [Link<T, Option<Recorder>>; 2],
    logs: Logs,
    lateness: Histogram,
    /// Zero of its time, in nanoseconds of the monotonic clock.
    zero: u64,
}

impl<T: Payload> Engine<T> {
    /// An idle link. `is_hop`: whether it takes one from the TTL of what passes, as a router does.
    ///
    /// # Errors
    /// If there can be no such link; the error names the fault and the remedy.
    pub fn new(path: &Path, is_hop: bool, logs: Logs) -> Result<Self, longhaul_link::ConfigError> {
        let make = |direction: Direction, config: &LinkConfig| {
            let config = LinkConfig { is_hop, ..config.clone() };
            let recorder = logs.recorder(direction, &config);
            Link::with_hook(config, path.seed, direction as u64, recorder)
        };
        let links = [make(Direction::Up, &path.link.there)?, make(Direction::Down, &path.link.back)?];
        Ok(Self { links, logs, lateness: Histogram::default(), zero: monotonic_now() })
    }

    /// The time of the link now.
    #[must_use]
    pub fn now(&self) -> Time {
        self.time(monotonic_now())
    }

    /// The time of the link at a nanosecond of the monotonic clock.
    #[must_use]
    pub fn time(&self, monotonic: u64) -> Time {
        Time::from_nanos(monotonic.saturating_sub(self.zero))
    }

    /// The nanosecond of the monotonic clock at a time of the link.
    #[must_use]
    pub fn monotonic(&self, time: Time) -> u64 {
        time.as_nanos().saturating_add(self.zero)
    }

    /// Takes in a packet that came at a time, of which the link makes the present if it was there already.
    pub fn offer(&mut self, direction: Direction, at: Time, packet: Packet<T>) {
        self.link(direction).offer(at, packet);
    }

    /// Takes the next packet of a direction that has arrived by `now`, and when it did.
    pub fn poll(&mut self, direction: Direction, now: Time) -> Option<(Time, Packet<T>)> {
        self.link(direction).poll(now)
    }

    /// When something arrives next.
    #[must_use]
    pub fn next_event(&self) -> Option<Time> {
        self.links.iter().filter_map(Link::next_event).min()
    }

    /// Notes that what was due at a time was passed on at another.
    pub fn passed_on(&mut self, due: Time, at: Time) {
        self.lateness.add(at.since(due));
    }

    /// How late packets were passed on.
    #[must_use]
    pub fn lateness(&self) -> &Histogram {
        &self.lateness
    }

    /// What happened in a direction.
    #[must_use]
    pub fn stats(&self, direction: Direction) -> &LinkStats {
        let [up, down] = &self.links;
        match direction {
            Direction::Up => up.stats(),
            Direction::Down => down.stats(),
        }
    }

    /// What the router of a direction did, if there is one.
    #[must_use]
    pub fn router_stats(&self, direction: Direction) -> Option<&RouterStats> {
        let [up, down] = &self.links;
        let link = if direction == Direction::Up { up } else { down };
        link.router_stats()
    }

    /// Packets of a direction that wait or are under way.
    #[must_use]
    pub fn inside(&self, direction: Direction) -> u64 {
        let [up, down] = &self.links;
        let link = if direction == Direction::Up { up } else { down };
        link.backlog().0 + link.under_way() as u64
    }

    /// Whether nothing waits or is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        DIRECTIONS.iter().all(|direction| self.inside(*direction) == 0)
    }

    /// Hands on to the log what has happened by `now`.
    pub fn record(&mut self, now: Time) {
        if self.logs.is_empty() {
            return;
        }
        let [up, down] = &mut self.links;
        self.logs.write(now, [up.hook_mut(), down.hook_mut()]);
    }

    /// Ends the logs.
    ///
    /// # Errors
    /// If they could not be written.
    pub fn close(&mut self) -> std::io::Result<()> {
        self.record(self.now());
        self.logs.close()
    }

    fn link(&mut self, direction: Direction) -> &mut Link<T, Option<Recorder>> {
        let [up, down] = &mut self.links;
        match direction {
            Direction::Up => up,
            Direction::Down => down,
        }
    }
}

/// A time that can be read: `1.25 ms`.
#[must_use]
pub fn readable(span: Span) -> String {
    let nanos = span.as_nanos() as f64;
    let (value, unit) = match span.as_nanos() {
        0..=999 => (nanos, "ns"),
        1_000..=999_999 => (nanos / 1e3, "us"),
        1_000_000..=999_999_999 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    // Three digits are what the histograms are good for.
    let decimals = if value >= 100.0 || unit == "ns" {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {unit}")
}
