//! TCPProbe: a transfer whose own segments measure the path.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use longhaul::{Congestion, TcpInfo, TcpSocket, TcpStream};
use longhaul_cc::internal::CongestionLevel;
use longhaul_cc::{Ack, Episode, RttSample};
use longhaul_units::{Bytes, Rate, Span, Time};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{interval, sleep, timeout};

use super::answers::Clock;
use super::doubts::Own;
use super::error::Error;
use super::path::{Facts, Path};
use super::report::{Outcome, Watch};
use super::{Note, Progress};
use crate::{Estimate, LossRate, RateRange};

/// Name of TCPProbe in reports and on command lines.
pub const TCP_PROBE: &str = "tcpprobe";
/// Time after which a host that does not answer is abandoned.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time after which a transfer without progress is abandoned. It covers several retransmissions.
const STUCK: Span = Span::from_secs(4);
/// Size of IP packets that every IPv4 host accepts (RFC 1122, section 3.3.2).
const SMALL: u32 = 576;
/// Shortest duration of a transfer: buffers fill and drain within it.
const LEAST: Span = Span::from_secs(3);
/// Longest duration of a transfer, whether or not it has converged.
const LONGEST: Span = Span::from_secs(10);
/// Maximum number of bytes sent, because the receiver has to store them.
const MOST: u64 = 512 << 20;
/// Interval at which the connection is observed, about the interval between pairs.
const TICK: Duration = Duration::from_millis(5);
/// Time allowed for sending a reset.
const LEAVING: Duration = Duration::from_millis(50);
/// Bytes of the headers of IP and UDP, over IPv4 and IPv6.
const HEADERS: (u64, u64) = (28, 48);
/// UDP payload in bytes that fills an Ethernet frame, up to which longhaul probes the path by default.
const ETHERNET: u16 = 1472;
/// Weight of the old value in the moving average of round trips at losses, as in TCPW-BBE.
const KEEP: f64 = 0.85;
/// Largest number of losses that one tick adds to the distribution, because the losses of one overflow are one event.
const LOSSES: u64 = 64;
/// Minimum number of packets for a reported loss rate, which can show a rate of 0.1 %.
const LEAST_PACKETS: u64 = 1000;
/// Upper bound of the confidence in an estimate that has not converged.
const VAGUE: f64 = 0.3;
/// Number of pairs for that bound: the number that CapProbe requires.
const PAIRS: f64 = 40.0;
/// Minimum confidence in a converged estimate; the share of usable pairs determines the rest.
const CONVERGED: f64 = 0.5;
/// Upper bound of the confidence in the spacing of acknowledgments, which the return path also changes.
const SPACING: f64 = 0.4;

/// The application protocol of the transfer, known to the receiver.
pub trait Application {
    /// Returns the bytes with which a transfer begins.
    fn preamble(&self) -> io::Result<Vec<u8>>;

    /// Returns at least one byte, which is sent repeatedly after the preamble.
    fn body(&self) -> Vec<u8>;

    /// Reads the reason why the peer refuses the transfer from `stream`; `first` is the first byte of its answer and
    /// has been read. Returns `None` if the answer is not understood.
    fn refusal(&self, first: u8, stream: &mut TcpStream) -> impl Future<Output = Option<String>>;
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) address: SocketAddr,
    /// Time limit; the transfer takes at most [`LONGEST`] in any case.
    pub(super) limit: Span,
    /// Whether the transfer continues after the estimate has converged.
    pub(super) whole: bool,
    /// Bytes of the largest IP packet that the path carries, if known.
    pub(super) largest: Option<u32>,
}

/// Runs a transfer. If the path drops its packets, the transfer is repeated with small packets.
pub(super) fn measure(
    plan: Transfer,
    application: &impl Application,
    progress: Progress<'_>,
) -> Result<Outcome, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| Error::caused("cannot start", error))?;
    let outcome = runtime.block_on(attempts(plan, application, progress));
    runtime.shutdown_timeout(LEAVING);
    outcome
}

async fn attempts(plan: Transfer, application: &impl Application, progress: Progress<'_>) -> Result<Outcome, Error> {
    let address = plan.address;
    let small = Transfer { largest: Some(SMALL), ..plan };
    for plan in [plan, small] {
        let stream = connect(plan).await?;
        if let Some(outcome) = transfer(stream, plan, application, progress).await? {
            return Ok(outcome);
        }
        progress(
            Note::Warning,
            &format!("{address} takes a transfer, but nothing of it arrives: the path drops its packets"),
        );
    }
    Err(Error::failed(format!("{address} takes a transfer, but the path drops packets of {SMALL} bytes")))
}

async fn connect(plan: Transfer) -> Result<TcpStream, Error> {
    let address = plan.address;
    let mut socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    let config = socket.config();
    config.probe_pairs(true).arrival_times(true);
    if let Some(largest) = plan.largest {
        let payload = u64::from(largest).saturating_sub(headers(address));
        let payload = u16::try_from(payload).unwrap_or(u16::MAX);
        config.max_plpmtu(payload.min(ETHERNET));
    }
    // The size of the buffer can be measured only when the buffer is full, and CUBIC fills it.
    config.congestion(Congestion::cubic()).nodelay(true);
    match timeout(PATIENCE, socket.connect(address)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => Err(Error::failed(format!(
            "{address} refuses: nothing there takes a transfer (start `longhaul receive --plaintext --listen {address}` there)"
        ))),
        Ok(Err(source)) => Err(Error::caused(format!("cannot connect to {address}"), source)),
        Err(_) => Err(Error::failed(format!(
            "{address} does not answer: is `longhaul receive --plaintext` running there, and does the path let UDP \
             through both ways?"
        ))),
    }
}

/// Runs a transfer over `stream`. Returns `None` if no data arrived.
async fn transfer(
    mut stream: TcpStream,
    plan: Transfer,
    application: &impl Application,
    progress: Progress<'_>,
) -> Result<Option<Outcome>, Error> {
    let address = plan.address;
    let info = stream.info()?;
    if info.experiments().pairs.is_none() {
        let reason = "grants no selective acknowledgments, without which there are no pairs";
        return Err(Error::failed(format!("{address} {reason}")));
    }
    if !info.experiments().arrival_times {
        progress(
            Note::Warning,
            &format!(
                "{address} does not tell when segments arrive: the capacity will be that of the spacing of its \
             acknowledgments, which the way back may change, and is not counted as converged"
            ),
        );
    }
    let mut meter = Meter::new(headers(address));
    let preamble = application.preamble()?;
    let body = application.body();
    let mut rest = preamble.as_slice();
    let mut ticks = interval(TICK);
    let broken = |source| Error::caused(format!("the transfer to {address} failed"), source);
    loop {
        let (mut reader, mut writer) = stream.split();
        let mut first = [0];
        tokio::select! {
            // An early answer of the peer ends the transfer.
            read = reader.read(&mut first) => {
                let count = read.map_err(broken)?;
                let answer = (count > 0).then_some(first[0]);
                return Err(refusal(&mut stream, address, answer, application).await);
            }
            written = writer.write(rest) => {
                let written = written.map_err(broken)?;
                rest = rest.get(written..).filter(|rest| !rest.is_empty()).unwrap_or(&body);
            }
            due = ticks.tick() => {
                meter.own.on_timer(Span::from(due.elapsed()));
                meter.look(&stream.info()?, progress);
                if meter.is_over(plan) || meter.is_stuck(plan.limit) {
                    break;
                }
            }
        }
    }
    stream.abort();
    // The reset is sent by a task of this runtime, which is about to end.
    sleep(LEAVING).await;
    Ok((!meter.is_stuck(plan.limit)).then(|| meter.outcome()))
}

fn headers(address: SocketAddr) -> u64 {
    if address.is_ipv4() { HEADERS.0 } else { HEADERS.1 }
}

/// Returns the reason why the peer answered before the end.
async fn refusal(
    stream: &mut TcpStream,
    address: SocketAddr,
    answer: Option<u8>,
    application: &impl Application,
) -> Error {
    if let Some(first) = answer
        && let Ok(Some(reason)) = timeout(PATIENCE, application.refusal(first, stream)).await
    {
        return Error::failed(format!("{address} refuses the transfer: {reason}"));
    }
    Error::failed(format!(
        "{address} ends the transfer: what runs there is not `longhaul receive --plaintext`, or of another version"
    ))
}

#[derive(Debug)]
struct Meter {
    watch: Watch,
    clock: Clock,
    headers: u64,
    path: Path,
    own: Own,
    losses: LossRate,
    last: Option<TcpInfo>,
    /// Estimates in bytes per second, one after each pair.
    capacities: Vec<u64>,
    began_delivered: u64,
}

impl Meter {
    fn new(headers: u64) -> Self {
        Self {
            watch: Watch::new(TCP_PROBE),
            clock: Clock::start(),
            headers,
            path: Path::default(),
            own: Own::default(),
            losses: LossRate::new(CongestionLevel::new(KEEP)),
            last: None,
            capacities: Vec::new(),
            began_delivered: 0,
        }
    }

    fn elapsed(&self) -> Span {
        self.clock.elapsed()
    }

    fn look(&mut self, info: &TcpInfo, progress: Progress<'_>) {
        let before = self.last.replace(info.clone());
        let since = |now: u64, field: fn(&TcpInfo) -> u64| now.saturating_sub(before.as_ref().map_or(0, field));
        let delivered = since(info.delivered_bytes, |info| info.delivered_bytes);
        let lost = since(info.lost_bytes, |info| info.lost_bytes);
        if before.is_none() {
            self.began_delivered = info.delivered_bytes;
        }
        let mut ack = Ack::new(Time::ZERO);
        (ack.delivered, ack.newly_lost) = (Bytes(delivered), Bytes(lost));
        if since(info.recoveries, |info| info.recoveries) > 0 {
            ack.episode = Episode::Enter;
        }
        if delivered > 0
            && let Some(rtt) = info.latest_rtt.map(Span::from)
        {
            ack.rtt = Some(RttSample::new(rtt, Time::ZERO));
            self.path.on_fate(Some(rtt));
        }
        self.losses.on_ack(&ack, info.snd_cwnd_segments as f64);
        for _ in 0..lost.div_ceil(u64::from(info.snd_mss_bytes).max(1)).min(LOSSES) {
            self.path.on_fate(None);
        }
        if let Some(pairs) = info.experiments().pairs
            && let Some(capacity) = pairs.capacity_bytes_per_second
            && before
                .and_then(|before| before.experiments().pairs)
                .is_none_or(|before| before.measured < pairs.measured)
        {
            self.capacities.push(capacity);
        }
        let (estimate, elapsed) = (self.estimate(), self.elapsed());
        self.watch.follow(elapsed, &estimate, info.segs_out, progress);
    }

    /// Returns whether no full segment has arrived within [`STUCK`]. Smaller ones may have arrived.
    fn is_stuck(&self, limit: Span) -> bool {
        let nothing = |info: &TcpInfo| {
            let delivered = info.delivered_bytes.saturating_sub(self.began_delivered);
            delivered < u64::from(info.snd_mss_bytes) && info.total_retrans > 0
        };
        self.elapsed() >= limit.min(STUCK) && self.last.as_ref().is_some_and(nothing)
    }

    fn is_over(&self, plan: Transfer) -> bool {
        let limit = plan.limit.min(LONGEST);
        let sent = self.last.as_ref().map_or(0, |info| info.bytes_sent);
        let settled = !plan.whole && self.elapsed() >= LEAST && self.watch.converged_after.is_some();
        self.elapsed() >= limit || sent >= MOST || settled
    }

    fn estimate(&self) -> Estimate {
        let mut estimate = Estimate::default();
        let Some(info) = &self.last else { return estimate };
        let Some(pairs) = info.experiments().pairs else { return estimate };
        let rate = Rate::from_bytes_per_sec;
        // Estimates after the first half of the pairs.
        let late = self.capacities.get(self.capacities.len() / 2..).unwrap_or_default();
        let ends = late.iter().min().zip(late.iter().max());
        estimate.capacity = ends.zip(late.last()).map(|((low, high), value)| RateRange {
            low: rate(*low),
            value: rate(*value),
            high: rate(*high),
        });
        estimate.converged = pairs.converged;
        if estimate.capacity.is_some() {
            estimate.confidence = confidence(
                pairs.converged,
                [pairs.measured, pairs.coalesced, pairs.dropped],
                info.experiments().arrival_times,
            );
        }
        estimate
    }

    fn outcome(&self) -> Outcome {
        let (estimate, took) = (self.estimate(), self.elapsed());
        let capacity = estimate.capacity.map(|range| range.value);
        let mut outcome = Outcome::new(TCP_PROBE, estimate, took, self.path.facts(capacity));
        outcome.converged_after = self.watch.converged_after;
        outcome.arrival_times = Some(false);
        outcome.own = self.own.clone();
        if let Some(info) = &self.last {
            self.count(info, &mut outcome.path);
            outcome.arrival_times = Some(info.experiments().arrival_times);
            outcome.own.starved = info.limited_by.cpu.as_secs_f64() / took.as_secs_f64().max(1e-9);
            let mss = u64::from(info.snd_mss_bytes).max(1);
            let delivered = info.delivered_bytes.saturating_sub(self.began_delivered);
            let packets = delivered as f64 / mss as f64 * (mss + self.overhead(info)) as f64;
            outcome.delivery = Some(Rate::from_bytes_over(Bytes::from_f64(packets), took));
        }
        outcome
    }

    /// Bytes of an IP packet without its payload.
    fn overhead(&self, info: &TcpInfo) -> u64 {
        u64::from(info.pmtu_bytes.saturating_sub(info.snd_mss_bytes)) + self.headers
    }

    /// Overrides properties of the path that the connection knows more accurately than the samples.
    fn count(&self, info: &TcpInfo, path: &mut Facts) {
        path.packets = info.segs_out;
        path.bytes = info.bytes_sent + info.data_segs_out * self.overhead(info);
        path.lost = info.lost_bytes.div_ceil(u64::from(info.snd_mss_bytes).max(1));
        path.random_loss = (info.segs_out >= LEAST_PACKETS).then(|| self.losses.random());
        if let Some(rtt) = info.min_rtt {
            path.base_rtt_us = Some(rtt.as_micros() as f64);
        }
    }
}

/// Confidence in a capacity: it depends on convergence, on the share of usable pairs, and on whether the receiver
/// reports arrival times.
fn confidence(converged: bool, [measured, coalesced, dropped]: [u64; 3], arrival_times: bool) -> f64 {
    let usable = measured.saturating_sub(coalesced) as f64;
    let share = usable / (measured + dropped).max(1) as f64;
    let confidence = if converged { CONVERGED + (1.0 - CONVERGED) * share } else { VAGUE * (usable / PAIRS).min(1.0) };
    if arrival_times { confidence } else { confidence.min(SPACING) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_grows_with_usable_pairs_and_arrival_times() {
        assert!((confidence(true, [100, 0, 0], true) - 1.0).abs() < 1e-9);
        assert!((confidence(true, [100, 50, 0], true) - 0.75).abs() < 1e-9);
        assert!((confidence(true, [50, 0, 50], true) - 0.75).abs() < 1e-9);
        assert!((confidence(false, [20, 0, 0], true) - 0.15).abs() < 1e-9);
        assert!((confidence(false, [4000, 0, 0], true) - 0.3).abs() < 1e-9);
        assert!(
            (confidence(true, [100, 0, 0], false) - 0.4).abs() < 1e-9,
            "the return path may have changed the spacing"
        );
        assert!(confidence(false, [0, 0, 0], false) == 0.0);
    }
}
