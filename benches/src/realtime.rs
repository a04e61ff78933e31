//! The bench `realtime`: its transfers, its tables and its JSON. What it measures is said in `benches/realtime.rs`.

mod flood;
mod transfer;

use anyhow::{Context, Result};
use longhaul::Config;
use longhaul_link::Histogram;
use longhaul_link::spec::{LinkOptions, Path};
use longhaul_sim::{Setup, Sim};
use longhaul_units::Span;
use serde::Serialize;

use crate::emulated::{completion, seconds};
use crate::report::{setting, write_json};
use crate::stats::Spread;
use flood::{Flood, flood};
use transfer::{Run, TOO_LATE, transfer};

/// How far the median in real time may be from virtual time.
const AGREEMENT: f64 = 0.03;
/// How late packets may be in virtual time, for comparison, in microseconds: about what they are in real time.
const LATE: [u64; 5] = [20, 40, 60, 80, 100];
/// Tries for each measurement that is wanted.
const TRIES: usize = 3;
const MB: u64 = 1_000_000;

/// Transfers: a name, the link, and sizes. Data goes up.
const TRANSFERS: [(&str, &str, &[u64]); 8] = [
    ("oc3", "--scenario oc3", &[MB, 10 * MB, 30 * MB, 100 * MB]),
    ("shallow", "--scenario shallow", &[MB, 10 * MB]),
    // Up is what the user downloads.
    ("geo", "--rate-up 40mbit --rate-down 4mbit --rtt 600ms --queue 500kB", &[MB, 10 * MB]),
    ("nasa-20mbit-500ms", "--scenario nasa-20mbit-500ms", &[MB, 10 * MB]),
    ("nasa-5mbit-100ms", "--scenario nasa-5mbit-100ms", &[MB]),
    ("lossy", "--rate 20mbit --rtt 200ms --queue 1bdp --loss-up 0.1% --seed 7", &[MB, 10 * MB]),
    ("handover", "--rate 50mbit --rtt 40ms --queue 300kB --step 2s,20mbit,120ms --step 4s,50mbit,40ms", &[20 * MB]),
    ("codel", "--rate 50mbit --rtt 100ms --queue 2bdp --aqm codel", &[10 * MB]),
];

/// Constant rates: links that they fill, and bits a second.
const FLOODS: [(&str, u64); 2] = [("oc3", 155_000_000), ("transoceanic", 1_000_000_000)];

/// How late a relay was, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
struct Lateness {
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

impl Lateness {
    fn of(histogram: &Histogram) -> Self {
        let micros = |span| seconds(span) * 1e6;
        let [p50_us, p99_us] = [0.5, 0.99].map(|q| micros(histogram.quantile(q)));
        Self { p50_us, p99_us, max_us: micros(histogram.max()) }
    }
}

impl std::fmt::Display for Lateness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>7.0} {:>7.0} {:>8.0}", self.p50_us, self.p99_us, self.max_us)
    }
}

/// A transfer in both times.
#[derive(Clone, Debug, Serialize)]
struct Agreement {
    scenario: &'static str,
    link: &'static str,
    bytes: u64,
    virtual_s: f64,
    /// In virtual time when packets are late at random, by up to each of [`LATE`]: how much that alone changes.
    virtual_late_s: Spread,
    real_s: Spread,
    /// Of the median from virtual time, as a share of that.
    deviation: f64,
    /// Runs that count.
    runs: usize,
    /// Runs that do not, as the machine did not keep up.
    discarded: usize,
    lateness: Lateness,
    /// Packets on the way of the data that the link dropped: virtual, and real, the fewest and the most.
    dropped: [u64; 3],
    /// Datagrams that the relay's own sockets lost.
    socket_drops: u64,
}

impl Agreement {
    /// Whether little lateness changes little.
    fn is_steady(&self) -> bool {
        let Spread { min, max, .. } = self.virtual_late_s;
        (min / self.virtual_s - 1.0).abs().max((max / self.virtual_s - 1.0).abs()) < AGREEMENT
    }

    /// Whether both times agree; where little lateness changes much, with some of what it makes of virtual time.
    fn agrees(&self) -> bool {
        let Spread { min, max, .. } = self.virtual_late_s;
        let range = min * (1.0 - AGREEMENT)..max * (1.0 + AGREEMENT);
        if self.is_steady() { self.deviation.abs() < AGREEMENT } else { range.contains(&self.real_s.median) }
    }
}

/// The file.
#[derive(Debug, Serialize)]
struct Results {
    controller: String,
    agreement: Vec<Agreement>,
    relay: Vec<Flood>,
}

/// Runs the bench. `target_tmpdir`: see [`write_json`].
///
/// # Errors
/// A transfer failed; virtual and real time disagree, or the relay is too slow, though the machine kept up; the results
/// cannot be written.
pub fn main(target_tmpdir: &str) -> Result<()> {
    let runs = setting("LONGHAUL_BENCH_RUNS", 5)?.max(1);
    let span = setting("LONGHAUL_BENCH_SECONDS", 5)?.max(1);
    let mut config = Config::default();
    if let Ok(name) = std::env::var("LONGHAUL_BENCH_CONTROLLER") {
        config.congestion = name.parse().with_context(|| format!("LONGHAUL_BENCH_CONTROLLER={name}"))?;
    }
    let controller = config.congestion.name();
    println!("{controller}, {runs} runs in real time\n");
    let agreement = transfers(&config, runs)?;
    let relay = floods(span)?;
    let results = Results { controller, agreement, relay };
    write_json(target_tmpdir, "realtime.json", &results)?;
    judge(&results)
}

/// A link as the options of `longhaul-linkem` describe it.
fn link(options: &str) -> Result<Path> {
    let words: Vec<_> = options.split_whitespace().collect();
    let mut link = LinkOptions::new();
    let read = link.read(&words).with_context(|| format!("the link {options}"))?;
    anyhow::ensure!(read == words.len(), "the link {options}: {} is no option", words[read]);
    link.build(|file| Err(format!("{file} is not read here"))).with_context(|| format!("the link {options}"))
}

fn transfers(config: &Config, runs: usize) -> Result<Vec<Agreement>> {
    let chosen = std::env::var("LONGHAUL_BENCH_SCENARIOS").ok();
    let is_chosen = |name| chosen.as_ref().is_none_or(|names| names.split(',').any(|chosen| chosen.trim() == name));
    println!(
        "{:>18} {:>6} | {:>9} {:>19} | {:>9} {:>9} {:>9} {:>7} {:>5} | {:>16} | {:>24} {:>5}",
        "link",
        "MB",
        "virtual s",
        "if late",
        "real s",
        "min",
        "max",
        "dev %",
        "runs",
        "dropped",
        "late us p50 p99 max",
        "lost"
    );
    let mut rows = Vec::new();
    for (scenario, options, sizes) in TRANSFERS.iter().filter(|(name, ..)| is_chosen(*name)) {
        for &bytes in *sizes {
            let row = compare(scenario, options, bytes, config, runs).with_context(|| format!("over {scenario}"))?;
            print_agreement(&row);
            rows.push(row);
        }
    }
    Ok(rows)
}

/// The same transfer in both times.
fn compare(
    scenario: &'static str,
    options: &'static str,
    bytes: u64,
    config: &Config,
    runs: usize,
) -> Result<Agreement> {
    let path = link(options)?;
    let (virtual_s, virtual_dropped) = in_virtual_time(&path, config, bytes)?;
    let late =
        LATE.iter().map(|late| in_virtual_time(&with_jitter(path.clone(), Span::from_micros(*late)), config, bytes));
    let late: Vec<_> = late.collect::<Result<_>>()?;
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    while good.len() < runs && good.len() + bad.len() < TRIES * runs {
        let run = transfer(&path, config, bytes)?;
        if run.kept_up() { good.push(run) } else { bad.push(run) }
    }
    let (counted, discarded) = (good.len(), bad.len());
    // If none counts, the others show at least what happened.
    let shown = if good.is_empty() { bad } else { good };
    let real_s = Spread::of(shown.iter().map(|run| run.seconds));
    let mut lateness = Histogram::default();
    shown.iter().for_each(|run| lateness.merge(&run.lateness));
    let dropped = |pick: fn(u64, u64) -> u64| shown.iter().map(|run| run.dropped).reduce(pick).unwrap_or(0);
    Ok(Agreement {
        scenario,
        link: options,
        bytes,
        virtual_s,
        virtual_late_s: Spread::of(late.iter().map(|(seconds, _)| *seconds)),
        real_s,
        deviation: real_s.median / virtual_s - 1.0,
        runs: counted,
        discarded,
        lateness: Lateness::of(&lateness),
        dropped: [virtual_dropped, dropped(u64::min), dropped(u64::max)],
        socket_drops: shown.iter().map(Run::lost_beside_the_link).sum(),
    })
}

/// Seconds to completion, and packets that the link dropped until then.
fn in_virtual_time(path: &Path, config: &Config, bytes: u64) -> Result<(f64, u64)> {
    let setup = Setup::pair(path.seed, path.link.clone()).configure(|settings| *settings = config.clone());
    let mut sim = Sim::new(setup);
    let seconds = completion(&mut sim, bytes).context("the transfer takes too long in virtual time")?;
    Ok((seconds, sim.link(0).stats().all().dropped_total()))
}

fn with_jitter(mut path: Path, jitter: Span) -> Path {
    (path.link.there.jitter, path.link.back.jitter) = (jitter, jitter);
    path
}

fn print_agreement(row: &Agreement) {
    let Agreement { scenario, virtual_s, virtual_late_s, real_s, deviation, lateness, socket_drops, .. } = row;
    let (megabytes, percent) = (row.bytes as f64 / 1e6, deviation * 100.0);
    let [expected, least, most] = row.dropped;
    let dropped = format!("{expected}; {least}-{most}");
    let late = format!("{:.4}-{:.4}", virtual_late_s.min, virtual_late_s.max);
    let runs = format!("{}/{}", row.runs, row.runs + row.discarded);
    println!(
        "{scenario:>18} {megabytes:>6} | {virtual_s:>9.4} {late:>19} | {:>9.4} {:>9.4} {:>9.4} {percent:>+7.2} {runs:>5} \
         | {dropped:>16} | {lateness} {socket_drops:>5}",
        real_s.median, real_s.min, real_s.max,
    );
}

fn floods(seconds: u64) -> Result<Vec<Flood>> {
    println!("\n{:>18} {:>6} | sent Mb/s  received %  lost | relay's CPU % | late us p50 p99 max", "link", "Mb/s");
    let mut rows = Vec::new();
    for (link, bits) in FLOODS {
        let mut row = flood(link, bits, seconds)?;
        for _ in 1..TRIES {
            if row.kept_up() {
                break;
            }
            row = flood(link, bits, seconds)?;
        }
        println!(
            "{link:>18} {:>6} | {:>9.1} {:>11.3} {:>5} | {:>13.0} | {}",
            row.mbps,
            row.sent_mbps,
            row.received * 100.0,
            row.socket_drops,
            row.relay_cpu * 100.0,
            row.lateness
        );
        rows.push(row);
    }
    Ok(rows)
}

/// A line for each thing required; an error if one is not so and the machine is not to blame.
fn judge(results: &Results) -> Result<()> {
    println!();
    let Results { agreement, relay, .. } = results;
    let counted = || agreement.iter().filter(|row| row.runs > 0);
    let (steady, rest): (Vec<_>, Vec<_>) = counted().partition(|row| row.is_steady());
    let largest = steady.iter().map(|row| row.deviation.abs()).fold(0.0, f64::max) * 100.0;
    let (steady, rest) = (steady.len(), rest.len());
    let is_so = counted().all(Agreement::agrees);
    let mut verdicts = vec![Verdict {
        what: format!(
            "virtual and real time agree within 3 %: {steady} transfers to {largest:.2} %; \
             {rest} with what lateness of 0.1 ms makes of virtual time"
        ),
        is_so,
        // One that disagrees is enough.
        is_sure: !is_so || counted().count() == agreement.len(),
    }];
    for row in relay {
        let Lateness { p99_us, .. } = row.lateness;
        let (what, is_so) = if row.mbps > 900.0 {
            (format!("1 Gb/s is held: {:.3} % came through", row.received * 100.0), row.held())
        } else {
            (format!("lateness p99 below 1 ms at {} Mb/s: {p99_us:.0} us", row.mbps), p99_us < TOO_LATE * 1e6)
        };
        verdicts.push(Verdict { what, is_so, is_sure: row.kept_up() });
    }
    verdicts.iter().for_each(Verdict::print);
    anyhow::ensure!(!verdicts.iter().any(Verdict::is_missed), "not everything is as required");
    Ok(())
}

/// A thing required.
struct Verdict {
    what: String,
    is_so: bool,
    /// The machine kept up wherever it had to.
    is_sure: bool,
}

impl Verdict {
    fn is_missed(&self) -> bool {
        !self.is_so && self.is_sure
    }

    fn print(&self) {
        let verdict = match (self.is_so, self.is_sure) {
            (true, true) => "yes",
            (false, true) => "NO ",
            (_, false) => "?  ",
        };
        let busy = if self.is_sure { "" } else { " (the machine was too busy)" };
        println!("{verdict} {}{busy}", self.what);
    }
}
