//! Contents of an experiment file (TOML), parsed by [`read`]. `docs/lab.md` describes the fields.

mod axis;
mod fault;
mod place;
mod plot;
mod probe;
mod series;
mod setting;
mod table;
mod texts;
mod traffic;
mod workload;

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

pub use axis::{Axis, Choice};
pub use fault::Fault;
pub use plot::{Expected, Plot};
pub use probe::Probe;
pub use series::Series;
pub use setting::Setting;
pub use table::{Column, Table, Word};
pub use texts::Texts;
pub use traffic::Traffic;
pub use workload::Workload;

/// A string that may contain variables of the axes, such as `"--rate {rate}"`, with its position in the file.
pub type Text = Spanned<String>;

/// An experiment file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Definition {
    /// Identifier: lower-case letters, digits and dashes.
    pub id: Text,
    /// One-line description.
    pub title: String,
    /// The paper, with section, figure or table.
    pub source: String,
    /// Runs per cell. They differ in their seeds.
    pub runs: u32,
    /// Runs per cell with `--quick`.
    pub quick_runs: u32,
    /// Maximum duration of a run.
    pub duration: Text,
    /// Whether runs are made in real time, over real sockets. The senders are in a network namespace behind the
    /// emulated link.
    #[serde(default)]
    pub real_time: bool,
    /// Additional choices by axis name, for example a controller that the file does not list.
    #[serde(default)]
    pub add: BTreeMap<String, Vec<Text>>,
    /// The parameters to vary. Each combination of choices is a cell.
    #[serde(default)]
    pub axes: Vec<Axis>,
    /// The link that all flows share, or several links in a row from the senders to the receivers.
    pub bottleneck: Texts,
    /// The flows.
    #[serde(default)]
    pub flows: Vec<Flow>,
    /// Cross traffic without congestion control.
    #[serde(default)]
    pub traffic: Vec<Traffic>,
    /// Workloads of short-lived connections.
    #[serde(default)]
    pub workloads: Vec<Workload>,
    /// Tools that measure the bottleneck with their own packets.
    #[serde(default)]
    pub probes: Vec<Probe>,
    /// The metrics of a run, by name.
    pub metrics: BTreeMap<String, Metric>,
    /// The values recorded over time, by name.
    #[serde(default)]
    pub series: BTreeMap<String, Series>,
    /// The pictures.
    #[serde(default)]
    pub plots: Vec<Plot>,
    /// The tables for documents.
    #[serde(default)]
    pub tables: Vec<Table>,
    /// The results of the paper.
    #[serde(default)]
    pub rows: Vec<Row>,
}

/// A group of equal connections.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Flow {
    /// Name that metrics refer to.
    pub name: Text,
    /// Number of connections.
    pub count: Option<Setting>,
    /// `longhaul`, the default, or `kernel` for the kernel's TCP, which only experiments in real time can have.
    pub transport: Option<Text>,
    /// Congestion controller, in the syntax of the registry. For the kernel's TCP, its name in the kernel.
    pub congestion: Text,
    /// Bytes that each connection sends. Without it, the connections never end.
    pub bytes: Option<Text>,
    /// Bytes of a message. The sending application writes one each `message-every`, instead of as much as it can. Only
    /// experiments in real time can have messages.
    pub message: Option<Text>,
    /// Time between the messages.
    pub message_every: Option<Text>,
    /// The flows that must end before these begin. `start` counts from that time.
    pub after: Option<Text>,
    /// The flows whose hosts these use, which requires the same congestion controller: what those hosts have cached
    /// about the path is available to these flows. Without it, they have their own hosts.
    pub hosts: Option<Text>,
    /// The links that they cross if there are several: `2`, or `1-3`. Without it, all.
    pub hops: Option<Setting>,
    /// Start time of the first connection.
    pub start: Option<Text>,
    /// Time between the starts of two successive connections.
    pub apart: Option<Text>,
    /// Upper bound of a random delay of each start, drawn from the seed.
    pub start_spread: Option<Text>,
    /// Time that the receiving applications wait before they read. Their first read opens the whole window at once
    /// and sends one more ACK.
    pub reads_after: Option<Text>,
    /// The sender's access link.
    pub left: Option<Text>,
    /// The receiver's access link. Its upstream direction leads away from the receiver.
    pub right: Option<Text>,
    /// Other settings of both ends.
    #[serde(default)]
    pub tcp: Tcp,
}

/// Connection settings. Fields without a value keep the defaults of [`longhaul_sim::full_segments`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tcp {
    /// Payload in bytes of a segment with timestamps.
    pub segment: Option<Setting>,
    /// Maximum receive window in bytes.
    pub window: Option<Setting>,
    /// Send buffer in bytes.
    pub send_buffer: Option<Setting>,
    /// Segments per ACK.
    pub ack_every: Option<Setting>,
    /// Maximum delay of an ACK.
    pub ack_delay: Option<Setting>,
    /// Whether ECN is requested.
    pub ecn: Option<Setting>,
    /// Whether SACK is offered.
    pub sack: Option<Setting>,
    /// Whether the packet size is searched (DPLPMTUD, RFC 8899), as by default outside the lab. Otherwise, segments
    /// have their full size from the start.
    pub search_mtu: Option<Setting>,
    /// Whether segments are joined to longer bursts and read together, as by default outside the lab.
    pub moderation: Option<Setting>,
    /// Time for which the receiver's network card holds packets to merge them.
    pub receive_hold: Option<Setting>,
    /// Whether timestamps are offered (RFC 7323).
    pub timestamps: Option<Setting>,
    /// Whether the sender paces. Hosts at the time of the papers do not.
    pub paced: Option<Setting>,
    /// Whether the window grows by acknowledged bytes (RFC 3465). Hosts at the time of the papers count ACKs.
    pub byte_counting: Option<Setting>,
    /// Initial slow-start threshold in bytes, as if left by an earlier connection, or `infinite`.
    pub threshold: Option<Setting>,
    /// Minimum by which the retransmission timeout exceeds the RTT.
    pub min_rto: Option<Setting>,
    /// Whether pairs of segments are sent in flipped order to measure the capacity of the narrow link (TCPProbe).
    pub pairs: Option<Setting>,
    /// Whether the hosts trust routers. The default is whether the congestion controller asks them.
    pub routers_answer: Option<Setting>,
    /// Whether longhaul's extensions are offered: arrival times and others.
    pub extensions: Option<Setting>,
    /// Whether senders that a metric observes at each ACK request the arrival times of segments.
    pub arrival_times: Option<Setting>,
    /// Whether hosts cache path metrics of earlier connections: slow-start threshold and RTT (RFC 9040).
    pub cache: Option<Setting>,
    /// Whether these caches begin with the window, rate and RTT of a connection that filled the path.
    pub known_path: Option<Setting>,
}

/// A metric.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Metric {
    /// The expression.
    pub value: Text,
    /// Its unit, as printed.
    pub unit: String,
    /// The choices that turn a cell into the base cell to which it is related. The value of a run is then `form` of
    /// the measured value and the median over the runs of the base cell.
    #[serde(default)]
    pub relative_to: BTreeMap<String, Text>,
    /// How the two values are combined. The default is their ratio.
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
    /// Identifier used in citations.
    pub id: Text,
    /// The metric.
    pub metric: Option<Text>,
    /// The choice on each axis except the one in `over`.
    #[serde(default)]
    pub at: BTreeMap<String, Text>,
    /// An axis. There is one such row per choice on it, and the choice is appended to the identifier.
    pub each: Option<Text>,
    /// The axis along which values are compared.
    pub over: Option<Text>,
    /// The choices on that axis, in the order of the paper.
    #[serde(default)]
    pub order: Vec<Text>,
    /// The value or values of the paper, if it gives any.
    pub paper: Option<Values>,
    /// The standard deviation that the paper gives for each value, or one for all.
    pub deviation: Option<Values>,
    /// Statistic over the runs. The default is the median.
    #[serde(default)]
    pub statistic: Statistic,
    /// Whether runs without a value are skipped if at least one run has a value. Otherwise, a single such run leaves
    /// the row without a value.
    #[serde(default)]
    pub skip_missing: bool,
    /// The rule, parsed by [`crate::rule::Rule`].
    pub rule: Option<Text>,
    /// The reason why the row is not reproducible: what is missing.
    pub not_reproducible: Option<String>,
    /// A note printed with the row.
    #[serde(alias = "remark")]
    pub note: Option<String>,
}

/// Statistic over the runs of a cell.
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
    /// The minimum.
    Least,
    /// The maximum.
    Most,
}

/// One number or a list.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Values {
    /// A single number.
    One(f64),
    /// Several numbers, in the order of the row.
    Many(Vec<f64>),
}

impl Values {
    /// Returns all numbers.
    #[must_use]
    pub fn list(&self) -> &[f64] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}

/// Parses the text of a file; `file` is its name.
///
/// # Errors
/// Returns an error with file, line and field if the text is not TOML, or has unknown or missing fields.
pub fn read(file: &str, text: &str) -> Result<Definition, Fault> {
    toml::from_str(text).map_err(|error| Fault::of_toml(file, text, &error))
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
