//! What happens on a link in mahimahi's log format, one line an event.

use core::fmt;

use std::collections::VecDeque;

use longhaul_units::{Span, Time};

use crate::hook::{Hook, View};
use crate::packet::Packet;
use crate::stats::Cause;
use crate::trace::OPPORTUNITY;

/// A line of a log. Times are whole milliseconds, as mahimahi writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLine {
    /// A delivery opportunity: `t # 1504`.
    Opportunity(Time),
    /// A packet arrives at the queue: `t + bytes`.
    Arrival(Time, u32),
    /// A packet's last byte leaves: `t - bytes delay`, and how long it was in the queue, in milliseconds.
    Departure(Time, u32, Span),
    /// Packets are dropped: `t d packets bytes`.
    Drop(Time, u32, u64),
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |time: &Time| time.since(Time::ZERO).as_millis();
        match self {
            Self::Opportunity(at) => write!(f, "{} # {OPPORTUNITY}", millis(at)),
            Self::Arrival(at, bytes) => write!(f, "{} + {bytes}", millis(at)),
            Self::Departure(at, bytes, delay) => write!(f, "{} - {bytes} {}", millis(at), delay.as_millis()),
            Self::Drop(at, packets, bytes) => write!(f, "{} d {packets} {bytes}", millis(at)),
        }
    }
}

/// The lines before the first event: what ran, the queue, and the wall-clock time of the log's zero in milliseconds.
#[must_use]
pub fn header(command: &str, queue: &str, base_millis: u64) -> String {
    format!(
        "# mahimahi {command}\n# queue: {queue}\n# init timestamp: {base_millis}\n# base timestamp: {base_millis}\n"
    )
}

/// A hook that writes a line for each packet that comes to the queue, leaves the link or is dropped before it, in the
/// order of time. Opportunities are not written: a link of constant rate has none.
#[derive(Debug)]
pub struct Log<W> {
    out: W,
    /// Departures that were foreseen and are still to come.
    departures: VecDeque<LogLine>,
    failed: bool,
}

impl<W: fmt::Write> Log<W> {
    /// Writes to `out`, after a [`header`].
    #[must_use]
    pub const fn new(out: W) -> Self {
        Self { out, departures: VecDeque::new(), failed: false }
    }

    /// Writes what has happened by `now`: call it at the end.
    pub fn flush(&mut self, now: Time) {
        while let Some(&line) = self.departures.front()
            && matches!(line, LogLine::Departure(at, ..) if at <= now)
        {
            self.departures.pop_front();
            self.write(line);
        }
    }

    /// What it writes to, to be emptied now and then.
    pub fn out(&mut self) -> &mut W {
        &mut self.out
    }

    /// Whether `out` refused something.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        self.failed
    }

    fn write(&mut self, line: LogLine) {
        self.failed |= writeln!(self.out, "{line}").is_err();
    }
}

impl<T, W: fmt::Write> Hook<T> for Log<W> {
    fn offered(&mut self, now: Time, packet: &mut Packet<T>, _view: &View) {
        self.flush(now);
        self.write(LogLine::Arrival(now, packet.size));
    }

    fn egress(&mut self, now: Time, ends: Time, packet: &mut Packet<T>, _view: &View) {
        self.flush(now);
        self.departures.push_back(LogLine::Departure(ends, packet.size, ends - packet.enqueued));
    }

    fn dropped(&mut self, now: Time, packet: &Packet<T>, cause: Cause) {
        if cause.is_before_link() {
            self.flush(now);
            self.write(LogLine::Drop(now, 1, u64::from(packet.size)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_mahimahis() {
        let at = Time::from_nanos(12_999_999);
        let lines = [
            LogLine::Opportunity(at),
            LogLine::Arrival(at, 1500),
            LogLine::Departure(at, 1500, Span::from_micros(7_100)),
            LogLine::Drop(at, 2, 3000),
        ];
        assert_eq!(lines.map(|line| line.to_string()), ["12 # 1504", "12 + 1500", "12 - 1500 7", "12 d 2 3000"]);
        assert!(header("link", "infinite []", 5).ends_with("# init timestamp: 5\n# base timestamp: 5\n"));
    }
    #[test]
    fn a_link_is_logged_in_the_order_of_time() {
        use crate::{Limit, Link, LinkConfig};
        let rate = longhaul_units::Rate::from_bytes_per_sec(1_000_000);
        let config = LinkConfig::new(rate, Span::from_millis(50)).queue(Limit::Packets(1));
        let mut link = Link::with_hook(config, 1, 0, Some(Log::new(String::new()))).unwrap();
        for millis in [0, 1, 2, 3] {
            link.offer(Time::ZERO + Span::from_millis(millis), Packet::new(2_000, ()));
        }
        while let Some(now) = link.next_event() {
            link.poll(now);
        }
        let log = link.hook_mut().as_mut().unwrap();
        log.flush(Time::MAX);
        assert!(!log.has_failed());
        // Each takes 2 ms; the last finds the third waiting.
        assert_eq!(
            log.out(),
            "0 + 2000\n1 + 2000\n2 - 2000 2\n2 + 2000\n3 + 2000\n3 d 1 2000\n4 - 2000 3\n6 - 2000 4\n"
        );
    }
}
