//! TCPProbe: a transfer to a plain `receive` whose segments measure the path.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use longhaul::cc::estimate::CongestionLevel;
use longhaul::cc::estimate::buffer::LossRate;
use longhaul::cc::{Ack, Episode, RttSample};
use longhaul::units::{Bytes, Rate, Span, Time};
use longhaul::{TcpInfo, TcpSocket, TcpStream};
use longhaul_probe::{Estimate, RateRange};
use tokio::time::{interval, sleep, timeout};

use super::doubts::Own;
use super::path::{Facts, Path};
use super::report::{Outcome, Watch};
use crate::protocol::{self, FileHeader, Reply};
use crate::report::Stopwatch;
use crate::sender::{Heard, write_or_hear};

const NAME: &str = "tcpprobe";
/// A host that does not answer is given up after this.
const PATIENCE: Duration = Duration::from_secs(5);
/// A transfer of which nothing has arrived for so long will not get anywhere: there were several retransmissions.
const STUCK: Span = Span::from_secs(4);
/// What every IPv4 host receives (RFC 1122, section 3.3.2).
const SMALL: u32 = 576;
/// A transfer lasts so long at least, that buffers have filled and emptied ...
const LEAST: Span = Span::from_secs(3);
/// ... and so long at most, converged or not ...
const LONGEST: Span = Span::from_secs(10);
/// ... or so many bytes, which the receiver has to store.
const MOST: u64 = 512 << 20;
/// How often the connection is looked at: not much less often than a pair may be sent.
const TICK: Duration = Duration::from_millis(5);
/// Bytes written at a time.
const CHUNK: usize = 64 << 10;
/// A size that is never reached.
const SIZE: u64 = 1 << 40;
/// A reset leaves within this.
const LEAVING: Duration = Duration::from_millis(50);
/// Headers of IP and UDP.
const HEADERS: (u64, u64) = (28, 48);
/// What the moving average of round trips at losses keeps of its old value, as NewReno's RTT does of its own.
const KEEP: f64 = 0.85;
/// One tick adds so many losses to the distribution at most: those of one overflow are one event.
const LOSSES: u64 = 64;
/// A loss rate of a thousandth needs so many packets.
const LEAST_PACKETS: u64 = 1000;
/// The confidence in an estimate that has not converged is below this, however many pairs there were ...
const VAGUE: f64 = 0.3;
/// ... as many as CapProbe asks for.
const PAIRS: f64 = 40.0;
/// The confidence in an estimate that has, before it is known how many of its pairs were of use.
const CONVERGED: f64 = 0.5;
/// The most confidence in the spacing of acknowledgments, which is that of the way back as well.
const SPACING: f64 = 0.4;

/// What a transfer is to be like.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// The receiver.
    pub address: SocketAddr,
    /// How long it may take; no more than ten seconds.
    pub limit: Span,
    /// Whether it goes on when it has converged.
    pub whole: bool,
    /// Bytes of the largest IP packet that the path takes, if that is known.
    pub largest: Option<u32>,
}

/// Runs a transfer, and shows on standard error how it goes. Where the path drops its packets it is repeated with small
/// ones.
///
/// # Errors
/// A sentence, if nobody takes it.
pub fn measure(plan: Transfer) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.context("cannot start")?;
    let outcome = runtime.block_on(attempts(plan));
    runtime.shutdown_timeout(LEAVING);
    outcome
}

async fn attempts(plan: Transfer) -> Result<Outcome> {
    let address = plan.address;
    let small = Transfer { largest: Some(SMALL), ..plan };
    for plan in [plan, small] {
        let stream = connect(plan).await?;
        if let Some(outcome) = transfer(stream, plan).await? {
            return Ok(outcome);
        }
        eprintln!("{address} takes a transfer, but nothing of it arrives: the path drops its packets");
    }
    bail!("{address} takes a transfer, but the path drops packets of {SMALL} bytes")
}

async fn connect(plan: Transfer) -> Result<TcpStream> {
    let address = plan.address;
    let mut socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    let config = socket.config();
    (config.probe_pairs, config.arrival_times) = (true, true);
    if let Some(largest) = plan.largest {
        let payload = u64::from(largest).saturating_sub(headers(address));
        let payload = u16::try_from(payload).unwrap_or(u16::MAX);
        config.max_plpmtu = config.max_plpmtu.min(payload);
        config.base_plpmtu = config.base_plpmtu.min(payload);
    }
    socket.set_nodelay(true)?;
    match timeout(PATIENCE, socket.connect(address)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {
            bail!("{address} refuses: nothing there takes a transfer (start `receive --listen {address}` there)")
        }
        Ok(Err(error)) => Err(error).with_context(|| format!("cannot connect to {address}")),
        Err(_) => {
            bail!("{address} does not answer: is `receive` running there, and does the path let UDP through both ways?")
        }
    }
}

/// What a transfer told; `None` if none of it arrived.
async fn transfer(mut stream: TcpStream, plan: Transfer) -> Result<Option<Outcome>> {
    let address = plan.address;
    let info = stream.info()?;
    if info.pairs.is_none() {
        bail!("{address} grants no selective acknowledgments, without which there are no pairs");
    }
    if !info.arrival_times {
        eprintln!(
            "{address} does not tell when segments arrive: the capacity will be that of the spacing of its \
             acknowledgments, which the way back may change, and is not counted as converged"
        );
    }
    let mut meter = Meter::new(headers(address));
    let start = start()?;
    let zeros = vec![0; CHUNK];
    let mut rest = start.as_slice();
    let mut ticks = interval(TICK);
    loop {
        tokio::select! {
            heard = write_or_hear(&mut stream, rest) => match heard {
                Ok(Heard::Wrote(written)) => rest = rest.get(written..).filter(|rest| !rest.is_empty()).unwrap_or(&zeros),
                Ok(Heard::Answer(answer)) => return Err(refusal(&mut stream, address, answer).await),
                Err(error) => return Err(error).with_context(|| format!("the transfer to {address} failed")),
            },
            due = ticks.tick() => {
                meter.own.on_timer(Span::from(due.elapsed()));
                meter.look(&stream.info()?);
                if meter.is_over(plan) || meter.is_stuck(plan.limit) {
                    break;
                }
            }
        }
    }
    stream.abort();
    // The reset is sent by this process, which is about to end.
    sleep(LEAVING).await;
    Ok((!meter.is_stuck(plan.limit)).then(|| meter.outcome()))
}

/// Bytes of the headers of IP and UDP.
fn headers(address: SocketAddr) -> u64 {
    if address.is_ipv4() { HEADERS.0 } else { HEADERS.1 }
}

/// What a file begins with, of a name that no other has.
fn start() -> Result<Vec<u8>> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).context("no random number")?;
    let name = format!("longhaul-probe-{:016x}", u64::from_ne_bytes(random));
    let header = protocol::encode_header(&FileHeader { name, size: SIZE })?;
    Ok([&protocol::MAGIC[..], &header].concat())
}

/// Why the peer answers before the end.
async fn refusal(stream: &mut TcpStream, address: SocketAddr, answer: Option<u8>) -> anyhow::Error {
    if let Some(first) = answer
        && let Ok(Ok(Reply::Refused(reason))) = timeout(PATIENCE, protocol::read_reply(first, stream)).await
    {
        return anyhow!("{address} refuses the transfer: {reason}");
    }
    anyhow!("{address} ends the transfer: what runs there is not `receive`, or of another version")
}

/// How pairs fared.
#[derive(Clone, Copy, Debug)]
struct Pairs {
    converged: bool,
    measured: u64,
    coalesced: u64,
    dropped: u64,
}

/// What the connection told so far.
#[derive(Debug)]
struct Meter {
    watch: Watch,
    clock: Stopwatch,
    headers: u64,
    path: Path,
    own: Own,
    losses: LossRate,
    /// The connection as it was last seen.
    last: Option<TcpInfo>,
    /// Bytes a second, as of each pair.
    capacities: Vec<u64>,
    began_delivered: u64,
}

impl Meter {
    fn new(headers: u64) -> Self {
        Self {
            watch: Watch::new(NAME),
            clock: Stopwatch::start(),
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
        Span::from(self.clock.elapsed())
    }

    fn look(&mut self, info: &TcpInfo) {
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
        if delivered > 0 && info.latest_rtt > 0 {
            let rtt = Span::from_micros(info.latest_rtt);
            ack.rtt = Some(RttSample { rtt, sent_at: Time::ZERO });
            self.path.on_fate(Some(rtt));
        }
        self.losses.on_ack(&ack, info.snd_cwnd as f64);
        for _ in 0..lost.div_ceil(u64::from(info.snd_mss).max(1)).min(LOSSES) {
            self.path.on_fate(None);
        }
        if let Some(pairs) = info.pairs
            && let Some(capacity) = pairs.capacity
            && before.and_then(|before| before.pairs).is_none_or(|before| before.measured < pairs.measured)
        {
            self.capacities.push(capacity);
        }
        let (estimate, elapsed) = (self.estimate(), self.elapsed());
        self.watch.follow(elapsed, &estimate, info.segs_out);
    }

    /// Whether it was time enough for a full segment to arrive, and none did. Smaller ones may have.
    fn is_stuck(&self, limit: Span) -> bool {
        let nothing = |info: &TcpInfo| {
            let delivered = info.delivered_bytes.saturating_sub(self.began_delivered);
            delivered < u64::from(info.snd_mss) && info.total_retrans > 0
        };
        self.elapsed() >= limit.min(STUCK) && self.last.as_ref().is_some_and(nothing)
    }

    fn is_over(&self, plan: Transfer) -> bool {
        let limit = plan.limit.min(LONGEST);
        let sent = self.last.as_ref().map_or(0, |info| info.bytes_sent);
        let settled = !plan.whole && self.elapsed() >= LEAST && self.watch.converged_after().is_some();
        self.elapsed() >= limit || sent >= MOST || settled
    }

    fn estimate(&self) -> Estimate {
        let mut estimate = Estimate::default();
        let Some(info) = &self.last else { return estimate };
        let Some(pairs) = info.pairs else { return estimate };
        let pairs = Pairs {
            converged: pairs.converged,
            measured: pairs.measured,
            coalesced: pairs.coalesced,
            dropped: pairs.dropped,
        };
        let rate = Rate::from_bytes_per_sec;
        // What it said since half of the pairs were measured.
        let late = self.capacities.get(self.capacities.len() / 2..).unwrap_or_default();
        let ends = late.iter().min().zip(late.iter().max());
        estimate.capacity = ends.zip(late.last()).map(|((low, high), value)| RateRange {
            low: rate(*low),
            value: rate(*value),
            high: rate(*high),
        });
        estimate.converged = pairs.converged;
        if estimate.capacity.is_some() {
            estimate.confidence = confidence(&pairs, info.arrival_times);
        }
        estimate
    }

    fn outcome(&self) -> Outcome {
        let (estimate, took) = (self.estimate(), self.elapsed());
        let capacity = estimate.capacity.map(|range| range.value);
        let mut outcome = Outcome::new(NAME, estimate, took, self.path.facts(capacity));
        outcome.converged_after = self.watch.converged_after();
        outcome.arrival_times = Some(false);
        outcome.own = self.own.clone();
        if let Some(info) = &self.last {
            self.count(info, &mut outcome.path);
            outcome.arrival_times = Some(info.arrival_times);
            outcome.own.starved = info.limited_by.cpu / took.as_secs_f64().max(1e-9);
            let mss = u64::from(info.snd_mss).max(1);
            let delivered = info.delivered_bytes.saturating_sub(self.began_delivered);
            let packets = delivered as f64 / mss as f64 * (mss + self.overhead(info)) as f64;
            outcome.delivery = Some(Rate::from_bytes_over(Bytes::from_f64(packets), took));
        }
        outcome
    }

    /// Bytes of an IP packet that are not payload.
    fn overhead(&self, info: &TcpInfo) -> u64 {
        u64::from(info.pmtu.saturating_sub(info.snd_mss)) + self.headers
    }

    /// What the connection knows better than the samples.
    fn count(&self, info: &TcpInfo, path: &mut Facts) {
        path.packets = info.segs_out;
        path.bytes = info.bytes_sent + info.data_segs_out * self.overhead(info);
        path.lost = info.lost_bytes.div_ceil(u64::from(info.snd_mss).max(1));
        path.random_loss = (info.segs_out >= LEAST_PACKETS).then(|| self.losses.random());
        if info.min_rtt > 0 {
            path.base_rtt_us = Some(info.min_rtt as f64);
        }
    }
}

/// How much to believe a capacity: whether it has converged, by how many of the pairs, and by whose clock.
fn confidence(pairs: &Pairs, arrival_times: bool) -> f64 {
    let usable = pairs.measured.saturating_sub(pairs.coalesced) as f64;
    let share = usable / (pairs.measured + pairs.dropped).max(1) as f64;
    let confidence =
        if pairs.converged { CONVERGED + (1.0 - CONVERGED) * share } else { VAGUE * (usable / PAIRS).min(1.0) };
    if arrival_times { confidence } else { confidence.min(SPACING) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_is_in_pairs_of_use_whose_arrival_was_told() {
        let pairs = |converged, measured, coalesced, dropped| Pairs { converged, measured, coalesced, dropped };
        assert!((confidence(&pairs(true, 100, 0, 0), true) - 1.0).abs() < 1e-9);
        assert!((confidence(&pairs(true, 100, 50, 0), true) - 0.75).abs() < 1e-9);
        assert!((confidence(&pairs(true, 50, 0, 50), true) - 0.75).abs() < 1e-9);
        assert!((confidence(&pairs(false, 20, 0, 0), true) - 0.15).abs() < 1e-9);
        assert!((confidence(&pairs(false, 4000, 0, 0), true) - 0.3).abs() < 1e-9);
        assert!((confidence(&pairs(true, 100, 0, 0), false) - 0.4).abs() < 1e-9, "the way back may have made it");
        assert!(confidence(&pairs(false, 0, 0, 0), false) == 0.0);
    }
}
