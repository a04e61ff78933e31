//! The text of the experiment that runs scenarios.

use std::fmt::Write as _;

use super::draw::{Aqm, Competition, Scenario};
use super::{Request, VERSION};

/// Range of the windows and send buffers in bytes: the default, and the largest window that TCP can announce.
const WINDOWS: [u64; 2] = [64 << 20, 1 << 30];
/// Waiting time of ACKs at the return path in milliseconds.
const BACK_QUEUE: u64 = 200;
const LEAST_BACK_QUEUE: u64 = 20_000;
/// Name of the variant in which no flow runs the controller: the goodput and delay of the other flows alone.
const NOBODY: &str = "nobody";
const WORST: usize = 10;

/// A metric without a value in some scenarios.
const NONE: &str = "1 / 0";

/// Flows with the controller, other flows, traffic, short flows, and the metrics of all scenarios, of those with other
/// flows and of those with short flows, separated by empty lines.
const PARTS: &str = include_str!("parts.toml");

pub(crate) fn text(request: &Request) -> String {
    let scenarios: Vec<Scenario> = request.seeds.each().map(Scenario::draw).collect();
    let has = |is: fn(&Competition) -> bool| scenarios.iter().any(|scenario| is(&scenario.competition));
    let (has_others, has_short) = (
        has(|competition| matches!(competition, Competition::Others { .. })),
        has(|competition| matches!(competition, Competition::Short(_))),
    );
    let mut text = head(request);
    axes(&mut text, request, &scenarios);
    let has_traffic = has(|competition| matches!(competition, Competition::Traffic(_)));
    let has_parts = [true, has_others, has_traffic, has_short, true, has_others, has_short];
    for (part, _) in PARTS.split("\n\n").zip(has_parts).filter(|(_, has)| *has) {
        // Lines without a head of their own continue the table of metrics.
        let gap = if part.starts_with('[') { "\n" } else { "" };
        text += &format!("{gap}{}\n", part.trim_end());
    }
    plots(&mut text, request, &scenarios);
    tables(&mut text, request, &scenarios);
    text
}

fn head(request: &Request) -> String {
    let Request { set, seeds, .. } = request;
    format!(
        "id = \"{}\"\ntitle = \"Random scenarios: seeds {seeds} of the set {set}\"\n\
         source = \"longhaul, distribution {VERSION}\"\nruns = 1\nquick-runs = 1\nduration = \"{{duration}}\"\n\
         bottleneck = \"{{link}}\"\n\n\
         # Written by `longhaul-lab run --random {set} --seeds {seeds}`, and not to be edited. {NOBODY} has no flow with a\n\
         # controller, and shows what others have by themselves.\n",
        request.id()
    )
}

fn axes(text: &mut String, request: &Request, scenarios: &[Scenario]) {
    let _ = write!(
        text,
        "\n[[axes]]\nname = \"controller\"\ndefaults = {{ members = \"{{own}}\", congestion = \"{{controller}}\" }}\n\
         choices = [\n    {},\n    {{ name = \"{NOBODY}\", members = \"0\", congestion = \"cubic\" }},\n]\n\n\
         [[axes]]\nname = \"scenario\"\nchoices = [\n",
        quoted(&request.controllers)
    );
    for scenario in scenarios {
        let variables: Vec<String> =
            variables(scenario).into_iter().map(|(name, value)| format!("{name} = {value:?}")).collect();
        let _ = writeln!(text, "    {{ {} }},", variables.join(", "));
    }
    *text += "]\n";
}

fn quoted<T: std::fmt::Display>(names: &[T]) -> String {
    names.iter().map(|name| format!("{:?}", name.to_string())).collect::<Vec<_>>().join(", ")
}

fn variables(scenario: &Scenario) -> Vec<(&'static str, String)> {
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
        match loss.burst {
            None => add(format!("--loss-up {}%", percent(loss.ppm))),
            Some(burst) => {
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

/// Returns the receive window in bytes: twice what the path and its queue can hold.
fn window(scenario: &Scenario) -> u64 {
    let rates = scenario.steps.iter().map(|step| step.rate);
    let rtts = scenario.steps.iter().map(|step| step.rtt);
    let rate = rates.chain([scenario.rate]).max().unwrap_or_default();
    let rtt = rtts.chain([scenario.rtt]).max().unwrap_or_default();
    (2 * (rate * rtt / 8_000 + scenario.queue)).clamp(WINDOWS[0], WINDOWS[1])
}

fn plots(text: &mut String, request: &Request, scenarios: &[Scenario]) {
    let kinds = [("score", "Score of all scenarios"), ("utility", "Utility"), ("fairness", "Fairness")];
    for (metric, title) in kinds {
        let exists = match metric {
            "utility" => scenarios.iter().any(|scenario| !scenario.is_shared()),
            "fairness" => scenarios.iter().any(Scenario::is_shared),
            _ => true,
        };
        if exists {
            let _ = write!(
                text,
                "\n[[plots]]\nid = \"{metric}\"\ntitle = \"{title}\"\nkind = \"cdf\"\nmetric = \"{metric}\"\n\
                 over = \"controller\"\norder = [{}]\n",
                quoted(&request.controllers)
            );
        }
    }
}

/// A column of the summary: head, expression, decimals, and the scenarios that it covers.
type Column = (&'static str, &'static str, usize, Covers);
type Covers = fn(&Scenario) -> bool;

const ALL: Covers = |_| true;
const ONE_FLOW: Covers = |scenario| !scenario.is_shared();
const ALONE: Covers = |scenario| scenario.competition == Competition::Alone;
const OWN: Covers = |scenario| matches!(scenario.competition, Competition::Own(_));
const OTHERS: Covers = |scenario| matches!(scenario.competition, Competition::Others { .. });
const SHORT: Covers = |scenario| matches!(scenario.competition, Competition::Short(_));

const SUMMARY: &[Column] = &[
    ("all: median", "median(score)", 2, ALL),
    ("p5", "p5(score)", 2, ALL),
    ("one flow: median", "median(utility)", 2, ONE_FLOW),
    ("one flow: p5", "p5(utility)", 2, ONE_FLOW),
    ("alone: median", "median(utility)", 2, ALONE),
    ("alone: p5", "p5(utility)", 2, ALONE),
    ("same controller: median", "median(fairness)", 2, OWN),
    ("same controller: p5", "p5(fairness)", 2, OWN),
    ("CUBIC or NewReno: median", "median(fairness)", 2, OTHERS),
    ("CUBIC or NewReno: p5", "p5(fairness)", 2, OTHERS),
    ("harm: median", "median(harm)", 2, OTHERS),
    ("harm: p95", "p95(harm)", 2, OTHERS),
    ("harm to short flows", "median(harm-to-short)", 2, SHORT),
    ("single flow in competitive mode, %", "mean(competitive)", 1, ALONE),
];

fn tables(text: &mut String, request: &Request, scenarios: &[Scenario]) {
    let _ = write!(
        text,
        "\n[[tables]]\nid = \"summary\"\ntitle = \"Scores: median and 5th percentile\"\nshown = true\n\
         lines = \"controller\"\norder = [{}]\ncolumns = [\n",
        quoted(&request.controllers)
    );
    for (head, value, digits, covers) in SUMMARY {
        let seeds: Vec<u64> = scenarios.iter().filter(|scenario| covers(scenario)).map(|one| one.seed).collect();
        if !seeds.is_empty() {
            let seeds = quoted(&seeds);
            let _ = writeln!(
                text,
                "    {{ head = \"{head}\", value = \"{value}\", digits = {digits}, never = \"-\", at = {{ scenario = [{seeds}] }} }},"
            );
        }
    }
    *text += "]\n";
    for (nth, controller) in request.controllers.iter().enumerate() {
        worst(text, request, nth, controller);
    }
}

/// Adds the table of a controller's worst scenarios.
fn worst(text: &mut String, request: &Request, nth: usize, controller: &str) {
    let _ = write!(
        text,
        "\n[[tables]]\nid = \"worst-{}\"\ntitle = \"The worst {WORST} scenarios of {controller}\"\nshown = true\n\
         lines = \"scenario\"\nlabel = \"{{scenario}}: {{title}}\"\nsort = \"least(score)\"\nkeep = {WORST}\n\
         at = {{ controller = {controller:?} }}\ncolumns = [\n",
        nth + 1
    );
    for (head, metric, digits) in
        [("score", "score", 2), ("used, %", "used", 0), ("delay p95, ms", "delay", 0), ("dropped, %", "dropped", 1)]
    {
        let _ = writeln!(
            text,
            "    {{ head = \"{head}\", value = \"least({metric})\", digits = {digits}, never = \"-\" }},"
        );
    }
    for other in request.controllers.iter().filter(|other| *other != controller) {
        let _ = writeln!(
            text,
            "    {{ head = {other:?}, value = \"least(score)\", digits = 2, never = \"-\", at = {{ controller = {other:?} }} }},"
        );
    }
    *text += "]\n";
}
