//! Classification of UDP socket errors.

use std::io;

/// Class of an error of a send or receive call, by how the transport should react.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The send buffer is full or nothing has arrived. Wait for readiness. (`EAGAIN`)
    WouldBlock,
    /// The datagram exceeds the MTU of the path or interface, or 64 KiB. It is lost, and path MTU discovery should be
    /// informed. (`EMSGSIZE`)
    MessageTooLarge,
    /// The host is short of memory or queue space, and the datagram is lost. Retry after a delay: readiness does not
    /// depend on this shortage, so waiting for writability would spin or hang. (`ENOBUFS`, `ENOMEM`)
    NoBuffers,
    /// The datagram cannot be sent to this address at present: there is no route, the interface is down, a firewall
    /// forbids it, the source address was removed, or the address is invalid as a destination (port zero, a blackhole
    /// route). This is a soft error: the datagram is lost, but the socket and other peers are unaffected. (`EPERM`,
    /// `EACCES`, `EINVAL`, `EIO`, `ENETUNREACH`, `EHOSTUNREACH`, `ENETDOWN`, `EHOSTDOWN`, `EADDRNOTAVAIL`, `ENODEV`,
    /// `ENXIO`, `ENONET`, `EPROTO`, `ENOPROTOOPT`, `EOPNOTSUPP`)
    Unreachable,
    /// An earlier datagram of this connected socket was sent to a closed port. The kernel reports this on the next call
    /// instead of executing it, so repeat the call. (`ECONNREFUSED`, `ECONNRESET`)
    Refused,
    /// The socket is unusable, or the call was invalid.
    Fatal,
}

impl ErrorClass {
    /// Classifies an error of a send or receive call of this crate.
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        error.raw_os_error().map_or(Self::Fatal, Self::of_errno)
    }

    /// Classifies an `errno`.
    #[must_use]
    pub fn of_errno(errno: i32) -> Self {
        match errno {
            libc::EAGAIN => Self::WouldBlock,
            libc::EMSGSIZE => Self::MessageTooLarge,
            libc::ENOBUFS | libc::ENOMEM => Self::NoBuffers,
            libc::ECONNREFUSED | libc::ECONNRESET => Self::Refused,
            libc::EPERM
            | libc::EACCES
            | libc::EINVAL
            | libc::EIO
            | libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::ENETDOWN
            | libc::EHOSTDOWN
            | libc::EADDRNOTAVAIL
            | libc::ENODEV
            | libc::ENXIO
            | libc::ENONET
            | libc::EPROTO
            | libc::ENOPROTOOPT
            | libc::EOPNOTSUPP => Self::Unreachable,
            _ => Self::Fatal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_broken_socket_or_call_is_fatal() {
        let fatal = [libc::EBADF, libc::ENOTSOCK, libc::EFAULT, libc::EDESTADDRREQ, libc::EAFNOSUPPORT];
        for errno in fatal {
            assert_eq!(ErrorClass::of_errno(errno), ErrorClass::Fatal);
        }
        // Errors that a router, a firewall, a peer or a busy host can cause must not close a socket that has other
        // peers.
        let caused_by_others = [
            libc::EPERM,
            libc::EACCES,
            libc::EINVAL,
            libc::EIO,
            libc::ENETUNREACH,
            libc::EHOSTUNREACH,
            libc::ENETDOWN,
            libc::EHOSTDOWN,
            libc::EADDRNOTAVAIL,
            libc::EPROTO,
            libc::ENOPROTOOPT,
            libc::ECONNREFUSED,
            libc::ENOBUFS,
            libc::ENOMEM,
            libc::EMSGSIZE,
            libc::EAGAIN,
            libc::ENONET,
        ];
        for errno in caused_by_others {
            assert_ne!(ErrorClass::of(&io::Error::from_raw_os_error(errno)), ErrorClass::Fatal, "{errno}");
        }
    }

    #[test]
    fn shortage_is_not_would_block() {
        assert_eq!(ErrorClass::of_errno(libc::ENOBUFS), ErrorClass::NoBuffers);
        assert_eq!(ErrorClass::of_errno(libc::EAGAIN), ErrorClass::WouldBlock);
        assert_eq!(ErrorClass::of(&io::Error::from(io::ErrorKind::InvalidInput)), ErrorClass::Fatal);
    }
}
