//! Strays: segments that a load balancer sends here although another host with this address has their connection.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use longhaul_units::Time;
use longhaul_wire::Flags;

use crate::io::{Incoming, Io};
use crate::listener::TcpListener;
use crate::shared::{Shared, State};
use crate::socket::TcpSocket;

/// Received datagrams of one sender for a connection that the listener does not know. `{:?}` does not show them.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Stray<'a> {
    /// Address of the sender.
    pub remote: SocketAddr,
    /// Address to which the datagrams were sent, if the socket is not bound to an address.
    pub local: Option<IpAddr>,
    /// The ECN field of the IP header, 0 to 3.
    pub ecn: u8,
    /// The IP header's TTL or hop limit, if the system reports it.
    pub ttl: Option<u8>,
    /// Whether this is a SYN that opens a connection and arrived after the listener was dropped. Any other host can
    /// accept it.
    pub is_syn: bool,
    /// Length of each datagram in `data` in bytes; the last one may be shorter.
    pub segment_size: usize,
    /// The datagrams, one after the other.
    pub data: &'a [u8],
}

impl<'a> Stray<'a> {
    /// Returns a single datagram that another host has received.
    #[must_use]
    pub const fn new(remote: SocketAddr, local: Option<IpAddr>, data: &'a [u8]) -> Self {
        Self { remote, local, ecn: 0, ttl: None, is_syn: false, segment_size: data.len(), data }
    }
}

/// Handler of strays; see [`TcpSocket::share_address`].
pub trait StrayHandler: Send + Sync {
    /// Passes a stray to another host. Returns `false` to make the listener treat the connection as unknown: it answers
    /// with a reset, unless resets are disabled. The socket is locked during the call: the handler must neither block
    /// nor call methods of this listener or its connections.
    fn hand_over(&self, stray: &Stray<'_>) -> bool;
}

/// Settings of a listener that shares its address with other hosts.
#[derive(Clone)]
pub(crate) struct Sharing {
    pub(crate) secret: [u8; 32],
    pub(crate) handler: Arc<dyn StrayHandler>,
}

impl TcpSocket {
    /// Makes the listener one of several, on this or other hosts, to which a load balancer sends the segments for one
    /// address. All of them need the same `secret`, which keys sequence numbers and SYN cookies: a client may return to
    /// one of them the cookie of another, if their wall clocks differ by less than a minute. When the balancer sends
    /// segments of a live connection to another host than before, `handler` passes them on to the host that has the
    /// connection, which takes them by [`TcpListener::intake`] and answers from the shared address.
    pub fn share_address(&self, secret: [u8; 32], handler: Arc<dyn StrayHandler>) {
        self.setup().sharing = Some(Sharing { secret, handler });
    }
}

impl TcpListener {
    /// Returns the entrance for datagrams that other hosts have received. It also serves the connections that remain when
    /// the listener has been dropped.
    #[must_use]
    pub fn intake(&self) -> StrayIntake {
        StrayIntake { shards: self.all().iter().map(Arc::downgrade).collect() }
    }
}

/// Entrance of a listener for datagrams that other hosts have received, from [`TcpListener::intake`].
#[derive(Clone)]
pub struct StrayIntake {
    shards: Vec<Weak<Shared>>,
}

impl StrayIntake {
    /// Handles the datagrams as if the socket had received them, if they belong to a connection of this listener or
    /// open one. Returns whether they do. They are not passed to the [handler](StrayHandler) again.
    #[must_use]
    pub fn accept(&self, stray: &Stray<'_>) -> bool {
        self.deliver(stray, true)
    }

    /// Refuses datagrams for which no host has a connection: sends resets, within their rate limit.
    pub fn refuse(&self, stray: &Stray<'_>) {
        self.deliver(stray, false);
    }

    fn deliver(&self, stray: &Stray<'_>, only_known: bool) -> bool {
        let Some(first) = self.shards.iter().find_map(Weak::upgrade) else { return false };
        if !is_possible(first.local, stray) {
            return false;
        }
        let incoming = Incoming {
            source: stray.remote,
            dst_ip: stray.local,
            stride: stray.segment_size,
            ecn: stray.ecn,
            tos: None,
            ttl: stray.ttl,
            rx_time: None,
            coalesced: stray.segment_size < stray.data.len(),
            data: stray.data,
            shared: None,
        };
        let tuple = first.tuple(stray.remote, stray.local);
        let mut state = first.lock();
        let now = Io::now();
        // Another shard of this listener may have the connection.
        let is_known = state.endpoint.owner(&tuple, stray.data).is_some()
            || state.endpoint.stray(now, &tuple, stray.data).is_none();
        if is_known || !only_known {
            state.take_in(&first, now, &incoming);
            first.settle_received(state, now);
        }
        is_known
    }
}

/// Returns whether a socket with this address can receive the stray, so that it can also answer.
fn is_possible(socket: SocketAddr, stray: &Stray<'_>) -> bool {
    let [remote, local] = [Some(stray.remote.ip()), stray.local].map(|ip| ip.map(|ip| ip.to_canonical().is_ipv4()));
    (socket.is_ipv6() || remote == Some(true)) && (local.is_none() || local == remote)
}

impl State {
    /// Returns whether the handler has passed a received message to another host.
    pub(crate) fn hands_over(&mut self, shared: &Shared, now: Time, incoming: &Incoming<'_>) -> bool {
        if self.strays.is_none() {
            return false;
        }
        let tuple = shared.tuple(incoming.source, incoming.dst_ip);
        if self.other_shard(&tuple, incoming.data).is_some() {
            return false;
        }
        let Some(handler) = &self.strays else { return false };
        let Some(flags) = self.endpoint.stray(now, &tuple, incoming.data) else { return false };
        handler.hand_over(&Stray {
            remote: incoming.source,
            local: incoming.dst_ip.filter(|_| !tuple.local.is_unspecified()),
            ecn: incoming.ecn,
            ttl: incoming.ttl,
            is_syn: flags.contains(Flags::SYN),
            segment_size: incoming.stride,
            data: incoming.data,
        })
    }
}

impl fmt::Debug for Stray<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { remote, local, ecn, ttl, is_syn, data, .. } = self;
        let mut fields = f.debug_struct("Stray");
        fields
            .field("remote", remote)
            .field("local", local)
            .field("ecn", ecn)
            .field("ttl", ttl)
            .field("is_syn", is_syn);
        fields.field("len", &data.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sharing(..)")
    }
}

impl fmt::Debug for StrayIntake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StrayIntake").finish_non_exhaustive()
    }
}
