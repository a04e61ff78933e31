//! Replay of one side of a connection vector.

use longhaul_link::source::{Adu, ConnectionVector, Side};
use longhaul_units::{Span, Time};

use crate::plan::{Close, Plan};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    units: Vec<Unit>,
    next: usize,
    /// Total bytes of the units permitted so far.
    allowed: u64,
    /// Time at which the last of the expected bytes was written.
    sent_at: Time,
    /// Bytes read at the last call, and the time at which they arrived.
    read: u64,
    read_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unit {
    bytes: u64,
    /// Number of bytes that must have been read first.
    needs: u64,
    after_send: Span,
    after_receive: Span,
}

impl Script {
    pub(crate) fn of(vector: &ConnectionVector, side: Side) -> (Self, Plan) {
        let peer = match side {
            Side::Initiator => Side::Acceptor,
            Side::Acceptor => Side::Initiator,
        };
        let plan =
            Plan { send: vector.bytes_from(side), close: Close::AfterReading(vector.bytes_from(peer)), ..Plan::sink() };
        let units = in_turn(&vector.adus, side);
        let zero = Time::ZERO;
        (Self { units, next: 0, allowed: 0, sent_at: zero, read: 0, read_at: zero }, plan)
    }

    pub(crate) fn begin(&mut self, now: Time) {
        (self.sent_at, self.read_at) = (now, now);
    }

    /// Returns how many bytes may have been written by now, given the bytes written and read so far, and the latest
    /// time at which to call again.
    pub(crate) fn allows(&mut self, now: Time, written: u64, read: u64) -> (u64, Option<Time>) {
        if read > self.read {
            (self.read, self.read_at) = (read, now);
        }
        let unit = self.units.get(self.next).filter(|unit| unit.needs <= read && written >= self.allowed);
        if let Some(unit) = unit {
            let due = (self.sent_at + unit.after_send).max(self.read_at + unit.after_receive);
            if due > now {
                return (self.allowed, Some(due));
            }
            self.allowed = self.allowed.saturating_add(unit.bytes);
            self.next += 1;
        }
        (self.allowed, None)
    }

    pub(crate) fn wrote(&mut self, now: Time, written: u64) {
        if written == self.allowed {
            self.sent_at = now;
        }
    }
}

/// Returns the units of `side`; each waits for the other side's units that precede it.
fn in_turn(adus: &[Adu], side: Side) -> Vec<Unit> {
    let mut needs = 0u64;
    let mut units = Vec::new();
    for &Adu { from, after_send, after_receive, bytes } in adus {
        if from == side {
            units.push(Unit { bytes, needs, after_send, after_receive });
        } else {
            needs = needs.saturating_add(bytes);
        }
    }
    units
}
