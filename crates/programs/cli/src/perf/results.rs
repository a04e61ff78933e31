//! Measurements at one end, for its own report and for that of the other end.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::usage::Cpu;

/// Maximum product of intervals and streams that are sent to the other end, so that they fit in a message.
pub(super) const MAX_SAMPLES: usize = 10_000;

/// Maximum number of bytes of a stream that is plausible: an hour at 20 Tb/s.
const MAX_BYTES: u64 = 1 << 53;
/// Plausible durations of a stream in seconds. A test takes up to a day.
const TIMES: std::ops::RangeInclusive<f64> = 0.0..=200_000.0;

/// Results of a test at one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub streams: Vec<StreamResult>,
    pub intervals: Vec<Interval>,
    /// Number of intervals omitted so that the results fit in a message.
    pub intervals_left_out: u64,
    pub cpu: Cpu,
}

impl Results {
    /// Returns whether the results are plausible for a test in which their end sends on the streams given by `sends`.
    pub fn fits(&self, sends: &[bool]) -> bool {
        let fits = |streams: &mut dyn Iterator<Item = bool>| streams.eq(sends.iter().copied());
        fits(&mut self.streams.iter().map(|stream| stream.sender))
            && self.intervals.iter().all(|interval| fits(&mut interval.streams.iter().map(|stream| stream.sender)))
            && self.streams.iter().all(|stream| stream.bytes <= MAX_BYTES && TIMES.contains(&stream.seconds))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamResult {
    /// Whether this end sends.
    pub sender: bool,
    /// Payload bytes sent or received, without the omitted time.
    pub bytes: u64,
    /// Seconds from the start of the measurement to the end of the stream.
    pub seconds: f64,
    /// Time at which the first byte was written or read, in seconds after the start of the test.
    pub first_byte: Option<f64>,
    /// Time of the last byte, in seconds after the start of the test.
    pub last_byte: Option<f64>,
    /// Time at which the receiver had confirmed all data; known to the sender only.
    pub confirmed: Option<f64>,
    pub tcp: Option<TcpResult>,
    pub udp: Option<UdpSample>,
}

/// TCP results of a stream. Times are in microseconds, windows in bytes; the minimum, maximum and mean are those of the
/// smoothed RTT.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpResult {
    pub retransmits: u64,
    pub max_snd_cwnd: u64,
    pub max_snd_wnd: u64,
    pub max_rtt: u64,
    pub min_rtt: u64,
    pub mean_rtt: u64,
    pub congestion: String,
    /// Outcome of the start-up scheme: `running`, `used` or `given-up`; `None` without one.
    pub startup: Option<String>,
    pub startup_given_up: Option<String>,
    /// Distribution of the RTTs sampled every 10 ms: `samples`, `min`, `p10`, `p50`, `p90`, `p99`, `max`.
    pub rtt: BTreeMap<String, u64>,
    /// Seconds per factor that limited the sender.
    pub limited_by: BTreeMap<String, f64>,
    /// Counters of the connection since the handshake.
    pub counters: BTreeMap<String, u64>,
}

/// An interval between two times, in seconds after the start of the measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub start: f64,
    pub end: f64,
    /// Whether the interval is excluded from the results.
    pub omitted: bool,
    /// Processor use in percent of one processor.
    pub cpu_percent: f64,
    /// Memory of the process in bytes at the end of the interval.
    pub rss: u64,
    pub streams: Vec<StreamInterval>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamInterval {
    pub sender: bool,
    /// Payload bytes sent or received.
    pub bytes: u64,
    pub tcp: Option<TcpSample>,
    pub udp: Option<UdpSample>,
}

/// State of a TCP connection at the end of an interval, and its activity within the interval. Times are in
/// microseconds, windows in bytes, rates in bytes per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpSample {
    pub retransmits: u64,
    pub snd_cwnd: u64,
    pub snd_wnd: u64,
    pub rtt: u64,
    pub rttvar: u64,
    /// The path's MTU, as UDP payload in bytes.
    pub pmtu: u64,
    pub bytes_acked: u64,
    pub in_flight: u64,
    /// The slow-start threshold in bytes; `None` before it is set.
    pub ssthresh: Option<u64>,
    /// The pacing rate; `None` without pacing.
    pub pacing_rate: Option<u64>,
    /// The latest sample of the delivery rate.
    pub delivery_rate: u64,
    pub phase: String,
    /// Seconds of the interval per factor that limited the sender.
    pub limited_by: BTreeMap<String, f64>,
}

/// UDP measurements at the receiver. A sender only counts datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpSample {
    /// Number of datagrams sent, as far as the receiver knows.
    pub packets: u64,
    /// Number of datagrams that did not arrive. It is negative in an interval in which datagrams arrive that had been
    /// counted as lost.
    pub lost: i64,
    /// Number of datagrams that arrived after later ones.
    pub out_of_order: u64,
    /// Interarrival jitter (RFC 1889) at the end of the interval, in milliseconds.
    pub jitter_ms: f64,
}

impl UdpSample {
    pub fn lost_percent(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { 100.0 * self.lost as f64 / self.packets as f64 }
    }
}

/// Sum over streams of the same direction, in an interval or a whole test.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    /// Duration of the longest stream in seconds; 0 in an interval.
    pub(super) seconds: f64,
    pub(super) bytes: u64,
    /// `None` without a TCP stream.
    pub(super) retransmits: Option<u64>,
    /// Sum of the packets, and mean of the jitters, as in iperf3; `None` without a UDP stream.
    pub(super) udp: Option<UdpSample>,
}

impl From<&StreamInterval> for Sum {
    fn from(stream: &StreamInterval) -> Self {
        let retransmits = stream.tcp.as_ref().map(|tcp| tcp.retransmits);
        Self { seconds: 0.0, bytes: stream.bytes, retransmits, udp: stream.udp }
    }
}

impl From<&StreamResult> for Sum {
    fn from(stream: &StreamResult) -> Self {
        let retransmits = stream.tcp.as_ref().map(|tcp| tcp.retransmits);
        Self { seconds: stream.seconds, bytes: stream.bytes, retransmits, udp: stream.udp }
    }
}

impl Sum {
    /// Adds up streams, whose numbers the other end may have chosen.
    pub(super) fn of<S: Into<Self>>(streams: impl IntoIterator<Item = S>) -> Self {
        let (mut sum, mut count) = (Self::default(), 0_u32);
        for stream in streams.into_iter().map(Into::into) {
            sum.seconds = sum.seconds.max(stream.seconds);
            sum.bytes = sum.bytes.saturating_add(stream.bytes);
            if let Some(retransmits) = stream.retransmits {
                sum.retransmits = Some(sum.retransmits.unwrap_or(0).saturating_add(retransmits));
            }
            if let Some(sample) = stream.udp {
                let udp = sum.udp.get_or_insert_default();
                udp.packets = udp.packets.saturating_add(sample.packets);
                udp.lost = udp.lost.saturating_add(sample.lost);
                udp.out_of_order = udp.out_of_order.saturating_add(sample.out_of_order);
                udp.jitter_ms += sample.jitter_ms;
                count += 1;
            }
        }
        if let Some(udp) = &mut sum.udp {
            udp.jitter_ms = (udp.jitter_ms / f64::from(count)).min(f64::MAX);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::options::Options;
    use super::super::reporter::Reporter;
    use super::*;

    /// Results of two streams in which every number is `bytes`.
    fn results(bytes: u64, sender: bool) -> Results {
        let tcp = TcpResult { retransmits: bytes, ..TcpResult::default() };
        let udp = UdpSample { packets: bytes, lost: i64::MAX, out_of_order: bytes, jitter_ms: f64::MAX };
        let stream = StreamResult { sender, bytes, tcp: Some(tcp), ..StreamResult::default() };
        let tcp = TcpSample { retransmits: bytes, ..TcpSample::default() };
        let of_interval = StreamInterval { sender, bytes, tcp: Some(tcp), udp: None };
        let with_udp = StreamInterval { udp: Some(udp), tcp: None, ..of_interval.clone() };
        let interval = |stream: StreamInterval| Interval { streams: vec![stream; 2], ..Interval::default() };
        let intervals = vec![interval(of_interval), interval(with_udp)];
        Results { streams: vec![stream; 2], intervals, intervals_left_out: bytes, ..Results::default() }
    }

    #[test]
    fn impossible_results_are_refused_and_no_sum_overflows() {
        let sends = [false; 2];
        assert!(results(MAX_BYTES, false).fits(&sends));
        assert!(!results(MAX_BYTES + 1, false).fits(&sends));
        for seconds in [-1.0, 1e300] {
            let mut late = results(1, false);
            late.streams.iter_mut().for_each(|stream| stream.seconds = seconds);
            assert!(!late.fits(&sends), "{seconds}");
        }
        // Reports have to cope with results that did not pass that check.
        for options in [
            "perf -s --logfile /dev/null -V",
            "perf -s --logfile /dev/null -J",
            "perf -s --logfile /dev/null --json-stream",
        ] {
            let options = Options::try_parse_from(options.split(' ')).unwrap();
            for client in [false, true] {
                let mut reporter = Reporter::new(&options, client).unwrap();
                reporter.report.params.streams = 2;
                let ours = results(u64::MAX, true);
                for interval in &ours.intervals {
                    reporter.interval(interval);
                }
                reporter.end(&Ok((ours, results(u64::MAX, false))));
            }
        }
    }
}
