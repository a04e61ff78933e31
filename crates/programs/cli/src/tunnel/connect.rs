//! Connections to targets.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{Reason, Target, prepare};
use crate::address;

/// Limit of simultaneous name look-ups.
#[derive(Clone, Debug)]
pub(crate) struct Lookups(Arc<Semaphore>);

impl Lookups {
    /// Admits `limit` look-ups at a time.
    pub(crate) fn new(limit: usize) -> Self {
        Self(Arc::new(Semaphore::new(limit)))
    }

    async fn look_up(&self, target: &Target) -> io::Result<Vec<SocketAddr>> {
        if target.address().is_some() {
            return address::lookup(target.host(), target.port()).await;
        }
        let place = Arc::clone(&self.0).acquire_owned().await.map_err(io::Error::other)?;
        let (host, port) = (target.host().to_owned(), target.port());
        // The resolver occupies a thread, and keeps its permit, until it has finished, even if its result is no longer
        // needed.
        let found = tokio::spawn(async move {
            let found = address::lookup(&host, port).await;
            drop(place);
            found
        });
        found.await.map_err(io::Error::other)?
    }
}

/// Connects to the first permitted address of a target that answers. Fails after `patience`, which includes the name
/// look-up. The connection is [prepared](prepare).
pub(crate) async fn connect(
    target: &Target,
    lookups: &Lookups,
    patience: Duration,
    permitted: impl Fn(SocketAddr) -> bool,
) -> Result<TcpStream, Reason> {
    timeout(patience, attempt(target, lookups, permitted)).await.unwrap_or(Err(Reason::TimedOut))
}

async fn attempt(
    target: &Target,
    lookups: &Lookups,
    permitted: impl Fn(SocketAddr) -> bool,
) -> Result<TcpStream, Reason> {
    let mut found = lookups.look_up(target).await.map_err(|_| Reason::NotFound)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn names_wait_for_a_place_and_addresses_do_not() {
        let lookups = Lookups::new(1);
        let held = Arc::clone(&lookups.0).acquire_owned().await.unwrap();
        let [name, address] = ["localhost", "192.0.2.1"].map(|host| Target::new(host, 1).unwrap());
        assert_eq!(connect(&name, &lookups, PATIENCE, |_| true).await.err(), Some(Reason::TimedOut));
        assert_eq!(connect(&address, &lookups, PATIENCE, |_| false).await.err(), Some(Reason::NotPermitted));
        drop(held);
        assert!(!lookups.look_up(&name).await.unwrap().is_empty());
        assert_eq!(lookups.0.available_permits(), 1);
    }
}
