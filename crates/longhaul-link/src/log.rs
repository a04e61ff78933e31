//! What happens on a link in mahimahi's log format, one line an event.

use core::fmt;

use std::collections::VecDeque;

use longhaul_units::{Span, Time};

use crate::config::LinkConfig;
use crate::hook::{Hook, View};
use crate::packet::Packet;
use crate::stats::Cause;
use opportunities::Opportunities;

mod opportunities;

/// A line of a log. Times are whole milliseconds, as mahimahi writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLine {
    /// Delivery opportunities, bytes of them: `t # 1504` for one.
    Opportunity(Time, u64),
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
            Self::Opportunity(at, bytes) => write!(f, "{} # {bytes}", millis(at)),
            Self::Arrival(at, bytes) => write!(f, "{} + {bytes}", millis(at)),
            Self::Departure(at, bytes, delay) => write!(f, "{} - {bytes} {}", millis(at), delay.as_millis()),
            Self::Drop(at, packets, bytes) => write!(f, "{} d {packets} {bytes}", millis(at)),
        }
    }
}

/// The lines before the first event: what ran, the queue, and the wall-clock time of the log's zero in milliseconds. The
/// base is what readers take from the time of each line: nothing, as these count from the log's zero.
#[must_use]
pub fn header(command: &str, queue: &str, init_millis: u64) -> String {
    format!("# mahimahi {command}\n# queue: {queue}\n# init timestamp: {init_millis}\n# base timestamp: 0\n")
}

/// A hook that writes a line for each packet that comes to the queue, leaves the link or is dropped before it, in the
/// order of time, and what the link could have sent.
///
/// A recorded link has its opportunities, used or lost. One of constant rate has one each time it could begin another
/// 1504 bytes, so that at no time more has left than there were opportunities for. Those of one millisecond share a
/// line, and when no packet has been seen for a second, those of a tenth of one, or of a hundredth of the pause if that
/// is longer: an idle link does not fill the disk.
#[derive(Debug)]
pub struct Log<W> {
    out: W,
    /// Departures that were foreseen and are still to come.
    departures: VecDeque<LogLine>,
    opportunities: Option<Opportunities>,
    failed: bool,
}

impl<W: fmt::Write> Log<W> {
    /// Writes to `out`, after a [`header`], what happens to packets, without opportunities.
    #[must_use]
    pub const fn new(out: W) -> Self {
        Self { out, departures: VecDeque::new(), opportunities: None, failed: false }
    }

    /// The same with the opportunities of a link like this; an unlimited one has none.
    #[must_use]
    pub fn of(link: &LinkConfig, out: W) -> Self {
        Self { opportunities: Opportunities::of(link), ..Self::new(out) }
    }

    /// The opportunities are those of another link from `now` on: call it with
    /// [`Link::reconfigure`](crate::Link::reconfigure).
    pub fn reconfigure(&mut self, now: Time, link: &LinkConfig) {
        self.flush(now);
        self.opportunities = Opportunities::from(now, link);
    }

    /// Writes what has happened by `now`: call it at the end, with the time of the end.
    pub fn flush(&mut self, now: Time) {
        while let Some(&line) = self.departures.front()
            && let LogLine::Departure(at, ..) = line
            && at <= now
        {
            self.departures.pop_front();
            self.packet(at, line);
        }
        self.pass(now);
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

    /// A line about a packet, and the opportunities before.
    fn packet(&mut self, at: Time, line: LogLine) {
        self.pass(at);
        if let Some(opportunities) = &mut self.opportunities {
            opportunities.seen(at);
        }
        self.write(line);
    }

    /// Writes the opportunities until then.
    fn pass(&mut self, until: Time) {
        while let Some((at, bytes)) = self.opportunities.as_mut().and_then(|all| all.next(until)) {
            self.write(LogLine::Opportunity(at, bytes));
        }
    }

    fn write(&mut self, line: LogLine) {
        self.failed |= writeln!(self.out, "{line}").is_err();
    }
}

impl<T, W: fmt::Write> Hook<T> for Log<W> {
    fn offered(&mut self, now: Time, packet: &mut Packet<T>, _view: &View) {
        self.flush(now);
        self.packet(now, LogLine::Arrival(now, packet.size));
    }

    fn egress(&mut self, now: Time, ends: Time, packet: &mut Packet<T>, _view: &View) {
        self.flush(now);
        self.departures.push_back(LogLine::Departure(ends, packet.size, ends - packet.enqueued));
    }

    fn dropped(&mut self, now: Time, packet: &Packet<T>, cause: Cause) {
        if cause.is_before_link() {
            self.flush(now);
            self.packet(now, LogLine::Drop(now, 1, u64::from(packet.size)));
        }
    }
}

#[cfg(test)]
mod tests;
