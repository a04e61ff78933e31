//! Limit on the log messages that strangers cause: in each second, one per source and ten in total.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::Level;

use crate::TlsError;
use crate::admission::host;

/// Minimum time between two messages about one source.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of messages in total per [`INTERVAL`].
const MAX_MESSAGES: usize = 10;

/// The only limiter of the process, because several listeners share one log.
static LIMITER: LazyLock<Mutex<Limiter>> = LazyLock::new(Mutex::default);

/// Address, and subject of the messages about it.
type Source = (IpAddr, &'static str);

#[derive(Debug, Default)]
struct Limiter {
    /// Start of the current interval, and the number of messages in it.
    interval: Option<(Instant, usize)>,
    /// For sources of this interval and the previous one: time of the last message, and number of messages omitted
    /// since.
    sources: HashMap<Source, (Instant, u64)>,
    /// Number of omitted messages about other sources.
    omitted: u64,
}

/// Returns whether a message about `peer` should be written. The message counts against the limit of its `subject`, so
/// that messages about different subjects do not hide each other, and against that of the process. If it should be
/// written, returns a text to append, which tells how many messages were omitted before and is empty if none were;
/// otherwise, returns `None`.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the rate of log messages is limited in real time")]
pub fn admit(peer: SocketAddr, subject: &'static str) -> Option<String> {
    let mut limiter = LIMITER.lock().unwrap_or_else(PoisonError::into_inner);
    let omitted = limiter.admit((host(peer.ip()), subject), Instant::now())?;
    Some(if omitted == 0 { String::new() } else { format!(" ({omitted} more since the last message)") })
}

/// Logs a failed handshake. If the client does not accept the server's key, this is no warning, because a new client
/// learns the key in this way. Such failures have a limit of their own, so that they do not hide the failure of the
/// client's next attempt.
pub(crate) fn report(peer: SocketAddr, error: &TlsError) {
    let level = if matches!(error, TlsError::Refused) { Level::INFO } else { Level::WARN };
    let Some(more) = admit(peer, level.as_str()) else { return };
    if level == Level::INFO {
        tracing::info!(target: "longhaul::tls", "{peer} has left: {error}{more}");
    } else {
        tracing::warn!(target: "longhaul::tls", "{peer} is refused: {error}{more}");
    }
}

impl Limiter {
    /// Returns the number of messages omitted before this one if it should be written, otherwise `None`.
    fn admit(&mut self, source: Source, now: Instant) -> Option<u64> {
        let is_recent = |then: Instant| now.saturating_duration_since(then) < INTERVAL;
        if !self.interval.is_some_and(|(start, _)| is_recent(start)) {
            self.interval = Some((now, 0));
            let omitted = &mut self.omitted;
            self.sources.retain(|_, (last, missed)| {
                let keeps = is_recent(*last);
                *omitted = omitted.saturating_add(if keeps { 0 } else { *missed });
                keeps
            });
        }
        let missed = match self.sources.get_mut(&source) {
            Some((last, missed)) if is_recent(*last) => {
                *missed += 1;
                return None;
            }
            Some((_, missed)) => std::mem::take(missed),
            None => 0,
        };
        let Some((_, written)) = self.interval.as_mut().filter(|(_, written)| *written < MAX_MESSAGES) else {
            self.omitted = self.omitted.saturating_add(missed.saturating_add(1));
            return None;
        };
        *written += 1;
        self.sources.insert(source, (now, 0));
        Some(missed.saturating_add(std::mem::take(&mut self.omitted)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any time will do as the first one")]
    fn messages_are_limited_per_source_and_in_all() {
        let mut limiter = Limiter::default();
        let start = Instant::now();
        let mut admit = |source: u32, subject, millis| {
            let source = (Ipv4Addr::from_bits(source).into(), subject);
            let admitted = limiter.admit(source, start + Duration::from_millis(millis));
            assert!(limiter.sources.len() <= 2 * MAX_MESSAGES);
            admitted
        };
        assert_eq!(admit(1, "a", 0), Some(0));
        assert_eq!(admit(1, "a", 10), None);
        assert_eq!(admit(1, "a", 999), None);
        assert_eq!(admit(1, "b", 999), Some(0));
        assert_eq!(admit(2, "a", 999), Some(0));
        assert_eq!(admit(1, "a", 1000), Some(2));
        let written = (10..5000).filter(|source| admit(*source, "a", 1001).is_some()).count();
        assert_eq!(written, MAX_MESSAGES - 1);
        assert_eq!(admit(1, "a", 2000), Some(4990 - 9));
        // The number of omitted messages about a source is kept when the source is removed.
        assert_eq!(admit(1, "a", 2500), None);
        assert_eq!(admit(3, "a", 5000), Some(1));
    }
}
