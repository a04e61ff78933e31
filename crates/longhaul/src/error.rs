//! The engine's errors as `std::io::Error`, with the kinds that tokio's types use, and the system's as the engine's.

use std::io::{self, ErrorKind};

use longhaul_tcp::{Blocked, Connection, ConnectionError, HostError};

/// The end of `connection`, which is `error`, as the application is told of it.
pub(crate) fn from_connection(error: ConnectionError, connection: &Connection) -> io::Error {
    let kind = match error {
        ConnectionError::Refused => ErrorKind::ConnectionRefused,
        ConnectionError::Reset => ErrorKind::ConnectionReset,
        ConnectionError::TimedOut => ErrorKind::TimedOut,
        ConnectionError::Aborted => ErrorKind::ConnectionAborted,
        ConnectionError::NeedNotGranted { .. } => ErrorKind::Unsupported,
        _ => ErrorKind::Other,
    };
    match connection.host_error().filter(|_| error == ConnectionError::TimedOut) {
        Some(source) => io::Error::new(kind, TimedOut { error, source }),
        None => io::Error::new(kind, error),
    }
}

/// Why a read or write of `connection` did nothing; `None` if it is to be tried again.
pub(crate) fn from_blocked(blocked: Blocked, connection: &Connection) -> Option<io::Error> {
    match blocked {
        Blocked::WouldBlock => None,
        Blocked::ShutDown => Some(ErrorKind::BrokenPipe.into()),
        Blocked::Failed(error) => Some(from_connection(error, connection)),
    }
}

/// Nobody answered, and the host had said what may be the cause (RFC 9293, section 3.9.1.8, MUST-47).
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
struct TimedOut {
    error: ConnectionError,
    source: HostError,
}

/// A connection attempt was given up because of `error`.
pub(crate) fn from_path(error: HostError) -> io::Error {
    let kind = match error {
        HostError::Refused => ErrorKind::ConnectionRefused,
        HostError::HostUnreachable => ErrorKind::HostUnreachable,
        HostError::NetworkUnreachable => ErrorKind::NetworkUnreachable,
        HostError::NetworkDown => ErrorKind::NetworkDown,
        HostError::Prohibited => ErrorKind::PermissionDenied,
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// What an error of the socket that may pass says of the path.
pub(crate) fn from_host(error: &io::Error) -> HostError {
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => HostError::Refused,
        ErrorKind::HostUnreachable => HostError::HostUnreachable,
        ErrorKind::NetworkUnreachable => HostError::NetworkUnreachable,
        ErrorKind::NetworkDown => HostError::NetworkDown,
        ErrorKind::PermissionDenied => HostError::Prohibited,
        _ => HostError::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::net::SocketAddr;
    use std::sync::Arc;

    use longhaul_tcp::{Config, Endpoint, EndpointConfig};
    use longhaul_units::{Span, Time};

    use super::*;

    /// The error of a connection attempt that nobody answers, after the system said `host`.
    fn timed_out(host: Option<ErrorKind>) -> io::Error {
        let mut endpoint = Endpoint::new(EndpointConfig::new([1; 32]), Time::ZERO);
        let tuple = crate::shared::Shared::client_tuple(SocketAddr::from(([192, 0, 2, 1], 9)));
        let mut config = Config::default();
        config.user_timeout = Some(Span::from_secs(5));
        let id = endpoint.connect(Time::ZERO, tuple, Arc::new(config)).unwrap();
        if let Some(kind) = host {
            endpoint.handle_host_error(Time::ZERO, tuple, from_host(&kind.into()));
        }
        let mut now = Time::ZERO;
        let mut batch = longhaul_tcp::Batch::default();
        loop {
            while endpoint.poll_transmit(now, &mut batch, 1).is_some() {}
            let connection = endpoint.connection(id).unwrap();
            if let Some(error) = connection.error() {
                return from_connection(error, connection);
            }
            now = endpoint.poll_timeout().unwrap();
            endpoint.handle_timeout(now);
        }
    }

    #[test]
    fn a_timeout_names_what_the_system_said_as_its_source() {
        let plain = timed_out(None);
        assert_eq!((plain.kind(), plain.to_string().as_str()), (ErrorKind::TimedOut, "connection timed out"));
        assert!(plain.source().is_none());
        for (kind, what) in [
            (ErrorKind::HostUnreachable, HostError::HostUnreachable),
            (ErrorKind::NetworkUnreachable, HostError::NetworkUnreachable),
            (ErrorKind::ConnectionRefused, HostError::Refused),
        ] {
            let error = timed_out(Some(kind));
            assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::TimedOut, "connection timed out"));
            assert_eq!(error.source().unwrap().downcast_ref(), Some(&what));
        }
    }
}
