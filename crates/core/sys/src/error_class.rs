//! Classes of UDP socket errors.

/// Class of an error of a send or receive call, by how the transport should react.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The send buffer is full or nothing has arrived. Wait for readiness. (`EAGAIN`)
    WouldBlock,
    /// The datagram exceeds the MTU of the path or interface, or 64 KiB. It is lost, and path MTU discovery should be
    /// informed. (`EMSGSIZE`)
    MessageTooLarge,
    /// The host is short of memory or queue space, and the datagram is lost. Retry after a delay: readiness does not
    /// depend on this shortage, so waiting for writability would cause a busy loop or a hang. (`ENOBUFS`, `ENOMEM`)
    NoBuffers,
    /// The datagram cannot be sent to this address at present: there is no route, the interface is down, a firewall
    /// forbids it, the source address was removed, the socket could not be connected again, or the address is invalid as
    /// a destination (port zero, a blackhole route). This is a soft error: the datagram is lost, but the socket and other
    /// peers are unaffected. (`EPERM`, `EACCES`, `EINVAL`, `EIO`, `ENETUNREACH`, `EHOSTUNREACH`, `ENETDOWN`, `EHOSTDOWN`,
    /// `EADDRNOTAVAIL`, `EDESTADDRREQ`, `ENODEV`, `ENXIO`, `ENONET`, `EPROTO`, `ENOPROTOOPT`, `EOPNOTSUPP`)
    Unreachable,
    /// An earlier datagram of this connected socket was sent to a closed port. The kernel reports this on the next call
    /// instead of executing it, so repeat the call. (`ECONNREFUSED`, `ECONNRESET`)
    Refused,
    /// The socket is unusable, or the call was invalid.
    Fatal,
}
