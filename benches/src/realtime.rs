//! The bench `realtime`: transfers, tables and the JSON file. `benches/realtime.rs` describes it.

mod flood;
mod transfer;

use anyhow::{Context, Result};
use longhaul_link::Histogram;
use longhaul_link::spec::{LinkOptions, Path};
use longhaul_sim::{Plan, Setup, Sim};
use longhaul_tcp::Config;
use longhaul_units::{Span, Time};
use serde::Serialize;

use crate::report::{Spread, setting, write_json};
use flood::{Flood, flood};
use transfer::{Run, TOO_LATE, transfer};

/// Maximum deviation of the median duration in real time from that in virtual time, as a fraction.
const AGREEMENT: f64 = 0.03;
/// Maximum lateness of packets in virtual time in microseconds, for comparison. That in real time is about the same.
const LATE: [u64; 5] = [20, 40, 60, 80, 100];
/// Maximum number of tries per requested measurement.
const TRIES: usize = 3;
const MB: u64 = 1_000_000;
/// Maximum duration of a transfer in virtual time.
const PATIENCE: Span = Span::from_secs(600);

/// Transfers with name, link and sizes. Data is sent in the upward direction.
const TRANSFERS: [(&str, &str, &[u64]); 8] = [
    ("oc3", "--scenario oc3", &[MB, 10 * MB, 30 * MB, 100 * MB]),
    ("shallow", "--scenario shallow", &[MB, 10 * MB]),
    // The upward direction has the rate of a download, because data is sent upward.
    ("geo", "--rate-up 40mbit --rate-down 4mbit --rtt 600ms --queue 500kB", &[MB, 10 * MB]),
    ("nasa-20mbit-500ms", "--scenario nasa-20mbit-500ms", &[MB, 10 * MB]),
    ("nasa-5mbit-100ms", "--scenario nasa-5mbit-100ms", &[MB]),
    ("lossy", "--rate 20mbit --rtt 200ms --queue 1bdp --loss-up 0.1% --seed 7", &[MB, 10 * MB]),
    ("handover", "--rate 50mbit --rtt 40ms --queue 300kB --step 2s,20mbit,120ms --step 4s,50mbit,40ms", &[20 * MB]),
    ("codel", "--rate 50mbit --rtt 100ms --queue 2bdp --aqm codel", &[10 * MB]),
];

/// Constant rates: the name of a link, and the rate in bit/s that fills it.
const FLOODS: [(&str, u64); 2] = [("oc3", 155_000_000), ("transoceanic", 1_000_000_000)];

/// Lateness of a relay, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
struct Lateness {
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

impl Lateness {
    fn of(histogram: &Histogram) -> Self {
        let micros = |span: Span| span.as_secs_f64() * 1e6;
        let [p50_us, p99_us] = [0.5, 0.99].map(|q| micros(histogram.quantile(q)));
        Self { p50_us, p99_us, max_us: micros(histogram.max()) }
    }
}

impl std::fmt::Display for Lateness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>7.0} {:>7.0} {:>8.0}", self.p50_us, self.p99_us, self.max_us)
    }
}

/// Durations of a transfer in virtual and in real time.
#[derive(Clone, Debug, Serialize)]
struct Agreement {
    scenario: &'static str,
    link: &'static str,
    bytes: u64,
    virtual_s: f64,
    /// Duration in virtual time with random lateness of packets up to each of [`LATE`].
    virtual_late_s: Spread,
    real_s: Spread,
    /// Deviation of the median duration in real time from that in virtual time, as a fraction of the latter.
    deviation: f64,
    runs: usize,
    /// Number of runs that are invalid, because the machine was too slow.
    discarded: usize,
    lateness: Lateness,
    /// Packets that the link dropped in the direction of the data: in virtual time, and minimum and maximum in real time.
    dropped: [u64; 3],
    /// Datagrams lost at the relay's sockets.
    socket_drops: u64,
}

impl Agreement {
    /// Returns whether packets that are late by up to 0.1 ms change the duration by less than [`AGREEMENT`].
    fn is_steady(&self) -> bool {
        let Spread { min, max, .. } = self.virtual_late_s;
        (min / self.virtual_s - 1.0).abs().max((max / self.virtual_s - 1.0).abs()) < AGREEMENT
    }

    /// Returns whether both durations agree. If slightly late packets change the duration by more than [`AGREEMENT`],
    /// the duration in real time must be within the resulting range of virtual time.
    fn agrees(&self) -> bool {
        let Spread { min, max, .. } = self.virtual_late_s;
        let range = min * (1.0 - AGREEMENT)..max * (1.0 + AGREEMENT);
        if self.is_steady() { self.deviation.abs() < AGREEMENT } else { range.contains(&self.real_s.median) }
    }
}

/// Contents of `bench/realtime.json`.
#[derive(Debug, Serialize)]
struct Results {
    controller: String,
    agreement: Vec<Agreement>,
    relay: Vec<Flood>,
}

/// Runs the bench. [`write_json`] describes `target_tmpdir`.
///
/// # Errors
/// Returns an error if a transfer failed or the results cannot be written, or if the times disagree or the relay is too
/// slow although the machine was fast enough.
pub fn main(target_tmpdir: &str) -> Result<()> {
    let runs = setting("LONGHAUL_BENCH_RUNS", 5)?.max(1);
    let span = setting("LONGHAUL_BENCH_SECONDS", 5)?.max(1);
    let mut config = Config::default();
    if let Ok(name) = std::env::var("LONGHAUL_BENCH_CONTROLLER") {
        longhaul_zoo::register()?;
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

/// Parses a link in the syntax of `longhaul-linkem`.
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

/// Makes a transfer in virtual and in real time.
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
    // If no run is valid, the invalid ones are shown.
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

/// Returns the seconds from the connect of host 0 until the application of host 1 has `size` bytes, or `None` after ten
/// minutes. `sim` must be unused.
fn completion(sim: &mut Sim, size: u64) -> Option<f64> {
    let (_, receiver) = sim.open(Plan::bulk(size).zeros(), Plan::sink().zeros());
    let done = sim.run(PATIENCE, |sim| sim.find(receiver).is_some_and(|session| session.read >= size));
    done.then(|| (sim.now() - Time::ZERO).as_secs_f64())
}

/// Returns the seconds until completion, and the number of packets that the link dropped until then.
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

/// Prints a line per requirement. Returns an error if a requirement is not met although the machine was fast enough.
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
        // A disagreement is certain even if other transfers have no valid run.
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

struct Verdict {
    what: String,
    is_so: bool,
    /// Whether the machine was fast enough for a certain result.
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
