//! Network address translators.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

use longhaul_link::{Hook, View};
use longhaul_units::{Span, Time};

use crate::packet::Parcel;

type LinkPacket = longhaul_link::Packet<Parcel>;

/// NAT between a host and its peers, at the two links of the host. It gives each address of the host a port of its own for all
/// peers (endpoint-independent mapping, RFC 4787), and forgets the port when no packet has left through it for the
/// lifetime of a binding. Packets to forgotten ports are lost. Clones are the same NAT.
#[derive(Clone, Debug)]
pub struct Nat(Rc<RefCell<Bindings>>);

#[derive(Debug)]
struct Bindings {
    outside: IpAddr,
    lifetime: Span,
    next_port: u16,
    /// The port of each inner address, and when it was used last.
    ports: HashMap<SocketAddr, (u16, Time)>,
}

/// Hook of the link that leads away from the host, or to it.
#[derive(Debug)]
enum Way {
    Out(Nat),
    In(Nat),
}

impl Nat {
    /// Creates a NAT with this outer address, which no host may have.
    pub fn new(outside: IpAddr, lifetime: Span) -> Self {
        Self(Rc::new(RefCell::new(Bindings { outside, lifetime, next_port: 20_000, ports: HashMap::new() })))
    }

    /// Returns the hooks of the link from the host and of the link to it.
    pub fn hooks(&self) -> [impl Hook<Parcel> + 'static; 2] {
        [Way::Out(self.clone()), Way::In(self.clone())]
    }

    /// Forgets all ports, and has another outer address from now on.
    pub fn restart(&self, outside: IpAddr) {
        let mut bindings = self.0.borrow_mut();
        bindings.outside = outside;
        bindings.ports.clear();
    }
}

impl Bindings {
    /// Returns the outer address of a packet from `inside`.
    fn leave(&mut self, now: Time, inside: SocketAddr) -> SocketAddr {
        let lifetime = self.lifetime;
        self.ports.retain(|_, (_, used_at)| now - *used_at <= lifetime);
        let next = &mut self.next_port;
        let (port, used_at) = self.ports.entry(inside).or_insert_with(|| {
            *next = next.wrapping_add(1).max(1024);
            (*next, now)
        });
        *used_at = now;
        SocketAddr::new(self.outside, *port)
    }

    /// Returns the inner address of a packet to `outside`.
    fn enter(&self, now: Time, outside: SocketAddr) -> Option<SocketAddr> {
        let is_bound = |port, used_at| port == outside.port() && now - used_at <= self.lifetime;
        let (inside, _) = self.ports.iter().find(|(_, (port, used_at))| is_bound(*port, *used_at))?;
        Some(*inside).filter(|_| outside.ip() == self.outside)
    }
}

impl Hook<Parcel> for Way {
    fn offered(&mut self, now: Time, packet: &mut LinkPacket, _: &View) {
        let Some(datagram) = &mut packet.payload else { return };
        match self {
            Self::Out(nat) => datagram.from = nat.0.borrow_mut().leave(now, datagram.from),
            Self::In(nat) => {
                let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
                datagram.to = nat.0.borrow().enter(now, datagram.to).unwrap_or(nobody);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_lives_as_long_as_packets_leave() {
        let nat = Nat::new(IpAddr::from([192, 0, 2, 1]), Span::from_secs(30));
        let mut bindings = nat.0.borrow_mut();
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        let host = |last| SocketAddr::from(([10, 0, 0, last], 7001));
        let (first, second) = (bindings.leave(at(0), host(1)), bindings.leave(at(1), host(2)));
        assert_ne!(first, second);
        assert_eq!(bindings.leave(at(29), host(1)), first);
        assert_eq!([at(58), at(60)].map(|now| bindings.enter(now, first)), [Some(host(1)), None]);
        assert_eq!(bindings.enter(at(32), second), None);
        assert_ne!(bindings.leave(at(61), host(1)), first);
        drop(bindings);
        nat.restart(IpAddr::from([192, 0, 2, 9]));
        assert_eq!(nat.0.borrow().enter(at(61), first), None);
    }
}
