//! What a sender sees at each ACK: round trips, losses and how it answers them, pairs, estimates.
//!
//! Samples of every second are too coarse for that: a loss is over within a round trip. So a look-out stands between the transport and the
//! congestion control ([`longhaul_cc::watched`]), and only where a metric asks for what it sees.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_cc::estimate::{BufferDelay, CongestionLevel, LossRate, TcpProbe};
use longhaul_cc::{Ack, Controller, Demands, Episode, Estimate, Path, Quantity, watched};
use longhaul_tcp::Config;
use longhaul_units::{Bytes, Rate, Span, Time};

use crate::number::{mbps, number};

/// Between samples of the controller's estimates.
const EVERY: Span = Span::from_millis(100);
/// A round trip's class: so many of them are a millisecond.
const CLASSES: u64 = 10;
/// Bins of the buffer's delay.
const BIN: Span = Span::from_millis(1);
/// What RTTcong keeps at a loss, where chance is told from congestion: as TCPW-BBE has it.
const KEEP: f64 = 0.85;
/// By how much an estimate may still change and count as standing.
const STANDS: f64 = 0.05;

/// What was seen of one sender.
#[derive(Clone, Debug)]
pub struct Log {
    /// Round trips, in tenths of a millisecond, and how many samples had it.
    pub rtts: BTreeMap<u64, u64>,
    /// The first loss of each recovery episode.
    pub losses: Vec<Loss>,
    /// TCPProbe over the connection's own pairs.
    pub probe: TcpProbe,
    /// When and where its estimate came to stand.
    stood: Option<(Time, Rate)>,
    /// The buffer's delay from the two distributions of the round trip.
    pub buffer: BufferDelay,
    /// What was lost, and what of it by chance.
    pub rate: LossRate,
    /// What the controller has estimated over time, by name: rates in Mb/s, times in ms. TCPProbe's capacity is `pairs`.
    pub estimates: BTreeMap<&'static str, Vec<(Time, f64)>>,
    next_estimates: Time,
    /// The window after the last ACK.
    cwnd: Bytes,
    /// Whether the last loss is not repaired yet.
    repairs: bool,
}

/// The first loss of a recovery episode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// When it was found.
    pub at: Time,
    /// The last round trip by then.
    pub rtt: Span,
    /// The congestion level that the controller saw, if it tells.
    pub level: Option<f64>,
    /// The window before.
    pub before: Bytes,
    /// The window once all was repaired; none if a timeout or another loss came between.
    pub after: Option<Bytes>,
}

impl Loss {
    /// What it took of the window, in percent.
    #[must_use]
    pub fn cut(&self) -> Option<f64> {
        self.after.map(|after| 100.0 * (1.0 - after.as_f64() / self.before.as_f64().max(1.0)))
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            rtts: BTreeMap::new(),
            losses: Vec::new(),
            probe: TcpProbe::default(),
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
    /// When TCPProbe's estimate had converged to where it then stayed, within 5 %.
    #[must_use]
    pub fn stood_at(&self) -> Option<Time> {
        self.stood.map(|(at, _)| at)
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, controller: &dyn Controller) {
        let cwnd = controller.control().cwnd;
        self.buffer.on_ack(ack);
        self.rate.on_ack(ack, self.cwnd.as_f64() / path.mss.as_f64().max(1.0));
        if let Some(sample) = ack.rtt {
            *self.rtts.entry(sample.rtt.as_micros() * CLASSES / 1000).or_default() += 1;
        }
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
                let mut level = None;
                controller.estimates(&mut |estimate| {
                    if let Estimate { name: "level", value: Quantity::Number(number) } = estimate {
                        level = Some(number);
                    }
                });
                let rtt = path.latest_rtt.unwrap_or_default();
                self.losses.push(Loss { at: ack.now, rtt, level, before: self.cwnd, after: None });
                self.repairs = true;
            }
            Episode::Again | Episode::Rto => self.settle(None),
            Episode::None | Episode::Exit => self.settle(Some(cwnd)),
            Episode::In => {}
        }
    }

    /// The repair of the last loss is over.
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
        let estimates = &mut self.estimates;
        controller.estimates(&mut |estimate| {
            if let Some(number) = number(estimate.value) {
                estimates.entry(estimate.name).or_default().push((now, number));
            }
        });
        if let Some(rate) = self.probe.capacity() {
            estimates.entry("pairs").or_default().push((now, mbps(rate)));
        }
    }
}

/// Who looks at a sender.
#[derive(Clone, Debug, Default)]
pub struct Watcher(Arc<Mutex<Log>>);

impl Watcher {
    /// The settings of a sender that is looked at. `pairs` asks for flipped pairs.
    #[must_use]
    pub fn watch(&self, config: &Config) -> Config {
        let log = Arc::clone(&self.0);
        let wants = Demands { pairs: config.probe_pairs, ..Demands::default() };
        let congestion = watched(config.congestion.clone(), wants, move |ack, path, controller| {
            log.lock().unwrap_or_else(PoisonError::into_inner).on_ack(ack, path, controller);
        });
        let mut watched = config.clone();
        watched.congestion = congestion;
        watched
    }

    /// What was seen.
    #[must_use]
    pub fn log(&self) -> Log {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
