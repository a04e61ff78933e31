//! Conversion of the engine's errors to `std::io::Error`, with the kinds that tokio's types use, and conversion of
//! system errors to the engine's.

use std::io::{self, ErrorKind};

use longhaul_tcp::{Blocked, Connection, ConnectionError, HostError};

/// Returns the `io::Error` that states why `connection` has ended.
pub(crate) fn from_connection(error: ConnectionError, connection: &Connection) -> io::Error {
    let kind = match error {
        ConnectionError::Refused | ConnectionError::Echoed => ErrorKind::ConnectionRefused,
        ConnectionError::Reset | ConnectionError::Gone => ErrorKind::ConnectionReset,
        ConnectionError::Unreachable(host) => kind_of(host),
        ConnectionError::TimedOut => ErrorKind::TimedOut,
        ConnectionError::Aborted => ErrorKind::ConnectionAborted,
        ConnectionError::NeedNotGranted { .. } => ErrorKind::Unsupported,
        _ => ErrorKind::Other,
    };
    match connection.status().host_error().filter(|_| error == ConnectionError::TimedOut) {
        Some(source) => io::Error::new(kind, TimedOut { error, source }),
        None => io::Error::new(kind, error),
    }
}

/// Returns why a connection ended, if `error` was returned by a stream, of [`connect`](crate::TcpStream::connect) or of
/// [`TcpStream::take_error`](crate::TcpStream::take_error).
///
/// [`std::io::Error::kind`] already distinguishes most causes. This function also distinguishes a closed port from a
/// service that echoes datagrams, and names the feature that a congestion controller lacked. After a timeout,
/// [`std::error::Error::source`] of the `io::Error`'s inner error is the [`HostError`] that was reported on the path,
/// if there was one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// # let echo = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
/// # let address = echo.local_addr()?;
/// # tokio::spawn(async move {
/// #     let mut buffer = [0; 2048];
/// #     while let Ok((len, client)) = echo.recv_from(&mut buffer).await {
/// #         echo.send_to(&buffer[..len], client).await.ok();
/// #     }
/// # });
/// let error = longhaul::TcpStream::connect(address).await.unwrap_err();
/// if longhaul::connection_error(&error) == Some(longhaul::ConnectionError::Echoed) {
///     eprintln!("this is not a longhaul server");
/// }
/// # assert_eq!(longhaul::connection_error(&error), Some(longhaul::ConnectionError::Echoed));
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn connection_error(error: &io::Error) -> Option<ConnectionError> {
    let inner = error.get_ref()?;
    let timed_out = inner.downcast_ref::<TimedOut>().map(|timed_out| timed_out.error);
    timed_out.or_else(|| inner.downcast_ref::<ConnectionError>().copied())
}

fn kind_of(error: HostError) -> ErrorKind {
    match error {
        HostError::Refused => ErrorKind::ConnectionRefused,
        HostError::HostUnreachable => ErrorKind::HostUnreachable,
        HostError::NetworkUnreachable => ErrorKind::NetworkUnreachable,
        HostError::NetworkDown => ErrorKind::NetworkDown,
        HostError::Prohibited => ErrorKind::PermissionDenied,
        _ => ErrorKind::Other,
    }
}

/// Returns why a read or write on `connection` failed; `None` if it must be retried later.
pub(crate) fn from_blocked(blocked: Blocked, connection: &Connection) -> Option<io::Error> {
    match blocked {
        Blocked::WouldBlock => None,
        Blocked::ShutDown => Some(ErrorKind::BrokenPipe.into()),
        Blocked::Failed(error) => Some(from_connection(error, connection)),
    }
}

/// A timeout, together with the error that was reported on the path and may be the cause (RFC 9293, section 3.9.1.8,
/// MUST-47).
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
struct TimedOut {
    error: ConnectionError,
    source: HostError,
}

/// Returns the host error that a transient socket error indicates.
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

    /// Returns the error of a connection attempt that times out after the system has reported `host`.
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
            if let Some(error) = connection.status().error() {
                return from_connection(error, connection);
            }
            now = endpoint.poll_timeout().unwrap();
            endpoint.handle_timeout(now);
        }
    }

    #[test]
    fn a_timeout_has_the_reported_host_error_as_its_source() {
        let plain = timed_out(None);
        assert_eq!((plain.kind(), plain.to_string().as_str()), (ErrorKind::TimedOut, "connection timed out"));
        assert!(plain.source().is_none());
        assert_eq!(connection_error(&plain), Some(ConnectionError::TimedOut));
        assert_eq!(connection_error(&ErrorKind::TimedOut.into()), None);
        for (kind, what) in [
            (ErrorKind::HostUnreachable, HostError::HostUnreachable),
            (ErrorKind::NetworkUnreachable, HostError::NetworkUnreachable),
            (ErrorKind::ConnectionRefused, HostError::Refused),
        ] {
            let error = timed_out(Some(kind));
            assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::TimedOut, "connection timed out"));
            assert_eq!(error.source().unwrap().downcast_ref(), Some(&what));
            assert_eq!(connection_error(&error), Some(ConnectionError::TimedOut));
        }
    }
}
