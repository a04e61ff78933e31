//! What an end measured: for its own report, and for the other end's.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::usage::Cpu;

/// Samples of streams that are sent to the other end at most: they must fit a message.
pub const MAX_SAMPLES: usize = 10_000;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Each stream, by its number.
    pub streams: Vec<StreamResult>,
    /// The intervals, in order.
    pub intervals: Vec<Interval>,
    /// Intervals that were left out for their number.
    pub intervals_left_out: u64,
    /// Processors, from the start to the end.
    pub cpu: Cpu,
}

impl Results {
    /// Whether it is of a test in which this end sends on the streams as `sends` says.
    #[must_use]
    pub fn fits(&self, sends: &[bool]) -> bool {
        let fits = |streams: &mut dyn Iterator<Item = bool>| streams.eq(sends.iter().copied());
        fits(&mut self.streams.iter().map(|stream| stream.sender))
            && self.intervals.iter().all(|interval| fits(&mut interval.streams.iter().map(|stream| stream.sender)))
    }
}

/// One stream at one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamResult {
    /// Whether this end sends.
    pub sender: bool,
    /// Payload bytes sent or received, without those of the time omitted.
    pub bytes: u64,
    /// Seconds from the start, or the end of what is omitted, to the end of the stream.
    pub seconds: f64,
    /// When the first byte was written or read, in seconds after the test's start.
    pub first_byte: Option<f64>,
    /// When the last was.
    pub last_byte: Option<f64>,
    /// When the receiver had confirmed all of it, on the sender's side.
    pub confirmed: Option<f64>,
    /// Of a stream of TCP.
    pub tcp: Option<TcpResult>,
    /// Of a stream of UDP.
    pub udp: Option<UdpSample>,
}

/// What TCP adds to a stream's result. Times are microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpResult {
    /// Segments retransmitted.
    pub retransmits: u64,
    /// The largest congestion window in bytes.
    pub max_snd_cwnd: u64,
    /// The largest window of the peer.
    pub max_snd_wnd: u64,
    /// The largest smoothed RTT.
    pub max_rtt: u64,
    /// The smallest.
    pub min_rtt: u64,
    /// The mean of its samples.
    pub mean_rtt: u64,
    /// The congestion control.
    pub congestion: String,
    /// What became of its start-up scheme: `running`, `used` or `given-up`; none if it has none.
    pub startup: Option<String>,
    /// Why it was given up.
    pub startup_given_up: Option<String>,
    /// The distribution of RTTs, as taken every 10 ms: `samples`, `min`, `p10`, `p50`, `p90`, `p99`, `max`.
    pub rtt: BTreeMap<String, u64>,
    /// Seconds for which the sender was limited by each.
    pub limited_by: BTreeMap<String, f64>,
    /// Counters of the connection, from the handshake on.
    pub counters: BTreeMap<String, u64>,
}

/// An interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Seconds after the start, or the end of what is omitted.
    pub start: f64,
    /// The same.
    pub end: f64,
    /// Whether it does not count.
    pub omitted: bool,
    /// Percent of one processor.
    pub cpu_percent: f64,
    /// Bytes of memory of the process, at the end.
    pub rss: u64,
    /// Each stream.
    pub streams: Vec<StreamInterval>,
}

/// One stream in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamInterval {
    /// Whether this end sends.
    pub sender: bool,
    /// Payload bytes sent or received.
    pub bytes: u64,
    /// Of a stream of TCP.
    pub tcp: Option<TcpSample>,
    /// Of a stream of UDP.
    pub udp: Option<UdpSample>,
}

/// A TCP connection at the end of an interval. Times are microseconds, rates bytes per second.
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
    /// Its mean deviation.
    pub rttvar: u64,
    /// The path's MTU, as UDP payload.
    pub pmtu: u64,
    /// Bytes acknowledged in the interval.
    pub bytes_acked: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// The slow-start threshold in bytes, while there is one.
    pub ssthresh: Option<u64>,
    /// The pacing rate, while there is one.
    pub pacing_rate: Option<u64>,
    /// The newest sample of the delivery rate.
    pub delivery_rate: u64,
    /// The controller's phase.
    pub phase: String,
    /// Seconds of the interval for which the sender was limited by each.
    pub limited_by: BTreeMap<String, f64>,
}

/// UDP, at its receiver; a sender counts packets only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpSample {
    /// Datagrams that were sent, as far as is known.
    pub packets: u64,
    /// Of these, those that did not arrive. Negative when some that were missed before have arrived late.
    pub lost: i64,
    /// Those that arrived after later ones.
    pub out_of_order: u64,
    /// RFC 1889's interarrival jitter, at the end, in milliseconds.
    pub jitter_ms: f64,
}

impl UdpSample {
    /// Percent lost.
    #[must_use]
    pub fn lost_percent(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { 100.0 * self.lost as f64 / self.packets as f64 }
    }

    /// Of several streams: their packets together, and the mean of their jitters, as iperf3 has it.
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
