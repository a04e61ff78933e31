//! A `TcpStream` for long, lossy, expensive links: userspace TCP inside UDP, on tokio.
//!
//! Replace `tokio::net::TcpStream` with [`TcpStream`] and `tokio::net::TcpListener` with [`TcpListener`]; the rest of
//! the program remains unchanged. The transport is then this library's own TCP, carried in UDP datagrams, with a choice
//! of congestion controllers.
//!
//! ```
//! use std::time::Duration;
//! use longhaul::{Config, Congestion, KeepAlive, TcpStream};
//! use tokio::io::AsyncWriteExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let listener = longhaul::TcpListener::bind("127.0.0.1:0").await?;
//! # let peer = listener.local_addr()?;
//! # tokio::spawn(async move {
//! #     let (mut stream, _) = listener.accept().await?;
//! #     tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
//! # });
//! let mut config = Config::default();
//! config.congestion(Congestion::bbr()).keep_alive(Some(KeepAlive::default().with_idle(Duration::from_secs(20))));
//! let mut stream = TcpStream::connect_with(peer, &config).await?;
//! stream.write_all(b"a long way").await?;
//! println!("RTT {:?}", stream.info()?.rtt);
//! stream.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The tokio runtime needs both its I/O and its time driver, as `#[tokio::main]` and `Builder::enable_all` enable
//! them.
//!
//! **The TCP stack lives in this process.** Kernel TCP still delivers queued data after a program has exited; this
//! stack cannot. Call [`TcpStream::close`] and await it before the runtime ends.
//!
//! # Where to start
//!
//! | task | types |
//! |---|---|
//! | connect, accept, read and write | [`TcpStream`], [`TcpListener`], [`TcpSocket`]; [`TcpConnector`] for many peers from one UDP socket |
//! | settings of a connection | [`Config`], [`KeepAlive`] |
//! | congestion control | [`Congestion`], such as [`Congestion::bbr`]; [`Congestion::list`] prints what there is |
//! | state of a connection | [`TcpStream::info`], [`TcpInfo`] |
//! | metrics of earlier connections | [`PathCache`] |
//!
//! Times are [`std::time::Duration`]. Other numbers have their unit in the name of the field or parameter.
//!
//! # Errors
//!
//! All errors of sockets are [`std::io::Error`], with the [`kind`](std::io::Error::kind) that tokio's types use. The
//! inner error ([`get_ref`](std::io::Error::get_ref)) gives details:
//!
//! | operation | inner error |
//! |---|---|
//! | a stream, or connecting, if TCP has ended the connection | [`ConnectionError`], which [`connection_error`] returns; after a timeout, [`source`](std::error::Error::source) is the [`HostError`] that was reported on the path, if any |
//! | connecting or listening with a congestion controller that was not [allowed](Config::allow_unsafe_congestion) | [`UnsafeCongestion`] |
//! | everything else | the system's error, or a message |
//!
//! # Features
//!
//! All features are additive. None is on by default.
//!
//! | feature | what it adds |
//! |---|---|
//! | `axum-08` | [`TcpListener`] implements `axum::serve::Listener` of axum 0.8 |
//! | `hyper-util-01` | [`TcpStream`] implements `Connection` of the client of hyper-util 0.1 |
//! | `qlog` | event logs of connections, by `TcpSocket::set_qlog_dir` and `TcpSocket::set_qlog_file` |
//! | `serde` | [`TcpInfo`] and its parts implement `serde::Serialize` |
//! | `tonic-014` | [`TcpStream`] implements `Connected` of the server of tonic 0.14 |
//! | `unstable-controllers` | [`Congestion`] can be made from `longhaul_cc::Congestion`, for controllers of the application's own. Semantic versioning of this crate does not cover it: `longhaul-cc` may change incompatibly in any release |
//! | `unstable-experiments` | settings and counters of what is under study: answers of routers, probes, shared windows, RTO and window limits, reflectors. Semantic versioning does not cover them |
#![forbid(unsafe_code)]
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

/// Error sections that the documentation of many methods shares.
macro_rules! errors {
    (never) => {
        "\n# Errors\nNever fails; it returns a `Result` for compatibility with tokio."
    };
    (gone) => {
        "\n# Errors\nFails with `NotConnected` if the connection no longer exists."
    };
    (system) => {
        "\n# Errors\nFails with the system's error."
    };
}

mod accept_queue;
mod capture;
mod config;
mod congestion;
mod connect;
mod connector;
mod debug;
mod descriptors;
mod disk;
mod driver;
mod error;
#[cfg(feature = "unstable-experiments")]
mod experiments;
mod frameworks;
mod handle;
mod info;
#[cfg(shuttle)]
#[path = "../../../../tests/interleavings/src/models.rs"]
pub mod interleavings;
mod io;
mod limits;
mod listener;
mod listener_info;
mod local_path;
mod observe;
mod path_cache;
#[cfg(feature = "qlog")]
mod qlog;
mod rebind;
mod roaming;
mod setup;
mod shards;
mod shared;
mod socket;
mod strays;
mod stream;
mod sync;
mod waiters;

pub use config::{Config, KeepAlive};
pub use congestion::{Congestion, CongestionAlgorithm, CongestionKind, ParseCongestionError, UnsafeCongestion};
pub use connect::race;
pub use connector::TcpConnector;
pub use error::connection_error;
#[cfg(feature = "unstable-experiments")]
#[doc(inline)]
pub use info::experiments::{TcpAckRate, TcpExperiments, TcpNetwork, TcpPairs, TcpProbes, TcpSavedPath};
pub use info::{LimitedBy, SendLimit, SocketInfo, TcpInfo, TcpStartup};
pub use io::UdpBackend;
pub use listener::TcpListener;
pub use listener_info::ListenerInfo;
pub use local_path::LocalPath;
#[doc(inline)]
pub use longhaul_tcp::{
    Chunks, ConnectionError, HostError, NegotiatedOptions as TcpOptions, RecoveryState, State as TcpState,
};
/// Used by longhaul-tls, which derives them from the keys of a connection.
#[doc(hidden)]
pub use longhaul_tcp::{Mobility, MoveTags};
pub use path_cache::{LoadPathCacheError, PathCache, PathCacheConfig, PathMetrics, SavedPath};
pub use socket::TcpSocket;
pub use strays::{Stray, StrayHandler, StrayIntake};
pub use stream::TcpStream;
pub use stream::split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
