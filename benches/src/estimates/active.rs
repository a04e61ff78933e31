//! Active methods of `longhaul-probe`.

use anyhow::Result;
use longhaul_link::source::Source;
use longhaul_link::{LinkConfig, Random};
use longhaul_probe::sim::ProbedPath;
use longhaul_probe::{MethodKind, Quantity, RateRange};
use longhaul_units::{Rate, Span, Time};
use serde::Serialize;

use crate::emulated::seconds;
use crate::parallel::in_parallel;

/// When probing begins; cross traffic has been there since 0.
const FROM: Time = Time::from_nanos(5_000_000_000);
/// When it ends at the latest.
const UNTIL: Time = Time::from_nanos(1_805_000_000_000);

/// A path, and what is true of it.
struct Scenario {
    title: &'static str,
    /// Mb/s of IP packets, and the round trip in ms.
    narrow: u64,
    rtt: u64,
    /// Others: the hop that they pass, Mb/s, and whether they come at random times.
    cross: Option<(usize, u64, bool)>,
    /// Whether the receiver's clock is coarse and fast.
    is_coarse: bool,
    /// What others leave of the tight link, Mb/s.
    available: u64,
}

const fn scenario(title: &'static str, cross: Option<(usize, u64, bool)>, available: u64) -> Scenario {
    Scenario { title, narrow: 80, rtt: 133, cross, is_coarse: false, available }
}

const SCENARIOS: [Scenario; 8] = [
    scenario("idle", None, 80),
    scenario("a quarter taken, at random times", Some((1, 20, true)), 60),
    scenario("half taken, at random times", Some((1, 40, true)), 40),
    scenario("half taken, at a constant rate", Some((1, 40, false)), 40),
    scenario("three quarters taken, at random times", Some((1, 60, true)), 20),
    scenario("half of the link behind taken, at random times", Some((2, 120, true)), 80),
    Scenario { is_coarse: true, ..scenario("half taken, a clock of 100 us, 50 ppm fast", Some((1, 40, true)), 40) },
    Scenario { narrow: 20, rtt: 500, ..scenario("20 Mb/s, 500 ms, idle", None, 20) },
];

/// What a method found on a path.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Found {
    pub(super) method: &'static str,
    pub(super) scenario: &'static str,
    /// What is true, and what was found: least, best and largest value, Mb/s.
    pub(super) truth: u64,
    pub(super) range: Option<[f64; 3]>,
    pub(super) converged: bool,
    pub(super) confidence: f64,
    pub(super) seconds: f64,
    pub(super) megabytes: f64,
}

/// All methods on all paths.
///
/// # Errors
/// A path or a method that cannot be.
pub(super) fn measure() -> Result<Vec<Found>> {
    let cells: Vec<_> =
        MethodKind::ALL.iter().flat_map(|method| SCENARIOS.iter().map(move |path| (*method, path))).collect();
    in_parallel(&cells, |(method, scenario)| run(*method, scenario)).into_iter().collect()
}

fn mbit(rate: u64) -> Rate {
    Rate::from_bits_per_sec(rate * 1_000_000)
}

fn path(scenario: &Scenario) -> Result<ProbedPath> {
    let hop = |rate, part| LinkConfig::new(mbit(rate), Span::from_millis(scenario.rtt) * part / 100);
    let hops = [hop(1000, 1), hop(scenario.narrow, 44), hop(3 * scenario.narrow, 5)];
    let mut path = ProbedPath::new(hops, Span::from_millis(scenario.rtt) / 2)?;
    if let Some((hop, rate, is_random)) = scenario.cross {
        let random = || Source::poisson(Time::ZERO, mbit(rate), 500, Random::new(1, 9));
        let source = if is_random { random() } else { Source::cbr(Time::ZERO, mbit(rate), 700) };
        path = path.cross(hop, hop, source);
    }
    if scenario.is_coarse {
        (path.clock.tick, path.clock.skew_ppm) = (Span::from_micros(100), 50.0);
    }
    Ok(path)
}

fn run(kind: MethodKind, scenario: &Scenario) -> Result<Found> {
    let mut method = kind.create();
    let probing = path(scenario)?.run(&mut *method, FROM, UNTIL);
    let estimate = probing.estimate;
    let (range, truth) = match kind.quantity() {
        Quantity::Capacity => (estimate.capacity, scenario.narrow),
        _ => (estimate.available, scenario.available),
    };
    let ends = |range: RateRange| [range.low, range.value, range.high].map(|rate| rate.as_bits_per_sec() as f64 * 1e-6);
    Ok(Found {
        method: kind.name(),
        scenario: scenario.title,
        truth,
        range: range.map(ends),
        converged: estimate.converged,
        confidence: estimate.confidence,
        seconds: seconds(probing.took),
        megabytes: probing.bytes as f64 * 1e-6,
    })
}
