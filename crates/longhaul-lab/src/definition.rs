//! An experiment as its file has it: TOML, read with [`read`]. What the words mean is in `docs/lab.md`.

mod axis;
mod fault;
mod links;
mod place;
mod plot;
mod probe;
mod series;
mod setting;
mod traffic;
mod workload;

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

pub use axis::{Axis, Choice};
pub use fault::Fault;
pub use links::Links;
pub use plot::{Expected, Plot};
pub use probe::Probe;
pub use series::Series;
pub use setting::Setting;
pub use traffic::Traffic;
pub use workload::Workload;

/// A text that may name variables of the axes: `"--rate {rate}"`. It remembers where it stands.
pub type Text = Spanned<String>;

/// A file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Definition {
    /// By what it is called: lower-case letters, digits and dashes.
    pub id: Text,
    /// A line about it.
    pub title: String,
    /// The paper, and where in it.
    pub source: String,
    /// Runs of each cell, which differ in their seed.
    pub runs: u32,
    /// Runs of each cell if it has to be quick.
    pub quick_runs: u32,
    /// How long a run is at most.
    pub duration: Text,
    /// Further choices on axes, by the axis' name: how somebody's own controller is put into an experiment.
    #[serde(default)]
    pub add: BTreeMap<String, Vec<Text>>,
    /// What is varied. Each combination is a cell.
    #[serde(default)]
    pub axes: Vec<Axis>,
    /// The link that all flows share, or several in a row.
    pub bottleneck: Links,
    /// Who sends what.
    #[serde(default)]
    pub flows: Vec<Flow>,
    /// What else crosses the bottleneck.
    #[serde(default)]
    pub traffic: Vec<Traffic>,
    /// Connections that come and go.
    #[serde(default)]
    pub workloads: Vec<Workload>,
    /// What measures the bottleneck with packets of its own.
    #[serde(default)]
    pub probes: Vec<Probe>,
    /// What is measured of a run: an expression by each name.
    pub metrics: BTreeMap<String, Metric>,
    /// What is recorded over time, by name.
    #[serde(default)]
    pub series: BTreeMap<String, Series>,
    /// What is drawn.
    #[serde(default)]
    pub plots: Vec<Plot>,
    /// What the paper says.
    pub rows: Vec<Row>,
}

/// Some connections of one kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Flow {
    /// By which metrics know them.
    pub name: Text,
    /// How many.
    pub count: Option<Setting>,
    /// Their congestion control, as the registry reads it.
    pub congestion: Text,
    /// Bytes that each of them sends; without, it never ends.
    pub bytes: Option<Text>,
    /// The flows after whose end they begin; `start` then counts from there.
    pub after: Option<Text>,
    /// The flows whose hosts they use, with the same congestion control: what those hosts have learnt is theirs. Without, they have their
    /// own.
    pub hosts: Option<Text>,
    /// Which of several links they cross: `2`, or `1-3`; all without it.
    pub hops: Option<Setting>,
    /// When the first begins.
    pub start: Option<Text>,
    /// How long after one the next begins.
    pub apart: Option<Text>,
    /// Each begins later by a random time of at most so much, which the seed decides.
    pub start_spread: Option<Text>,
    /// How long the receivers' applications wait before they read; their first read tells of the whole window at once, by an ACK more.
    pub reads_after: Option<Text>,
    /// The sender's link to the bottleneck.
    pub left: Option<Text>,
    /// The receiver's link to the bottleneck: up leads away from the receiver.
    pub right: Option<Text>,
    /// What else is set at both ends.
    #[serde(default)]
    pub tcp: Tcp,
}

/// Settings of a connection's ends. What isn't given is as [`longhaul_sim::full_segments`] has it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tcp {
    /// Payload of a segment with timestamps, bytes.
    pub segment: Option<Setting>,
    /// The most that the receiver's window may be, bytes.
    pub window: Option<Setting>,
    /// The send buffer, bytes.
    pub send_buffer: Option<Setting>,
    /// Segments that an ACK covers.
    pub ack_every: Option<Setting>,
    /// How long an ACK may wait.
    pub ack_delay: Option<Setting>,
    /// Whether ECN is asked for.
    pub ecn: Option<Setting>,
    /// Whether SACK is offered.
    pub sack: Option<Setting>,
    /// Whether timestamps are offered (RFC 7323).
    pub timestamps: Option<Setting>,
    /// Whether the sender paces; hosts of the papers' time don't.
    pub paced: Option<Setting>,
    /// Whether its window grows by bytes (RFC 3465), and not by the ACK; hosts of the papers' time counted ACKs.
    pub byte_counting: Option<Setting>,
    /// Where the first slow start ends at the latest, bytes: what an earlier connection left; or `infinite`.
    pub threshold: Option<Setting>,
    /// The least that the retransmission timeout is above the round trip.
    pub min_rto: Option<Setting>,
    /// Whether pairs of segments leave in flipped order, to measure the narrow link (TCPProbe).
    pub pairs: Option<Setting>,
    /// Whether hosts remember what connections learnt of a path: slow-start threshold and round trip (RFC 9040).
    pub cache: Option<Setting>,
}

/// Something to be measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Metric {
    /// The expression.
    pub value: Text,
    /// Its unit, as it is printed.
    pub unit: String,
    /// The choices that make of each cell the one that it is related to: the value is then what `form` makes of a run's and the median of
    /// that cell's.
    #[serde(default)]
    pub relative_to: BTreeMap<String, Text>,
    /// What is made of both; their ratio if it isn't given.
    pub form: Option<Form>,
}

/// What is made of a value x and the one that it is related to, y.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// x / y: G and L of draft-irtf-iccrg-tcpeval-01, section 6.1.
    #[default]
    Ratio,
    /// (y - x) / y: harm, where more is better (Ware et al., HotNets 2019).
    Harm,
    /// (x - y) / x: harm, where less is better.
    HarmOfLess,
}

/// What the paper says, and how it is to be judged.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Row {
    /// By which it is cited.
    pub id: Text,
    /// The metric.
    pub metric: Option<Text>,
    /// The choice on each axis, but for the one that `over` names.
    #[serde(default)]
    pub at: BTreeMap<String, Text>,
    /// An axis for each choice of which there is such a row; the choice is added to its id.
    pub each: Option<Text>,
    /// The axis along which values are compared.
    pub over: Option<Text>,
    /// The choices on it, in the paper's order.
    #[serde(default)]
    pub order: Vec<Text>,
    /// The paper's value or values, where it has any.
    pub paper: Option<Values>,
    /// The standard deviation that the paper gives with each value, or with all of them.
    pub deviation: Option<Values>,
    /// What is taken of the runs; the median if it isn't given.
    #[serde(default)]
    pub statistic: Statistic,
    /// Whether runs without a value are left out, as long as one has a value; a single one leaves the row without otherwise.
    #[serde(default)]
    pub skip_missing: bool,
    /// The rule, as [`crate::rule::Rule`] reads it.
    pub rule: Option<Text>,
    /// Why it isn't reproducible: what is missing.
    pub not_reproducible: Option<String>,
    /// What is to be known about it.
    pub remark: Option<String>,
}

/// What stands for the runs of a cell.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// The middle one, or the mean of the two in the middle.
    #[default]
    Median,
    /// Their mean: of a comparison, the share of runs in which it holds.
    Mean,
    /// Their standard deviation, of a population.
    Deviation,
    /// The least of them.
    Least,
    /// The most of them.
    Most,
}

/// A number or some.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Values {
    /// One.
    One(f64),
    /// In the order of the row.
    Many(Vec<f64>),
}

impl Values {
    /// All of them.
    #[must_use]
    pub fn list(&self) -> &[f64] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}

/// Reads a file's text; `file` is its name.
///
/// # Errors
/// The text is no TOML, or has fields that are none, or lacks some: with file, line and field.
pub fn read(file: &str, text: &str) -> Result<Definition, Fault> {
    toml::from_str(text).map_err(|error| Fault::of_toml(file, text, &error))
}
