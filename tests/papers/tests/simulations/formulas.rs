//! Congestion control over long virtual times, against closed-form results.

use longhaul_link::topology::Duplex;
use longhaul_link::{LinkConfig, Loss, Random};
use longhaul_sim::{Plan, SessionId, Setup, Sim, full_segments};
use longhaul_tcp::Config;
use longhaul_tests_papers::long;
use longhaul_units::Span;
use longhaul_zoo::with_params;

fn plain(config: &mut Config, congestion: &str) {
    full_segments(config);
    config.congestion = longhaul_tests_papers::congestion(congestion);
}

const MSS: u64 = 1448;

/// Runs a bulk transfer from host 0 to host 1 over `link`, with an ideal reverse path.
fn transfer(link: LinkConfig, congestion: &str, ack_delay: Span, seed: u64) -> (Sim, (SessionId, SessionId)) {
    let setup = Setup::pair(seed, Duplex { back: LinkConfig::delay(link.delay), there: link });
    let mut sim = Sim::new(setup.configure(|config| {
        plain(config, congestion);
        config.ack_delay = ack_delay;
    }));
    let ids = sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    (sim, ids)
}

const RTT: Span = Span::from_millis(100);

/// Returns the mean window in segments of a transfer in which `segments` arrive in `time`.
fn mean_window(segments: u64, time: Span) -> f64 {
    segments as f64 * RTT.as_secs_f64() / time.as_secs_f64()
}

/// Mathis, Semke, Mahdavi and Ott (CCR 27(3), 1997): W = C / sqrt(p), with C = sqrt(3/2) if every segment is
/// acknowledged. The formula assumes losses at equal distances, no round for the recovery, and fractional windows.
///
/// Random losses raise C to 1.31, by 7 %. Two effects reduce it, the more so the smaller the window is: during the
/// round trip of each recovery the window stays at half, and windows are whole segments. A model with these effects, in
/// which each segment of a round is lost with probability p, a loss halves the window, and a round without growth
/// follows, gives +3 % for p = 0.001, -2 % for 0.005 and -5 % for 0.01. For 0.01, waiting for the three segments that
/// detect a loss takes another quarter of a round. The formula hardly applies at 0.01, which therefore has a wider
/// tolerance. Timeouts have no effect, because these runs have almost none.
#[test]
fn new_reno_follows_mathis_formula() {
    let (mut timeouts, time, seeds) = (0, Span::from_secs(800), 1..=3);
    for (p, bound) in [(0.001, 0.08), (0.002, 0.08), (0.005, 0.08), (0.01, 0.1)] {
        let expected = f64::sqrt(1.5 / p);
        let windows: Vec<f64> = seeds
            .clone()
            .map(|seed| {
                let link = LinkConfig::delay(RTT / 2).loss(Loss::Uniform(p));
                let (mut sim, (client, server)) = transfer(link, "new-reno", Span::ZERO, seed);
                sim.run_for(Span::from_secs(30));
                let before = sim.session(server).read;
                sim.run_for(time);
                let (session, host) = (sim.session(client), sim.host(client.host));
                let connection = host.endpoint.connection(session.id).expect("it goes on");
                timeouts += connection.info(host.clock(sim.now())).timeouts;
                mean_window((sim.session(server).read - before) / MSS, time)
            })
            .collect();
        let mean = windows.iter().sum::<f64>() / windows.len() as f64;
        println!("{p}: {mean:.1} of {expected:.1}: {windows:?}, {timeouts}");
        assert!((mean / expected - 1.0).abs() < bound, "{p}: {mean} instead of {expected}");
    }
    assert!(timeouts <= 4, "{timeouts}");
}

/// Returns the mean window in segments and the number of timeouts of NewReno without SACK that counts one segment per
/// ACK.
fn window_by_acks(p: f64, ack_every: u8, time: Span) -> (f64, u64) {
    let link = LinkConfig::delay(RTT / 2).loss(Loss::Uniform(p));
    let setup = Setup::pair(1, Duplex { back: LinkConfig::delay(link.delay), there: link });
    let mut sim = Sim::new(setup.configure(|config| {
        full_segments(config);
        let reno = longhaul_tests_papers::congestion("slow-start=slow-start,avoidance=new-reno,recovery=new-reno");
        config.congestion = with_params(reno, |params| params.byte_counting = false);
        (config.sack, config.ack_every) = (false, ack_every);
    }));
    let (client, server) = sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
    sim.run_for(Span::from_secs(30));
    let before = sim.session(server).read;
    sim.run_for(time);
    let (session, host) = (sim.session(client), sim.host(client.host));
    let timeouts = host.endpoint.connection(session.id).expect("it goes on").info(host.clock(sim.now())).timeouts;
    (mean_window((sim.session(server).read - before) / MSS, time), timeouts)
}

/// Mathis, Semke, Mahdavi and Ott: C = sqrt(3/2b), where an ACK acknowledges b segments and counts as one, as on hosts
/// before RFC 3465. C is 1.22 if each segment is acknowledged, and 0.866 if every second one is. Byte counting performs
/// like an ACK per segment: 41 % above the latter.
#[test]
fn ack_counting_follows_the_formula_for_delayed_acks() {
    for (b, p) in [(1, 0.001), (2, 0.001)] {
        let expected = f64::sqrt(1.5 / f64::from(b) / p);
        let (window, timeouts) = window_by_acks(p, b, Span::from_secs(4000));
        println!("b = {b}, {p}: {window:.2} of {expected:.2}, {timeouts} timeouts");
        assert!((window / expected - 1.0).abs() < 0.05, "b = {b}, {p}: {window} instead of {expected}");
        assert!(timeouts <= 10, "{timeouts}");
    }
}

/// Padhye, Firoiu, Towsley and Kurose (SIGCOMM 1998), equation 30, where timeouts are frequent, with the minimum RTO of
/// 200 ms above the RTT. The equation ignores the duration of recovery, which takes one of about ten rounds here, and
/// one more for each further loss. The measured window is therefore lower, by up to a fifth.
#[test]
fn ack_counting_follows_the_formula_with_timeouts() {
    for p in [0.01, 0.02, 0.04] {
        let (b, rtt, timeout) = (2.0, RTT.as_secs_f64(), 0.3);
        let timeouts = timeout * f64::min(1.0, 3.0 * f64::sqrt(3.0 * b * p / 8.0)) * p * (1.0 + 32.0 * p * p);
        let expected = rtt / (rtt * f64::sqrt(2.0 * b * p / 3.0) + timeouts);
        let (window, seen) = window_by_acks(p, 2, Span::from_secs(2000));
        println!("{p}: {window:.2} of {expected:.2}, {seen} timeouts");
        assert!((0.8..1.05).contains(&(window / expected)), "{p}: {window} instead of {expected}");
        assert!(seen >= 20, "{seen}");
    }
}

/// Returns the mean window of `congestion` in the last eight of `cycles`, if every `segments`-th packet is lost. The
/// first loss occurs in slow start at a window of `start` segments, when that many have been sent.
fn even_window(congestion: &str, segments: u64, cycles: u64, start: f64) -> f64 {
    let list = std::iter::once(start as u64).chain((1..=cycles).map(|n| n * segments)).collect();
    let link = LinkConfig::delay(RTT / 2).loss(Loss::List(list));
    let (mut sim, (_, server)) = transfer(link, congestion, Span::ZERO, 1);
    let mut run_until = |count: u64| {
        let has_come = |sim: &Sim| sim.find(server).is_some_and(|session| session.read >= count * MSS);
        assert!(sim.run(Span::from_secs(10_000), has_come));
        sim.now()
    };
    let (from, to) = (run_until((cycles - 8) * segments), run_until(cycles * segments));
    mean_window(8 * segments, to - from)
}

/// RFC 9438, section 5.1, figure 5: RTT 0.1 s, beta 0.7, constant C. The model loses one packet every 1/p packets, and
/// all its sawteeth are equal. The tested CUBIC has no fast convergence, which would make even a single flow alternate
/// between a higher and a lower plateau, and cost a tenth of its window.
///
/// A deviation of a sawtooth decays slowly, because the cubic is flat at its end: the deviation falls with the square
/// root of the number of cycles. Therefore two runs start at equal distances above and below the result, and their mean
/// is used.
fn cubic_has(segments: u64, cycles: u64, c: f64) {
    let expected = (c * 3.7 / 1.2).powf(0.25) * RTT.as_secs_f64().powf(0.75) * (segments as f64).powf(0.75);
    let cubic = format!("cubic(c={c},fast-convergence=off)");
    // From 0.7 W to W, the mean of the cubic is 0.925 W.
    let [low, high] = [0.8, 1.25].map(|start| even_window(&cubic, segments, cycles, start * expected / 0.925));
    println!("{segments}, {c}: {low:.1} and {high:.1} for {expected:.1}");
    let middle = (low * high).sqrt() / expected;
    assert!((middle - 1.0).abs() < 0.03, "{segments}, {c}: {low} and {high} for {expected}");
}

/// The window is proportional to the fourth root of C: if C is a quarter larger or smaller, the window changes by 6 to
/// 7 %. The rows of 12 and 38 segments follow NewReno's formula.
#[test]
fn cubic_follows_its_response_function() {
    for c in [0.3, 0.4, 0.5] {
        cubic_has(10_000, 40, c);
    }
}

#[test]
fn cubic_follows_its_response_function_to_a_thousand_segments() {
    cubic_has(100_000, 12, 0.4);
}

/// RFC 3649, section 5, equation 1: w = 0.12 / p^0.835 from 38 segments on, if one packet is lost every 1/p packets.
#[test]
fn hstcp_follows_its_response_function() {
    for (segments, cycles) in [(1000, 40), (10_000, 30), (100_000, 12)] {
        let expected = 0.12 * (segments as f64).powf(0.835);
        // The window rises from (1 - b) W to W, where b is about a third.
        let window = even_window("slow-start+hstcp", segments, cycles, expected / 0.83);
        println!("{segments}: {window:.1} for {expected:.1}");
        assert!((window / expected - 1.0).abs() < 0.10, "{segments}: {window}, not {expected}");
    }
}

/// Congestion-avoidance algorithm as in its RFC, in whole round trips, with the window as the only limit.
trait Naive {
    /// Returns the window `rounds` after the last decrease, if it was `w` one round trip earlier.
    fn grow(&self, w: f64, rounds: f64) -> f64;
    fn cut(&mut self, w: f64) -> f64;
}

/// RFC 3649, section 5: S = (log W1 - log W) / (log W1 - log W0) interpolates from p = 1e-3 and b = 1/2 at 38
/// segments to 1e-7 and 0.1 at 83,000.
struct NaiveHstcp;

impl NaiveHstcp {
    fn part(w: f64) -> f64 {
        (w / 38.0).ln() / (83_000.0_f64 / 38.0).ln()
    }

    fn b(w: f64) -> f64 {
        if w <= 38.0 { 0.5 } else { 0.5 - 0.4 * Self::part(w) }
    }
}

impl Naive for NaiveHstcp {
    fn grow(&self, w: f64, _rounds: f64) -> f64 {
        let p = 0.078 / w.powf(1.2);
        let a = if w <= 38.0 { 1.0 } else { w * w * p * 2.0 * Self::b(w) / (2.0 - Self::b(w)) };
        w + a.max(1.0)
    }

    fn cut(&mut self, w: f64) -> f64 {
        w * (1.0 - Self::b(w))
    }
}

/// RFC 9438, sections 4.2, 4.3 and 4.6, without fast convergence.
struct NaiveCubic {
    w_max: f64,
}

impl Naive for NaiveCubic {
    fn grow(&self, w: f64, rounds: f64) -> f64 {
        let t = rounds * RTT.as_secs_f64();
        let k = (0.3 * self.w_max / 0.4).cbrt();
        let cubic = 0.4 * (t - k).powi(3) + self.w_max;
        let to_max = 0.3 * self.w_max / (0.9 / 1.7);
        let reno = 0.7 * self.w_max + 0.9 / 1.7 * rounds.min(to_max) + (rounds - to_max).max(0.0);
        cubic.max(reno).clamp(w, 1.5 * w)
    }

    fn cut(&mut self, w: f64) -> f64 {
        self.w_max = w;
        0.7 * w
    }
}

/// Returns the mean window of `algorithm` over `losses` losses, if each segment is lost with probability `p`. The
/// window is reduced at most once per round trip, and does not grow in the round trip of the recovery.
fn naive_window(algorithm: &mut dyn Naive, p: f64, losses: u32) -> f64 {
    let mut random = Random::new(1, 1);
    let mut distance = || (1.0 - random.unit()).ln() / (1.0 - p).ln();
    let (mut w, mut since, mut sent, mut rounds, mut next) = (38.0_f64, 0.0, 0.0, 0.0, distance());
    let mut seen = 0;
    while seen < losses {
        let of_round = w.floor();
        (sent, rounds) = (sent + of_round, rounds + 1.0);
        let lost = next < of_round;
        while next < of_round {
            (next, seen) = (next + distance(), seen + 1);
        }
        next -= of_round;
        if lost {
            (w, since) = (algorithm.cut(w), 0.0);
            // Losses in the round of a recovery are recovered after that round, and then cause a reduction.
            (sent, rounds, next) = (sent + w.floor(), rounds + 1.0, (next - w.floor()).max(0.0));
        } else {
            since += 1.0;
            w = algorithm.grow(w, since);
        }
    }
    sent / rounds
}

/// Returns the mean window of `congestion` over `losses` losses, after a warm-up of a tenth as many, if each segment is
/// lost with probability `p`.
fn random_window(congestion: &str, p: f64, losses: f64) -> f64 {
    let link = LinkConfig::delay(RTT / 2).loss(Loss::Uniform(p));
    let (mut sim, (_, server)) = transfer(link, congestion, Span::ZERO, 1);
    let mut run_until = |count: u64| {
        let has_come = |sim: &Sim| sim.find(server).is_some_and(|session| session.read >= count * MSS);
        assert!(sim.run(Span::from_secs(100_000), has_come));
        sim.now()
    };
    let all = (losses / p) as u64;
    let (from, to) = (run_until(all / 10), run_until(all / 10 + all));
    mean_window(all, to - from)
}

/// The response functions of both RFCs assume losses at equal distances. With random losses, the window of CUBIC, which
/// grows with the cube of time, is about a fifth larger, because long distances gain more than short ones cost. The
/// reference is therefore the algorithm as in its RFC, simulated with random losses round by round.
fn random_losses_match(congestion: &str, algorithm: impl Fn() -> Box<dyn Naive>) {
    let rates = [(1e-3, 600.0), (3e-4, 400.0), (1e-4, 300.0)];
    for (p, losses) in rates.into_iter().take(if long() { 3 } else { 2 }) {
        let (found, expected) = (random_window(congestion, p, losses), naive_window(&mut *algorithm(), p, 50_000));
        println!("{congestion} at {p}: {found:.1} for {expected:.1}");
        assert!((found / expected - 1.0).abs() < 0.10, "{congestion} at {p}: {found}, not {expected}");
    }
}

#[test]
fn hstcp_matches_its_rfc_under_random_losses() {
    random_losses_match("slow-start+hstcp", || Box::new(NaiveHstcp));
}

#[test]
fn cubic_matches_its_rfc_under_random_losses() {
    random_losses_match("slow-start+cubic(fast-convergence=off)", || Box::new(NaiveCubic { w_max: 38.0 }));
}
