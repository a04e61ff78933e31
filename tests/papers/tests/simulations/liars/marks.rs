//! False echoes of ECN marks (RFC 3168), and the limits of their gain.
//!
//! A receiver that echoes more marks than it received only loses goodput, once per round trip. A receiver that echoes
//! fewer makes the path look like one that drops instead of marking. At first, drops limit its gain: a queue that
//! marks, and drops only when it is full, treats the flow like one without ECN. A queue that starts to drop if marks
//! have no effect leaves other flows their share at the highest marking rate. After a drop, or fifty round trips, the
//! sender tests the receiver by marks of its own (RFC 3168, section 20.2). If two of them are not echoed, the sender
//! disables ECN.

use longhaul_cc::{Ack, BuildParams, Congestion, Granted, PathEvent, RateSample, RttSample};
use longhaul_tests_papers::long;
use longhaul_units::{Bytes, Span, Time};
use longhaul_wire::{Flags, Header};

use crate::liars::gains::{Contest, HONEST, Named, all_controllers, controllers, mean};
use crate::liars::world::{Aqm, Data, Lie, Path};
use crate::liars::{CLASSIC_WARM, PLAIN, SHARED, but};

/// Manipulation of the ECE flag.
#[derive(Clone, Copy, Debug)]
enum Mark {
    /// Always set.
    All,
    /// Alternately set and cleared.
    Alternate,
    /// Set in a random quarter of ACKs.
    Random,
    /// Set for one round trip, then cleared for one.
    Rounds,
    /// Set only in the first ACK of a series, regardless of CWR.
    Once,
    /// Set as soon as a segment is missing, to disguise a loss.
    Holes,
    /// Correct in one second out of four, and cleared otherwise.
    Seldom,
    /// Always cleared.
    Never,
}

/// Sends false ECN echoes, and ignores CWR.
struct Marks {
    mark: Mark,
    random: u32,
    turn: bool,
    echoed: bool,
    newest: Option<u32>,
    hole: bool,
}

impl Lie for Marks {
    fn hear(&mut self, data: &Data) {
        self.hole |= self.newest.is_some_and(|newest| !data.late && data.seq != newest);
        if !data.late {
            self.newest = Some(data.end);
        }
    }

    fn tell(&mut self, now: Time, mut ack: Header) -> Vec<(Span, Header)> {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.turn = !self.turn;
        let was = std::mem::replace(&mut self.echoed, ack.flags.contains(Flags::ECE));
        let says = match self.mark {
            Mark::All => true,
            Mark::Alternate => self.turn,
            Mark::Random => self.random >> 24 < 64,
            Mark::Rounds => (now.as_nanos() / 80_000_000).is_multiple_of(2),
            Mark::Once => self.echoed && !was,
            Mark::Holes => std::mem::take(&mut self.hole) || self.echoed,
            Mark::Seldom => self.echoed && (now.as_nanos() / 1_000_000_000).is_multiple_of(4),
            Mark::Never => false,
        };
        let rest = Flags::from_bits_truncate(ack.flags.bits() & !Flags::ECE.bits());
        ack.flags = if says { rest | Flags::ECE } else { rest };
        vec![(Span::ZERO, ack)]
    }
}

fn marks(mark: Mark) -> Box<dyn Lie> {
    Box::new(Marks { mark, random: 1, turn: false, echoed: false, newest: None, hole: false })
}

/// Path whose queue marks from half a BDP on, and drops from one and a half BDP on.
const MARKED: Path = Path { queue: 1.5, aqm: Aqm::Above(0.5), ..PLAIN };

/// Receivers that echo too few marks.
const CONCEALED: [Named; 3] =
    [("never", || marks(Mark::Never)), ("once", || marks(Mark::Once)), ("seldom", || marks(Mark::Seldom))];
/// Path with PIE, which drops packets instead of marking them above a probability of 10 % (RFC 8033, section 5.1).
/// Below, PIE favours ECN-capable flows.
const PIE: Path = Path { aqm: Aqm::Pie, queue: 4.0, ..SHARED };

/// Random or permanent echoes that ignore CWR gain nothing.
#[test]
fn echoes_that_heed_no_cwr() {
    Contest { path: MARKED, seeds: 1 }.judge(&[
        ("all", || marks(Mark::All)),
        ("by turns", || marks(Mark::Alternate)),
        ("a quarter of all", || marks(Mark::Random)),
        ("every second round trip", || marks(Mark::Rounds)),
    ]);
}

/// Signalling a mark in place of a loss must not gain anything.
#[test]
fn marks_instead_of_losses() {
    let path = Path { loss: 0.002, warm: 1, seconds: 10, ..PLAIN };
    Contest { path, seeds: 4 }.judge(&[("at each hole", || marks(Mark::Holes))]);
}

/// Returns the algorithms that treat marks like losses. The others use low-priority probes, which may show that a loss
/// was random, but do not classify marks.
fn alike() -> impl Iterator<Item = &'static str> {
    but(&["tcp-peach", "tcp-peach-plus", "tcp-swift"])
}

/// A queue that marks at a certain length gives the same goodput as one that drops at this length: the sender reacts
/// once per round trip, although each ACK repeats the echo until CWR arrives.
#[test]
fn a_mark_costs_what_a_loss_costs() {
    let (marked, dropped) = (MARKED, Path { ecn: false, ..PLAIN });
    for name in alike() {
        let [marked, dropped] =
            [marked, dropped].map(|path| Contest { path, seeds: 1 }.outcomes(name, HONEST)[0].goodput);
        assert!(marked >= 0.9 * dropped, "{name}: {marked} for {dropped}");
    }
}

/// A receiver that conceals marks gets the same goodput as a flow without ECN, both without competition and with a
/// competing flow, because its packets are dropped in the same situations as those of that flow.
#[test]
fn marks_that_are_concealed() {
    let judge = |path, names: &[&str], lies: &[Named]| {
        Contest { path, seeds: 1 }.judge_by(Path { ecn: false, ..path }, names.iter().copied(), HONEST, lies);
    };
    judge(MARKED, &but(&["reno-classic"]).collect::<Vec<_>>(), &CONCEALED);
    judge(Path { warm: CLASSIC_WARM, ..MARKED }, &["reno-classic"], &CONCEALED);
    judge(Path { beside: Some("cubic"), ..MARKED }, &controllers().collect::<Vec<_>>(), &CONCEALED[..1]);
}

/// PIE marks packets instead of dropping them, and drops packets of a flow only if it would mark more than a tenth of
/// them. For a single flow, concealing marks gains nothing, because the link is full. New Reno without SACK is
/// excluded, because slow start loses many segments at once, and the duration of recovery is random.
#[test]
fn marks_that_are_concealed_from_pie() {
    let alone = Path { aqm: Aqm::Pie, rtt: 20, queue: 8.0, ..PLAIN };
    let honest = Path { ecn: false, ..alone };
    Contest { path: alone, seeds: 1 }.judge_by(honest, but(&["reno-classic"]), HONEST, &CONCEALED);
}

/// Returns the profiles that test the receiver, which are those with SACK.
fn asked() -> impl Iterator<Item = &'static str> {
    but(&["reno-classic"])
}

/// With a competing flow, a receiver that conceals marks would get up to twice the goodput without ECN, but the
/// sender's test detects it before.
#[test]
fn marks_that_are_concealed_from_pie_beside_another() {
    let (path, honest) = (Path { warm: 20, ..PIE }, Path { warm: 20, ecn: false, ..PIE });
    // Each takes many runs. Without `LONGHAUL_LONG`, there are a rate-based controller and the default.
    let names = asked().filter(|name| long() || ["bbr", "copa-cubic"].contains(name));
    Contest { path, seeds: 8 }.judge_by(honest, names, HONEST, &CONCEALED);
}

/// Even before the sender's test, the competing flow does not lose: from the first second on, it has about the same
/// goodput as next to a flow without ECN, within the precision of few runs. Without the sender's test, it has about
/// half of that.
#[test]
fn competitors_keep_their_share_beside_a_concealing_receiver() {
    let path = Path { warm: 1, seconds: 20, ..PIE };
    let beside = |path, name, lie| mean(&Contest { path, seeds: 4 }.outcomes(name, lie), |o| o.beside);
    for name in asked() {
        let honest = beside(Path { ecn: false, ..path }, name, HONEST);
        for lie in CONCEALED {
            let robbed = beside(path, name, lie);
            assert!(robbed >= 0.75 * honest, "{name}, {}: {robbed:.2} of {honest:.2} Mb/s", lie.0);
        }
    }
}

/// With random losses and marks, honest receivers are tested and pass, and a mark costs the same as a loss.
#[test]
fn an_honest_peer_passes_where_packets_are_lost_by_chance() {
    let marked = Path { loss: 0.000_5, seconds: 30, ..MARKED };
    let dropped = Path { queue: 0.5, aqm: Aqm::None, ecn: false, ..marked };
    let (mut asked, mut runs) = (0, 0);
    for name in alike() {
        let [marked, dropped] = [marked, dropped].map(|path| Contest { path, seeds: 4 }.outcomes(name, HONEST));
        let (told, missing): (Vec<u64>, Vec<u64>) = marked.iter().map(|outcome| outcome.echoes).unzip();
        (asked, runs) = (asked + told.iter().sum::<u64>(), runs + told.len() as u64);
        assert!(missing.iter().all(|missing| *missing == 0), "{name}: {missing:?} of {told:?}");
        let [marked, dropped] = [marked, dropped].map(|outcomes| mean(&outcomes, |o| o.goodput));
        // H-TCP multiplies the window by RTTmin / RTTmax, and the maximum RTT of the marking queue is long compared
        // with the usual RTT.
        let least = if name == "h-tcp" { 0.8 } else { 0.9 };
        assert!(marked >= least * dropped, "{name}: {marked} for {dropped} Mb/s");
    }
    assert!(10 * asked >= 8 * runs, "{asked} tests in {runs} runs");
}

/// Number of ACKs per round trip.
const ROUND: u64 = 50;
/// Number of ACKs before the first mark.
const CALM: u64 = 6 * ROUND;

/// Name and condition of a selection of ACKs, by their numbers.
type Which = (&'static str, fn(u64) -> bool);

const BY_ROUND: Which = ("each round trip", |k| k % ROUND == 0);

/// The transport passes every mark to the algorithm, which must react once per round trip, however many marks there
/// are. No mark may increase the window. The reported starts of round trips must not matter.
#[test]
fn marks_without_measure() {
    let marked: [Which; 3] = [("all", |_| true), ("by turns", |k| k % 2 == 0), ("in bursts", |k| k % ROUND < 20)];
    let rounds: [Which; 4] = [BY_ROUND, ("all", |_| true), ("none", |_| false), ("now and then", |k| k % 7 == 3)];
    for name in all_controllers() {
        for rounds in rounds {
            let [calm, once] = [|_: u64| false, BY_ROUND.1].map(|marks| window_after(name, marks, rounds.1));
            for marked in marked {
                let liar = window_after(name, marked.1, rounds.1);
                let told =
                    format!("{name}, rounds {}, marks {}: {liar} for {once}, {calm} without", rounds.0, marked.0);
                assert!(liar <= calm.max(once) && liar <= 1.05 * once, "{told}");
                assert!(liar >= 0.95 * once, "{told}");
            }
        }
    }
}

/// Returns the window in bytes after ten round trips, the last four of which have `marks`. `rounds` selects the ACKs
/// that start a round trip.
fn window_after(name: &str, marks: fn(u64) -> bool, rounds: fn(u64) -> bool) -> f64 {
    const RTT: Span = Span::from_millis(100);
    const MSS: Bytes = Bytes(1448);
    let mut path = longhaul_cc::Path::new(MSS);
    (path.srtt, path.latest_rtt, path.min_rtt, path.handshake_rtt) = (Some(RTT), Some(RTT), Some(RTT), Some(RTT));
    let congestion: Congestion = longhaul_tests_papers::congestion(name);
    let (mut controller, granted) = (congestion.build(&BuildParams::default()), Granted::basic());
    controller.on_granted(&granted, &path).expect("nothing special is needed");
    let mut now = Time::ZERO + Span::from_secs(1);
    controller.on_event(&PathEvent::Established { now, granted }, &path);
    let mut total = Bytes::ZERO;
    for k in 0..CALM + 7 * ROUND / 2 {
        now += RTT / ROUND;
        let (bytes, flight) = (MSS * 2, MSS * 2 * ROUND);
        total += bytes;
        let mut ack = Ack::new(now);
        (ack.cumulative, ack.delivered, ack.total_delivered) = (bytes, bytes, total);
        (ack.prior_in_flight, ack.in_flight, ack.flight_size) = (flight, flight - bytes, flight);
        (ack.cwnd_limited, ack.round_start) = (true, rounds(k));
        ack.rtt = Some(RttSample::new(RTT, now - RTT));
        let mut rate = RateSample::new(flight, RTT);
        (rate.tx_in_flight, rate.prior_delivered) = (flight, total.max(flight) - flight);
        ack.rate = Some(rate);
        ack.ecn_echo = k >= CALM && marks(k);
        controller.on_ack(&ack, &path);
    }
    controller.control().cwnd.as_f64()
}
