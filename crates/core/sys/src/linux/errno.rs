//! Classification of UDP socket errors.

use std::io;

use crate::ErrorClass;

impl ErrorClass {
    /// Classifies an error of a send or receive call of this crate.
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        let Some(errno) = error.raw_os_error() else { return Self::Fatal };
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
            | libc::EDESTADDRREQ
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

    fn class(errno: i32) -> ErrorClass {
        ErrorClass::of(&io::Error::from_raw_os_error(errno))
    }

    #[test]
    fn only_a_broken_socket_or_call_is_fatal() {
        let fatal = [libc::EBADF, libc::ENOTSOCK, libc::EFAULT, libc::EAFNOSUPPORT];
        for errno in fatal {
            assert_eq!(class(errno), ErrorClass::Fatal);
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
            libc::EDESTADDRREQ,
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
            assert_ne!(class(errno), ErrorClass::Fatal, "{errno}");
        }
    }

    #[test]
    fn shortage_is_not_would_block() {
        assert_eq!(class(libc::ENOBUFS), ErrorClass::NoBuffers);
        assert_eq!(class(libc::EAGAIN), ErrorClass::WouldBlock);
        assert_eq!(ErrorClass::of(&io::Error::from(io::ErrorKind::InvalidInput)), ErrorClass::Fatal);
    }
}
