//! Files for xplot in the format of tcptrace. Time-sequence graphs, `a2b_tsg.xpl` in tcptrace, end in `_tsg.xpl`
//! here, and windows in `_cwnd.xpl`.

use std::collections::BTreeMap;
use std::fmt;

use crate::experiment::Experiment;
use crate::plot::{Kind, Plot};
use crate::record::Record;

/// A graph with seconds along x and bytes along y.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Title above the graph.
    pub title: String,
    /// Label of the y axis.
    pub y_label: String,
    /// Drawing commands, in drawing order.
    pub commands: Vec<Command>,
}

/// A drawing command. Coordinates are seconds and bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Sets the colour of the following commands.
    Colour(&'static str),
    /// A downward arrow.
    DownArrow(f64, f64),
    /// An upward arrow.
    UpArrow(f64, f64),
    /// A line between two points.
    Line((f64, f64), (f64, f64)),
    /// A letter above a point.
    Above(f64, f64, &'static str),
}

impl fmt::Display for Graph {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one_line = |text: &str| text.replace(['\n', '\r'], " ");
        writeln!(out, "timeval double\ntitle\n{}", one_line(&self.title))?;
        writeln!(out, "xlabel\ntime\nylabel\n{}", one_line(&self.y_label))?;
        for command in &self.commands {
            writeln!(out, "{command}")?;
        }
        out.write_str("go\n")
    }
}

impl fmt::Display for Command {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Colour(name) => out.write_str(name),
            Self::DownArrow(x, y) => write!(out, "darrow {x:.6} {y}"),
            Self::UpArrow(x, y) => write!(out, "uarrow {x:.6} {y}"),
            Self::Line(from, to) => write!(out, "line {:.6} {} {:.6} {}", from.0, from.1, to.0, to.1),
            Self::Above(x, y, text) => write!(out, "atext {x:.6} {y}\n{text}"),
        }
    }
}

/// Returns the files of a picture: one for a time sequence, one for a picture with congestion windows over time, none
/// for others.
pub(crate) fn files(experiment: &Experiment, plot: &Plot, records: &[Record]) -> Vec<(String, String)> {
    let graph = match plot.kind {
        Kind::TimeSequence => Some(("tsg", time_sequence(experiment, plot, records))),
        Kind::OverTime if plot.series.iter().any(|series| series.call == "cwnd") => {
            Some(("cwnd", windows(experiment, plot, records)))
        }
        _ => None,
    };
    graph.map(|(kind, graph)| (format!("{}_{kind}.xpl", plot.id), graph.to_string())).into_iter().collect()
}

/// Returns the series of a picture of the kind `call`, in the chosen run or else in the first run.
fn recorded<'a>(plot: &Plot, cell: usize, records: &'a [Record], call: &str) -> Vec<&'a [(f64, f64)]> {
    let seed = plot.seed.unwrap_or(1);
    let record = records.iter().find(|record| record.cell == cell && record.seed == seed);
    let names = plot.series.iter().filter(|series| series.call == call).map(|series| &series.name);
    names.filter_map(|name| record?.series.get(name).map(Vec::as_slice)).collect()
}

fn title(experiment: &Experiment, plot: &Plot) -> String {
    format!("{} ({})", plot.title, experiment.definition.source)
}

fn time_sequence(experiment: &Experiment, plot: &Plot, records: &[Record]) -> Graph {
    let cell = plot.grid.cells.first().and_then(|line| line.first()).copied().unwrap_or(usize::MAX);
    let of = |call| recorded(plot, cell, records, call).concat();
    let (new, again, acks) = (of("segments"), of("resent"), of("acks"));
    let ends = ends(&new);
    let mut commands = Vec::new();
    let mut segments: Vec<(bool, (f64, f64))> = new.iter().map(|segment| (false, *segment)).collect();
    segments.extend(again.iter().map(|segment| (true, *segment)));
    segments.retain(|(_, (time, sequence))| time.is_finite() && sequence.is_finite());
    segments.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
    for (is_again, (time, sequence)) in segments {
        let end = ends.get(&(sequence as u64)).map_or(sequence, |end| *end as f64);
        commands.push(Command::Colour(if is_again { "red" } else { "white" }));
        commands.push(Command::DownArrow(time, sequence));
        commands.push(Command::UpArrow(time, end));
        commands.push(Command::Line((time, sequence), (time, end)));
        if is_again {
            commands.push(Command::Above(time, end, "R"));
        }
    }
    commands.push(Command::Colour("green"));
    commands.extend(steps(&acks));
    Graph { title: title(experiment, plot), y_label: "sequence number".into(), commands }
}

/// Returns the end of each segment by its first sequence number. New data has no gaps, so a segment ends where the
/// next one begins. The last segment is assumed to be as long as the one before.
fn ends(new: &[(f64, f64)]) -> BTreeMap<u64, u64> {
    let mut begins: Vec<u64> = new.iter().map(|(_, sequence)| *sequence as u64).collect();
    begins.sort_unstable();
    begins.dedup();
    let mut ends: BTreeMap<u64, u64> = begins.windows(2).map(|two| (two[0], two[1])).collect();
    if let [.., before, last] = begins[..] {
        ends.insert(last, last.saturating_add(last - before));
    }
    ends
}

/// One colour per choice and series, in the order in which tcptrace uses them.
fn windows(experiment: &Experiment, plot: &Plot, records: &[Record]) -> Graph {
    const COLOURS: [&str; 7] = ["white", "green", "red", "yellow", "orange", "blue", "purple"];
    let mut commands = Vec::new();
    let mut colours = COLOURS.into_iter().cycle();
    for cell in plot.grid.cells.iter().flatten() {
        for call in ["cwnd", "ssthresh"] {
            for series in recorded(plot, *cell, records, call) {
                commands.extend(colours.next().map(Command::Colour));
                commands.extend(steps(series));
            }
        }
    }
    Graph { title: title(experiment, plot), y_label: "window (bytes)".into(), commands }
}

/// Returns a step line that keeps each value until the next point.
fn steps(points: &[(f64, f64)]) -> impl Iterator<Item = Command> {
    let finite = |point: &&(f64, f64)| point.0.is_finite() && point.1.is_finite();
    let points: Vec<(f64, f64)> = points.iter().filter(finite).copied().collect();
    let pairs: Vec<[(f64, f64); 2]> = points.windows(2).map(|two| [two[0], two[1]]).collect();
    pairs.into_iter().flat_map(|[from, to]| {
        let corner = (to.0, from.1);
        let across = Command::Line(from, corner);
        let up = (from.1 != to.1).then_some(Command::Line(corner, to));
        [Some(across), up].into_iter().flatten()
    })
}
