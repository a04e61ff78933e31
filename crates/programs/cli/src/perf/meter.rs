//! Measurement of a stream: the stream's task counts, and reports read the counters.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::TcpInfo;

use super::results::{StreamInterval, StreamResult, TcpResult, TcpSample, UdpSample};
use crate::sync::lock;

/// Maximum number of RTT samples in memory, for a test of any length.
const SAMPLES: usize = 1 << 14;

/// State shared by a stream's task and the reports.
pub(crate) type Meter = Mutex<Gauge>;

/// State of a stream, accumulated since its start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge {
    bytes: u64,
    first_byte: Option<f64>,
    last_byte: Option<f64>,
    /// Time in seconds after the start at which the receiver had confirmed all data.
    pub(crate) confirmed: Option<f64>,
    info: Option<TcpInfo>,
    pub(crate) udp: Option<UdpSample>,
    rtts: Rtts,
    max_snd_cwnd: u64,
    max_snd_wnd: u64,
}

impl Gauge {
    /// Counts bytes that were written or read `at` seconds after the start.
    pub(crate) fn count(&mut self, bytes: usize, at: f64) {
        self.bytes += bytes as u64;
        self.first_byte.get_or_insert(at);
        self.last_byte = Some(at);
    }

    pub(crate) fn sample(&mut self, info: TcpInfo) {
        self.rtts.push(&info);
        self.max_snd_cwnd = self.max_snd_cwnd.max(info.snd_cwnd_bytes);
        self.max_snd_wnd = self.max_snd_wnd.max(info.snd_wnd_bytes);
        self.info = Some(info);
    }
}

/// Minimum, maximum and mean of the smoothed RTT, and recent samples for a distribution.
#[derive(Clone, Debug, Default)]
struct Rtts {
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    samples: Vec<u64>,
    /// Number of samples to skip after each stored one. It grows when too many are stored.
    skip: u64,
}

impl Rtts {
    fn push(&mut self, info: &TcpInfo) {
        if info.rtt.is_none() {
            return;
        }
        let rtt = micros(info.rtt);
        self.min = if self.count == 0 { rtt } else { self.min.min(rtt) };
        self.max = self.max.max(rtt);
        self.sum = self.sum.saturating_add(rtt);
        if self.count.is_multiple_of(self.skip + 1) {
            self.samples.push(micros(info.latest_rtt));
        }
        self.count += 1;
        if self.samples.len() >= SAMPLES {
            let mut even = false;
            self.samples.retain(|_| {
                even = !even;
                even
            });
            self.skip = self.skip * 2 + 1;
        }
    }

    fn mean(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or_default()
    }

    fn distribution(&self) -> BTreeMap<String, u64> {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        let Some(last) = sorted.len().checked_sub(1) else { return BTreeMap::new() };
        // Nearest-rank percentile.
        let at = |percent: usize| sorted.get((last * percent + 50) / 100).copied().unwrap_or_default();
        let ranks = [("min", 0), ("p10", 10), ("p50", 50), ("p90", 90), ("p99", 99), ("max", 100)];
        let named = ranks.into_iter().map(|(name, percent)| (name.to_owned(), at(percent)));
        named.chain([("samples".to_owned(), self.count)]).collect()
    }
}

/// Computes the intervals and the result of a stream.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    pub(crate) sender: bool,
    pub(crate) meter: Arc<Meter>,
    base: Gauge,
    last: Gauge,
}

impl Reader {
    /// Creates a reader for a stream on which this end sends (`true`) or receives (`false`).
    pub(crate) fn new(sender: bool) -> Self {
        Self { sender, ..Self::default() }
    }

    /// Starts the measurement and its first interval.
    pub(crate) fn begin(&mut self) {
        self.last = lock(&self.meter).clone();
        self.base = self.last.clone();
    }

    pub(crate) fn interval(&mut self) -> StreamInterval {
        let now = Gauge { rtts: Rtts::default(), ..lock(&self.meter).clone() };
        let last = std::mem::replace(&mut self.last, now);
        let (now, last) = (&self.last, &last);
        StreamInterval {
            sender: self.sender,
            bytes: now.bytes - last.bytes,
            tcp: now.info.as_ref().map(|info| sample_between(info, last.info.as_ref())),
            udp: now.udp.map(|udp| udp_between(udp, last.udp)),
        }
    }

    /// Returns whether bytes were counted since the last interval.
    pub(crate) fn has_news(&self) -> bool {
        lock(&self.meter).bytes > self.last.bytes
    }

    /// Excludes everything up to the end of the last interval from the result. Call it right after
    /// [`interval`](Self::interval).
    pub(crate) fn omit(&mut self) {
        let mut gauge = lock(&self.meter);
        gauge.rtts = Rtts::default();
        (gauge.max_snd_cwnd, gauge.max_snd_wnd) = (0, 0);
        self.base = self.last.clone();
    }

    /// Returns the result of a stream that ended `seconds` after the start of the measurement.
    pub(crate) fn result(&self, seconds: f64) -> StreamResult {
        let now = lock(&self.meter).clone();
        StreamResult {
            sender: self.sender,
            bytes: now.bytes - self.base.bytes,
            seconds,
            first_byte: now.first_byte,
            last_byte: now.last_byte,
            confirmed: now.confirmed,
            tcp: now.info.as_ref().map(|info| tcp_result(&now, info, self.base.info.as_ref())),
            udp: now.udp.map(|udp| udp_between(udp, self.base.udp)),
        }
    }
}

/// Returns a time in microseconds, or 0 if it is unknown.
fn micros(time: Option<Duration>) -> u64 {
    time.map_or(0, |time| time.as_micros() as u64)
}

fn udp_between(now: UdpSample, then: Option<UdpSample>) -> UdpSample {
    let then = then.unwrap_or_default();
    UdpSample {
        packets: now.packets.saturating_sub(then.packets),
        lost: now.lost.saturating_sub(then.lost),
        out_of_order: now.out_of_order.saturating_sub(then.out_of_order),
        jitter_ms: now.jitter_ms,
    }
}

fn limits_between(now: &TcpInfo, then: Option<&TcpInfo>) -> BTreeMap<String, f64> {
    let limits = then.map_or(now.limited_by, |then| now.limited_by.since(&then.limited_by));
    limits.fields().map(|(limit, time)| (limit.name().to_owned(), time.as_secs_f64())).collect()
}

fn sample_between(now: &TcpInfo, then: Option<&TcpInfo>) -> TcpSample {
    let before = |field: fn(&TcpInfo) -> u64| then.map_or(0, field);
    TcpSample {
        retransmits: now.total_retrans.saturating_sub(before(|info| info.total_retrans)),
        snd_cwnd: now.snd_cwnd_bytes,
        snd_wnd: now.snd_wnd_bytes,
        rtt: micros(now.rtt),
        rttvar: micros(Some(now.rttvar)),
        pmtu: now.pmtu_bytes.into(),
        bytes_acked: now.bytes_acked.saturating_sub(before(|info| info.bytes_acked)),
        in_flight: now.in_flight_bytes,
        ssthresh: now.snd_ssthresh_bytes,
        pacing_rate: now.pacing_bytes_per_second,
        delivery_rate: now.delivery_bytes_per_second.unwrap_or_default(),
        phase: now.phase.to_owned(),
        limited_by: limits_between(now, then),
    }
}

fn tcp_result(gauge: &Gauge, now: &TcpInfo, base: Option<&TcpInfo>) -> TcpResult {
    let counters = [
        ("bytes_sent", now.bytes_sent),
        ("bytes_retrans", now.bytes_retrans),
        ("bytes_lost", now.lost_bytes),
        ("bytes_received", now.bytes_received),
        ("bytes_received_twice", now.rcv_duplicate_bytes),
        ("segments_sent", now.segs_out),
        ("segments_received", now.segs_in),
        ("timeouts", now.timeouts),
        ("tail_probes", now.tail_probes),
        ("recoveries", now.recoveries),
        ("spurious_recoveries", now.spurious_recoveries),
        ("ce_received", now.received_ce),
        ("kernel_drops", now.socket.kernel_drops),
        ("connection_memory", now.memory_bytes),
    ];
    TcpResult {
        retransmits: now.total_retrans.saturating_sub(base.map_or(0, |info| info.total_retrans)),
        max_snd_cwnd: gauge.max_snd_cwnd,
        max_snd_wnd: gauge.max_snd_wnd,
        max_rtt: gauge.rtts.max,
        min_rtt: gauge.rtts.min,
        mean_rtt: gauge.rtts.mean(),
        congestion: now.congestion.clone(),
        startup: now.startup.map(|startup| startup.to_string()),
        startup_given_up: now.startup_given_up.map(str::to_owned),
        rtt: gauge.rtts.distribution(),
        limited_by: limits_between(now, base),
        counters: counters.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_and_the_result_add_up_and_what_is_omitted_does_not_count() {
        let mut reader = Reader::new(false);
        let meter = Arc::clone(&reader.meter);
        let udp = |packets, lost| Some(UdpSample { packets, lost, out_of_order: 0, jitter_ms: 0.5 });
        lock(&meter).count(1000, 0.2);
        lock(&meter).udp = udp(10, 3);
        assert_eq!(reader.interval().bytes, 1000);
        reader.omit();
        lock(&meter).count(20, 1.2);
        lock(&meter).udp = udp(12, 3);
        let interval = reader.interval();
        assert_eq!((interval.bytes, interval.udp), (20, udp(2, 0)));
        lock(&meter).count(3, 1.5);
        lock(&meter).udp = udp(13, 1);
        let interval = reader.interval();
        assert_eq!((interval.bytes, interval.udp), (3, udp(1, -2)));
        let result = reader.result(0.5);
        assert_eq!((result.bytes, result.udp), (23, udp(3, -2)));
        assert_eq!((result.first_byte, result.last_byte), (Some(0.2), Some(1.5)));
    }
}
