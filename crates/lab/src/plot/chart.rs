//! Charts of measurements that are stored in a file, such as those in documents.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::canvas::{Around, Axis, Canvas, Key, Look, Wish};
use super::over_time::{Line, draw_line, together};

/// A chart of values against time, as its JSON file describes it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    /// Prefix of the ids in the picture.
    pub id: String,
    /// Title above the picture.
    pub title: String,
    /// Description for readers who cannot see the picture.
    pub about: String,
    /// Text below the picture: what was measured, how often and when.
    pub caption: String,
    /// Label of the value axis.
    pub label: String,
    /// Unit of the values.
    pub unit: String,
    /// Seconds between two values of a run; the first value of a run is at this time, and zero precedes it.
    pub step: f64,
    /// The experiment whose runs are drawn, if the measurements were made in the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Origin>,
    /// The lines, in the order of the legend.
    pub lines: Vec<Measured>,
}

/// An experiment from which a chart is filled.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Its identifier.
    pub experiment: String,
    /// The series, of which each point after the start is a value, multiplied by `scale`.
    pub series: String,
    /// See `series`.
    pub scale: f64,
    /// The metric whose mean over the runs is in the legend.
    pub metric: String,
}

/// A line of a chart.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Name in the legend. In a line filled from an experiment, it is replaced by `label` and the mean of the metric.
    pub name: String,
    /// The name without the mean.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The choice on each axis of the experiment, or none if the line is not filled.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, String>,
    /// The values of each run. Several runs are drawn as their mean with a band of one standard deviation.
    pub runs: Vec<Vec<f64>>,
}

impl Chart {
    /// Returns the contents of the file, with one run per line.
    ///
    /// # Errors
    /// Returns an error if a value is not finite.
    pub fn text(&self) -> serde_json::Result<String> {
        let text = serde_json::to_string(self)?;
        Ok(text.replace("[[", "[\n[").replace("],[", "],\n[").replace("{\"name\"", "\n{\"name\"") + "\n")
    }

    /// Draws the chart as an SVG file.
    #[must_use]
    pub fn draw(&self) -> String {
        let lines: Vec<Line> =
            self.lines.iter().enumerate().filter_map(|(nth, line)| line.over_time(nth, self.step)).collect();
        let highest = lines.iter().flat_map(|line| {
            let spread = line.deviation.iter().copied().chain(std::iter::repeat(0.0));
            line.mean.iter().zip(spread).map(|((_, mean), spread)| mean + spread)
        });
        let wish = Wish { name: &self.label, unit: &self.unit, is_log: false, zero: true, about: 6 };
        let y = Axis::of(highest, wish);
        let end = lines.iter().filter_map(|line| line.mean.last()).map(|(time, _)| *time).fold(0.0, f64::max);
        let x = Axis::between((0.0, end), "time", "s", 0.0);
        let legend =
            lines.iter().map(|line| Key { look: Look::Dashed(line.colour, line.dash), name: line.name.clone() });
        let around = Around {
            id: self.id.clone(),
            title: self.title.clone(),
            about: self.about.clone(),
            caption: self.caption.clone(),
            legend: legend.collect(),
        };
        let mut canvas = Canvas::new(around, x, y);
        for line in &lines {
            draw_line(&mut canvas, line, lines.len(), true);
        }
        canvas.finish()
    }
}

impl Measured {
    /// Returns the line, or `None` without runs.
    fn over_time(&self, nth: usize, step: f64) -> Option<Line> {
        let timed = |run: &Vec<f64>| {
            let times = (1..=run.len()).map(|place| place as f64 * step);
            std::iter::once((0.0, 0.0)).chain(times.zip(run.iter().copied())).collect()
        };
        let runs: Vec<Vec<(f64, f64)>> = self.runs.iter().map(timed).collect();
        let (mean, deviation) = match &runs[..] {
            [] => return None,
            [one] => (one.clone(), Vec::new()),
            runs => together(runs),
        };
        Some(Line { colour: nth, dash: nth, name: self.name.clone(), mean, deviation })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use roxmltree::Document;

    use super::*;

    /// Size in bytes that a picture in the README must not exceed.
    const MAX_BYTES: usize = 30_000;

    fn docs(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[test]
    fn the_picture_of_the_readme_is_drawn_from_the_measurements_beside_it() {
        let chart: Chart = serde_json::from_str(&docs("satellite.json")).unwrap();
        let svg = docs("satellite.svg");
        let again = "cargo run -p longhaul-lab -- chart docs/satellite.json > docs/satellite.svg";
        assert!(svg == chart.draw(), "docs/satellite.svg is not up to date: {again}");
        assert!(svg.len() < MAX_BYTES, "{} bytes", svg.len());
        let document = Document::parse(&svg).unwrap();
        let has = |text: &str| document.descendants().any(|node| node.text() == Some(text));
        assert!(chart.lines.iter().all(|line| has(&line.name)), "a line is missing in the legend");
    }

    #[test]
    fn lines_begin_at_zero_and_average_the_runs() {
        let line = |runs| Measured { name: "x".into(), label: String::new(), at: BTreeMap::new(), runs };
        let two = line(vec![vec![1.0, 4.0], vec![3.0, 4.0]]);
        let drawn = two.over_time(0, 0.5).unwrap();
        assert_eq!(drawn.mean, [(0.0, 0.0), (0.5, 2.0), (1.0, 4.0)]);
        assert_eq!(drawn.deviation, [0.0, 1.0, 0.0]);
        assert!(line(Vec::new()).over_time(0, 1.0).is_none());
    }
}
