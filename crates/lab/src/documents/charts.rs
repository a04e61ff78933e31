//! Charts in documents that are filled from experiments.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use longhaul_units::statistics::mean;

use super::Source;
use crate::plot::{Chart, Origin};
use crate::record::Record;

/// Fills the charts in the JSON files of a folder and draws them. Returns the files that were not current.
pub(super) fn update(folder: &Path, sources: &[Source<'_>], check: bool) -> Result<Vec<PathBuf>> {
    let mut changed = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let told = || path.display().to_string();
        let old = fs::read_to_string(&path).with_context(told)?;
        let mut chart: Chart = serde_json::from_str(&old).with_context(told)?;
        let Some(origin) = chart.from.clone() else { continue };
        let source = sources.iter().find(|source| source.experiment.definition.id.get_ref() == &origin.experiment);
        let Some(source) = source else { continue };
        fill(&mut chart, &origin, source).with_context(told)?;
        let new = chart.text().with_context(told)?;
        if new == old {
            continue;
        }
        if !check {
            fs::write(&path, new).with_context(told)?;
            fs::write(path.with_extension("svg"), chart.draw()).with_context(told)?;
        }
        changed.push(path);
    }
    changed.sort();
    Ok(changed)
}

/// Replaces the runs of all lines whose runs exist.
fn fill(chart: &mut Chart, origin: &Origin, source: &Source<'_>) -> Result<()> {
    let definition = &source.experiment.definition;
    let Origin { series, scale, metric, .. } = origin;
    let place = definition.metrics.keys().position(|name| name == metric);
    let place = place.with_context(|| format!("there is no metric {metric:?}"))?;
    if !definition.series.contains_key(series) {
        return Err(anyhow!("there is no series {series:?}"));
    }
    for line in chart.lines.iter_mut().filter(|line| !line.at.is_empty()) {
        let at: Vec<(String, String)> = line.at.clone().into_iter().collect();
        let cells = source.experiment.cells_at(&at).map_err(|what| anyhow!(what))?;
        let of_line = |record: &&Record| cells.contains(&record.cell) && record.seed <= u64::from(source.runs);
        let records: Vec<&Record> = source.records.iter().filter(of_line).collect();
        if records.len() < cells.len() * source.runs as usize {
            continue;
        }
        let values: Vec<f64> = records.iter().filter_map(|record| *record.values.get(place)?).collect();
        let mean = mean(&values).with_context(|| format!("{metric} has no value in {:?}", line.label))?;
        line.name = format!("{}: {mean:.1} {}", line.label, definition.metrics[metric].unit);
        let points = |record: &&Record| {
            let points = record.series.get(series).into_iter().flatten().filter(|(time, _)| *time > 0.0);
            points.map(|(_, value)| (value * scale * 1e3).round() / 1e3).collect()
        };
        line.runs = records.iter().map(points).collect();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::experiment::Experiment;

    const TEXT: &str = r#"id = "x"
title = "x"
source = "nobody"
runs = 2
quick-runs = 1
duration = "2s"
bottleneck = "--rate 1mbit --rtt 10ms"
axes = [{ name = "controller", choices = ["cubic", "new-reno"] }]
flows = [{ name = "x", congestion = "{controller}" }]
metrics = { goodput = { value = "goodput(x)", unit = "Mb/s" } }
series = { read = { value = "read(x)", unit = "bytes" } }
"#;

    const CHART: &str = r#"{"id":"x","title":"","about":"","caption":"","label":"read","unit":"kB","step":1.0,
"from":{"experiment":"x","series":"read","scale":0.001,"metric":"goodput"},
"lines":[{"name":"limit","runs":[[9.0]]},{"name":"old","label":"CUBIC","at":{"controller":"cubic"},"runs":[[1.0]]},
{"name":"other","label":"NewReno","at":{"controller":"new-reno"},"runs":[[1.0]]}]}"#;

    /// Lines without choices and lines with missing runs remain.
    #[test]
    fn lines_with_all_runs_are_replaced() {
        let experiment = Experiment::read("x.toml", TEXT).unwrap();
        let run = |cell, seed, read: f64| {
            let series = BTreeMap::from([("read".to_owned(), vec![(0.0, 0.0), (1.0, read), (2.0, 2.0 * read)])]);
            Record { cell, seed, values: vec![Some(read)], series, ..Record::default() }
        };
        let records = [run(0, 1, 1000.4), run(0, 2, 3000.0), run(1, 1, 5000.0)];
        let mut chart: Chart = serde_json::from_str(CHART).unwrap();
        let origin = chart.from.clone().unwrap();
        fill(&mut chart, &origin, &Source::new(&experiment, &records, 2)).unwrap();
        let names: Vec<&str> = chart.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["limit", "CUBIC: 2000.2 Mb/s", "other"]);
        assert_eq!(chart.lines[1].runs, [[1.0, 2.001], [3.0, 6.0]]);
        assert_eq!((&chart.lines[0].runs, &chart.lines[2].runs), (&vec![vec![9.0]], &vec![vec![1.0]]));
        let again: Chart = serde_json::from_str(&chart.text().unwrap()).unwrap();
        assert_eq!(again.text().unwrap(), chart.text().unwrap());
        let unknown = Origin { metric: "rate".into(), ..origin };
        assert!(fill(&mut chart, &unknown, &Source::new(&experiment, &records, 2)).is_err());
    }
}
