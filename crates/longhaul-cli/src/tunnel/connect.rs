//! Connections to targets.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Reason, Target, prepare};
use crate::address;

/// Connects to the first address of a target that is permitted and answers, within the time `patience`, the lookup of its name
/// included. The connection is [prepared](prepare).
pub(crate) async fn connect(
    target: &Target,
    patience: Duration,
    permitted: impl Fn(SocketAddr) -> bool,
) -> Result<TcpStream, Reason> {
    timeout(patience, attempt(target, permitted)).await.unwrap_or(Err(Reason::TimedOut))
}

async fn attempt(target: &Target, permitted: impl Fn(SocketAddr) -> bool) -> Result<TcpStream, Reason> {
    let mut found = address::lookup(target.host(), target.port()).await.map_err(|_| Reason::NotFound)?;
    found.retain(|address| permitted(*address));
    if found.is_empty() {
        return Err(Reason::NotPermitted);
    }
    let connected = longhaul::race(found, TcpStream::connect::<SocketAddr>).await;
    connected.and_then(|stream| prepare(&stream).map(|()| stream)).map_err(|error: io::Error| reason_of(&error))
}

fn reason_of(error: &io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Reason::Refused,
        io::ErrorKind::TimedOut => Reason::TimedOut,
        _ => Reason::Unreachable,
    }
}
