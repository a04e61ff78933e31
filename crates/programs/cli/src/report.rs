//! Reports of finished transfers.

use std::time::Duration;

use longhaul::LimitedBy;
use longhaul_link::text;
pub(crate) use longhaul_link::text::{duration, rate, size};
use longhaul_units::Span;
use serde::Serialize;

use crate::names;
use crate::transport::Snapshot;

/// Duration below which no rate is shown: it would reflect buffers rather than the path.
const LEAST_TIMED: Duration = Duration::from_millis(10);

/// Measures real time from its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(std::time::Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "programs for people measure real time")]
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// A delivered file as seen by its sender: one line of `send --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Sent {
    /// Path of the file as given on the command line.
    pub(crate) file: String,
    pub(crate) bytes: u64,
    /// Number of bytes that the receiver had from earlier connections. The other fields describe the last connection.
    pub(crate) resumed_bytes: u64,
    /// Seconds from the start of the connection (for the second and further files: from the confirmation of the
    /// previous file) to the receiver's confirmation of the hash.
    pub(crate) seconds: f64,
    /// Goodput in bit/s.
    pub(crate) goodput_bps: f64,
    /// Payload bytes retransmitted during the transfer.
    pub(crate) retransmitted_bytes: u64,
    pub(crate) congestion: String,
    pub(crate) startup_given_up: Option<&'static str>,
    /// The connection's minimum round-trip time in microseconds; `None` without a sample.
    pub(crate) rtt_min_us: Option<u64>,
    /// Time of this transfer by limiting factor, in seconds.
    pub(crate) limited_by: LimitedBy,
    /// BLAKE3 hash of the contents, which the receiver confirmed.
    pub(crate) blake3: String,
}

impl Sent {
    /// Creates the report of a file of `bytes` bytes. The receiver had `resumed` bytes before; the transfer of the rest
    /// took `took`. `before` and `after` are states of the connection.
    pub(crate) fn new(
        file: String,
        (bytes, resumed): (u64, u64),
        took: Duration,
        before: &Snapshot,
        after: &Snapshot,
        hash: &blake3::Hash,
    ) -> Self {
        Self {
            file,
            bytes,
            resumed_bytes: resumed,
            seconds: took.as_secs_f64(),
            goodput_bps: bits_per_second(bytes.saturating_sub(resumed), took),
            retransmitted_bytes: after.retransmitted_bytes.saturating_sub(before.retransmitted_bytes),
            congestion: after.congestion.clone(),
            startup_given_up: after.startup_given_up,
            rtt_min_us: after.min_rtt.map(|rtt| rtt.as_micros() as u64),
            limited_by: after.limited_by.since(&before.limited_by),
            blake3: hash.to_hex().to_string(),
        }
    }

    /// Returns a line about the file, with transport details if `detail` includes them.
    pub(crate) fn text(&self, detail: bool) -> String {
        let Self { file, bytes, resumed_bytes, blake3, .. } = self;
        let took = Duration::try_from_secs_f64(self.seconds).unwrap_or_default();
        let amount = amount(*bytes, bytes.saturating_sub(*resumed_bytes), took);
        let file = names::escaped(file);
        if !detail {
            return format!("{file}: {amount}");
        }
        let given_up =
            self.startup_given_up.map(|why| format!(", start-up scheme given up: {why}")).unwrap_or_default();
        let retransmitted = size(self.retransmitted_bytes);
        format!("{file}: {amount}, {retransmitted} retransmitted{given_up}, blake3 {blake3} confirmed")
    }
}

/// Creates a value that serializes as an object with these members, in this order. Each has a type parameter of its name.
macro_rules! object {
    ($($(#[$attribute:meta])* $name:ident: $value:expr),* $(,)?) => {{
        #[derive(serde::Serialize)]
        struct Object<$($name),*> {
            $($(#[$attribute])* $name: $name,)*
        }
        Object { $($name: $value),* }
    }};
}
pub(crate) use object;

pub(crate) fn json_line(report: &impl Serialize) -> String {
    serde_json::to_string(report).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
}

/// Returns the rate in bit/s of `bytes` bytes in `took`.
pub(crate) fn bits_per_second(bytes: u64, took: Duration) -> f64 {
    bytes as f64 * 8.0 / took.as_secs_f64().max(1e-9)
}

/// Formats a count with its noun: `1 file`, `302 files`.
pub(crate) fn count(number: u64, what: &str) -> String {
    plural(number, what, &format!("{what}s"))
}

pub(crate) fn plural(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Formats a size, the duration of the transfer, and the rate of the `moved` bytes that were transferred. Shows no rate
/// for a duration below 10 ms.
pub(crate) fn amount(bytes: u64, moved: u64, took: Duration) -> String {
    let amount = format!("{} in {}", size(bytes), duration(took.as_secs_f64()));
    if took < LEAST_TIMED { amount } else { format!("{amount}, {}", rate(bits_per_second(moved, took))) }
}

/// Formats a round-trip time without superfluous decimals.
pub(crate) fn round_trip(rtt: Duration) -> String {
    let millis = rtt.as_secs_f64() * 1e3;
    if millis < 9.95 { format!("{millis:.1} ms") } else { format!("{millis:.0} ms") }
}

/// Formats a time for display, or a question mark if it is unknown.
pub(crate) fn time(time: Option<Duration>) -> String {
    time.map_or_else(|| "?".to_owned(), |time| text::time(Span::from_nanos(time.as_nanos() as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_time() {
        let amount = |micros| amount(2_000_000, 1_000_000, Duration::from_micros(micros));
        assert_eq!(amount(2_000_000), "2.0 MB in 2.0 s, 4.0 Mb/s");
        assert_eq!(amount(10_000), "2.0 MB in 0.0 s, 800 Mb/s");
        assert_eq!(amount(9999), "2.0 MB in 0.0 s");
    }

    #[test]
    fn a_report_counts_one_file_only() {
        let mut before = Snapshot { retransmitted_bytes: 1000, ..Snapshot::default() };
        before.limited_by.cwnd = Duration::from_secs(2);
        let mut after = before.clone();
        after.congestion = "cubic".to_owned();
        after.retransmitted_bytes = 1500;
        after.limited_by.cwnd = Duration::from_millis(2500);
        after.min_rtt = Some(Duration::from_millis(3));
        after.startup_given_up = Some("it was late");
        let hash = blake3::hash(b"");
        let sent = Sent::new("f".to_owned(), (1_500_000, 500_000), Duration::from_secs(2), &before, &after, &hash);
        let json = serde_json::to_string(&sent).unwrap();
        assert_eq!(
            json,
            "{\"file\":\"f\",\"bytes\":1500000,\"resumed_bytes\":500000,\"seconds\":2.0,\"goodput_bps\":4000000.0,\"retransmitted_bytes\":500,\
             \"congestion\":\"cubic\",\"startup_given_up\":\"it was late\",\"rtt_min_us\":3000,\"limited_by\":{\"app\":0.0,\"cwnd\":0.5,\"pacing\":0.0,\
             \"peer_window\":0.0,\"send_buffer\":0.0,\"cpu\":0.0},\
             \"blake3\":\"af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262\"}"
        );
        assert!(
            sent.text(true).contains(", 500 B retransmitted, start-up scheme given up: it was late, blake3"),
            "{}",
            sent.text(true)
        );
        let used = Sent { startup_given_up: None, ..sent };
        assert!(used.text(true).contains(", 500 B retransmitted, blake3"), "{}", used.text(true));
        assert_eq!(used.text(false), "f: 1.5 MB in 2.0 s, 4.0 Mb/s");
    }
}
