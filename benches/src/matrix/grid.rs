//! A megabyte under every start with every recovery, one table a link.

use longhaul_cc::registry::{self, Entry, Safety, Slot};
use longhaul_cc::{BuildParams, Congestion, SavedPath};
use longhaul_link::topology::Duplex;
use longhaul_link::{Limit, LinkConfig, Loss as Chance};
use longhaul_sim::{Setup, Sim, full_segments};
use longhaul_tcp::{PathCache, PathMetrics};
use longhaul_units::{Bytes, Rate, Span, Time};

use super::ledger::{Ledger, Loss};
use super::{PACKET, PAYLOAD, Section};
use crate::emulated::completion;
use crate::generated::table;
use crate::parallel::in_parallel;
use crate::stats::Spread;

/// What is timed.
const SIZE: u64 = 1_000_000;
/// Laws to compose with: the second where the registry refuses the first.
const LAWS: [&str; 2] = ["cubic", "new-reno"];
/// Runs where the queue alone differs, and runs where packets are lost by chance.
const QUEUES: u64 = 9;
const SEEDS: u64 = 25;

/// A link; back there is its rate and delay, and nothing is lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    id: &'static str,
    mbps: u64,
    rtt_ms: u64,
    /// Of the drop-tail queue.
    queue_bdp: f64,
    /// The share that is lost by chance.
    chance: f64,
    /// Whether it is measured in tests.
    pub is_quick: bool,
}

impl Link {
    const fn new(id: &'static str, rtt_ms: u64, queue_bdp: f64, chance: f64) -> Self {
        Self { id, mbps: 20, rtt_ms, queue_bdp, chance, is_quick: false }
    }

    fn title(self) -> String {
        let chance =
            if self.chance > 0.0 { format!(", {} % of random loss", self.chance * 100.0) } else { String::new() };
        format!("{} Mb/s, {} ms, queue of {} BDP{chance}", self.mbps, self.rtt_ms, self.queue_bdp)
    }

    fn rate(self) -> Rate {
        Rate::from_bits_per_sec(self.mbps * 1_000_000)
    }

    fn rtt(self) -> Span {
        Span::from_millis(self.rtt_ms)
    }

    /// What the path holds without its queue.
    fn bdp(self) -> Bytes {
        self.rate().bytes_in(self.rtt())
    }

    const fn runs(self) -> u64 {
        if self.chance > 0.0 { SEEDS } else { QUEUES }
    }

    /// The links of one of its runs: the middle one has the queue that the title tells, the others have some packets less or more.
    fn duplex(self, run: u64) -> Duplex {
        let way = LinkConfig::new(self.rate(), self.rtt() / 2);
        let queue = self.bdp().mul_f64(self.queue_bdp).0;
        let queue = if self.chance > 0.0 { queue } else { queue + run * PACKET - QUEUES / 2 * PACKET };
        let chance = if self.chance > 0.0 { Chance::Uniform(self.chance) } else { Chance::None };
        Duplex { there: way.clone().queue(Limit::Bytes(queue)).loss(chance), back: way }
    }

    /// What physics allows: the handshake, one way, and the packets at the rate of the link; seconds.
    fn limit(self) -> f64 {
        let bytes = SIZE + SIZE.div_ceil(PAYLOAD) * (PACKET - PAYLOAD);
        self.rtt_ms as f64 * 1.5e-3 + bytes as f64 * 8e-6 / self.mbps as f64
    }

    /// What a connection to the same host left word of that had filled the path.
    fn memory(self, congestion: &Congestion) -> PathCache {
        let mut known = PathMetrics::default();
        known.saved = Some(SavedPath { window: self.bdp(), rate: self.rate(), rtt: self.rtt() });
        let (setup, cache) = (Setup::pair(1, self.duplex(0)), PathCache::default());
        if let Some(receiver) = setup.hosts.get(1) {
            cache.seed(Time::ZERO, receiver.address.ip(), &congestion.name(), &known);
        }
        cache
    }

    /// One transfer.
    fn run(self, subject: &Subject, run: u64) -> Run {
        let setup = Setup::pair(run + 1, self.duplex(run)).under(&subject.congestion).configure(|config| {
            full_segments(config);
            config.path_cache = subject.is_known.then(|| self.memory(&subject.congestion));
        });
        let mut sim = Sim::new(setup);
        let ledger = Ledger::default();
        let counts = ledger.counts();
        sim.set_hook(0, ledger);
        let seconds = completion(&mut sim, SIZE).unwrap_or(f64::INFINITY);
        let loss = *counts.borrow();
        Run { seconds, loss }
    }
}

/// Those of the matrix.
pub(super) const LINKS: [Link; 4] = [
    Link::new("20 Mb/s, 500 ms", 500, 1.0, 0.0),
    Link { is_quick: true, ..Link::new("20 Mb/s, 100 ms, 0.5 BDP", 100, 0.5, 0.0) },
    Link::new("20 Mb/s, 100 ms, 1 BDP", 100, 1.0, 0.0),
    Link::new("20 Mb/s, 100 ms, random loss", 100, 1.0, 0.01),
];

/// What came of a transfer.
#[derive(Clone, Copy, Debug)]
struct Run {
    seconds: f64,
    loss: Loss,
}

/// What is measured: a composition, on a path of which it knows or does not.
#[derive(Clone, Debug)]
struct Subject {
    congestion: Congestion,
    is_known: bool,
}

/// A row: what opens the window.
#[derive(Clone, Debug, PartialEq)]
struct Start {
    /// Names of the registry; several, if they come to the same.
    names: Vec<&'static str>,
    slot: Slot,
    is_known: bool,
    is_private: bool,
}

impl Start {
    /// In a composition with this recovery; why not, if the registry refuses it.
    fn with(&self, recovery: &str) -> Result<Subject, String> {
        let name = self.names.first().copied().unwrap_or_default();
        let mut refusal = String::new();
        for law in LAWS {
            match format!("{}={name},steady={law},recovery={recovery}", self.slot).parse() {
                Ok(congestion) => return Ok(Subject { congestion, is_known: self.is_known }),
                Err(error) if refusal.is_empty() => refusal = format!("{error}"),
                Err(_) => {}
            }
        }
        Err(refusal)
    }

    fn label(&self) -> String {
        let names: Vec<_> = self.names.iter().map(|name| format!("`{name}`")).collect();
        let known = if self.is_known { ", known path" } else { "" };
        format!("{}{}{known}", names.join(", "), if self.is_private { " †" } else { "" })
    }
}

fn of_slot(slot: Slot) -> impl Iterator<Item = &'static Entry> {
    registry::built_in().of_slot(slot)
}

fn recoveries() -> Vec<&'static Entry> {
    of_slot(Slot::Recovery).collect()
}

/// Every launch and every growth; those that remember twice, and what comes to the same once.
fn starts() -> Vec<Start> {
    let default = recoveries().first().map_or("", |entry| entry.name);
    let mut starts: Vec<(Start, String)> = Vec::new();
    for entry in of_slot(Slot::Launch).chain(of_slot(Slot::Growth)) {
        let is_private = entry.safety == Safety::Private;
        let start = Start { names: vec![entry.name], slot: entry.slot, is_known: false, is_private };
        let subject = start.with(default);
        let name = subject.as_ref().map_or_else(Clone::clone, |subject| subject.congestion.name());
        if let Some((same, _)) = starts.iter_mut().find(|(_, other)| *other == name) {
            same.names.push(entry.name);
            continue;
        }
        let remembers = subject.is_ok_and(|subject| remembers(&subject.congestion));
        let known = Start { is_known: true, ..start.clone() };
        starts.push((start, name));
        if remembers {
            starts.push((known, String::new()));
        }
    }
    starts.into_iter().map(|(start, _)| start).collect()
}

fn remembers(congestion: &Congestion) -> bool {
    let needs = congestion.build(&BuildParams::default()).needs();
    needs.required.saved_path || needs.preferred.saved_path
}

/// A cell of a table: the median time and what is lost, or why there is none.
fn cell(runs: &[Run]) -> String {
    let seconds = Spread::of(runs.iter().map(|run| run.seconds)).median;
    if !seconds.is_finite() {
        return "never".to_owned();
    }
    let lost = Loss::sum(runs.iter().map(|run| &run.loss)).percent();
    let lost = if lost >= 0.05 { format!(" ({lost:.1})") } else { String::new() };
    format!("{seconds:.2}{lost}")
}

/// What is measured over a link: a cell for each subject.
fn cells(subjects: &[&Subject], link: Link) -> Vec<String> {
    let jobs: Vec<_> = subjects.iter().flat_map(|subject| (0..link.runs()).map(move |run| (*subject, run))).collect();
    let runs = in_parallel(&jobs, |(subject, run)| link.run(subject, *run));
    runs.chunks(link.runs() as usize).map(cell).collect()
}

/// The matrix over one link.
pub(super) fn measure(link: Link) -> Section {
    let (starts, recoveries) = (starts(), recoveries());
    let all: Vec<Vec<_>> =
        starts.iter().map(|start| recoveries.iter().map(|entry| start.with(entry.name)).collect()).collect();
    let composed: Vec<&Subject> = all.iter().flatten().flatten().collect();
    let mut cells = cells(&composed, link).into_iter();
    let mut text = |subject: &Result<Subject, String>| match subject {
        Ok(_) => cells.next().unwrap_or_default(),
        Err(_) => "refused".to_owned(),
    };
    let rows: Vec<Vec<String>> = all.iter().map(|row| row.iter().map(&mut text).collect()).collect();
    let labels: Vec<_> = starts.iter().map(Start::label).collect();
    let names: Vec<_> = recoveries.iter().map(|entry| entry.name).collect();
    let table = folded(&names, &labels, &rows);
    Section {
        id: link.id.to_owned(),
        text: format!("## {}\n\nAt least {:.2} s.\n\n{table}", link.title(), link.limit()),
    }
}

/// A table whose columns stand together where they are equal in all rows.
fn folded(names: &[&str], labels: &[String], rows: &[Vec<String>]) -> String {
    let column = |number: usize| rows.iter().map(move |row| row.get(number).cloned().unwrap_or_default());
    let mut groups: Vec<(Vec<&str>, Vec<String>)> = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let cells: Vec<_> = column(number).collect();
        match groups.iter_mut().find(|(_, other)| *other == cells) {
            Some((names, _)) => names.push(name),
            None => groups.push((vec![name], cells)),
        }
    }
    let head = |(own, _): &(Vec<&str>, Vec<String>)| {
        if own.len() == names.len() { "any recovery".to_owned() } else { own.join("<br>") }
    };
    let heads = [String::new()].into_iter().chain(groups.iter().map(head)).collect();
    let line = |(number, label): (usize, &String)| {
        let cells = groups.iter().map(|(_, cells)| cells.get(number).cloned().unwrap_or_default());
        [label.clone()].into_iter().chain(cells).collect()
    };
    let lines: Vec<Vec<String>> = [heads].into_iter().chain(labels.iter().enumerate().map(line)).collect();
    table(&lines)
}

/// Whole controllers, which have neither starts nor recoveries of others.
pub(super) fn measure_wholes() -> Section {
    let subject = |entry: &'static Entry| {
        let congestion = format!("whole={}", entry.name).parse().ok()?;
        Some((entry, Subject { congestion, is_known: false }))
    };
    let (entries, subjects): (Vec<_>, Vec<_>) = of_slot(Slot::Whole).filter_map(subject).unzip();
    let subjects: Vec<_> = subjects.iter().collect();
    let measured = LINKS.map(|link| cells(&subjects, link));
    let heads = [String::new()].into_iter().chain(LINKS.iter().map(|link| link.title())).collect();
    let line = |(number, entry): (usize, &&'static Entry)| {
        let private = if entry.safety == Safety::Private { " †" } else { "" };
        let cells = measured.iter().map(|link| link.get(number).cloned().unwrap_or_default());
        [format!("`{}`{private}", entry.name)].into_iter().chain(cells).collect()
    };
    let lines: Vec<Vec<String>> = [heads].into_iter().chain(entries.iter().enumerate().map(line)).collect();
    Section { id: "whole controllers".to_owned(), text: format!("## Whole controllers\n\n{}", table(&lines)) }
}

/// What the page says before its tables.
pub(super) fn introduction() -> String {
    let mut text = format!(
        "One flow alone, in virtual time: seconds from the SYN until 1 MB has arrived, and in parentheses packets of data that the\npath \
         dropped, in percent, if there were any. Each launch stands before `hystart-pp`, each growth without a launch, CUBIC \
         behind all of\nthem. The median of {QUEUES} queues, of which the title tells the middle one and each holds a packet more than \
         the last; of\n{SEEDS} seeds where loss is random. All is paced but for what `initial-burst` sends. Routers answer where \
         a start asks them. On a *known path* an\nearlier connection had filled the link, and left word of it. Queues know nothing of \
         low priority. Recoveries that come to the same everywhere share a\ncolumn. † is not for shared networks.\n"
    );
    let refused: Vec<_> = (starts().iter())
        .flat_map(|start| recoveries().into_iter().map(|entry| (start.clone(), entry)).collect::<Vec<_>>())
        .filter_map(|(start, entry)| {
            Some(format!("* {} with `{}`: {}\n", start.label(), entry.name, start.with(entry.name).err()?))
        })
        .collect();
    if refused.is_empty() {
        text += "\nThe registry refuses none of these compositions.\n";
    } else {
        text += &format!("\nThe registry refuses:\n\n{}", refused.concat());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_start_of_the_registry_has_a_row() {
        let starts = starts();
        for entry in of_slot(Slot::Launch).chain(of_slot(Slot::Growth)) {
            let rows = starts.iter().filter(|start| start.names.contains(&entry.name));
            let states: Vec<_> = rows.map(|start| start.is_known).collect();
            let remembers = matches!(entry.name, "careful-resume" | "cached-start");
            assert_eq!(states, if remembers { vec![false, true] } else { vec![false] }, "{}", entry.name);
        }
        assert_eq!(starts.first().unwrap().names, ["none", "hystart-pp"]);
    }

    /// 20 Mb/s, 100 ms: 150 ms, and 691 packets of 1 MB and 52 bytes each.
    #[test]
    fn limits_by_hand() {
        assert!((LINKS[1].limit() - (0.15 + 1_035_932.0 * 8.0 / 20e6)).abs() < 1e-9);
        let queues: Vec<_> = (0..QUEUES).map(|run| LINKS[1].duplex(run).there.queue.limit).collect();
        assert_eq!(queues.first(), Some(&Limit::Bytes(125_000 - 4 * 1500)));
        assert_eq!(queues.get(4), Some(&Limit::Bytes(125_000)));
        assert_eq!(queues.last(), Some(&Limit::Bytes(125_000 + 4 * 1500)));
    }

    #[test]
    fn equal_columns_stand_together() {
        let rows = [vec!["1", "2", "1"], vec!["3", "3", "3"]].map(|row| row.into_iter().map(str::to_owned).collect());
        let labels = ["x".to_owned(), "y".to_owned()];
        assert_eq!(
            folded(&["a", "b", "c"], &labels, &rows),
            "|  | a<br>c | b |\n|---|--:|--:|\n| x | 1 | 2 |\n| y | 3 | 3 |\n"
        );
        assert!(
            folded(&["a", "c"], &labels, &[vec!["1".to_owned(); 2], vec!["3".to_owned(); 2]]).contains("any recovery")
        );
    }

    /// Nothing is lost where all of it fits, and a path that is known is sooner.
    #[test]
    fn a_path_that_is_known_is_sooner() {
        let start = |name: &str, is_known| Start {
            names: vec![if name == "none" { "none" } else { "cached-start" }],
            slot: Slot::Launch,
            is_known,
            is_private: false,
        };
        let time = |start: Start| LINKS[0].run(&start.with("prr").unwrap(), 4);
        let (cold, known) = (time(start("none", false)), time(start("cached-start", true)));
        assert_eq!((cold.loss.data_lost, known.loss.data_lost), (0, 0));
        assert!(known.seconds > LINKS[0].limit() && known.seconds < 0.5 * cold.seconds, "{cold:?} {known:?}");
    }
}
