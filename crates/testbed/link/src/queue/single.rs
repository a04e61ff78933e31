//! Disciplines with a single FIFO queue, which differ in the packets they drop.

use longhaul_units::{Span, Time};

use super::codel::CoDel;
use super::config::Limit;
use super::fifo::Fifo;
use super::pie::Pie;
use super::red::Red;
use super::{Sink, Verdict};
use crate::packet::{Packet, dscp};
use crate::stats::Cause;

const NORMAL: u8 = 0;
const LOW: u8 = 1;

#[derive(Debug)]
pub(crate) struct Single<T> {
    fifo: Fifo<T>,
    policy: Policy,
    ecn: bool,
}

#[derive(Debug)]
pub(crate) enum Policy {
    Tail {
        mark_above: Option<u64>,
    },
    Head,
    /// Low-priority packets are refused while more than this number of packets are waiting.
    Threshold(u64),
    CoDel(Box<CoDel>),
    Red(Box<Red>),
    Pie(Box<Pie>),
}

/// Returns the class under which statistics count a codepoint.
#[inline]
pub(crate) const fn class(dscp: u8) -> u8 {
    if dscp == dscp::LE { LOW } else { NORMAL }
}

impl<T> Single<T> {
    pub(crate) fn new(policy: Policy, ecn: bool) -> Self {
        Self { fifo: Fifo::new(), policy, ecn }
    }

    pub(crate) fn len(&self) -> u64 {
        self.fifo.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    pub(crate) fn enqueue(&mut self, now: Time, mut packet: Packet<T>, limit: Limit, sink: &mut impl Sink<T>) -> bool {
        let class = class(packet.dscp);
        match self.arrives(now, &packet) {
            Ok(Verdict::Pass) => {}
            Ok(Verdict::Mark) => sink.mark(class, &mut packet),
            Ok(Verdict::Drop) => {
                sink.dropped(class, Cause::Aqm, packet);
                return false;
            }
            Err(cause) => {
                sink.dropped(class, cause, packet);
                return false;
            }
        }
        if !limit.admits(self.fifo.len(), self.fifo.bytes(), packet.size) && !self.make_room(&packet, limit, sink) {
            sink.dropped(class, Cause::QueueFull, packet);
            return false;
        }
        self.fifo.push(packet);
        true
    }

    pub(crate) fn pop(&mut self, now: Time) -> Option<(u8, Packet<T>, Verdict)> {
        if let Policy::Pie(pie) = &mut self.policy {
            pie.update(now, self.fifo.head_since());
        }
        let Some(packet) = self.fifo.pop() else {
            if let Policy::CoDel(codel) = &mut self.policy {
                codel.ran_empty();
            }
            return None;
        };
        let verdict = self.departs(now, &packet);
        Some((class(packet.dscp), packet, verdict))
    }

    pub(crate) fn set_typical(&mut self, typical: Span) {
        if let Policy::Red(red) = &mut self.policy {
            red.set_typical(typical);
        }
    }

    fn arrives(&mut self, now: Time, packet: &Packet<T>) -> Result<Verdict, Cause> {
        let can_mark = self.ecn && packet.ecn.is_capable();
        let is_low = class(packet.dscp) == LOW;
        Ok(match &mut self.policy {
            Policy::Tail { mark_above: Some(bytes) } if packet.ecn.is_capable() && self.fifo.bytes() > *bytes => {
                Verdict::Mark
            }
            Policy::Threshold(most) if is_low && self.fifo.len() > *most => return Err(Cause::LowPriority),
            Policy::Red(red) => red.arrives(now, self.fifo.len(), can_mark),
            Policy::Pie(pie) => {
                pie.update(now, self.fifo.head_since());
                pie.arrives(self.fifo.bytes(), can_mark)
            }
            _ => Verdict::Pass,
        })
    }

    fn departs(&mut self, now: Time, packet: &Packet<T>) -> Verdict {
        match &mut self.policy {
            Policy::CoDel(codel) => {
                let can_mark = self.ecn && packet.ecn.is_capable();
                codel.departs(now, now - packet.enqueued, packet.size, self.fifo.bytes(), can_mark)
            }
            Policy::Red(red) if self.fifo.is_empty() => {
                red.ran_empty(now);
                Verdict::Pass
            }
            _ => Verdict::Pass,
        }
    }

    /// Drops the oldest packets if the discipline is drop-head. Returns whether the new packet fits then.
    fn make_room(&mut self, packet: &Packet<T>, limit: Limit, sink: &mut impl Sink<T>) -> bool {
        if !matches!(self.policy, Policy::Head) {
            return false;
        }
        while !limit.admits(self.fifo.len(), self.fifo.bytes(), packet.size) {
            let Some(oldest) = self.fifo.pop() else { return false };
            sink.dropped(class(oldest.dscp), Cause::QueueFull, oldest);
        }
        true
    }
}
