//! A `TcpStream` for long, lossy, expensive links: userspace TCP inside UDP, on tokio.
//!
//! Replace `tokio::net::TcpStream` with [`TcpStream`] and `tokio::net::TcpListener` with [`TcpListener`]; the rest
//! of the program stays as it is. The transport is then this library's own TCP, carried in UDP datagrams, with a
//! choice of congestion controllers.
//!
//! The tokio runtime needs both its I/O and its time driver, as `#[tokio::main]` and `Builder::enable_all` enable
//! them.
//!
//! **The TCP stack lives in this process.** Kernel TCP still delivers queued data after a program has exited; this
//! stack cannot. Call [`TcpStream::close`] and await it before the runtime ends.
#![forbid(unsafe_code)]

mod capture;
mod connect;
mod connector;
mod descriptors;
mod driver;
mod error;
mod frameworks;
mod handle;
mod info;
mod io;
mod limits;
mod listener;
mod observe;
mod qlog;
mod rebind;
mod setup;
mod shared;
mod socket;
mod stream;
mod waiters;

pub use connector::TcpConnector;
pub use error::connection_error;
pub use info::{LimitedBy, SocketInfo, TcpAckRate, TcpInfo, TcpNetwork, TcpOptions, TcpPairs, TcpProbes, TcpSavedPath};
pub use io::UdpBackend;
pub use listener::TcpListener;
pub use longhaul_cc as cc;
pub use longhaul_tcp::{Config, ConnectionError, HostError, KeepAlive, PathCache, PathCacheConfig, PathMetrics};
pub use longhaul_units as units;
pub use setup::{IntoCongestion, UnsafeCongestion};
pub use socket::TcpSocket;
pub use stream::TcpStream;
pub use stream::split::{ReadHalf, WriteHalf};
pub use stream::split_owned::{OwnedReadHalf, OwnedWriteHalf, ReuniteError};

/// Returns the current time on the clock that all sockets of this process use, as [`PathCache::save`] and
/// [`PathCache::load`] need it.
#[must_use]
pub fn now() -> units::Time {
    io::Io::now()
}
