//! Observation of a sender at each ACK: RTT samples, losses and the reactions to them, packet pairs, estimates.
//!
//! Samples per second are too coarse, because a loss recovery takes about one round trip. An observer is therefore
//! inserted between the transport and the congestion controller ([`longhaul_cc::observed`]), but only for metrics that
//! need it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_cc::internal::{CongestionLevel, PacketPair, TcpProbe};
use longhaul_cc::{Ack, Controller, Demands, Episode, Path, Quantity, observed};
use longhaul_probe::{BufferDelay, LossRate};
use longhaul_tcp::Config;
use longhaul_units::{Bytes, Rate, Span, Time};
use longhaul_zoo::internal::FusedCapacity;

use crate::measure::{mbps, number};

/// Sampling interval of the controller's estimates.
const EVERY: Span = Span::from_millis(100);
/// Histogram bins of RTT samples per millisecond.
const CLASSES: u64 = 10;
/// Bin width of the buffer-delay estimator.
const BIN: Span = Span::from_millis(1);
/// Weight of the old RTTcong at a loss when congestive and random losses are distinguished, as in TCPW-BBE.
const KEEP: f64 = 0.85;
/// Relative change up to which an estimate counts as stable.
const STANDS: f64 = 0.05;

#[derive(Clone, Debug)]
pub(crate) struct Log {
    /// Number of RTT samples, by RTT in tenths of a millisecond.
    pub(crate) rtts: BTreeMap<u64, u64>,
    pub(crate) losses: Vec<Loss>,
    /// TCPProbe on the connection's own pairs.
    pub(crate) probe: TcpProbe,
    pub(crate) pairs: PacketPair,
    /// BE and TCPProbe, fused.
    pub(crate) fused: FusedCapacity,
    /// Time since which its estimate has been stable, and the estimate.
    stood: Option<(Time, Rate)>,
    /// Buffer delay, estimated from the RTT distributions of all samples and of those before losses.
    pub(crate) buffer: BufferDelay,
    /// Loss rates, in total and of losses attributed to chance.
    pub(crate) rate: LossRate,
    /// The controller's estimates over time, by name: rates in Mb/s, times in ms. `pairs` is TCPProbe's capacity.
    pub(crate) estimates: BTreeMap<&'static str, Vec<(Time, f64)>>,
    next_estimates: Time,
    /// Congestion window after the last ACK.
    cwnd: Bytes,
    repairs: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Loss {
    pub(crate) at: Time,
    pub(crate) rtt: Span,
    /// The congestion level that the controller reports, if it reports one.
    pub(crate) level: Option<f64>,
    /// Congestion window before the loss.
    pub(crate) before: Bytes,
    /// Congestion window at the end of recovery, or `None` if a timeout or another loss occurred before.
    pub(crate) after: Option<Bytes>,
}

impl Loss {
    /// Returns the reduction of the window in percent.
    pub(crate) fn cut(&self) -> Option<f64> {
        self.after.map(|after| 100.0 * (1.0 - after.as_f64() / self.before.as_f64().max(1.0)))
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            rtts: BTreeMap::new(),
            losses: Vec::new(),
            probe: TcpProbe::default(),
            pairs: PacketPair::default(),
            fused: FusedCapacity::default(),
            stood: None,
            buffer: BufferDelay::new(BIN),
            rate: LossRate::new(CongestionLevel::new(KEEP)),
            estimates: BTreeMap::new(),
            next_estimates: Time::ZERO,
            cwnd: Bytes::ZERO,
            repairs: false,
        }
    }
}

impl Log {
    /// Returns the time from which on TCPProbe's estimate has been converged and has changed by at most 5 %.
    pub(crate) fn stood_at(&self) -> Option<Time> {
        self.stood.map(|(at, _)| at)
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, controller: &dyn Controller) {
        let cwnd = controller.control().cwnd;
        if let Some(sample) = ack.rtt {
            self.buffer.sample(sample.rtt);
        }
        self.rate.on_ack(ack, self.cwnd.as_f64() / path.mss.as_f64().max(1.0));
        if let Some(sample) = ack.rtt {
            *self.rtts.entry(sample.rtt.as_micros() * CLASSES / 1000).or_default() += 1;
        }
        self.fused.observe(ack, path);
        ack.pair.iter().for_each(|pair| self.pairs.on_pair(pair));
        if let Some(pair) = ack.pair.filter(|pair| pair.bytes >= path.mss) {
            self.probe.on_pair(&pair, ack.rx_time.unwrap_or(ack.now));
            self.stand(ack.now);
        }
        self.loss(ack, path, controller, cwnd);
        self.estimate(ack.now, controller);
        self.cwnd = cwnd;
    }

    fn stand(&mut self, now: Time) {
        let Some(rate) = self.probe.capacity().filter(|_| self.probe.converged()) else { return };
        if self.stood.is_none_or(|(_, at)| (mbps(rate) - mbps(at)).abs() > STANDS * mbps(at)) {
            self.stood = Some((now, rate));
        }
    }

    fn loss(&mut self, ack: &Ack<'_>, path: &Path, controller: &dyn Controller, cwnd: Bytes) {
        match ack.episode {
            Episode::Enter => {
                self.buffer.on_loss();
                let level = match controller.snapshot().estimates.get("level") {
                    Some(Quantity::Number(level)) => Some(level),
                    _ => None,
                };
                let rtt = path.latest_rtt.unwrap_or_default();
                self.losses.push(Loss { at: ack.now, rtt, level, before: self.cwnd, after: None });
                self.repairs = true;
            }
            Episode::Again | Episode::Rto => self.settle(None),
            Episode::None | Episode::Exit => self.settle(Some(cwnd)),
            Episode::In => {}
        }
    }

    fn settle(&mut self, after: Option<Bytes>) {
        if let Some(loss) = self.losses.last_mut().filter(|_| self.repairs) {
            loss.after = after;
        }
        self.repairs = false;
    }

    fn estimate(&mut self, now: Time, controller: &dyn Controller) {
        if now < self.next_estimates {
            return;
        }
        self.next_estimates = now + EVERY;
        for estimate in controller.snapshot().estimates.iter() {
            if let Some(number) = number(estimate.value) {
                self.estimates.entry(estimate.name).or_default().push((now, number));
            }
        }
        if let Some(rate) = self.probe.capacity() {
            self.estimates.entry("pairs").or_default().push((now, mbps(rate)));
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Watcher(Arc<Mutex<Log>>);

impl Watcher {
    /// Returns the configuration of an observed sender. `config.probe_pairs` requests flipped pairs, and
    /// `arrival_times` the times at which segments arrived at the receiver.
    pub(crate) fn watch(&self, config: &Config, arrival_times: bool) -> Config {
        let log = Arc::clone(&self.0);
        let mut wants = Demands::default();
        (wants.pairs, wants.arrival_times) = (config.probe_pairs, arrival_times);
        let congestion = observed(config.congestion.clone(), wants, move |ack, path, controller| {
            log.lock().unwrap_or_else(PoisonError::into_inner).on_ack(ack, path, controller);
        });
        let mut watched = config.clone();
        watched.congestion = congestion;
        watched
    }

    pub(crate) fn log(&self) -> Log {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
