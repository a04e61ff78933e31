//! Sockets that come from elsewhere, and the descriptors under ours.

use std::io;
use std::net::UdpSocket;

use crate::connector::TcpConnector;
use crate::listener::TcpListener;
use crate::setup::Setup;
use crate::socket::TcpSocket;
use crate::stream::TcpStream;

impl TcpSocket {
    /// Takes over a UDP socket, bound or not, with the options that it has.
    ///
    /// # Errors
    /// `InvalidInput` if it is connected; the system's.
    pub fn from_std(socket: UdpSocket) -> io::Result<Self> {
        if socket.peer_addr().is_ok() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the UDP socket is connected already"));
        }
        Self::over(socket.into())
    }

    /// Gives the UDP socket back; the settings for the TCP are lost.
    #[must_use]
    pub fn into_std(self) -> UdpSocket {
        self.into_parts().0
    }
}

impl TcpListener {
    /// Listens on a bound UDP socket, such as one that a supervisor has opened (socket activation: `ListenDatagram=` of
    /// systemd.socket(5)). For settings see [`TcpSocket::from_std`].
    ///
    /// There is no way back (`into_std` of tokio's): the connections live in this process, and their datagrams come to the
    /// same socket. A duplicate of its descriptor can be had by `AsFd`.
    ///
    /// # Errors
    /// `InvalidInput` if the socket is connected or not bound; the system's.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn from_std(socket: UdpSocket) -> io::Result<Self> {
        if socket.local_addr()?.port() == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the UDP socket is not bound"));
        }
        let (socket, setup) = TcpSocket::from_std(socket)?.into_parts();
        Self::over(socket, setup)
    }

    /// The TTL or hop limit of packets sent.
    ///
    /// # Errors
    /// The system's.
    pub fn ttl(&self) -> io::Result<u32> {
        self.shared.ttl()
    }

    /// Sets the TTL or hop limit of packets sent, those of the connections included.
    ///
    /// # Errors
    /// The system's.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.shared.set_ttl(ttl)
    }
}

impl TcpConnector {
    /// Opens connections from a UDP socket, bound or not.
    ///
    /// # Errors
    /// `InvalidInput` if it is connected; the system's.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn from_std(socket: UdpSocket) -> io::Result<Self> {
        TcpSocket::from_std(socket)?.connector()
    }
}

impl Setup {
    /// Settings for a socket whose options may be set from outside: what the TCP inside must know of them.
    pub(crate) fn with_dscp(tos: u32) -> Self {
        Self { dscp: ((tos & 0xff) >> 2) as u8, ..Self::default() }
    }
}

impl AsRef<Self> for TcpStream {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// The descriptor of the UDP socket: to look at it or to set options of it. What is read from it is lost to the
/// connections.
#[cfg(unix)]
mod unix {
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

    use super::{TcpConnector, TcpListener, TcpSocket, TcpStream};

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

    descriptor!(TcpStream, |stream| stream.handle.shared.io.descriptor());
    descriptor!(TcpListener, |listener| listener.shared.io.descriptor());
    descriptor!(TcpConnector, |connector| connector.shared.io.descriptor());
    descriptor!(TcpSocket, |socket| socket.udp.as_fd());
}
