//! Who talks to the server, each through a socket of its own.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use longhaul_sys::linux::{Meta, Poll, UdpSocket};
use longhaul_units::{Span, Time};

use super::prepare;

/// Who has been silent for so long makes room for somebody new, if there are as many clients as there may be.
const YIELDS: Span = Span::from_secs(10);

/// Someone who sent to the relay.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) addr: SocketAddr,
    /// Which of the relay's listeners it sends to.
    pub(super) listener: usize,
    /// The relay's address that the client sends to.
    pub(super) local: Option<IpAddr>,
    /// Connected to the server.
    pub(super) socket: UdpSocket,
    /// The TTL that the socket sends with; 0 if that is unknown.
    pub(super) ttl: u8,
    /// When anything came in for or from it last.
    pub(super) heard: Time,
    /// The socket's count of lost datagrams.
    pub(super) drops: u32,
}

/// The clients by number and address.
#[derive(Debug)]
pub(super) struct Clients {
    most: usize,
    idle: Span,
    /// With the listener: a program may use one socket for several.
    by_addr: HashMap<(usize, SocketAddr), u64>,
    by_number: HashMap<u64, Client>,
    /// The last number given: numbers begin at 1 and never return.
    last: u64,
}

impl Clients {
    pub(super) fn new(most: usize, idle: Duration) -> Self {
        let idle = Span::from_nanos(u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX));
        Self { most, idle, by_addr: HashMap::new(), by_number: HashMap::new(), last: 0 }
    }

    /// How many there have been.
    pub(super) fn ever(&self) -> u64 {
        self.last
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Client> {
        self.by_number.get_mut(&number)
    }

    /// The sender of a message that came to a listener for a server; it may be new. `None` if there is no room for it, or
    /// no socket can be had.
    pub(super) fn admit(
        &mut self,
        (listener, to): (usize, SocketAddr),
        meta: &Meta,
        at: Time,
        poll: &Poll,
    ) -> Option<u64> {
        let key = (listener, meta.addr);
        if let Some(number) = self.by_addr.get(&key)
            && let Some(client) = self.by_number.get_mut(number)
        {
            client.heard = client.heard.max(at);
            client.local = meta.dst_ip;
            return Some(*number);
        }
        if meta.addr.port() == 0 || !self.has_room(at) {
            return None;
        }
        let number = self.last + 1;
        let socket = connect(to).ok()?;
        poll.add(&socket, number).ok()?;
        self.last = number;
        let client = Client { addr: meta.addr, listener, local: meta.dst_ip, socket, ttl: 0, heard: at, drops: 0 };
        self.by_addr.insert(key, number);
        self.by_number.insert(number, client);
        Some(number)
    }

    /// Forgets who was silent for too long.
    pub(super) fn expire(&mut self, now: Time) {
        let idle = self.idle;
        self.by_number.retain(|_, client| now.since(client.heard) < idle);
        let known = &self.by_number;
        self.by_addr.retain(|_, number| known.contains_key(number));
    }

    fn has_room(&mut self, now: Time) -> bool {
        if self.by_number.len() < self.most {
            return true;
        }
        let oldest = self.by_number.iter().min_by_key(|(_, client)| client.heard);
        let Some((&number, client)) = oldest.filter(|(_, client)| now.since(client.heard) >= YIELDS) else {
            return false;
        };
        self.by_addr.remove(&(client.listener, client.addr));
        self.by_number.remove(&number);
        true
    }
}

fn connect(to: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = std::net::UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    prepare(socket)
}

#[cfg(test)]
mod tests {
    use socket2::SockRef;

    use super::*;

    fn meta(port: u16) -> Meta {
        Meta {
            addr: SocketAddr::from(([127, 0, 0, 1], port)),
            dst_ip: None,
            len: 1,
            stride: 1,
            tos: None,
            ttl: None,
            timestamp: None,
            truncated: false,
            control_truncated: false,
            drops: None,
        }
    }

    const HERE: (usize, SocketAddr) = (0, SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9));
    const THERE: (usize, SocketAddr) = (1, SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10));

    #[test]
    fn the_table_is_bounded_and_the_silent_make_room() {
        let poll = Poll::new().unwrap();
        let mut clients = Clients::new(2, Duration::from_secs(300));
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        assert_eq!(clients.admit(HERE, &meta(1), at(0), &poll), Some(1));
        assert_eq!(clients.admit(HERE, &meta(2), at(5), &poll), Some(2));
        assert_eq!(clients.admit(HERE, &meta(3), at(9), &poll), None);
        assert_eq!(clients.admit(HERE, &meta(1), at(10), &poll), Some(1));
        // The second one is silent since 5.
        assert_eq!(clients.admit(HERE, &meta(3), at(15), &poll), Some(3));
        assert!(clients.get_mut(2).is_none());
        assert_eq!(clients.admit(HERE, &meta(2), at(16), &poll), None);
        // All but the one that is heard since are forgotten after five minutes; it comes back as somebody new.
        assert_eq!(clients.admit(HERE, &meta(3), at(200), &poll), Some(3));
        clients.expire(at(320));
        assert_eq!((clients.by_addr.len(), clients.by_number.len(), clients.ever()), (1, 1, 3));
        assert_eq!(clients.admit(HERE, &meta(1), at(320), &poll), Some(4));
        assert_eq!(clients.admit(HERE, &meta(0), at(320), &poll), None, "nobody can answer to port 0");
    }

    #[test]
    fn one_socket_may_talk_to_several_servers() {
        let poll = Poll::new().unwrap();
        let mut clients = Clients::new(2, Duration::from_secs(300));
        assert_eq!(clients.admit(HERE, &meta(1), Time::ZERO, &poll), Some(1));
        assert_eq!(clients.admit(THERE, &meta(1), Time::ZERO, &poll), Some(2));
        assert_eq!(clients.admit(HERE, &meta(1), Time::ZERO, &poll), Some(1));
        let to = |number: u64| SockRef::from(&clients.by_number[&number].socket).peer_addr().unwrap().as_socket();
        assert_eq!((to(1), to(2)), (Some(HERE.1), Some(THERE.1)));
    }
}
