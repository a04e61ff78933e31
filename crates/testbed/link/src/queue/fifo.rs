//! FIFO queue of packets that counts its bytes.

use std::collections::VecDeque;

use longhaul_units::Time;

use crate::packet::Packet;

#[derive(Debug)]
pub(crate) struct Fifo<T> {
    packets: VecDeque<Packet<T>>,
    bytes: u64,
}

impl<T> Fifo<T> {
    pub(crate) const fn new() -> Self {
        Self { packets: VecDeque::new(), bytes: 0 }
    }

    pub(crate) fn push(&mut self, packet: Packet<T>) {
        self.bytes += u64::from(packet.size);
        self.packets.push_back(packet);
    }

    pub(crate) fn pop(&mut self) -> Option<Packet<T>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }

    pub(crate) fn pop_newest(&mut self) -> Option<Packet<T>> {
        let packet = self.packets.pop_back()?;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }

    pub(crate) fn len(&self) -> u64 {
        self.packets.len() as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(crate) fn head_since(&self) -> Option<Time> {
        self.packets.front().map(|packet| packet.enqueued)
    }
}
