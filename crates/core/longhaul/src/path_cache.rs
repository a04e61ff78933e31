//! Per-destination metrics cache.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use longhaul_units::{Bytes, Rate, Span};

use crate::io::Io;

/// Per-destination metrics cache (RFC 9040) for [`Config::path_cache`](crate::Config::path_cache): seeds new
/// connections from earlier ones to the same host. Clones share one cache, so all sockets that use it share their
/// measurements.
///
/// There is one entry for each pair of remote IP address (without port) and congestion controller. A connection updates
/// its entry when all data that it sent is acknowledged, or when it fails:
///
/// * The slow-start threshold, if the connection was in congestion avoidance and limited by congestion control for long
///   enough. The entry keeps the mean of the old and the new value.
/// * The [saved path](SavedPath), from which Careful Resume (RFC 9959) and cached start begin. Only one connection at a
///   time starts from it.
/// * SRTT and RTTVAR, if there were at least 8 samples. A larger value replaces the old one; a smaller value enters the
///   average with a weight of 1/8.
///
/// A new connection starts with the stored slow-start threshold, which ends its first slow start; its initial window is
/// not enlarged. Until it has its own RTT sample, its retransmission timeout covers the stored SRTT and RTTVAR, within
/// 1 s to 3 s.
#[derive(Clone, Default)]
pub struct PathCache(pub(crate) longhaul_tcp::PathCache);

impl PathCache {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(config: PathCacheConfig) -> Self {
        Self(longhaul_tcp::PathCache::new(config.to_engine()))
    }

    /// Returns all entries as text, so that they can outlive the process.
    #[must_use]
    pub fn save(&self) -> String {
        self.0.save(Io::now())
    }

    /// Adds the entries of a text that [`save`](Self::save) returned the given time ago, and replaces existing entries
    /// of the same paths. Returns the number of entries. If any line is invalid, nothing is added.
    ///
    /// # Errors
    /// Returns the first invalid line and the reason.
    pub fn load(&self, age: Duration, text: &str) -> Result<usize, LoadPathCacheError> {
        self.0.load(Io::now(), age.into(), text).map_err(LoadPathCacheError)
    }

    /// Returns the valid metrics of the path to `remote` with this congestion controller, given by its
    /// [name](crate::Congestion::name).
    #[must_use]
    pub fn find(&self, remote: IpAddr, congestion: &str) -> Option<PathMetrics> {
        self.0.find(Io::now(), remote, congestion).map(PathMetrics::from_engine)
    }

    /// Stores metrics of the path to `remote` for the congestion controller of this name, as a connection does when it
    /// ends. It is meant for applications that know the path from other sources.
    pub fn seed(&self, remote: IpAddr, congestion: &str, metrics: &PathMetrics) {
        self.0.seed(Io::now(), remote, congestion, &metrics.to_engine());
    }

    /// Returns the number of entries, including those that are too old.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the cache is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all entries, for applications that detect a change of the network.
    pub fn clear(&self) {
        self.0.clear();
    }
}

impl fmt::Debug for PathCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Settings of a [`PathCache`]. The default is that of kernel TCP: 4096 entries, which take about 1 MB, and 1 hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathCacheConfig {
    capacity: usize,
    max_age: Duration,
}

impl PathCacheConfig {
    /// Sets the maximum number of entries; zero is treated as 1. The least recently updated entry is evicted.
    #[must_use]
    pub const fn with_capacity(self, entries: usize) -> Self {
        Self { capacity: entries, ..self }
    }

    /// Sets the maximum age of a value. Older values are ignored, because the path may have changed (RFC 9040, section
    /// 8.1).
    #[must_use]
    pub const fn with_max_age(self, max_age: Duration) -> Self {
        Self { max_age, ..self }
    }

    fn to_engine(self) -> longhaul_tcp::PathCacheConfig {
        let mut config = longhaul_tcp::PathCacheConfig::default();
        (config.capacity, config.max_age) = (self.capacity, self.max_age.into());
        config
    }
}

impl Default for PathCacheConfig {
    fn default() -> Self {
        let config = longhaul_tcp::PathCacheConfig::default();
        Self { capacity: config.capacity, max_age: config.max_age.into() }
    }
}

/// Error for text that is not a saved [`PathCache`]. The message describes the fault of the line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct LoadPathCacheError(longhaul_tcp::LoadError);

impl LoadPathCacheError {
    /// Returns the number of the invalid line, counted from 1.
    #[must_use]
    pub const fn line(&self) -> usize {
        self.0.line
    }
}

/// Metrics of the path to a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathMetrics {
    /// Slow-start threshold at the end of earlier connections, in bytes.
    pub ssthresh_bytes: Option<u64>,
    /// Smoothed RTT.
    pub srtt: Option<Duration>,
    /// Mean deviation of the RTT; meaningless without `srtt`.
    pub rttvar: Duration,
    /// Window and rate that the path delivered.
    pub saved: Option<SavedPath>,
    /// Whether the path drops packets that are marked as ECN-capable and forwards others.
    pub drops_ect: bool,
}

impl PathMetrics {
    fn from_engine(metrics: longhaul_tcp::PathMetrics) -> Self {
        Self {
            ssthresh_bytes: metrics.ssthresh.map(|bytes| bytes.0),
            srtt: metrics.srtt.map(Duration::from),
            rttvar: metrics.rttvar.into(),
            saved: metrics.saved.map(SavedPath::from_engine),
            drops_ect: metrics.drops_ect,
        }
    }

    fn to_engine(self) -> longhaul_tcp::PathMetrics {
        let mut metrics = longhaul_tcp::PathMetrics::default();
        metrics.ssthresh = self.ssthresh_bytes.map(Bytes);
        (metrics.srtt, metrics.rttvar) = (self.srtt.map(Span::from), self.rttvar.into());
        (metrics.saved, metrics.drops_ect) = (self.saved.map(SavedPath::to_engine), self.drops_ect);
        metrics
    }
}

/// Measurements of a path from which a later connection can start (saved congestion control parameters of RFC 9959).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SavedPath {
    /// Maximum number of bytes acknowledged in one round trip (RFC 9959, section 3.1); at most 2 GiB.
    pub window_bytes: u64,
    /// Maximum delivery rate in bytes per second.
    pub bytes_per_second: u64,
    /// Smallest RTT; at least 1 us.
    pub rtt: Duration,
}

impl SavedPath {
    /// Creates a saved path from known properties of the path. Values out of range are rejected when a connection would
    /// use them.
    #[must_use]
    pub const fn new(window_bytes: u64, bytes_per_second: u64, rtt: Duration) -> Self {
        Self { window_bytes, bytes_per_second, rtt }
    }

    fn from_engine(saved: longhaul_cc::SavedPath) -> Self {
        Self::new(saved.window.0, saved.rate.as_bytes_per_sec(), saved.rtt.into())
    }

    fn to_engine(self) -> longhaul_cc::SavedPath {
        let rate = Rate::from_bytes_per_sec(self.bytes_per_second);
        longhaul_cc::SavedPath::new(Bytes(self.window_bytes), rate, self.rtt.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_survive_the_text_and_grow_old() {
        let (host, mut metrics) = (IpAddr::from([192, 0, 2, 1]), PathMetrics::default());
        metrics.ssthresh_bytes = Some(100_000);
        (metrics.srtt, metrics.rttvar) = (Some(Duration::from_millis(600)), Duration::from_millis(20));
        metrics.saved = Some(SavedPath::new(3_000_000, 5_000_000, Duration::from_millis(590)));
        let cache = PathCache::new(PathCacheConfig::default().with_max_age(Duration::from_secs(60)).with_capacity(1));
        cache.seed(host, "cubic", &metrics);
        assert_eq!((cache.find(host, "cubic"), cache.find(host, "bbr")), (Some(metrics), None));
        let text = cache.save();
        cache.clear();
        assert!(cache.is_empty());
        assert_eq!(cache.load(Duration::from_secs(30), &text), Ok(1));
        assert_eq!((cache.len(), cache.find(host, "cubic")), (1, Some(metrics)));
        cache.load(Duration::from_secs(70), &text).unwrap();
        assert_eq!(cache.find(host, "cubic"), None);
        cache.seed(IpAddr::from([192, 0, 2, 2]), "cubic", &metrics);
        assert_eq!(cache.len(), 1, "the capacity");
        assert_eq!(cache.load(Duration::ZERO, "something else\n").unwrap_err().line(), 1);
    }
}
