//! Every congestion-avoidance algorithm in a complete controller: the fraction of a window of 400 segments that it
//! keeps at a loss, with a queue and without, and the increase afterwards. The numbers are from papers and RFCs. Each
//! algorithm also has its own tests next to its code.

use longhaul_cc::registry::Slot;
use longhaul_cc::{BuildParams, Granted, RateSample, update};
use longhaul_conformance::testing::{MSS, Sender, segments};
use longhaul_units::{Bytes, Span};

use super::{registry, spec};

const WINDOW: u64 = 400;
const BASE: Span = Span::from_millis(100);
const QUEUED: Span = Span::from_millis(150);

/// A flow with one ACK per segment, evenly distributed over a round trip whose length the test sets.
struct Flow {
    sender: Sender,
    round_end: longhaul_units::Time,
    round_window: Bytes,
}

impl Flow {
    /// A flow with at most [`WINDOW`] segments in flight.
    fn new(spec: &str) -> Self {
        let params = update!(BuildParams { max_cwnd: segments(WINDOW), ..BuildParams::default() });
        let mut sender = Sender::with(super::spec(spec).build(&params), Granted::basic());
        sender.fill();
        let (round_end, round_window) = (sender.now, sender.cwnd());
        Self { sender, round_end, round_window }
    }

    /// A flow whose last loss was long ago, so that it is in congestion avoidance.
    fn in_avoidance(spec: &str) -> Self {
        let mut flow = Self::new(spec);
        flow.run(Span::from_secs(10));
        flow.lose();
        flow.run(Span::from_secs(25));
        flow
    }

    fn ack(&mut self) {
        self.ack_after(self.sender.rtt.mul_f64(MSS.as_f64() / self.sender.in_flight.as_f64()));
    }

    fn ack_after(&mut self, gap: Span) {
        let sender = &mut self.sender;
        sender.now += gap;
        let mut ack = sender.acked(1);
        ack.round_start = sender.now >= self.round_end;
        if ack.round_start {
            (self.round_end, self.round_window) = (sender.now + sender.rtt, ack.prior_in_flight);
        }
        let mut rate = RateSample::new(self.round_window, sender.rtt);
        rate.tx_in_flight = self.round_window;
        ack.rate = Some(rate);
        sender.path.min_rtt = Some(BASE);
        sender.tell(&ack);
        sender.fill();
    }

    fn run(&mut self, span: Span) {
        let until = self.sender.now + span;
        while self.sender.now < until {
            self.ack();
        }
    }

    /// Causes a loss, its recovery and another round trip. Returns the fraction of the window that the threshold
    /// keeps.
    fn lose(&mut self) -> f64 {
        let flight = self.sender.in_flight.as_f64();
        self.sender.lose();
        let kept = self.sender.ssthresh().as_f64() / flight;
        self.sender.recover();
        self.sender.fill();
        self.sender.rtt = BASE;
        self.run(BASE);
        kept
    }

    /// Returns the increase over `rounds` round trips, in segments.
    fn rise(&mut self, rounds: u64) -> f64 {
        let before = self.sender.cwnd().segments(MSS);
        self.run(BASE * rounds);
        self.sender.cwnd().segments(MSS) - before
    }
}

/// Expected results of a controller.
struct Row {
    spec: &'static str,
    /// Fraction kept at a loss after 10 s with a queue of half the base RTT.
    queued: f64,
    /// Increase in segments after that, over `rounds` round trips without a queue, beginning with the second one.
    rise: f64,
    rounds: u64,
    /// Fraction kept at the next loss, after 25 s without a queue.
    idle: f64,
}

const fn row(spec: &'static str, queued: f64, (rise, rounds): (f64, u64), idle: f64) -> Row {
    Row { spec, queued, rise, rounds, idle }
}

/// Fraction kept if a loss drains the queue: 100 ms of 150 ms.
const DRAINED: f64 = 2.0 / 3.0;

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("new-reno", 0.5, (1.0, 1), 0.5), // RFC 5681
    // RFC 9438: 0.4 (t - K)^3 from t = 0.1 s to 1.1 s, K = cbrt(0.3 x 400 / 0.4).
    row("cubic", 0.7, (44.7, 10), 0.7),
    // RFC 3649: b(400) = 0.5 - 0.4 ln(400/38) / ln(83000/38), a(252) = 252^0.8 x 0.078 x 2b / (2 - b).
    row("hstcp", 0.6225, (3.27, 1), 0.6225),
    row("scalable", 0.875, (3.53, 1), 0.875), // Kelly, CCR 2003: a hundredth up, an eighth down
    // Xu, Harfoush and Rhee: 819/1024; then from 336 segments a quarter of the distance of 64 to the last maximum,
    // which decreases meanwhile.
    row("bic", 0.7998, (64.0 * 0.221, 1), 0.7998),
    row("westwood", DRAINED, (1.0, 1), 1.0), // the rate times the smallest RTT; increase of NewReno
    row("westwood-re", DRAINED, (1.0, 1), 1.0),
    row("westwood-crb", DRAINED, (1.0, 1), 1.0),
    row("westwood-plus", DRAINED, (1.0, 1), 1.0),
    row("slow-start+abse", DRAINED, (1.0, 1), 1.0),
    // The first loss is congestion by definition; the second occurs at congestion level 0.
    row("slow-start+westwood-bbe", 0.5, (1.0, 1), 1.0),
    row("slow-start+westwood-bbe(policy=plain-ere)", DRAINED, (1.0, 1), 1.0),
    row("slow-start+westwood-bbe(policy=adaptive-reno)", 0.5, (1.0, 1), 1.0),
    row("slow-start+westwood-bbe(policy=discriminate)", 0.5, (1.0, 1), 1.0),
    // 0.8 for each 10 Mb/s of capacity, of which 400 segments in 150 ms have shown 31.1.
    row("adaptive-reno", 0.5, (1.0 + 0.8 * 3.11, 1), 1.0),
    // Half of the distance left of 400 / 3 after a round trip, which decreases meanwhile: exp(-1/2) (1 - exp(-1/2)).
    row("log-westwood-plus", DRAINED, (133.3 * 0.6065 * 0.3935, 1), 1.0),
    row("h-tcp", 0.5, (1.0, 1), 0.678), // 100 / (100 + 0.95 x 50)
    row("veno", 0.5, (1.0, 1), 0.8),
    row("vegas", 0.5, (1.0, 1), 0.5),
    row("illinois", 0.5, (0.3, 1), 0.875), // the increase at the largest delay, until five rounds had none
    row("yeah", DRAINED, (0.01 * 270.0, 1), 0.875), // increase of Scalable; decrease by the queue, or an eighth
    row("fast", 0.5, (50.0, 2), 0.5), // 0.5 alpha every second round trip
    row("slow-start+ledbat-plus-plus", 0.5, (0.5, 1), 0.5), // GAIN = 1 / ceil(120 ms / 100 ms)
    row("hybla", 0.5, (16.0, 1), 0.5), // (100 ms / 25 ms)^2
];

#[test]
fn every_algorithm_keeps_and_rises_as_its_paper_says() {
    for Row { spec, queued, rise, rounds, idle } in ROWS {
        let mut flow = Flow::new(spec);
        flow.run(Span::from_secs(10));
        flow.sender.rtt = QUEUED;
        flow.run(Span::from_secs(10));
        let with_queue = flow.lose();
        let w = flow.sender.cwnd().segments(MSS);
        let risen = flow.rise(*rounds);
        flow.run(Span::from_secs(25));
        let without = flow.lose();
        assert!((with_queue - queued).abs() < 0.002, "{spec}: with a queue it kept {with_queue}, not {queued}");
        assert!((risen / rise - 1.0).abs() < 0.04, "{spec}: at {w} it rose by {risen}, not {rise}");
        assert!((without - idle).abs() < 0.002, "{spec}: without a queue it kept {without}, not {idle}");
    }
}

/// Fraction of the window kept at a mark without a queue. The Westwood family keeps the estimate, but at most half.
const MARKED: &[(&str, f64)] = &[
    ("new-reno", 0.5), // RFC 5681 and RFC 3168: as after a loss
    ("cubic", 0.7),
    ("hstcp", 0.6225),
    ("scalable", 0.875),
    ("bic", 0.7998),
    ("westwood", 0.5),
    ("westwood-re", 0.5),
    ("westwood-crb", 0.5),
    ("westwood-plus", 0.5),
    ("abse", 0.5),
    ("westwood-bbe", 0.5), // c = 1
    ("log-westwood-plus", 0.5),
    ("adaptive-reno", 0.5), // W / (1 + c) with c = 1
    ("h-tcp", 0.8),         // the largest fraction, since there is no queue
    ("hybla", 0.5),
    ("veno", 0.5), // a mark is never taken for chance
    ("vegas", 0.5),
    ("illinois", 0.875),
    ("yeah", 0.875),
    ("fast", 0.5),
];

#[test]
fn a_mark_leaves_what_a_loss_by_congestion_does_or_the_share_that_is_asked_for() {
    let kept = |spec: &str| {
        let mut flow = Flow::in_avoidance(spec);
        let flight = flow.sender.in_flight.as_f64();
        flow.sender.mark();
        flow.sender.ssthresh().as_f64() / flight
    };
    for (algorithm, own) in MARKED {
        let by_default = kept(&format!("slow-start=slow-start,avoidance={algorithm}"));
        assert!((by_default - own).abs() < 0.002, "{algorithm} kept {by_default}, not {own}");
        for share in [0.3, 0.8] {
            let gentle = kept(&format!("slow-start=slow-start,avoidance={algorithm}(ecn-beta={share})"));
            assert!((gentle - share).abs() < 0.002, "{algorithm} kept {gentle}, not {share}");
        }
    }
}

/// RFC 8511 changes only the response to a mark.
#[test]
fn the_share_kept_at_a_mark_is_nothing_to_a_loss() {
    for (algorithm, _) in MARKED {
        let kept =
            |options: &str| Flow::in_avoidance(&format!("slow-start=slow-start,avoidance={algorithm}{options}")).lose();
        assert_eq!(kept(""), kept("(ecn-beta=0.95)"), "{algorithm}");
    }
}

/// Ratio of the window after the first round trip to the one before it, on a path with much more capacity.
const STARTS: &[(&str, f64)] = &[
    ("slow-start", 2.0),         // RFC 5681, section 3.1
    ("hystart-pp", 2.0),         // RFC 9406: until the delay rises
    ("limited-slow-start", 2.0), // RFC 3742: up to 100 segments
    ("hybla-start", 9.0),        // 2^4 - 1 per segment, limited to 8
    ("vegas-start", 2.0),
    ("fast-start", 2.0),
    ("astart", 2.0), // below the estimate, which the first ACK does not yet give; linear above it
    ("agile-probing", 2.0),
    ("ledbat-start", 1.5), // GAIN = 1 / ceil(120 ms / 100 ms)
    ("hystart", 2.0),      // Linux: until a train or a round trip is long
    ("suss", 2.0),         // by ACKs; twice as much is paced afterwards
    ("search", 2.0),
    ("rapid-start", 3.0), // draft-kazuho-ccwg-rapid-start, section 3.2
];

#[test]
fn every_start_multiplies_the_window_as_its_source_says() {
    for (start, factor) in STARTS {
        let mut flow = Flow::new(&format!("{start}+new-reno"));
        let before = flow.sender.cwnd().as_f64();
        flow.sender.now += BASE;
        for _ in 0..flow.sender.in_flight.0 / MSS.0 {
            flow.ack_after(BASE / 200);
        }
        let after = flow.sender.cwnd().as_f64();
        assert!((after / before / factor - 1.0).abs() < 0.05, "{start}: from {before} to {after} bytes");
    }
}

/// Every registered congestion-avoidance algorithm and slow-start variant has a row.
#[test]
fn nothing_is_without_a_row() {
    let is = |text: &str, slot, name: &str| spec(text).entry(slot).is_some_and(|entry| entry.name == name);
    for algorithm in registry().of_slot(Slot::Avoidance) {
        assert!(ROWS.iter().any(|row| is(row.spec, Slot::Avoidance, algorithm.name)), "{}", algorithm.name);
    }
    // LEDBAT++ yields, so it does not aim at a gentler response.
    for algorithm in registry().of_slot(Slot::Avoidance).filter(|algorithm| algorithm.name != "ledbat-plus-plus") {
        assert!(MARKED.iter().any(|(name, _)| *name == algorithm.name), "{}", algorithm.name);
    }
    for start in registry().of_slot(Slot::SlowStart) {
        assert!(STARTS.iter().any(|(text, _)| is(text, Slot::SlowStart, start.name)), "{}", start.name);
    }
}
