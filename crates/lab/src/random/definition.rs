//! The text of the experiment that runs scenarios.

use super::draw::{Aqm, Competition, Loss, Scenario};
use super::{Request, VERSION};

/// Range of the windows and send buffers in bytes: the default, and the largest window that TCP can announce.
const WINDOWS: [u64; 2] = [64 << 20, 1 << 30];
/// Waiting time of ACKs at the return path in milliseconds.
const BACK_QUEUE: u64 = 200;
const LEAST_BACK_QUEUE: u64 = 20_000;

/// A metric without a value in some scenarios.
const NONE: &str = "1 / 0";

/// The experiment, with names in place of the values set by the request.
const TEMPLATE: &str = include_str!("template.in");

pub(crate) fn text(request: &Request) -> String {
    let scenarios: Vec<Scenario> = request.seeds.each().map(|seed| request.set.draw(seed)).collect();
    let mut text = String::new();
    for (class, part) in TEMPLATE.split("#? ").filter_map(|part| part.split_once('\n')).skip(1) {
        if class == "each controller" {
            text.extend((1..).zip(&request.controllers).map(|(number, one)| worst(part, request, number, one)));
            continue;
        }
        if class == "repeated" {
            text += if request.runs > 1 { part } else { "" };
            continue;
        }
        let seeds: Vec<u64> = scenarios.iter().filter(|scenario| is_of(scenario, class)).map(|one| one.seed).collect();
        if !seeds.is_empty() {
            text += &part.replace("<seeds>", &quoted(&seeds));
        }
    }
    text.replace("<id>", &request.id())
        .replace("<set>", &request.set.to_string())
        .replace("<range>", &request.seeds.to_string())
        .replace("<runs>", &request.runs.to_string())
        .replace("<version>", &VERSION.to_string())
        .replace("<controllers>", &quoted(&request.controllers))
        .replace("<scenarios>", &scenarios.iter().map(|one| choice(one, request.runs)).collect::<String>())
}

/// Returns whether a scenario belongs to a class that the template names.
fn is_of(scenario: &Scenario, class: &str) -> bool {
    match scenario.competition {
        _ if class == "all" => true,
        _ if class == "shared" => scenario.is_shared(),
        _ if class == "one flow" => !scenario.is_shared(),
        Competition::Alone => class == "alone",
        Competition::Own(_) => class == "own",
        Competition::Others { .. } => class == "others",
        Competition::Traffic(_) => class == "traffic",
        Competition::Short(_) => class == "short",
    }
}

/// Returns the table of a controller's worst scenarios.
fn worst(part: &str, request: &Request, number: usize, controller: &str) -> String {
    let others = request.controllers.iter().filter(|other| *other != controller);
    let column = |other: &String| {
        format!(
            "    {{ head = {other:?}, value = \"least(score)\", digits = 2, never = \"-\", at = {{ controller = {other:?} }} }},\n"
        )
    };
    part.replace("<number>", &number.to_string())
        .replace("<quoted>", &format!("{controller:?}"))
        .replace("<others>", &others.map(column).collect::<String>())
        .replace("<controller>", controller)
}

fn choice(scenario: &Scenario, runs: u32) -> String {
    let variables = variables(scenario, runs).into_iter().map(|(name, value)| format!("{name} = {value:?}"));
    format!("    {{ {} }},\n", variables.collect::<Vec<_>>().join(", "))
}

fn quoted<T: std::fmt::Display>(names: &[T]) -> String {
    names.iter().map(|name| format!("{:?}", name.to_string())).collect::<Vec<_>>().join(", ")
}

fn variables(scenario: &Scenario, runs: u32) -> Vec<(&'static str, String)> {
    let own_start = if matches!(scenario.competition, Competition::Others { are_first: true, .. }) { 10 } else { 0 };
    let other_start = 10 - own_start;
    let of_duration = |percent: u64| format!("{}ms", scenario.duration * 10 * percent);
    let (others, other) = match scenario.competition {
        Competition::Others { count, are_new_reno, .. } => (count, if are_new_reno { "new-reno" } else { "cubic" }),
        _ => (0, "cubic"),
    };
    let (kind, traffic) = match scenario.competition {
        Competition::Traffic(traffic) => {
            (if traffic.is_poisson { "poisson" } else { "cbr" }, scenario.rate * traffic.percent / 100)
        }
        _ => ("cbr", 0),
    };
    let load = if let Competition::Short(load) = scenario.competition { load } else { 0 };
    // All flows of the same kind have started after a quarter of the run.
    let apart = scenario.duration * 250 / scenario.own();
    let mut variables = vec![
        ("name", scenario.seed.to_string()),
        ("title", scenario.to_string()),
        ("link", link(scenario)),
        ("duration", format!("{}s", scenario.duration)),
        ("window", window(scenario).to_string()),
        ("own", scenario.own().to_string()),
        ("own-start", of_duration(own_start)),
        ("apart", format!("{apart}ms")),
        ("others", others.to_string()),
        ("other", other.into()),
        ("other-start", of_duration(other_start)),
        ("kind", kind.into()),
        ("traffic", format!("{traffic}kbit")),
        ("load", format!("{load}%")),
    ];
    if runs > 1 {
        variables.push(("spread", format!("{}us", scenario.rtt)));
    }
    variables.extend(measured(scenario));
    variables
}

fn measured(scenario: &Scenario) -> [(&'static str, String); 7] {
    let end = scenario.duration * 1000;
    let half = end / 2;
    let (part, base) = (format!("{half}ms, {end}ms"), scenario.rtt as f64 / 1e3);
    let others = matches!(scenario.competition, Competition::Others { .. });
    let utility =
        format!("ln(max(goodput(own) / {:.6}, 0.001)) - 0.1 * ln(1 + delay(p95) / {base})", scenario.limit(0, end));
    let fairness = format!("0 - unfairness(own, {}, {part})", if others { "other" } else { "own" });
    let is_fairness = scenario.is_shared();
    let all = if others {
        format!("(goodput(own, {part}) + goodput(other, {part}))")
    } else {
        format!("goodput(own, {part})")
    };
    let late = if end >= 40_000 { 30_000 } else { half };
    let none = || NONE.to_owned();
    [
        ("score", if is_fairness { fairness.clone() } else { utility.clone() }),
        ("utility", if is_fairness { none() } else { utility }),
        ("fairness", if is_fairness { fairness } else { none() }),
        ("used", format!("100 * {all} / {:.6}", scenario.limit(half, end))),
        ("victim", if others { format!("goodput(other, {part})") } else { none() }),
        (
            "response",
            if matches!(scenario.competition, Competition::Short(_)) { "epoch(short, mean)".into() } else { none() },
        ),
        (
            "competitive",
            if scenario.competition == Competition::Alone {
                format!("100 * phase-share(own, competitive, {late}ms, {end}ms)")
            } else {
                none()
            },
        ),
    ]
}

fn link(scenario: &Scenario) -> String {
    let back_queue = (scenario.back * BACK_QUEUE / 8).max(LEAST_BACK_QUEUE);
    let mut link = format!(
        "--rate-up {}kbit --rtt {}us --queue-up {}B --queue-down {back_queue}B",
        scenario.rate, scenario.rtt, scenario.queue
    );
    let mut add = |option: String| {
        link.push(' ');
        link += &option;
    };
    // The return path has a constant rate, or delivers ACKs in bursts.
    match scenario.burst_interval {
        0 => add(format!("--rate-down {}kbit", scenario.back)),
        millis => add(format!("--trace-down {millis}x{}", scenario.burst_packets())),
    }
    // Queue management, with ECN.
    match scenario.aqm {
        Aqm::DropTail => {}
        Aqm::CoDel => add("--aqm-up codel".into()),
        Aqm::Pie => add("--aqm-up pie".into()),
        // Thresholds of a sixth and a half of the queue, and at least those of Floyd and Jacobson.
        Aqm::Red => {
            let max = (scenario.queue / 3000).max(15);
            add(format!("--aqm-up red:{},{max}", max / 3));
        }
    }
    if scenario.ecn {
        add("--ecn-up".into());
    }
    // Impairments of data packets: random loss, jitter, reordering, a policer.
    if let Some(loss) = scenario.loss {
        let mean = loss.ppm as f64 / 1e6;
        match (loss.burst, loss.window) {
            (None, None) => add(format!("--loss-up {}%", percent(loss.ppm))),
            (None, Some(packets)) => {
                let leave = 100.0 / packets as f64;
                let (clean, ppm) = (Loss::CLEAN as f64, loss.ppm * (1 + Loss::CLEAN));
                add(format!("--loss-ge-up {:.6}%,{leave:.6}%,{}%", leave / clean, percent(ppm)));
            }
            (Some(burst), _) => {
                let leave = 1.0 / burst as f64;
                let enter = (mean * leave / (1.0 - mean) * 1e9).round() / 1e7;
                add(format!("--loss-ge-up {enter}%,{:.4}%", 100.0 * leave));
            }
        }
    }
    if scenario.jitter > 0 {
        add(format!("--jitter {}us", scenario.jitter));
    }
    if let Some(reordering) = scenario.reordering {
        add(format!("--late-up {}%,0us,{}us", percent(reordering.ppm), reordering.extra));
    }
    if let Some(policer) = scenario.policer {
        add(format!("--policer-up {}kbit,{}B", policer.rate, policer.burst));
    }
    // Changes over time: steps of rate and delay, then handovers and outages in the order of time.
    for step in &scenario.steps {
        add(format!("--step-up {}ms,{}kbit,{}us", step.at, step.rate, step.rtt));
        add(format!("--step-down {}ms,-,{}us", step.at, step.rtt));
    }
    let mut silences: Vec<(u64, u64, &str)> =
        scenario.handovers.iter().map(|(at, length)| (*at, *length, ",hold")).collect();
    silences.extend(scenario.outage.map(|(at, length)| (at, length, "")));
    silences.sort_unstable();
    for (at, length, hold) in silences {
        add(format!("--outage {at}ms,{length}ms{hold}"));
    }
    link
}

fn percent(ppm: u64) -> f64 {
    ppm as f64 / 1e4
}

/// Returns the receive window in bytes: twice the capacity of the path and its queue.
fn window(scenario: &Scenario) -> u64 {
    let rates = scenario.steps.iter().map(|step| step.rate);
    let rtts = scenario.steps.iter().map(|step| step.rtt);
    let rate = rates.chain([scenario.rate]).max().unwrap_or_default();
    let rtt = rtts.chain([scenario.rtt]).max().unwrap_or_default();
    (2 * (rate * rtt / 8_000 + scenario.queue)).clamp(WINDOWS[0], WINDOWS[1])
}
