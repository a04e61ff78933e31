//! NASA's testbed: two FreeBSD hosts without pacing, with a clock that has ticks of 1 ms or none, a bottleneck, a deep
//! queue, and a trace.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use longhaul_cc::compose::{
    Composed, LossEvent, Opening, Overlay, Stage, Stages, Startup, StartupResponse, Step, Window,
};
use longhaul_cc::internal::swift_start::{PairEstimate, TickClock};
use longhaul_cc::internal::{NewReno, StandardSlowStart, SwiftStart, SwiftStartConfig};
use longhaul_cc::registry::Safety;
use longhaul_cc::{
    Ack, BuildParams, Congestion, Controller, ControllerFactory, Granted, NeedError, Needs, Path, Sent, Timeout,
};
use longhaul_link::topology::Duplex;
use longhaul_link::{Limit, LinkConfig, Overhead};
use longhaul_sim::{Packet, Plan, SessionId, Setup, Sighting, Sim, Tap, full_segments};
use longhaul_tcp::{Config, Info};
use longhaul_units::{Rate, Span, Time};
use longhaul_zoo::internal::{PacingOnly, Pattern, RenoRecovery};
use longhaul_zoo::unpaced;

/// Payload of a segment in bytes: IP packets have 1500 bytes, with timestamps.
pub(crate) const MSS: u64 = 1448;
/// Tick of the kernel's clock.
pub(crate) const TICK: Span = Span::from_millis(1);
/// Estimate of a run, which the test reads.
pub(crate) type Estimates = Arc<Mutex<Option<PairEstimate>>>;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
    Tcp,
    /// NASA's Swift Start with this divisor.
    Swift(u64),
    Pacing(Pattern),
}

/// FreeBSD 4.1 as used by NASA: an initial window of four segments, growth by one segment per ACK, NewReno, and no
/// pacing except during start-up.
#[derive(Clone, Debug)]
struct FreeBsd {
    start: Start,
    clock: TickClock,
    estimates: Estimates,
}

impl ControllerFactory for FreeBsd {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        let clock = self.clock;
        let mut stages = Stages::new(self.name());
        stages.startup = match self.start {
            Start::Tcp => stages.startup,
            Start::Pacing(pattern) => Box::new(PacingOnly::new(pattern, clock)),
            Start::Swift(gamma) => {
                let mut config = SwiftStartConfig::default();
                (config.gamma, config.clock) = (gamma, clock);
                let told = Arc::clone(&self.estimates);
                Box::new(Logged { inner: SwiftStart::new(config), told })
            }
        };
        stages.slow_start = Box::new(StandardSlowStart::new(4, 1));
        stages.avoidance = Box::new(NewReno::default());
        stages.recovery = Box::new(RenoRecovery::default());
        Box::new(Composed::new(stages, params))
    }

    fn name(&self) -> String {
        format!("{:?}", self.start)
    }

    fn safety(&self) -> Safety {
        Safety::Internet
    }
}

/// Swift Start that stores its estimate.
#[derive(Clone, Debug)]
struct Logged {
    inner: SwiftStart,
    told: Estimates,
}

impl Stage for Logged {
    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn on_granted(&mut self, granted: &Granted, path: &Path) -> Result<(), NeedError> {
        self.inner.on_granted(granted, path)
    }

    fn on_sent(&mut self, sent: &Sent, path: &Path) {
        self.inner.on_sent(sent, path);
    }

    fn next_tick(&self) -> Option<Time> {
        self.inner.next_tick()
    }

    fn overlay(&self) -> Overlay {
        self.inner.overlay()
    }

    fn phase(&self) -> &'static str {
        Stage::phase(&self.inner)
    }
}

impl Startup for Logged {
    fn begin(&mut self, opening: Opening, now: Time, path: &Path, window: &mut Window) -> Step {
        self.inner.begin(opening, now, path, window)
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        let step = self.inner.on_ack(ack, path, window);
        // Both ends have an instance that stores its estimate here, but the receiver's instance has none.
        let mut told = self.told.lock().unwrap();
        *told = self.inner.estimate().or(*told);
        step
    }

    fn on_loss(&mut self, loss: &LossEvent<'_>, path: &Path, window: &mut Window) -> StartupResponse {
        self.inner.on_loss(loss, path, window)
    }

    fn on_tick(&mut self, now: Time, path: &Path, window: &mut Window) -> Step {
        self.inner.on_tick(now, path, window)
    }

    fn on_timeout(&mut self, timeout: &Timeout, path: &Path, window: &mut Window) -> Option<f64> {
        self.inner.on_timeout(timeout, path, window)
    }

    fn abort(&mut self) {
        self.inner.abort();
    }
}

/// A path of the testbed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Testbed {
    /// Rate of the bottleneck in bits per second.
    pub(crate) rate: u64,
    pub(crate) millis: u64,
    /// Delayed-ACK timer of the receiver.
    pub(crate) ack_delay: Span,
    /// Start of the connection within a tick.
    pub(crate) phase: Span,
    pub(crate) clock: TickClock,
}

/// Phase at which each path has the estimate that is most frequent in the paper.
const USUAL: Span = Span::from_micros(400);

impl Testbed {
    pub(crate) const fn new(rate: u64, millis: u64) -> Self {
        Self { rate, millis, ack_delay: Span::from_millis(100), phase: USUAL, clock: TickClock { tick: TICK } }
    }

    /// Returns the RTT added by routers, switches and hosts. The paper's RTTs exceed the configured delay by 3 to 4 ms
    /// at 20 Mb/s, 6 to 7 ms at 5 Mb/s and 50 to 52 ms at 0.5 Mb/s, of which two frames take 1.2, 4.9 and 49.2 ms. The
    /// remainder varied: at 5 Mb/s, the paper's mean RTTs are 506.8 ms for 500 ms, but 106.4 ms for 100 ms.
    const fn extra(&self) -> Span {
        Span::from_micros(match (self.rate, self.millis) {
            (20_000_000, 500) => 1800,
            (5_000_000, 100) => 1350,
            (500_000, _) => 1850,
            _ => 1700,
        })
    }

    /// Returns links with frames of 1538 bytes. At 0.5 Mb/s, the testbed did not limit the reverse path.
    pub(crate) fn links(&self) -> Duplex {
        let link = LinkConfig::new(Rate::from_bits_per_sec(self.rate), Span::from_millis(self.millis) / 2)
            .queue(Limit::Packets(100_000))
            .overhead(Overhead::Ethernet);
        let delay = Span::from_millis(self.millis) / 2 + self.extra();
        let back = if self.rate > 500_000 { LinkConfig { delay, ..link.clone() } } else { LinkConfig::delay(delay) };
        Duplex { there: link, back }
    }

    pub(crate) fn open(&self, start: Start, bytes: u64) -> Run {
        self.open_over(self.links(), start, bytes)
    }

    /// Opens a transfer over other links.
    pub(crate) fn open_over(&self, links: Duplex, start: Start, bytes: u64) -> Run {
        let estimates = Estimates::default();
        let congestion =
            unpaced(Congestion::new(FreeBsd { start, clock: self.clock, estimates: Arc::clone(&estimates) }));
        let reads_after = Span::from_millis(self.millis) * 9 / 4;
        Run::new(Setup::pair(1, links), bytes, (self.phase, reads_after), estimates, |config| {
            config.congestion = congestion.clone();
            config.ack_delay = self.ack_delay;
            (config.recv_buffer, config.recv_buffer_max, config.send_buffer) = (3_125_000, 3_125_000, 3_125_000);
            config.sack = false;
        })
    }
}

/// Data segments sent by the sender's host.
#[derive(Debug, Default)]
struct Traffic {
    /// Time and length of each segment.
    sent: Vec<(Time, u64)>,
}

impl Tap for Traffic {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        if sighting == Sighting::Sent(0) && packet.zeros > 0 {
            self.sent.push((now, u64::from(packet.zeros)));
        }
    }
}

pub(crate) struct Run {
    pub(crate) sim: Sim,
    pub(crate) begun: Time,
    pub(crate) estimates: Estimates,
    traffic: Rc<RefCell<Traffic>>,
    pub(crate) client: SessionId,
    pub(crate) server: SessionId,
}

impl Run {
    /// Opens a transfer of `bytes` from host 0 to host 1 with its own settings at `begin`. The receiving application
    /// begins to read `reads_after` later, because longhaul's receiver sends an ACK at the first read that FreeBSD did
    /// not send: it advertises the whole window, which a SYN cannot.
    pub(crate) fn new(
        setup: Setup,
        bytes: u64,
        (begin, reads_after): (Span, Span),
        estimates: Estimates,
        change: impl Fn(&mut Config),
    ) -> Self {
        let mut sim = Sim::new(setup.configure(full_segments).configure(change));
        let traffic = Rc::new(RefCell::new(Traffic::default()));
        sim.add_tap(Rc::clone(&traffic));
        sim.run_for(begin);
        let begun = sim.now();
        let mut sink = Plan::sink().zeros();
        sink.read_from = begun + reads_after;
        let (client, server) = sim.open(Plan::bulk(bytes).zeros(), sink);
        Self { sim, begun, estimates, traffic, client, server }
    }

    /// Runs until `span` after the SYN.
    pub(crate) fn until(&mut self, span: Span) {
        let left = (self.begun + span) - self.sim.now();
        self.sim.run_for(left);
    }

    /// Runs until the receiver has the last byte, and returns the seconds since the SYN.
    pub(crate) fn complete(&mut self, limit: Span) -> f64 {
        let server = self.server;
        assert!(self.sim.run(limit, |sim| sim.find(server).is_some_and(|session| session.ended)));
        (self.sim.session(server).read_at.unwrap() - self.begun).as_secs_f64()
    }

    /// Returns the number of data segments sent until `span` after the SYN.
    pub(crate) fn segments_by(&self, span: Span) -> u64 {
        let until = self.begun + span;
        let traffic = self.traffic.borrow();
        let bytes: u64 = traffic.sent.iter().take_while(|(at, _)| *at <= until).map(|(_, bytes)| bytes).sum();
        bytes / MSS
    }

    /// Returns the start time and number of segments of each burst. Two successive segments belong to the same burst if
    /// at most `apart` passes between them.
    pub(crate) fn bursts(&self, apart: Span) -> Vec<(Time, usize)> {
        let mut bursts: Vec<(Time, usize, Time)> = Vec::new();
        for (at, _) in &self.traffic.borrow().sent {
            match bursts.last_mut() {
                Some((_, count, last)) if *at - *last <= apart => (*count, *last) = (*count + 1, *at),
                _ => bursts.push((*at, 1, *at)),
            }
        }
        bursts.into_iter().map(|(at, count, _)| (at, count)).collect()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.sim.link(0).stats().all().dropped_total()
    }

    pub(crate) fn estimate(&self) -> Option<PairEstimate> {
        *self.estimates.lock().unwrap()
    }

    pub(crate) fn info(&self) -> Info {
        let host = self.sim.host(0);
        host.endpoint.connection(self.sim.session(self.client).id).unwrap().info(self.sim.now())
    }
}
