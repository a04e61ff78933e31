//! A `TcpStream` for long, lossy, expensive links: userspace TCP inside UDP, on tokio.
//!
//! Swap `tokio::net::TcpStream` for [`TcpStream`] and `tokio::net::TcpListener` for [`TcpListener`]; the rest of the
//! program stays as it is. The transport then is this library's own TCP, with a congestion controller of choice,
//! inside UDP datagrams.
//!
//! A runtime needs both its drivers, as `#[tokio::main]` and `Builder::enable_all` give them.
//!
//! **The process is the stack.** What the kernel would still deliver after a program has ended dies with it here:
//! call [`TcpStream::close`] and wait for it before the runtime ends.
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
pub use info::{LimitedBy, SocketInfo, TcpAckRate, TcpInfo, TcpNetwork, TcpOptions, TcpPairs, TcpProbes, TcpSavedPath};
pub use listener::TcpListener;
pub use longhaul_cc as cc;
pub use longhaul_tcp::{Config, HostError, KeepAlive, PathCache, PathCacheConfig, PathMetrics};
pub use longhaul_units as units;
pub use setup::IntoCongestion;
pub use socket::TcpSocket;
pub use stream::TcpStream;
pub use stream::split::{ReadHalf, WriteHalf};
pub use stream::split_owned::{OwnedReadHalf, OwnedWriteHalf, ReuniteError};

/// The time on the clock by which all sockets of this process go: what [`PathCache::save`] and [`PathCache::load`] ask for.
#[must_use]
pub fn now() -> units::Time {
    io::Io::now()
}
