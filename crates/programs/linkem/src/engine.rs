//! Both directions of a link on the monotonic clock.

use longhaul_link::spec::{Direction, Path};
use longhaul_link::{Histogram, Link, LinkConfig, LinkStats, Packet, Payload, RouterStats};
use longhaul_sys::linux::monotonic_now;
use longhaul_units::{Span, Time};

use crate::log::{Logs, Recorder};

/// Both directions, in the order of their numbers.
pub const DIRECTIONS: [Direction; 2] = [Direction::Up, Direction::Down];

/// A duplex link whose time starts at its creation, with a record of the emulator's lateness.
#[derive(Debug)]
pub struct Engine<T> {
    links: [Link<T, Option<Recorder>>; 2],
    logs: Logs,
    lateness: Histogram,
    /// Start of the link's time, in nanoseconds of the monotonic clock.
    zero: u64,
}

impl<T: Payload> Engine<T> {
    /// Creates an idle link. `is_hop` states whether it decrements the TTL of packets, as a router does.
    pub fn new(path: &Path, is_hop: bool, logs: Logs) -> Result<Self, longhaul_link::ConfigError> {
        let make = |direction: Direction, config: &LinkConfig| {
            let config = LinkConfig { is_hop, ..config.clone() };
            let recorder = logs.recorder(direction, &config);
            Link::with_hook(config, path.seed, direction as u64, recorder)
        };
        let links = [make(Direction::Up, &path.link.there)?, make(Direction::Down, &path.link.back)?];
        Ok(Self { links, logs, lateness: Histogram::default(), zero: monotonic_now() })
    }

    /// Returns the current time of the link.
    pub fn now(&self) -> Time {
        self.time(monotonic_now())
    }

    /// Converts nanoseconds of the monotonic clock to a time of the link.
    pub fn time(&self, monotonic: u64) -> Time {
        Time::from_nanos(monotonic.saturating_sub(self.zero))
    }

    /// Converts a time of the link to nanoseconds of the monotonic clock.
    pub fn monotonic(&self, time: Time) -> u64 {
        time.as_nanos().saturating_add(self.zero)
    }

    /// Offers a packet that arrived at `at`. If the link has already advanced beyond `at`, its current time is used.
    pub fn offer(&mut self, direction: Direction, at: Time, packet: Packet<T>) {
        self.links[direction as usize].offer(at, packet);
    }

    /// Takes the next packet of a direction that has arrived by `now`, with its arrival time.
    pub fn poll(&mut self, direction: Direction, now: Time) -> Option<(Time, Packet<T>)> {
        self.links[direction as usize].poll(now)
    }

    /// Returns the time of the next event of either direction.
    pub fn next_event(&self) -> Option<Time> {
        self.links.iter().filter_map(Link::next_event).min()
    }

    /// Records that a packet due at `due` was forwarded at `at`.
    pub fn passed_on(&mut self, due: Time, at: Time) {
        self.lateness.add(at.since(due));
    }

    /// Returns how late packets were sent on.
    pub fn lateness(&self) -> &Histogram {
        &self.lateness
    }

    /// Returns the counters of a direction.
    pub fn stats(&self, direction: Direction) -> &LinkStats {
        self.links[direction as usize].stats()
    }

    /// Returns the counters of a direction's router, if there is one.
    pub fn router_stats(&self, direction: Direction) -> Option<&RouterStats> {
        self.links[direction as usize].router_stats()
    }

    /// Returns the number of packets of a direction that are queued or in flight.
    pub fn inside(&self, direction: Direction) -> u64 {
        let link = &self.links[direction as usize];
        link.backlog().0 + link.under_way() as u64
    }

    /// Returns whether no packet is queued or in flight in either direction.
    pub fn is_empty(&self) -> bool {
        DIRECTIONS.iter().all(|direction| self.inside(*direction) == 0)
    }

    /// Passes the events up to `now` to the logs.
    pub fn record(&mut self, now: Time) {
        if self.logs.is_empty() {
            return;
        }
        let [up, down] = &mut self.links;
        self.logs.write(now, [&mut up.hook, &mut down.hook]);
    }

    /// Closes the logs.
    pub fn close(&mut self) -> std::io::Result<()> {
        self.record(self.now());
        std::mem::take(&mut self.logs).close()
    }
}

/// Formats a time span with a unit and up to three significant digits: `1.25 ms`.
pub fn readable(span: Span) -> String {
    let nanos = span.as_nanos() as f64;
    let (value, unit) = match span.as_nanos() {
        0..=999 => (nanos, "ns"),
        1_000..=999_999 => (nanos / 1e3, "us"),
        1_000_000..=999_999_999 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    // The precision of the histograms is about three digits.
    let decimals = if value >= 100.0 || unit == "ns" {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {unit}")
}
