//! Connections to targets.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Reason, Target, prepare};

/// Maximum time to resolve a target's name and to connect to it.
const CONNECT: Duration = Duration::from_secs(10);

/// Connects to the first address of a target that is permitted and answers. The connection is [prepared](prepare).
pub(crate) async fn connect(target: &Target, permitted: impl Fn(SocketAddr) -> bool) -> Result<TcpStream, Reason> {
    timeout(CONNECT, attempt(target, permitted)).await.unwrap_or(Err(Reason::TimedOut))
}

async fn attempt(target: &Target, permitted: impl Fn(SocketAddr) -> bool) -> Result<TcpStream, Reason> {
    let found = tokio::net::lookup_host((target.host(), target.port())).await;
    let found: Vec<SocketAddr> = found.map_err(|_| Reason::NotFound)?.collect();
    let mut reason = if found.is_empty() { Reason::NotFound } else { Reason::NotPermitted };
    for address in found {
        if !permitted(address) {
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(stream) => return prepare(&stream).map(|()| stream).map_err(|error| reason_of(&error)),
            Err(error) => reason = reason_of(&error),
        }
    }
    Err(reason)
}

fn reason_of(error: &io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Reason::Refused,
        io::ErrorKind::TimedOut => Reason::TimedOut,
        _ => Reason::Unreachable,
    }
}
