//! Strict-priority queue with push-out, as in RC3 (Mittal et al., NSDI 2014).

use super::config::{Classes, Limit};
use super::fifo::Fifo;
use super::{Sink, Verdict};
use crate::packet::Packet;
use crate::stats::{Cause, MAX_CLASSES};

#[derive(Debug)]
pub(crate) struct Priority<T> {
    classes: Classes,
    levels: [Fifo<T>; MAX_CLASSES],
    packets: u64,
    bytes: u64,
}

impl<T> Priority<T> {
    pub(crate) fn new(classes: Classes) -> Self {
        Self { classes, levels: [const { Fifo::new() }; MAX_CLASSES], packets: 0, bytes: 0 }
    }

    pub(crate) fn class(&self, dscp: u8) -> u8 {
        self.classes.of(dscp)
    }

    pub(crate) fn len(&self) -> u64 {
        self.packets
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn enqueue(&mut self, packet: Packet<T>, limit: Limit, sink: &mut impl Sink<T>) -> bool {
        let class = self.classes.of(packet.dscp);
        // No packet is pushed out in favour of one that would not fit even then.
        let (packets, bytes) = self.not_below(class);
        if !limit.admits(packets, bytes, packet.size) {
            sink.dropped(class, Cause::QueueFull, packet);
            return false;
        }
        while !limit.admits(self.packets, self.bytes, packet.size) && self.push_out_below(class, sink) {}
        self.packets += 1;
        self.bytes += u64::from(packet.size);
        self.levels[usize::from(class)].push(packet);
        true
    }

    pub(crate) fn pop(&mut self) -> Option<(u8, Packet<T>, Verdict)> {
        let class = self.levels.iter().position(|level| !level.is_empty())?;
        let packet = self.levels[class].pop()?;
        self.packets -= 1;
        self.bytes -= u64::from(packet.size);
        Some((class as u8, packet, Verdict::Pass))
    }

    fn not_below(&self, class: u8) -> (u64, u64) {
        let levels = self.levels.iter().take(usize::from(class) + 1);
        levels.fold((0, 0), |(packets, bytes), level| (packets + level.len(), bytes + level.bytes()))
    }

    /// Drops the newest packet of the lowest non-empty class below `class`. Returns `false` if there is none.
    fn push_out_below(&mut self, class: u8, sink: &mut impl Sink<T>) -> bool {
        let lowest = (usize::from(class) + 1..MAX_CLASSES).rev().find(|&level| !self.levels[level].is_empty());
        let Some((level, packet)) = lowest.and_then(|level| Some((level, self.levels[level].pop_newest()?))) else {
            return false;
        };
        self.packets -= 1;
        self.bytes -= u64::from(packet.size);
        sink.dropped(level as u8, Cause::PushedOut, packet);
        true
    }
}
