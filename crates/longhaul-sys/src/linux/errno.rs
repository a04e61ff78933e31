//! What an error of a UDP socket means for the transport.

use std::io;

/// What to do about an error of a send or receive call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The send buffer is full, or nothing has arrived: wait for readiness. (`EAGAIN`)
    WouldBlock,
    /// The datagram exceeds the path's or interface's MTU, or 64 KiB: lost, and a fact for path MTU discovery.
    /// (`EMSGSIZE`)
    MessageTooLarge,
    /// The host is short of memory or of queue space: the datagram is lost, readiness says nothing about when the next
    /// one will pass. Back off by a timer; waiting for writability would spin or hang. (`ENOBUFS`, `ENOMEM`)
    NoBuffers,
    /// This datagram cannot go to this address at present: no route, interface down, forbidden by a firewall, source
    /// address gone, or an address that cannot be sent to at all (port zero, a blackhole route). Soft: the datagram is
    /// lost, the socket and other peers are unaffected. (`EPERM`, `EACCES`, `EINVAL`, `EIO`, `ENETUNREACH`,
    /// `EHOSTUNREACH`, `ENETDOWN`, `EHOSTDOWN`, `EADDRNOTAVAIL`, `ENODEV`, `ENXIO`, `ENONET`, `EPROTO`,
    /// `ENOPROTOOPT`, `EOPNOTSUPP`)
    Unreachable,
    /// An earlier datagram of this connected socket met a closed port; the kernel reports it on the next call, which
    /// did nothing else: repeat it. (`ECONNREFUSED`, `ECONNRESET`)
    Refused,
    /// The socket is unusable, or the call was wrong.
    Fatal,
}

impl ErrorClass {
    /// Classifies what a send or receive call of this crate returned.
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
        // What a router, a firewall, a peer or a busy host can cause never ends a socket that others use.
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
