//! The engine's errors as `std::io::Error`, with the kinds that tokio's types use.

use std::io::{self, ErrorKind};

use longhaul_tcp::{Blocked, ConnectionError};

/// A connection's end as an error.
pub(crate) fn from_connection(error: ConnectionError) -> io::Error {
    let kind = match error {
        ConnectionError::Refused => ErrorKind::ConnectionRefused,
        ConnectionError::Reset => ErrorKind::ConnectionReset,
        ConnectionError::TimedOut => ErrorKind::TimedOut,
        ConnectionError::Aborted => ErrorKind::ConnectionAborted,
        ConnectionError::Unreachable => ErrorKind::HostUnreachable,
        ConnectionError::NeedNotGranted { .. } => ErrorKind::Unsupported,
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// Why a read or write did nothing; `None` if it is to be tried again.
pub(crate) fn from_blocked(blocked: Blocked) -> Option<io::Error> {
    match blocked {
        Blocked::WouldBlock => None,
        Blocked::ShutDown => Some(ErrorKind::BrokenPipe.into()),
        Blocked::Failed(error) => Some(from_connection(error)),
    }
}
