//! Clients of the relay, each with its own socket towards the server.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use longhaul_sys::linux::{Meta, Poll, UdpSocket};
use longhaul_units::{Span, Time};

use super::prepare;

/// If the table is full, the client that has been silent longest is replaced once it has been silent for this long.
const YIELDS: Span = Span::from_secs(10);

#[derive(Debug)]
pub(super) struct Client {
    pub(super) addr: SocketAddr,
    pub(super) listener: usize,
    /// Address of the relay to which the client sends.
    pub(super) local: Option<IpAddr>,
    /// Socket connected to the server.
    pub(super) socket: UdpSocket,
    /// TTL currently set on the socket; 0 if unknown.
    pub(super) ttl: u8,
    /// The last time at which a datagram from or for the client arrived.
    pub(super) heard: Time,
    pub(super) drops: u32,
}

#[derive(Debug)]
pub(super) struct Clients {
    most: usize,
    idle: Span,
    /// The key includes the listener, because a program may use one socket for several listeners.
    by_addr: HashMap<(usize, SocketAddr), u64>,
    by_number: HashMap<u64, Client>,
    /// The last number assigned. Numbers start at 1 and are never reused.
    last: u64,
}

impl Clients {
    pub(super) fn new(most: usize, idle: Duration) -> Self {
        let idle = Span::from_nanos(u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX));
        Self { most, idle, by_addr: HashMap::new(), by_number: HashMap::new(), last: 0 }
    }

    pub(super) fn ever(&self) -> u64 {
        self.last
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Client> {
        self.by_number.get_mut(&number)
    }

    /// Returns the number of the client that sent a message to a listener, and adds it if it is new. Returns `None`
    /// if there is no room for it or if no socket can be created.
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
        // The second client has been silent since 5 s.
        assert_eq!(clients.admit(HERE, &meta(3), at(15), &poll), Some(3));
        assert!(clients.get_mut(2).is_none());
        assert_eq!(clients.admit(HERE, &meta(2), at(16), &poll), None);
        // After five minutes all silent clients are removed; one of them returns under a new number.
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
