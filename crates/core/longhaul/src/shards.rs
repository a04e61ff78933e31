//! Shards: the sockets of a listener or connector, each with its endpoint, lock and driver task.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock, Weak};

use longhaul_tcp::EndpointGroup;
use socket2::{Domain, Protocol, Socket, Type};

use crate::io::Role;
use crate::setup::{Setup, secret};
use crate::shared::Shared;
use crate::socket::TcpSocket;

pub(crate) const MAX_SHARDS: usize = 256;

/// Whether the system distributes the datagrams for one address among the sockets that are bound to it.
pub(crate) const DISTRIBUTES: bool = cfg!(target_os = "linux");

/// The shards of a listener, by their numbers in the endpoint group.
pub(crate) struct Shards {
    pub(crate) group: EndpointGroup,
    members: OnceLock<Vec<Weak<Shared>>>,
}

impl Shards {
    pub(crate) fn new(group: EndpointGroup) -> Arc<Self> {
        Arc::new(Self { group, members: OnceLock::new() })
    }

    /// Sets the shards after all of them have been created.
    pub(crate) fn set_members(&self, members: &[Arc<Shared>]) {
        let _ = self.members.set(members.iter().map(Arc::downgrade).collect());
    }

    /// Returns a shard, unless its socket has been closed.
    pub(crate) fn get(&self, index: u32) -> Option<Arc<Shared>> {
        self.members.get()?.get(index as usize)?.upgrade()
    }
}

impl Setup {
    /// Opens the sockets of a listener or connector, of which `first` is already bound, each with its own endpoint,
    /// without starting the drivers. The limits apply to the total of all sockets.
    pub(crate) fn open_shards(&self, first: UdpSocket, role: Role) -> io::Result<Vec<Arc<Shared>>> {
        self.check()?;
        let sockets = bind_shards(first, self.shards, role)?;
        if sockets.len() <= 1 {
            return sockets.into_iter().map(|socket| self.open(socket, role, None)).collect();
        }
        let shards = Shards::new(EndpointGroup::new(secret()?));
        let open = |(socket, index)| self.open(socket, role, Some((&shards, index)));
        let members = sockets.into_iter().zip(0..).map(open).collect::<io::Result<Vec<_>>>()?;
        shards.set_members(&members);
        Ok(members)
    }
}

impl TcpSocket {
    /// Sets the number of shards of a listener or connector, 1 by default. Each shard is a UDP socket with its own lock
    /// and task, so that the connections of several shards are served by several cores at once, if the runtime is
    /// multi-threaded. There is one set of limits for all of them, and a listener has one accept queue. A connection
    /// stays on one shard, and its UDP socket's buffers are shared with fewer other connections.
    ///
    /// **Listeners**: all sockets have the same address (`SO_REUSEPORT`), and the kernel chooses one by a hash of both
    /// addresses and ports. With few peers, some shards may have no connections. The option is set after the first
    /// socket has been bound, so that the address of another listener is refused. Only Linux distributes datagrams this
    /// way; elsewhere, [`TcpListener::shards`](crate::TcpListener::shards) is 1. Another process of the same user that
    /// binds the address with `SO_REUSEPORT` receives some of the datagrams.
    ///
    /// **Connectors**: the sockets have different ports, and new connections go to them in turn. Each can have one
    /// connection to a given peer address.
    ///
    /// The additional sockets have the interface, TTL, `SO_REUSEADDR` and `IPV6_V6ONLY` of the first one. Other options
    /// that were set through its descriptor are not copied.
    ///
    /// # Errors
    /// Fails with `InvalidInput` if the number is not between 1 and 256.
    pub fn set_shards(&self, shards: usize) -> io::Result<()> {
        self.setup().set_shards(shards)
    }
}

/// Binds one socket per shard of a listener or connector, and returns them together with `first`, which must be bound.
/// Each socket of a connector has its own port. Those of a listener have the address of `first`; if the system does not
/// distribute datagrams, there is only `first`.
///
/// `first` was bound without `SO_REUSEPORT`, so binding to another listener's address failed as usual.
fn bind_shards(first: UdpSocket, shards: usize, role: Role) -> io::Result<Vec<UdpSocket>> {
    let mut all = vec![first];
    let mut address = all[0].local_addr()?;
    if role.is_client() {
        address.set_port(0);
    } else if !DISTRIBUTES || shards <= 1 {
        return Ok(all);
    } else {
        share_port(&all[0])?;
    }
    while all.len() < shards {
        all.push(bind_like(&all[0], address)?);
    }
    Ok(all)
}

/// Binds a socket with the options of `model`: interface, TTL, whether it is for IPv6 only, `SO_REUSEADDR` and
/// `SO_REUSEPORT`.
fn bind_like(model: &UdpSocket, address: SocketAddr) -> io::Result<UdpSocket> {
    let model = socket2::SockRef::from(model);
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(model.reuse_address()?)?;
    if address.is_ipv6() {
        socket.set_only_v6(model.only_v6()?)?;
        socket.set_unicast_hops_v6(model.unicast_hops_v6()?)?;
    } else {
        socket.set_ttl_v4(model.ttl_v4()?)?;
    }
    #[cfg(unix)]
    socket.set_reuse_port(model.reuse_port()?)?;
    #[cfg(target_os = "linux")]
    if let Some(interface) = model.device()? {
        socket.bind_device(Some(&interface))?;
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}

#[cfg(unix)]
fn share_port(socket: &UdpSocket) -> io::Result<()> {
    socket2::SockRef::from(socket).set_reuse_port(true)
}

#[cfg(not(unix))]
fn share_port(_: &UdpSocket) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
