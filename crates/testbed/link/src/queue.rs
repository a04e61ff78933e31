//! Queue of a link: one type for all disciplines, dispatched by `match` rather than by a trait object.

mod codel;
mod config;
mod dual_pi2;
mod fifo;
mod pie;
mod priority;
mod red;
mod single;

use longhaul_units::{Span, Time};

pub use config::{Classes, CoDelConfig, Discipline, DualPi2Config, Limit, PieConfig, QueueConfig, RedConfig};

use crate::packet::Packet;
use crate::random::Random;
use crate::stats::Cause;
use codel::CoDel;
use dual_pi2::DualPi2;
use pie::Pie;
use priority::Priority;
use red::Red;
use single::{Policy, Single};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Mark,
    Drop,
}

pub(crate) trait Sink<T> {
    fn dropped(&mut self, class: u8, cause: Cause, packet: Packet<T>);
    fn mark(&mut self, class: u8, packet: &mut Packet<T>);
    fn sent(&mut self, class: u8, size: u32, sojourn: Span);
}

#[derive(Debug)]
pub(crate) struct Queue<T> {
    kind: Kind<T>,
    limit: Limit,
}

#[derive(Debug)]
enum Kind<T> {
    Single(Single<T>),
    Priority(Box<Priority<T>>),
    Dual(Box<DualPi2<T>>),
}

impl<T> Queue<T> {
    /// Creates an empty queue; `typical` is the transmission time of a full-sized packet.
    pub(crate) fn new(config: &QueueConfig, typical: Span, random: Random) -> Self {
        let single = |policy| Kind::Single(Single::new(policy, config.ecn));
        let kind = match &config.discipline {
            Discipline::DropTail { mark_above } => single(Policy::Tail { mark_above: *mark_above }),
            Discipline::DropHead => single(Policy::Head),
            Discipline::Priority(classes) => Kind::Priority(Box::new(Priority::new(classes.clone()))),
            Discipline::Threshold(threshold) => single(Policy::Threshold(*threshold)),
            Discipline::CoDel(config) => single(Policy::CoDel(Box::new(CoDel::new(*config)))),
            Discipline::Red(config) => single(Policy::Red(Box::new(Red::new(*config, typical, random)))),
            Discipline::Pie(config) => single(Policy::Pie(Box::new(Pie::new(*config, random)))),
            Discipline::DualPi2(config) => Kind::Dual(Box::new(DualPi2::new(*config))),
        };
        Self { kind, limit: config.limit }
    }

    /// Sets the transmission time of a full-sized packet for later packets.
    pub(crate) fn set_typical(&mut self, typical: Span) {
        if let Kind::Single(queue) = &mut self.kind {
            queue.set_typical(typical);
        }
    }

    pub(crate) fn class(&self, packet: &Packet<T>) -> u8 {
        match &self.kind {
            Kind::Single(_) => single::class(packet.dscp),
            Kind::Priority(queue) => queue.class(packet.dscp),
            Kind::Dual(_) => DualPi2::<T>::class(packet.ecn),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        match &self.kind {
            Kind::Single(queue) => queue.len(),
            Kind::Priority(queue) => queue.len(),
            Kind::Dual(queue) => queue.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn bytes(&self) -> u64 {
        match &self.kind {
            Kind::Single(queue) => queue.bytes(),
            Kind::Priority(queue) => queue.bytes(),
            Kind::Dual(queue) => queue.bytes(),
        }
    }

    /// Enqueues a packet that arrives at `now`. Returns `false` if it was dropped, which is also reported to the sink.
    pub(crate) fn enqueue(&mut self, now: Time, mut packet: Packet<T>, sink: &mut impl Sink<T>) -> bool {
        packet.enqueued = now;
        match &mut self.kind {
            Kind::Single(queue) => queue.enqueue(now, packet, self.limit, sink),
            Kind::Priority(queue) => queue.enqueue(packet, self.limit, sink),
            Kind::Dual(queue) => {
                queue.update(now);
                queue.enqueue(packet, self.limit, sink)
            }
        }
    }

    /// Dequeues the packet to transmit at `now`, with its class. Returns `None` if no packet waits or all were
    /// dropped.
    pub(crate) fn dequeue(&mut self, now: Time, sink: &mut impl Sink<T>) -> Option<(u8, Packet<T>)> {
        loop {
            let (class, mut packet, verdict) = match &mut self.kind {
                Kind::Single(queue) => queue.pop(now)?,
                Kind::Priority(queue) => queue.pop()?,
                Kind::Dual(queue) => {
                    queue.update(now);
                    queue.pop(now)?
                }
            };
            match verdict {
                Verdict::Drop => {
                    sink.dropped(class, Cause::Aqm, packet);
                    continue;
                }
                Verdict::Mark => sink.mark(class, &mut packet),
                Verdict::Pass => {}
            }
            sink.sent(class, packet.size, now - packet.enqueued);
            return Some((class, packet));
        }
    }
}
