//! Network card with interrupt moderation, whose driver merges packets (receive offload).

use longhaul_units::{Span, Time};

use crate::packet::Packet;

/// Maximum number of segments that Linux merges (`UDP_GRO_CNT_MAX`).
const MOST_MERGED: usize = 64;
/// Maximum total length in bytes of merged segments, that of an IP packet.
const MOST_BYTES: usize = 65_535;

#[derive(Debug)]
pub(crate) struct Card {
    hold: Span,
    held: Vec<Held>,
    pub(crate) due: Option<Time>,
}

#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) ttl: u8,
    pub(crate) packet: Packet,
    pub(crate) merged: bool,
}

impl Card {
    pub(crate) const fn new(hold: Span) -> Self {
        Self { hold, held: Vec::new(), due: None }
    }

    pub(crate) fn hold(&mut self, now: Time, ttl: u8, packet: &Packet) {
        self.due.get_or_insert(now + self.hold);
        self.held.push(Held { ttl, packet: packet.clone(), merged: false });
    }

    pub(crate) fn deliver(&mut self, now: Time) -> Option<Vec<Held>> {
        self.due.take_if(|due| *due <= now)?;
        let mut held = std::mem::take(&mut self.held);
        merge(&mut held);
        Some(held)
    }
}

/// Marks the packets that receive offload merges: consecutive packets of a flow with equal length, except that the last
/// one may be shorter.
fn merge(held: &mut [Held]) {
    let mut rest = held;
    let kind = |packet: &Packet| (packet.from, packet.to, packet.ecn);
    while let Some((first, size)) = rest.first().map(|held| (kind(&held.packet), held.packet.payload_len())) {
        let mut count = 1;
        while count < MOST_MERGED.min(rest.len()) && (count + 1) * size <= MOST_BYTES {
            let Held { packet, .. } = &rest[count];
            if kind(packet) != first || packet.payload_len() > size {
                break;
            }
            count += 1;
            if packet.payload_len() < size {
                break;
            }
        }
        let (batch, others) = rest.split_at_mut(count);
        batch.iter_mut().for_each(|held| held.merged = count > 1);
        rest = others;
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;

    fn packet(port: u16, zeros: u32) -> Packet {
        let end = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Packet { from: end(port), to: end(1), ecn: Default::default(), dscp: 0, payload: vec![0; 20], zeros }
    }

    fn merged(packets: &[(u16, u32)]) -> Vec<bool> {
        let mut card = Card::new(Span::from_micros(100));
        packets.iter().for_each(|(port, zeros)| card.hold(Time::ZERO, 64, &packet(*port, *zeros)));
        card.deliver(Time::ZERO + Span::from_micros(100)).unwrap().iter().map(|held| held.merged).collect()
    }

    /// The first packet decides when all are delivered.
    #[test]
    fn packets_are_held_from_the_first_on() {
        let (mut card, at) = (Card::new(Span::from_micros(100)), |micros| Time::ZERO + Span::from_micros(micros));
        assert_eq!(card.due, None);
        card.hold(at(5), 64, &packet(7, 100));
        card.hold(at(90), 64, &packet(7, 100));
        assert_eq!(card.due, Some(at(105)));
        assert!(card.deliver(at(104)).is_none());
        assert_eq!(card.deliver(at(105)).map(|held| held.len()), Some(2));
        assert_eq!(card.due, None);
        card.hold(at(106), 64, &packet(7, 100));
        assert_eq!(card.due, Some(at(206)));
    }

    /// Packets of another flow, or a longer one, end a batch; a shorter one is its last.
    #[test]
    fn packets_of_a_kind_are_merged() {
        assert_eq!(merged(&[(7, 100), (7, 100), (8, 100), (7, 100)]), [true, true, false, false]);
        assert_eq!(merged(&[(7, 100), (7, 99), (7, 99)]), [true, true, false]);
        assert_eq!(merged(&[(7, 100), (7, 101), (7, 101)]), [false, true, true]);
        let many = merged(&[(7, 1000); 65]);
        assert_eq!(many.iter().filter(|merged| **merged).count(), 64);
        // 43 packets of 1,520 bytes fit into an IP packet.
        assert_eq!(merged(&[(7, 1500); 44]).iter().filter(|merged| **merged).count(), 43);
    }
}
