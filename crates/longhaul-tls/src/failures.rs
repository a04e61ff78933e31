//! Reports of failed handshakes: at most one per second and source.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::Level;

use crate::TlsError;
use crate::admission::host;

/// Time between two reports about one source.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of sources that are remembered. Further ones share one count.
const MAX_SOURCES: usize = 1024;

/// An address, or `None` for all further ones, and the level of the messages about it.
type Source = (Option<IpAddr>, Level);

#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// The last report, and the number of failures since.
    sources: Mutex<HashMap<Source, (Instant, u64)>>,
}

impl Failures {
    /// Writes a message to the log, unless one about the same source was written less than a second ago. A client
    /// that does not accept our key is no warning, because that is how a new client learns the key. It is limited
    /// separately, so that it does not hide the failure of the client's next attempt.
    #[expect(clippy::disallowed_methods, reason = "the rate of log messages is limited in real time")]
    pub(crate) fn report(&self, peer: SocketAddr, error: &TlsError) {
        let level = if matches!(error, TlsError::Refused) { Level::INFO } else { Level::WARN };
        let Some(missed) = self.admit(peer, level, Instant::now()) else { return };
        let more = if missed == 0 { String::new() } else { format!(" ({missed} more since the last message)") };
        if level == Level::INFO {
            tracing::info!(target: "longhaul::tls", "{peer} has left: {error}{more}");
        } else {
            tracing::warn!(target: "longhaul::tls", "{peer} is refused: {error}{more}");
        }
    }

    /// Returns the number of unreported failures before this one if this one is to be reported.
    fn admit(&self, peer: SocketAddr, level: Level, now: Instant) -> Option<u64> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if sources.len() >= MAX_SOURCES {
            sources.retain(|_, (last, _)| now.saturating_duration_since(*last) < INTERVAL);
        }
        let mut source = (Some(host(peer.ip())), level);
        if sources.len() >= MAX_SOURCES && !sources.contains_key(&source) {
            source.0 = None;
        }
        match sources.get_mut(&source) {
            Some((last, missed)) if now.saturating_duration_since(*last) < INTERVAL => {
                *missed += 1;
                None
            }
            Some((last, missed)) => {
                *last = now;
                Some(std::mem::take(missed))
            }
            None => {
                sources.insert(source, (now, 0));
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any time will do as the first one")]
    fn a_source_is_reported_once_per_second_and_memory_is_limited() {
        let failures = Failures::default();
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let peer = |source: u32, port| SocketAddr::new(std::net::Ipv4Addr::from(source).into(), port);
        assert_eq!(failures.admit(peer(1, 1), Level::WARN, at(0)), Some(0));
        assert_eq!(failures.admit(peer(1, 2), Level::WARN, at(10)), None);
        assert_eq!(failures.admit(peer(1, 3), Level::WARN, at(999)), None);
        assert_eq!(failures.admit(peer(1, 3), Level::INFO, at(999)), Some(0));
        assert_eq!(failures.admit(peer(2, 1), Level::WARN, at(999)), Some(0));
        assert_eq!(failures.admit(peer(1, 1), Level::WARN, at(1000)), Some(2));
        // Sources beyond the limit count as one.
        let reported =
            (10..5000).filter(|source| failures.admit(peer(*source, 1), Level::WARN, at(1001)).is_some()).count();
        assert_eq!(reported, MAX_SOURCES - 3 + 1);
        assert!(failures.sources.lock().unwrap().len() <= MAX_SOURCES + 1);
        assert_eq!(failures.admit(peer(5000, 1), Level::WARN, at(5000)), Some(0));
        assert!(failures.sources.lock().unwrap().len() < 10);
    }
}
