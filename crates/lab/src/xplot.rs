//! Files for xplot in the format of tcptrace. Time-sequence graphs, `a2b_tsg.xpl` in tcptrace, end in `_tsg.xpl`
//! here, and windows in `_cwnd.xpl`.

use std::collections::BTreeMap;

use crate::experiment::Experiment;
use crate::plot::{Kind, Plot};
use crate::record::Record;

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
    graph.map(|(kind, text)| (format!("{}_{kind}.xpl", plot.id), text)).into_iter().collect()
}

/// Returns the series of a picture of the kind `call`, in the chosen run or else in the first run.
fn recorded<'a>(plot: &Plot, cell: usize, records: &'a [Record], call: &str) -> Vec<&'a [(f64, f64)]> {
    let seed = plot.written.seed.unwrap_or(1);
    let record = records.iter().find(|record| record.cell == cell && record.nth() == seed);
    let names = plot.series.iter().filter(|series| series.call == call).map(|series| &series.name);
    names.filter_map(|name| record?.series.get(name).map(Vec::as_slice)).collect()
}

/// Returns a file with seconds along x and bytes along y: drawing commands, one per line.
fn file(experiment: &Experiment, plot: &Plot, y_label: &str, commands: &[String]) -> String {
    let title = format!("{} ({})", plot.title, experiment.definition.source).replace(['\n', '\r'], " ");
    let commands: String = commands.iter().map(|command| format!("{command}\n")).collect();
    format!("timeval double\ntitle\n{title}\nxlabel\ntime\nylabel\n{y_label}\n{commands}go\n")
}

fn line(from: (f64, f64), to: (f64, f64)) -> String {
    format!("line {:.6} {} {:.6} {}", from.0, from.1, to.0, to.1)
}

fn time_sequence(experiment: &Experiment, plot: &Plot, records: &[Record]) -> String {
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
        commands.push(if is_again { "red" } else { "white" }.to_owned());
        commands.push(format!("darrow {time:.6} {sequence}\nuarrow {time:.6} {end}"));
        commands.push(line((time, sequence), (time, end)));
        if is_again {
            commands.push(format!("atext {time:.6} {end}\nR"));
        }
    }
    commands.push("green".into());
    commands.extend(steps(&acks));
    file(experiment, plot, "sequence number", &commands)
}

/// Returns the end of each segment by its first sequence number. New data has no gaps, so a segment ends where the next
/// one begins. The last segment is assumed to be as long as the previous one.
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

/// Returns a file with one colour per choice and series, in the order in which tcptrace uses them.
fn windows(experiment: &Experiment, plot: &Plot, records: &[Record]) -> String {
    const COLOURS: [&str; 7] = ["white", "green", "red", "yellow", "orange", "blue", "purple"];
    let mut commands = Vec::new();
    let mut colours = COLOURS.into_iter().cycle();
    for cell in plot.grid.cells.iter().flatten() {
        for call in ["cwnd", "ssthresh"] {
            for series in recorded(plot, *cell, records, call) {
                commands.extend(colours.next().map(str::to_owned));
                commands.extend(steps(series));
            }
        }
    }
    file(experiment, plot, "window (bytes)", &commands)
}

/// Returns a step line that keeps each value until the next point.
fn steps(points: &[(f64, f64)]) -> Vec<String> {
    let finite = |point: &&(f64, f64)| point.0.is_finite() && point.1.is_finite();
    let points: Vec<(f64, f64)> = points.iter().filter(finite).copied().collect();
    let mut lines = Vec::new();
    for two in points.windows(2) {
        let (from, to) = (two[0], two[1]);
        let corner = (to.0, from.1);
        lines.push(line(from, corner));
        if from.1 != to.1 {
            lines.push(line(corner, to));
        }
    }
    lines
}
