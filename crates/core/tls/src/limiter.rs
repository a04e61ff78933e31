//! Rate limit for log messages that unauthenticated peers cause: one per second and subject.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::Level;

use crate::TlsError;

/// Minimum time between two messages about one subject.
const INTERVAL: Duration = Duration::from_secs(1);

/// The limiter of the process, because all listeners share one log.
static LIMITER: LazyLock<Mutex<Limiter>> = LazyLock::new(Mutex::default);

/// For each subject, the time of the last message, and the number of messages omitted since.
#[derive(Debug, Default)]
struct Limiter(HashMap<&'static str, (Instant, u64)>);

/// Returns whether a message should be written. It counts towards the limit of its `subject`, which applies to all
/// peers together, so that messages about different subjects do not suppress each other. Returns `None` if the message
/// should be omitted, and otherwise a text to append that states how many earlier messages were omitted, or an empty
/// text if there were none.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the rate of log messages is limited in real time")]
pub fn admit(subject: &'static str) -> Option<String> {
    let mut limiter = LIMITER.lock().unwrap_or_else(PoisonError::into_inner);
    let omitted = limiter.admit(subject, Instant::now())?;
    Some(if omitted == 0 { String::new() } else { format!(" ({omitted} more since the last message)") })
}

/// Logs a failed handshake. If the client does not accept the server's key, this is not a warning, because new clients
/// learn the key in this way. Such failures have a separate limit, so that they do not suppress the failure of the
/// client's next attempt.
pub(crate) fn report(peer: SocketAddr, error: &TlsError) {
    let level = if matches!(error, TlsError::Refused) { Level::INFO } else { Level::WARN };
    let Some(more) = admit(level.as_str()) else { return };
    if level == Level::INFO {
        tracing::info!(target: "longhaul::tls", "{peer} has left: {error}{more}");
    } else {
        tracing::warn!(target: "longhaul::tls", "{peer} is refused: {error}{more}");
    }
}

impl Limiter {
    /// Returns the number of messages omitted before this one if it should be written, otherwise `None`.
    fn admit(&mut self, subject: &'static str, now: Instant) -> Option<u64> {
        let omitted = match self.0.get_mut(subject) {
            Some((last, omitted)) if now.saturating_duration_since(*last) < INTERVAL => {
                *omitted = omitted.saturating_add(1);
                return None;
            }
            Some((_, omitted)) => *omitted,
            None => 0,
        };
        self.0.insert(subject, (now, 0));
        Some(omitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any time will do as the first one")]
    fn messages_are_limited_per_subject() {
        let mut limiter = Limiter::default();
        let start = Instant::now();
        let mut admit = |subject, millis| limiter.admit(subject, start + Duration::from_millis(millis));
        assert_eq!([0, 10, 999].map(|millis| admit("a", millis)), [Some(0), None, None]);
        assert_eq!(admit("b", 999), Some(0));
        assert_eq!([1000, 1999, 2500].map(|millis| admit("a", millis)), [Some(2), None, Some(1)]);
        assert_eq!(admit("b", 9999), Some(0));
    }
}
