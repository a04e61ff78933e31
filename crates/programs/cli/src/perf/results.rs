//! Measurements at one end, for its own report and for that of the other end.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::usage::Cpu;

/// Maximum product of intervals and streams that are sent to the other end, so that they fit in a message.
pub const MAX_SAMPLES: usize = 10_000;

/// Maximum number of bytes of a stream that is plausible: an hour at 20 Tb/s.
const MAX_BYTES: u64 = 1 << 53;
/// Plausible durations of a stream in seconds. A test takes up to a day.
const TIMES: std::ops::RangeInclusive<f64> = 0.0..=200_000.0;

/// Adds numbers that the other end may have chosen, and saturates.
#[must_use]
pub fn total(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// Results of a test at one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The streams by number.
    pub streams: Vec<StreamResult>,
    /// The intervals, in order.
    pub intervals: Vec<Interval>,
    /// Number of intervals that were left out to fit in a message.
    pub intervals_left_out: u64,
    /// Processor use during the test.
    pub cpu: Cpu,
}

impl Results {
    /// Returns whether the results are plausible for a test in which their end sends on the streams given by `sends`.
    #[must_use]
    pub fn fits(&self, sends: &[bool]) -> bool {
        let fits = |streams: &mut dyn Iterator<Item = bool>| streams.eq(sends.iter().copied());
        fits(&mut self.streams.iter().map(|stream| stream.sender))
            && self.intervals.iter().all(|interval| fits(&mut interval.streams.iter().map(|stream| stream.sender)))
            && self.streams.iter().all(|stream| stream.bytes <= MAX_BYTES && TIMES.contains(&stream.seconds))
    }
}

/// Results of one stream at one end.
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
    /// TCP results.
    pub tcp: Option<TcpResult>,
    /// UDP results.
    pub udp: Option<UdpSample>,
}

/// TCP results of a stream. Times are in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpResult {
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Maximum congestion window in bytes.
    pub max_snd_cwnd: u64,
    /// Maximum window of the peer in bytes.
    pub max_snd_wnd: u64,
    /// Maximum smoothed RTT.
    pub max_rtt: u64,
    /// Minimum smoothed RTT.
    pub min_rtt: u64,
    /// Mean of the samples of the smoothed RTT.
    pub mean_rtt: u64,
    /// Name of the congestion controller.
    pub congestion: String,
    /// Outcome of the start-up scheme: `running`, `used` or `given-up`; `None` without one.
    pub startup: Option<String>,
    /// Reason why the start-up scheme was given up.
    pub startup_given_up: Option<String>,
    /// Distribution of the RTTs sampled every 10 ms: `samples`, `min`, `p10`, `p50`, `p90`, `p99`, `max`.
    pub rtt: BTreeMap<String, u64>,
    /// Seconds per factor that limited the sender.
    pub limited_by: BTreeMap<String, f64>,
    /// Counters of the connection since the handshake.
    pub counters: BTreeMap<String, u64>,
}

/// Measurements of an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Start in seconds after the start of the measurement.
    pub start: f64,
    /// End in seconds after the start of the measurement.
    pub end: f64,
    /// Whether the interval is excluded from the results.
    pub omitted: bool,
    /// Processor use in percent of one processor.
    pub cpu_percent: f64,
    /// Memory of the process in bytes at the end of the interval.
    pub rss: u64,
    /// The streams by number.
    pub streams: Vec<StreamInterval>,
}

/// Measurements of a stream in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamInterval {
    /// Whether this end sends.
    pub sender: bool,
    /// Payload bytes sent or received.
    pub bytes: u64,
    /// TCP sample.
    pub tcp: Option<TcpSample>,
    /// UDP sample.
    pub udp: Option<UdpSample>,
}

/// State of a TCP connection at the end of an interval. Times are in microseconds, rates in bytes per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpSample {
    /// Segments retransmitted in the interval.
    pub retransmits: u64,
    /// The congestion window in bytes.
    pub snd_cwnd: u64,
    /// The peer's window in bytes.
    pub snd_wnd: u64,
    /// The smoothed RTT.
    pub rtt: u64,
    /// The mean deviation of the RTT.
    pub rttvar: u64,
    /// The path's MTU, as UDP payload in bytes.
    pub pmtu: u64,
    /// Bytes acknowledged in the interval.
    pub bytes_acked: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// The slow-start threshold in bytes; `None` before it is set.
    pub ssthresh: Option<u64>,
    /// The pacing rate; `None` without pacing.
    pub pacing_rate: Option<u64>,
    /// The latest sample of the delivery rate.
    pub delivery_rate: u64,
    /// The controller's phase.
    pub phase: String,
    /// Seconds of the interval per factor that limited the sender.
    pub limited_by: BTreeMap<String, f64>,
}

/// UDP measurements at the receiver. A sender only counts datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpSample {
    /// Number of datagrams sent, as far as the receiver knows.
    pub packets: u64,
    /// Number of datagrams that did not arrive. It is negative in an interval in which datagrams arrived that had been
    /// counted as lost.
    pub lost: i64,
    /// Number of datagrams that arrived after later ones.
    pub out_of_order: u64,
    /// Interarrival jitter (RFC 1889) at the end of the interval, in milliseconds.
    pub jitter_ms: f64,
}

impl UdpSample {
    /// Returns the lost datagrams in percent.
    #[must_use]
    pub fn lost_percent(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { 100.0 * self.lost as f64 / self.packets as f64 }
    }

    /// Combines several streams: sum of the packets, and mean of the jitters, as in iperf3.
    #[must_use]
    pub fn sum(samples: impl Iterator<Item = Self>) -> Self {
        let mut count = 0_u32;
        let mut sum = samples.fold(Self::default(), |sum, sample| {
            count += 1;
            Self {
                packets: sum.packets.saturating_add(sample.packets),
                lost: sum.lost.saturating_add(sample.lost),
                out_of_order: sum.out_of_order.saturating_add(sample.out_of_order),
                jitter_ms: sum.jitter_ms + sample.jitter_ms,
            }
        });
        sum.jitter_ms /= f64::from(count.max(1));
        sum
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::options::Options;
    use super::super::text::Reporter;
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
                reporter.params.streams = 2;
                let ours = results(u64::MAX, true);
                for interval in &ours.intervals {
                    reporter.observe(super::super::session::Event::Interval(interval));
                }
                reporter.end(&Ok((ours, results(u64::MAX, false))));
            }
        }
    }
}
