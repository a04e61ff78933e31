//! Transfer by one controller over one path.

use longhaul_cc::registry::Entry;
use longhaul_sim::{Plan, SessionId, Setup, Sim};
use longhaul_units::{Bytes, Span, Time};

use super::paths::{Scenario, cbr, standard};

/// Algorithms whose window follows an estimate of the path, or three times a burst of the application, and not the
/// bytes in use.
const BY_ESTIMATE: [&str; 5] =
    ["startup=paced-start", "slow-start=rapid-start", "copa-cubic", "monolithic=tide", "monolithic=rcp"];

/// Algorithms whose transfers do not complete: BBN's faulty Swift Start always sends six segments per round trip.
const UNFINISHED: [&str; 1] = ["swift-start-bbn"];

/// Returns all controllers of the registry: the profiles, and the algorithms that are in no profile, combined with
/// default algorithms.
pub(crate) fn controllers() -> Vec<String> {
    let known = longhaul_tests_papers::registry();
    let in_a_profile = |name: &str| {
        let mut stages = known.profiles.iter().flat_map(|profile| profile.spec.split([',', '=', '(']));
        stages.any(|stage| stage == name)
    };
    let is_default = |entry: &Entry| known.of_slot(entry.slot()).next().is_some_and(|first| first.name == entry.name);
    let others = known
        .entries
        .iter()
        .filter(|entry| !in_a_profile(entry.name) && !is_default(entry) && !UNFINISHED.contains(&entry.name));
    let profiles = known.profiles.iter().map(|profile| profile.name.to_owned());
    profiles.chain(others.map(|entry| format!("{}={}", entry.slot(), entry.name))).collect()
}

#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Seconds until the end of the stream was read, or `None` if it took longer than allowed.
    pub(crate) seconds: Option<f64>,
    /// Faults other than exceeding the time.
    pub(crate) faults: Vec<String>,
}

/// Payload of the smallest datagram with timestamps and a request to routers, which is the minimum window in bytes.
const MIN_MSS: Bytes = Bytes(1188);

/// Runs a transfer with `controller` for at most `limit`.
pub(crate) fn transfer(controller: &str, scenario: &Scenario, seed: u64, limit: Span) -> Outcome {
    let mut setup = standard(seed);
    (scenario.change)(&mut setup);
    setup = give(setup, controller);
    let mut sim = Sim::new(setup);
    if let Some(rate) = scenario.beside {
        sim.add_traffic(0, 1, cbr(rate), Time::MAX);
    }
    let plan = (scenario.plan)(Plan::bulk(scenario.bytes));
    let mut sink = Plan::sink();
    sink.content = plan.content;
    let (client, server) = sim.open(plan, sink);
    let series = sim.record(client, None, Span::from_millis(5));
    let all_read = |sim: &Sim| sim.find(server).is_some_and(|session| session.ended || session.error.is_some());
    let done = sim.run(limit, all_read);
    let seconds = done.then(|| sim.now().since(Time::ZERO).as_secs_f64());
    let mut faults = Vec::new();
    let cwnd = &sim.series(series).cwnd;
    if cwnd.iter().any(|cwnd| *cwnd < MIN_MSS) {
        faults.push(format!("a window of {:?}, less than a segment", cwnd.iter().min()));
    }
    if cwnd.iter().any(|cwnd| cwnd.0 > scenario.most_cwnd) && !BY_ESTIMATE.contains(&controller) {
        faults.push(format!("a window of {:?}", cwnd.iter().max()));
    }
    if let Some(timeouts) = timeouts(&sim, client).filter(|timeouts| *timeouts > scenario.timeouts) {
        faults.push(format!("{timeouts} timeouts"));
    }
    let read = sim.find(server).map(|session| (session.intact, session.error, session.read));
    if done && read != Some((true, None, scenario.bytes)) {
        faults.push(format!("read (intact, error, bytes): {read:?}"));
    }
    Outcome { seconds, faults }
}

fn give(setup: Setup, controller: &str) -> Setup {
    setup.under(&longhaul_tests_papers::congestion(controller))
}

fn timeouts(sim: &Sim, client: SessionId) -> Option<u64> {
    let host = sim.host(client.host);
    Some(host.endpoint.connection(sim.find(client)?.id)?.info(host.clock(sim.now())).timeouts)
}
