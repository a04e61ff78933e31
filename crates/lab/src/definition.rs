//! Contents of an experiment file (TOML), parsed by [`read`]. `docs/lab.md` describes the fields; the comments here
//! cover only the rest.

mod fault;
mod setting;

use std::collections::BTreeMap;

use longhaul_units::named;
use serde::{Deserialize, Serialize};

pub(crate) use fault::Fault;
pub(crate) use setting::{Axis, Choice, Text, Texts};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Definition {
    /// Identifier: lower-case letters, digits and dashes.
    pub id: Text,
    pub title: String,
    pub source: String,
    pub runs: u32,
    pub quick_runs: u32,
    pub duration: Text,
    #[serde(default)]
    pub real_time: bool,
    /// The host of all flows and workloads that name none: a name in `hosts.toml`.
    pub host: Option<Text>,
    /// Settings that were fitted so that rows are reproduced. Each is a degree of freedom, which weakens the evidence.
    #[serde(default)]
    pub fitted: Vec<String>,
    #[serde(default)]
    pub add: BTreeMap<String, Vec<Text>>,
    #[serde(default)]
    pub axes: Vec<Axis>,
    pub bottleneck: Texts,
    #[serde(default)]
    pub flows: Vec<Flow>,
    #[serde(default)]
    pub traffic: Vec<Traffic>,
    #[serde(default)]
    pub workloads: Vec<Workload>,
    #[serde(default)]
    pub probes: Vec<Probe>,
    pub metrics: BTreeMap<String, Metric>,
    #[serde(default)]
    pub series: BTreeMap<String, Series>,
    #[serde(default)]
    pub plots: Vec<Plot>,
    #[serde(default)]
    pub tables: Vec<Table>,
    #[serde(default)]
    pub rows: Vec<Row>,
    /// Number of runs per cell for the scorecard, if it differs from `runs`.
    pub card_runs: Option<u32>,
    #[serde(default)]
    pub(crate) card: Vec<Card>,
}

impl Definition {
    pub(crate) fn axis(&self, name: &str) -> Result<usize, String> {
        let names = self.axes.iter().map(|axis| axis.name.get_ref());
        position(names, name).map_err(|known| format!("there is no axis {name:?}; there are: {known}"))
    }

    pub(crate) fn metric(&self, name: &str) -> Result<usize, String> {
        position(self.metrics.keys(), name).map_err(|known| format!("there is no metric {name:?}; there are: {known}"))
    }
}

impl Axis {
    pub(crate) fn place(&self, choice: &str) -> Result<usize, String> {
        let told =
            |known| format!("{choice:?} is not a choice on the axis {:?}; there are: {known}", self.name.get_ref());
        position(self.choices.iter().map(|choice| choice.name.get_ref()), choice).map_err(told)
    }
}

/// Returns the index of a name, or a list of all names.
fn position<'a>(mut names: impl Iterator<Item = &'a String> + Clone, wanted: &str) -> Result<usize, String> {
    let all = names.clone();
    let known = || all.map(String::as_str).collect::<Vec<_>>().join(", ");
    names.position(|name| name == wanted).ok_or_else(known)
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Flow {
    pub name: Text,
    pub count: Option<Text>,
    #[serde(alias = "stack")]
    pub transport: Option<Text>,
    pub congestion: Text,
    /// Number of bytes that each connection sends. Without it, the connections never end.
    pub bytes: Option<Text>,
    pub message: Option<Text>,
    pub message_every: Option<Text>,
    pub after: Option<Text>,
    pub hosts: Option<Text>,
    pub hops: Option<Text>,
    pub start: Option<Text>,
    pub apart: Option<Text>,
    pub start_spread: Option<Text>,
    /// Time that the receiving applications wait before they read. Their first read opens the whole window at once
    /// and sends one more ACK.
    pub reads_after: Option<Text>,
    pub left: Option<Text>,
    pub right: Option<Text>,
    pub host: Option<Text>,
    #[serde(default)]
    pub tcp: Tcp,
}

/// Connection settings by name. Those without a value are as in [`longhaul_sim::full_segments`], or as the host has them.
pub(crate) type Tcp = BTreeMap<String, Text>;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Metric {
    pub value: Text,
    pub unit: String,
    #[serde(default)]
    pub relative_to: BTreeMap<String, Text>,
    pub form: Option<Form>,
}

/// Combination of a value x and the base value y.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// x / y: G and L of draft-irtf-iccrg-tcpeval-01, section 6.1.
    #[default]
    Ratio,
    /// (y - x) / y: the harm if more is better (Ware et al., HotNets 2019).
    Harm,
    /// (x - y) / x: the harm if less is better.
    HarmOfLess,
}

/// A result of the paper and the rule that judges it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Row {
    pub id: Text,
    /// Claim of the source, in one sentence with its figure, table or section.
    pub claim: Option<Text>,
    #[serde(default)]
    pub kind: Kind,
    pub metric: Option<Text>,
    #[serde(default)]
    pub at: BTreeMap<String, Text>,
    pub each: Option<Text>,
    pub over: Option<Text>,
    #[serde(default)]
    pub order: Vec<Text>,
    pub paper: Option<Values>,
    pub deviation: Option<Values>,
    #[serde(default)]
    pub statistic: Statistic,
    #[serde(default)]
    pub skip_missing: bool,
    /// The rule, parsed by [`crate::rule::Rule`].
    pub rule: Option<Text>,
    pub not_reproducible: Option<String>,
    #[serde(alias = "remark")]
    pub note: Option<String>,
    /// `EXPERIMENT/ROW`: the row in which the cause of this row's failure is varied, computed or switched off.
    pub isolated_by: Option<Text>,
}

named! {
    /// Relation of a row to its source.
    #[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Kind, ALL {
        /// A statement of the source.
        #[default]
        Claim = "claim",
        /// A statement of the source under a condition that the source does not cover, or about another algorithm.
        Robustness = "robustness",
        /// A value that follows from the configuration or a formula: it tests the laboratory.
        Model = "model",
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// The median: the middle value, or the mean of the two middle values.
    #[default]
    Median,
    /// The mean. For a comparison, this is the share of runs in which it holds.
    Mean,
    /// The population standard deviation.
    Deviation,
    Least,
    Most,
}

impl Statistic {
    /// Returns whether the metric measures spread instead of a value.
    #[must_use]
    pub fn is_deviation(self) -> bool {
        self == Self::Deviation
    }
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Values {
    One(f64),
    /// Several numbers, in the order of the row.
    Many(Vec<f64>),
}

impl Values {
    pub fn list(&self) -> &[f64] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}

/// Parses the text of a file; `file` is its name.
pub(crate) fn read(file: &str, text: &str) -> Result<Definition, Fault> {
    toml::from_str(text).map_err(|error| Fault::of_toml(file, text, &error))
}

/// A picture. The required fields depend on its kind; `docs/lab.md` lists them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plot {
    /// File name without extension: lower-case letters, digits and dashes.
    pub id: Text,
    pub title: String,
    pub kind: Text,
    pub metric: Option<Text>,
    #[serde(default)]
    pub metrics: Vec<Text>,
    pub x: Option<Text>,
    pub y: Option<Text>,
    #[serde(default)]
    pub statistic: Statistic,
    #[serde(default)]
    pub skip_missing: bool,
    #[serde(default)]
    pub series: Vec<Text>,
    #[serde(default)]
    pub at: BTreeMap<String, Text>,
    pub by: Option<Text>,
    pub over: Option<Text>,
    #[serde(default)]
    pub order: Vec<Text>,
    #[serde(default)]
    pub band: bool,
    pub seed: Option<u64>,
    pub from: Option<Text>,
    pub to: Option<Text>,
    pub bin: Option<f64>,
    #[serde(default)]
    pub log: bool,
    #[serde(default)]
    pub log_y: bool,
    pub label: Option<String>,
    pub by_label: Option<String>,
    #[serde(default)]
    pub expected: Vec<Expected>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    pub value: f64,
    pub label: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Probe {
    pub name: Text,
    pub method: Text,
    pub start: Option<Text>,
    pub left: Option<Text>,
    pub tick: Option<Text>,
    pub skew: Option<Text>,
}

/// A value recorded during a run, for pictures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Series {
    pub value: Text,
    pub unit: String,
    pub every: Option<Text>,
    pub runs: Option<u32>,
}

/// A table of Markdown. Its texts may contain variables of the axes on which there is one choice: `{controller}`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Table {
    pub id: Text,
    pub title: Option<String>,
    #[serde(default)]
    pub shown: bool,
    pub lines: Text,
    #[serde(default)]
    pub order: Vec<Text>,
    pub sort: Option<Text>,
    pub keep: Option<usize>,
    pub label: Option<Text>,
    pub across: Option<Text>,
    #[serde(default)]
    pub at: BTreeMap<String, Texts>,
    pub columns: Vec<Column>,
}

/// A column. Its cells have a `value`, a `text`, the `best` value, or `words`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Column {
    pub head: Text,
    #[serde(default)]
    pub at: BTreeMap<String, Texts>,
    pub value: Option<Text>,
    pub digits: Option<Text>,
    pub never: Option<String>,
    pub also: Option<Text>,
    pub also_digits: Option<Text>,
    pub text: Option<Text>,
    pub safety: Option<Text>,
    pub best: Option<Text>,
    pub better: Option<Text>,
    #[serde(default)]
    pub words: Vec<Word>,
    pub otherwise: Option<String>,
    pub each: Option<Text>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Word {
    pub word: String,
    pub when: Text,
    #[serde(default)]
    pub at: BTreeMap<String, Texts>,
}

/// A line of the scorecard, or one per choice on the axis `each`. Its texts may contain variables of the axes on which
/// there is one choice.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Card {
    pub title: Text,
    pub value: Text,
    #[serde(default)]
    pub at: BTreeMap<String, Texts>,
    pub each: Option<Text>,
    /// The axis whose choices are counted if they miss the bar.
    pub count: Option<Text>,
    /// The axis whose choices are a random sample, so that the interval covers the choice of the sample.
    pub drawn: Option<Text>,
    pub better: Option<Text>,
    pub unit: Option<Text>,
    pub digits: Option<Text>,
    /// The requirement, parsed by [`crate::card::Bar`].
    pub bar: Option<Text>,
}

/// Cross traffic that does not react to congestion.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Traffic {
    pub name: Text,
    pub kind: Text,
    /// Rate of IP packets in bits per second; for `on-off`, during a burst. With a rate of 0, there is no traffic.
    pub rate: Text,
    pub packet: Text,
    pub way: Option<Text>,
    pub count: Option<Text>,
    pub hops: Option<Text>,
    /// Number of the random stream of its arrivals. With the same stream, seed, rate and size, arrivals are the same in
    /// all experiments. The default is a separate stream.
    pub stream: Option<Text>,
    pub phase: Option<Text>,
    pub start: Option<Text>,
    pub apart: Option<Text>,
    pub stop: Option<Text>,
    pub on: Option<Text>,
    pub off: Option<Text>,
    pub shape: Option<Text>,
    pub left: Option<Text>,
    pub right: Option<Text>,
    pub dscp: Option<Text>,
    pub ecn: Option<Text>,
}

/// Connections that arrive at random, exchange requests and responses, and close. Clients are on the receivers' side,
/// so that responses travel `there`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Workload {
    pub name: Text,
    pub kind: Text,
    pub load: Text,
    pub hops: Option<Text>,
    pub congestion: Text,
    /// Size of every response. Without it, sizes are Pareto-distributed.
    pub response: Option<Text>,
    pub start: Option<Text>,
    pub stop: Option<Text>,
    pub pairs: Option<Text>,
    #[serde(default)]
    pub left: Vec<Text>,
    #[serde(default)]
    pub right: Vec<Text>,
    pub host: Option<Text>,
    #[serde(default)]
    pub tcp: Tcp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_may_use_the_former_name_of_a_note() {
        let start = "id = 'x'\ntitle = ''\nsource = ''\nruns = 1\nquick-runs = 1\nduration = '1s'\nbottleneck = ''\n\
                     [metrics]\n";
        for key in ["note", "remark"] {
            let text = format!("{start}[[rows]]\nid = 'r'\n{key} = 'Why.'\n");
            assert_eq!(read("x.toml", &text).unwrap().rows[0].note.as_deref(), Some("Why."), "{key}");
        }
        assert!(read("x.toml", &format!("{start}[[rows]]\nid = 'r'\nnote = 'a'\nremark = 'b'\n")).is_err());
    }
}
