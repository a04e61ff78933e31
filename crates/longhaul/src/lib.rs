//! A `TcpStream` for long, lossy, expensive links: userspace TCP inside UDP, on tokio.
//!
//! Swap `tokio::net::TcpStream` for [`TcpStream`] and `tokio::net::TcpListener` for [`TcpListener`]; the rest of the
//! program stays as it is. The transport then is this library's own TCP, with a congestion controller of choice,
//! inside UDP datagrams.
//!
//! **The process is the stack.** What the kernel would still deliver after a program has ended dies with it here:
//! call [`TcpStream::close`] and wait for it before the runtime ends.
#![forbid(unsafe_code)]

mod capture;
mod driver;
mod error;
mod handle;
mod io;
mod listener;
mod shared;
mod stream;
mod waiters;

pub use listener::TcpListener;
pub use longhaul_cc as cc;
pub use longhaul_tcp::{Config, EndpointConfig, Info, KeepAlive, State};
pub use stream::TcpStream;
