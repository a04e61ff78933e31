//! Converts plot definitions to drawable plots.

use longhaul_link::spec::value;

use super::check::unique;
use super::{Lookup, Source};
use crate::cell::Cell;
use crate::definition::{self, Fault, Statistic, Text};
use crate::plot::{self, Grid, Kind, Plot, Recorded, Side};

/// Kinds that show a statistic over the runs of a cell.
const SUMMARIES: &[Kind] = &[Kind::Scatter, Kind::Bars, Kind::Lines, Kind::Heat];

type IsSet = fn(&definition::Plot) -> bool;

/// Fields that only some kinds have, with these kinds, and whether the file sets them.
const FIELDS: &[(&str, &[Kind], IsSet)] = &[
    ("metric", &[Kind::Cdf, Kind::Bars, Kind::Lines, Kind::Runs, Kind::Heat], |plot| plot.metric.is_some()),
    ("metrics", &[Kind::Bars], |plot| !plot.metrics.is_empty()),
    ("x", &[Kind::Scatter], |plot| plot.x.is_some()),
    ("y", &[Kind::Scatter], |plot| plot.y.is_some()),
    ("statistic", SUMMARIES, |plot| plot.statistic != Statistic::default()),
    ("skip-missing", SUMMARIES, |plot| plot.skip_missing),
    ("series", &[Kind::OverTime, Kind::TimeSequence, Kind::Histogram, Kind::Cdf], |plot| !plot.series.is_empty()),
    ("by", &[Kind::Bars, Kind::Lines, Kind::Heat], |plot| plot.by.is_some()),
    ("by-label", &[Kind::Bars, Kind::Lines, Kind::Heat], |plot| plot.by_label.is_some()),
    (
        "over",
        &[Kind::OverTime, Kind::Histogram, Kind::Cdf, Kind::Scatter, Kind::Bars, Kind::Lines, Kind::Runs, Kind::Heat],
        |plot| plot.over.is_some(),
    ),
    ("band", &[Kind::OverTime], |plot| plot.band),
    ("seed", &[Kind::OverTime, Kind::TimeSequence, Kind::Histogram, Kind::Cdf], |plot| plot.seed.is_some()),
    ("from", &[Kind::OverTime, Kind::TimeSequence], |plot| plot.from.is_some()),
    ("to", &[Kind::OverTime, Kind::TimeSequence], |plot| plot.to.is_some()),
    ("bin", &[Kind::Histogram], |plot| plot.bin.is_some()),
    ("log", &[Kind::Lines, Kind::Scatter, Kind::Cdf], |plot| plot.log),
    ("log-y", &[Kind::OverTime, Kind::Scatter, Kind::Bars, Kind::Lines, Kind::Runs, Kind::Heat], |plot| plot.log_y),
    ("expected", &[Kind::OverTime, Kind::Scatter, Kind::Bars, Kind::Lines, Kind::Runs], |plot| {
        !plot.expected.is_empty()
    }),
];

/// The series that a time-sequence picture can show.
const OF_SEGMENTS: [&str; 3] = ["segments", "resent", "acks"];

pub(super) fn read(known: Lookup<'_>) -> Result<Vec<Plot>, Fault> {
    let Lookup { definition, source, .. } = known;
    let mut plots = Vec::new();
    for plot in &definition.plots {
        let id = plot.id.get_ref();
        let is_name = !id.is_empty() && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !is_name {
            let what = format!("{id:?} must consist of a to z, 0 to 9 and dashes");
            return Err(source.fault(&plot.id, "plots.id", what));
        }
        plots.push(Reading { known, plot, source }.plot()?);
    }
    unique(source, "plots.id", definition.plots.iter().map(|plot| &plot.id))?;
    Ok(plots)
}

#[derive(Clone, Copy)]
struct Reading<'a> {
    known: Lookup<'a>,
    plot: &'a definition::Plot,
    source: Source<'a>,
}

impl Reading<'_> {
    fn plot(self) -> Result<Plot, Fault> {
        let plot = self.plot;
        let kind = self.kind()?;
        self.fields(kind)?;
        let metrics = [&plot.x, &plot.y, &plot.metric].into_iter().flatten().chain(&plot.metrics);
        let seconds = |text: &Option<Text>, field| text.as_ref().map(|text| self.seconds(text, field)).transpose();
        let mut grid = self.grid(kind)?;
        if !plot.metrics.is_empty() {
            grid.by.names = plot.metrics.iter().map(|name| plot::spoken(name.get_ref())).collect();
        }
        let read = Plot {
            id: plot.id.get_ref().clone(),
            title: plot.title.clone(),
            kind,
            grid,
            metrics: metrics.map(|metric| self.known.metric(metric, "plots.metric")).collect::<Result<_, _>>()?,
            series: plot.series.iter().map(|name| self.recorded(name)).collect::<Result<_, _>>()?,
            from: seconds(&plot.from, "plots.from")?.unwrap_or(0.0),
            to: seconds(&plot.to, "plots.to")?,
            written: plot.clone(),
        };
        self.whole(&read)?;
        Ok(read)
    }

    fn kind(self) -> Result<Kind, Fault> {
        let word = &self.plot.kind;
        let known = Kind::ALL.into_iter().find(|(name, _)| name == word.get_ref());
        known.map(|(_, kind)| kind).ok_or_else(|| {
            let all = Kind::ALL.map(|(name, _)| name).join(", ");
            self.source.fault(word, "plots.kind", format!("there is no kind {:?}; there are: {all}", word.get_ref()))
        })
    }

    fn fields(self, kind: Kind) -> Result<(), Fault> {
        let plot = self.plot;
        let given = |field: &str| FIELDS.iter().any(|(name, _, is_set)| *name == field && is_set(plot));
        let word = plot.kind.get_ref();
        // No field may be set that has no effect on this kind of picture.
        for (field, kinds, is_set) in FIELDS {
            if is_set(plot) && !kinds.contains(&kind) {
                return Err(self.wrong(field, format!("a picture of kind {word:?} has no `{field}`")));
            }
        }
        // Each kind needs certain fields. Some allow a choice between two of them.
        let needed: &[&str] = match kind {
            Kind::OverTime | Kind::TimeSequence => &["series"],
            Kind::Histogram => &["series", "bin"],
            Kind::Scatter => &["x", "y"],
            Kind::Bars if given("metrics") && (given("metric") || given("by")) => {
                return Err(
                    self.wrong("metrics", "they are drawn along x, so that `metric` and `by` cannot be given".into())
                );
            }
            Kind::Bars if given("metrics") => &[],
            Kind::Bars | Kind::Runs => &["metric"],
            Kind::Lines => &["metric", "by"],
            Kind::Heat => &["metric", "by", "over"],
            Kind::Cdf if given("metric") == given("series") => {
                return Err(self.wrong("metric", "a cdf needs either `metric` or `series`".into()));
            }
            Kind::Cdf => &[],
        };
        match needed.iter().find(|field| !given(field)) {
            Some(field) => Err(self.wrong(field, format!("a picture of kind {word:?} needs `{field}`"))),
            None => Ok(()),
        }
    }

    /// Creates a fault at the field, or at the plot's kind if the field is missing.
    fn wrong(self, field: &str, what: String) -> Fault {
        self.source.beside(&self.plot.kind, &format!("plots.{field}"), what)
    }

    fn seconds(self, text: &Text, field: &str) -> Result<f64, Fault> {
        let span = value::span(text.get_ref()).map_err(|what| self.source.fault(text, field, what))?;
        Ok(span.as_secs_f64())
    }

    fn recorded(self, name: &Text) -> Result<Recorded, Fault> {
        let all = &self.known.definition.series;
        let Some(series) = all.get(name.get_ref()) else {
            let known: Vec<&str> = all.keys().map(String::as_str).collect();
            let what = format!("there is no series {:?}; there are: {}", name.get_ref(), known.join(", "));
            return Err(self.source.fault(name, "plots.series", what));
        };
        let call = series.value.get_ref();
        let call = call.split_once('(').map_or(call.as_str(), |(call, _)| call).trim();
        if let (Some(seed), Some(runs)) = (self.plot.seed, series.runs)
            && seed > u64::from(runs)
        {
            let what = format!("run {seed} is drawn, but {:?} is recorded in the first {runs} only", name.get_ref());
            return Err(self.source.fault(name, "plots.seed", what));
        }
        Ok(Recorded { name: name.get_ref().clone(), call: call.into(), unit: series.unit.clone() })
    }

    fn whole(self, plot: &Plot) -> Result<(), Fault> {
        // Series and metrics drawn together share the value axis.
        let all = &self.known.definition.metrics;
        let metrics = self.plot.metrics.iter().map(|name| (name.get_ref().as_str(), all[name.get_ref()].unit.as_str()));
        self.one_unit("series", plot.series.iter().map(|series| (series.name.as_str(), series.unit.as_str())))?;
        self.one_unit("metrics", metrics)?;
        if plot.kind == Kind::TimeSequence {
            if let Some(other) = plot.series.iter().find(|series| !OF_SEGMENTS.contains(&series.call.as_str())) {
                let what = format!("{:?} is not one of {}", other.name, OF_SEGMENTS.join(", "));
                return Err(self.wrong("series", what));
            }
            if plot.grid.cells.iter().flatten().count() != 1 {
                return Err(self.wrong("at", "a time-sequence picture shows a single cell".into()));
            }
        }
        if let Some(bin) = self.plot.bin.filter(|bin| !(*bin > 0.0 && bin.is_finite())) {
            return Err(self.wrong("bin", format!("{bin} is not a width")));
        }
        if plot.to.is_some_and(|to| to <= plot.from) {
            return Err(self.wrong("to", "the picture ends before it begins".into()));
        }
        if self.plot.expected.iter().any(|expected| !expected.value.is_finite()) {
            return Err(self.wrong("expected", "a value is not a finite number".into()));
        }
        if self.plot.seed == Some(0) {
            return Err(self.wrong("seed", "runs are numbered from 1".into()));
        }
        let runs = self.known.definition.runs;
        if let Some(seed) = self.plot.seed.filter(|seed| *seed > u64::from(runs)) {
            return Err(self.wrong("seed", format!("run {seed} is drawn, but each cell has only {runs}")));
        }
        if plot.kind == Kind::Lines && self.plot.log && !plot::is_positive(&plot.grid.by.names) {
            let what = format!("the choices on {:?} are not all numbers above zero", plot.grid.by.axis);
            return Err(self.wrong("log", what));
        }
        Ok(())
    }

    /// Checks that the series or metrics named by a field have one unit.
    fn one_unit<'a>(self, field: &str, mut all: impl Iterator<Item = (&'a str, &'a str)>) -> Result<(), Fault> {
        let Some((first, unit)) = all.next() else { return Ok(()) };
        let Some((other, its)) = all.find(|(_, its)| *its != unit) else { return Ok(()) };
        let what = format!("{first:?} is in {unit:?}, {other:?} in {its:?}");
        Err(self.wrong(field, format!("the {field} of a picture must have the same unit: {what}")))
    }

    /// Returns the cells to draw, by `over` and `by`. A scatter plot also shows all choices on axes without a choice
    /// in `at`, and a cumulative distribution pools them.
    fn grid(self, kind: Kind) -> Result<Grid, Fault> {
        let (plot, axes) = (self.plot, &self.known.definition.axes);
        let at = self.known.at(&plot.at, "plots.at")?;
        // `over` distinguishes the lines, and `by` the positions along x.
        let over = self.axis(plot.over.as_ref(), "plots.over")?;
        let by = self.axis(plot.by.as_ref(), "plots.by")?;
        if over.is_some() && over == by {
            let at = plot.over.as_ref().unwrap_or(&plot.kind);
            return Err(self.source.fault(at, "plots.over", "`over` and `by` are the same axis"));
        }
        // Each other axis has a fixed choice, or is free: its choices are shown along x or pooled.
        let lines = self.lines(over)?;
        let (mut fixed, mut free) = (Vec::new(), Vec::new());
        for (nth, axis) in axes.iter().enumerate() {
            match at.get(&nth) {
                _ if over == Some(nth) => {}
                Some(place) => fixed.push((nth, *place)),
                None if by == Some(nth) || matches!(kind, Kind::Scatter | Kind::Cdf) => free.push(nth),
                None if axis.choices.len() == 1 => fixed.push((nth, 0)),
                None => {
                    let (id, name) = (plot.id.get_ref(), axis.name.get_ref());
                    let what = format!("picture {id} needs a choice on the axis {name:?}");
                    return Err(self.wrong("at", what));
                }
            }
        }
        // The cells with the fixed choices, by line.
        let fits = |cell: &(usize, &Cell)| fixed.iter().all(|(axis, place)| cell.1.places[*axis] == *place);
        let cells: Vec<(usize, &Cell)> = self.known.cells.iter().enumerate().filter(fits).collect();
        let of_line = |place: &Option<usize>| {
            let is_on =
                |cell: &&(usize, &Cell)| over.zip(*place).is_none_or(|(axis, place)| cell.1.places[axis] == place);
            cells.iter().filter(is_on).map(|(nth, _)| *nth).collect::<Vec<usize>>()
        };
        let choice = |axis: usize, place: usize| axes[axis].choices[place].name.get_ref().clone();
        let grid: Vec<Vec<usize>> = lines.iter().map(of_line).collect();
        // The names of positions and lines, made of the choices on their axes.
        let along = |cell: &usize| {
            let names = free.iter().map(|axis| choice(*axis, self.known.cells[*cell].places[*axis]));
            names.collect::<Vec<String>>().join(", ")
        };
        let by = Side {
            axis: free.iter().map(|axis| axes[*axis].name.get_ref().clone()).collect::<Vec<_>>().join(", "),
            names: grid.first().map(|line| line.iter().map(along).collect()).unwrap_or_default(),
        };
        let over = Side {
            axis: over.map(|axis| axes[axis].name.get_ref().clone()).unwrap_or_default(),
            names: lines.iter().map(|place| over.zip(*place).map_or(String::new(), |(a, p)| choice(a, p))).collect(),
        };
        Ok(Grid { over, by, cells: grid })
    }

    /// Returns the choices on `over` in drawing order, or a single entry without a choice if there is no `over`.
    fn lines(self, over: Option<usize>) -> Result<Vec<Option<usize>>, Fault> {
        let order = &self.plot.order;
        let Some(axis) = over else {
            return match order.first() {
                Some(choice) => Err(self.source.fault(choice, "plots.order", "`order` needs `over`")),
                None => Ok(vec![None]),
            };
        };
        if order.is_empty() {
            return Ok((0..self.known.definition.axes[axis].choices.len()).map(Some).collect());
        }
        order.iter().map(|choice| self.known.place(axis, choice, "plots.order").map(Some)).collect()
    }

    /// Returns the index of the named axis, on which `at` must not choose.
    fn axis(self, name: Option<&Text>, field: &str) -> Result<Option<usize>, Fault> {
        let Some(name) = name else { return Ok(None) };
        let found = self.known.axis(name, field)?;
        if self.plot.at.contains_key(name.get_ref()) {
            let what = format!("`at` also has a choice on the axis {:?}", name.get_ref());
            return Err(self.source.fault(name, field, what));
        }
        Ok(Some(found))
    }
}
