//! Log of the packets on a link in mahimahi's format, one line per event.

use core::fmt;

use std::collections::VecDeque;

use longhaul_units::{Span, Time};

use crate::config::LinkConfig;
use crate::hook::{Hook, View};
use crate::packet::Packet;
use crate::stats::Cause;
use opportunities::Opportunities;

mod opportunities;

/// One line of a log. Times are written in whole milliseconds, as mahimahi does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLine {
    /// Delivery opportunities, with their size in bytes: `t # 1504` for one.
    Opportunity(Time, u64),
    /// Arrival of a packet at the queue: `t + bytes`.
    Arrival(Time, u32),
    /// Departure of a packet's last byte: `t - bytes delay`, where the delay is since arrival at the queue, in
    /// milliseconds.
    Departure(Time, u32, Span),
    /// Packets dropped: `t d packets bytes`.
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

/// Returns the lines before the first event: the command, the queue, and the wall-clock time of the log's start in
/// milliseconds. Readers subtract the base timestamp from each line's time; it is 0 here, because times count from
/// the start of the log.
pub fn header(command: &str, queue: &str, init_millis: u64) -> String {
    format!("# mahimahi {command}\n# queue: {queue}\n# init timestamp: {init_millis}\n# base timestamp: 0\n")
}

/// Hook that writes a line for each packet that arrives at the queue, leaves the link, or is dropped before the link,
/// in chronological order, and lines for the link's delivery opportunities.
///
/// A recorded link logs its opportunities, whether used or not. A link of constant rate logs one each time it could
/// begin another 1504 bytes, so that the number of bytes sent never exceeds the opportunities so far. Opportunities
/// within one millisecond share a line. While no packet has been seen for one second, opportunities within 100 ms share
/// a line, or within 1 % of the pause if that is longer, so that an idle link does not fill the disk.
#[derive(Debug)]
pub struct Log<W> {
    out: W,
    /// Departures whose time is known and has not been reached.
    departures: VecDeque<LogLine>,
    opportunities: Option<Opportunities>,
    failed: bool,
}

impl<W: fmt::Write> Log<W> {
    /// Creates a log without opportunities that writes to `out`. The caller writes the [`header`] first.
    pub const fn new(out: W) -> Self {
        Self { out, departures: VecDeque::new(), opportunities: None, failed: false }
    }

    /// Creates a log with the opportunities of `link`. An unlimited link has none.
    pub fn of(link: &LinkConfig, out: W) -> Self {
        Self { opportunities: Opportunities::from(Time::ZERO, link), ..Self::new(out) }
    }

    /// Logs the opportunities of another link from `now` onwards. Call it together with
    /// [`Link::reconfigure`](crate::Link::reconfigure).
    pub fn reconfigure(&mut self, now: Time, link: &LinkConfig) {
        self.flush(now);
        self.opportunities = Opportunities::from(now, link);
    }

    /// Writes all events up to `now`. Call it at the end of the run with the end time.
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

    /// Returns the output, so that the caller can drain it from time to time.
    pub fn out(&mut self) -> &mut W {
        &mut self.out
    }

    /// Returns whether a write to `out` has failed.
    pub const fn has_failed(&self) -> bool {
        self.failed
    }

    fn packet(&mut self, at: Time, line: LogLine) {
        self.pass(at);
        if let Some(opportunities) = &mut self.opportunities {
            opportunities.seen(at);
        }
        self.write(line);
    }

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
