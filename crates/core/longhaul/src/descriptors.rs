//! Conversion from and to standard sockets, and access to descriptors.

use std::io;
use std::net::UdpSocket;

use crate::connector::TcpConnector;
use crate::listener::TcpListener;
use crate::socket::TcpSocket;
use crate::stream::TcpStream;

impl TcpSocket {
    /// Takes over a bound or unbound UDP socket with its options.
    ///
    /// # Errors
    /// Fails with `InvalidInput` if the socket is connected, or with the system's error.
    pub fn from_std(socket: UdpSocket) -> io::Result<Self> {
        if socket.peer_addr().is_ok() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the UDP socket is already connected"));
        }
        Self::over(socket.into())
    }

    /// Returns the UDP socket; the TCP settings are lost.
    #[must_use]
    pub fn into_std(self) -> UdpSocket {
        self.into_parts().0
    }
}

impl TcpListener {
    /// Listens on a bound UDP socket, such as one that a supervisor has opened (socket activation: `ListenDatagram=`
    /// of systemd.socket(5)). For other settings, see [`TcpSocket::from_std`].
    ///
    /// There is no inverse like tokio's `into_std`, because the connections live in this process and receive their
    /// datagrams on the same socket. `AsFd` gives access to the descriptor, which can be duplicated.
    ///
    /// # Errors
    /// Fails with `InvalidInput` if the socket is connected or not bound, or with the system's error.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    pub fn from_std(socket: UdpSocket) -> io::Result<Self> {
        if socket.local_addr()?.port() == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the UDP socket is not bound"));
        }
        let (socket, setup) = TcpSocket::from_std(socket)?.into_parts();
        Self::over(socket, setup)
    }

    /// Returns the TTL or hop limit of sent packets.
    #[doc = errors!(system)]
    pub fn ttl(&self) -> io::Result<u32> {
        self.first().ttl()
    }

    /// Sets the TTL or hop limit of sent packets, including those of the connections.
    #[doc = errors!(system)]
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.set_ttl_of_all(ttl)
    }
}

impl TcpConnector {
    /// Creates a connector from a bound or unbound UDP socket.
    ///
    /// # Errors
    /// Fails with `InvalidInput` if the socket is connected, or with the system's error.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    pub fn from_std(socket: UdpSocket) -> io::Result<Self> {
        TcpSocket::from_std(socket)?.connector()
    }
}

impl AsRef<Self> for TcpStream {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// Access to the descriptor of the UDP socket, or that of the first shard, to inspect it or set options. Data read from
/// it is lost to the connections. Streams do not give access to the descriptor, because several streams may share it
/// and an option set through one would change all of them.
#[cfg(unix)]
mod unix {
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

    use super::{TcpConnector, TcpListener, TcpSocket};

    macro_rules! descriptor {
        ($type:ty, |$value:ident| $descriptor:expr) => {
            impl AsFd for $type {
                fn as_fd(&self) -> BorrowedFd<'_> {
                    let $value = self;
                    $descriptor
                }
            }

            impl AsRawFd for $type {
                fn as_raw_fd(&self) -> RawFd {
                    self.as_fd().as_raw_fd()
                }
            }
        };
    }

    descriptor!(TcpListener, |listener| listener.first().io.descriptor());
    descriptor!(TcpConnector, |connector| connector.first().io.descriptor());
    descriptor!(TcpSocket, |socket| socket.udp.as_fd());
}
