//! Cross traffic other than TCP.

use longhaul_link::source::Source;
use longhaul_link::{Delivery, Ecn, dscp};
use longhaul_units::Time;

use super::{Event, Sim};
use crate::packet::Parcel;

/// Packets of a [`Source`] that are sent from one host to another and discarded there.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Node that sends the traffic.
    pub from: usize,
    /// Node that receives the traffic.
    pub to: usize,
    /// Flow number of the source's packets.
    pub flow: u32,
    /// Number of packets sent.
    pub sent: u64,
    /// Bytes of IP packets sent.
    pub sent_bytes: u64,
    /// Number of packets that arrived.
    pub received: u64,
    /// Bytes of IP packets that arrived.
    pub received_bytes: u64,
    source: Source,
    until: Time,
    size: u32,
    ecn: Ecn,
    dscp: u8,
}

/// Identifier of cross traffic, in the order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficId(u32);

impl Sim {
    /// Sends the packets of `source`, such as CBR, Poisson or on-off, from one host to another until a time.
    pub fn add_traffic(&mut self, from: usize, to: usize, source: Source, until: Time) -> TrafficId {
        self.add_marked_traffic(from, to, source, until, Ecn::NotEct, dscp::DEFAULT)
    }

    /// Like [`add_traffic`](Self::add_traffic), with the given ECN and DSCP fields in the IP header.
    pub fn add_marked_traffic(
        &mut self,
        from: usize,
        to: usize,
        source: Source,
        until: Time,
        ecn: Ecn,
        dscp: u8,
    ) -> TrafficId {
        let _ = (self.place(from), self.place(to));
        self.flows += 1;
        let (flow, number) = (self.flows, self.traffic.len() as u32);
        let none = (0, 0);
        let ((sent, sent_bytes), (received, received_bytes)) = (none, none);
        let size = 0;
        let traffic =
            Traffic { from, to, flow, sent, sent_bytes, received, received_bytes, source, until, size, ecn, dscp };
        self.traffic.push(traffic);
        self.plan_traffic(number);
        TrafficId(number)
    }

    /// Returns cross traffic with its counters.
    pub fn traffic(&self, id: TrafficId) -> &Traffic {
        &self.traffic[id.0 as usize]
    }

    fn plan_traffic(&mut self, number: u32) {
        let traffic = &mut self.traffic[number as usize];
        let Some((at, size)) = traffic.source.next().filter(|(at, _)| *at < traffic.until) else { return };
        traffic.size = size;
        self.queue.add(at, Event::Traffic(number));
    }

    pub(super) fn send_traffic(&mut self, number: u32) -> usize {
        let traffic = &mut self.traffic[number as usize];
        let (from, to) = (traffic.from, traffic.to);
        traffic.sent += 1;
        traffic.sent_bytes += u64::from(traffic.size);
        let packet = longhaul_link::Packet::new(traffic.size, None);
        let packet = packet.to(to as u32).flow(traffic.flow).ecn(traffic.ecn).dscp(traffic.dscp);
        self.network.offer(self.now, from as u32, packet);
        self.plan_traffic(number);
        from
    }

    pub(super) fn take_traffic(&mut self, delivery: &Delivery<Parcel>) {
        self.now = self.now.max(delivery.at);
        self.trace.add(delivery.at.as_nanos());
        self.trace.add(u64::from(delivery.packet.flow) << 32 | u64::from(delivery.packet.size));
        // Flow numbers increase in the order of addition.
        let found = self.traffic.binary_search_by_key(&delivery.packet.flow, |traffic| traffic.flow);
        if let Some(traffic) = found.ok().and_then(|at| self.traffic.get_mut(at)) {
            traffic.received += 1;
            traffic.received_bytes += u64::from(delivery.packet.size);
        }
    }
}
