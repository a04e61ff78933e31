//! A definition that was found sound, and what each of its cells is to do.

mod calls;
mod check;
mod links;
mod plots;
mod prepare;
mod probe;
mod relative;
pub(crate) mod rows;
mod traffic;
mod workload;

use longhaul_link::topology::Duplex;
use longhaul_tcp::Config;
use longhaul_units::Span;
use std::ops::Range;
use std::sync::Arc;

use crate::cell::Cell;
use crate::definition::{self, Definition, Fault, Text};
use crate::expression::{Call, Expression};
use crate::plot::Plot;
use crate::probing::ProbeSetup;
use crate::series::SeriesSetup;
pub(crate) use check::can_run;
pub use relative::Relative;
pub use rows::Row;
pub use traffic::{TrafficKind, TrafficSetup};
pub use workload::{WorkloadKind, WorkloadSetup};

/// An experiment that can be run.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// What its file says.
    pub definition: Definition,
    /// Each combination of choices.
    pub cells: Vec<Cell>,
    /// What is done in each of them.
    pub setups: Vec<CellSetup>,
    /// How metrics relate cells to each other, in their order.
    pub relatives: Vec<Option<Relative>>,
    /// What is judged.
    pub rows: Vec<Row>,
    /// What is drawn.
    pub plots: Vec<Plot>,
}

/// What is done in a cell.
#[derive(Clone, Debug)]
pub struct CellSetup {
    /// The shared links in a row, one at least; `there` is from the senders to the receivers.
    pub links: Vec<Duplex>,
    /// Who sends.
    pub flows: Vec<FlowSetup>,
    /// What else crosses the bottleneck.
    pub traffic: Vec<TrafficSetup>,
    /// Connections that come and go.
    pub workloads: Vec<WorkloadSetup>,
    /// What measures the bottleneck.
    pub probes: Vec<ProbeSetup>,
    /// How long at most.
    pub duration: Span,
    /// What is measured, by the metrics' order.
    pub metrics: Vec<Expression>,
    /// What is recorded.
    pub series: Vec<SeriesSetup>,
}

impl CellSetup {
    /// The first of the shared links: the only one in most cells.
    #[must_use]
    pub fn bottleneck(&self) -> &Duplex {
        &self.links[0]
    }

    /// All measures that its metrics name.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.metrics.iter().flat_map(Expression::calls)
    }
}

/// Connections of one kind.
#[derive(Clone, Debug)]
pub struct FlowSetup {
    /// By which metrics know them.
    pub name: String,
    /// How many.
    pub count: u32,
    /// The settings of both ends.
    pub config: Arc<Config>,
    /// Bytes that each sends.
    pub bytes: u64,
    /// The place of the flows after whose end they begin.
    pub after: Option<usize>,
    /// The place of the flows whose hosts they use, if they have none of their own.
    pub hosts: Option<usize>,
    /// The links that they cross, by their places.
    pub hops: Range<usize>,
    /// When the first begins, and how long after one the next does.
    pub start: Span,
    /// See `start`.
    pub apart: Span,
    /// Each begins later by a random time of at most so much.
    pub spread: Span,
    /// How long its receiver waits before it reads.
    pub reads_after: Span,
    /// The senders' access links; `there` leads away from the host.
    pub left: Duplex,
    /// The receivers'.
    pub right: Duplex,
}

impl Experiment {
    /// Reads and checks a file's text.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(file: &str, text: &str) -> Result<Self, Fault> {
        Self::with_choices(file, text, &[])
    }

    /// The same with further choices on axes, each of them an axis and a choice, after those that the text has in `add`.
    ///
    /// # Errors
    /// What is wrong with the text or with these choices, and where in the text.
    pub fn with_choices(file: &str, text: &str, choices: &[(String, String)]) -> Result<Self, Fault> {
        let mut definition = definition::read(file, text)?;
        let source = Source { file, text };
        prepare::add(&mut definition, choices, source)?;
        check::definition(&definition, source)?;
        let cells = Cell::all(&definition);
        let setups = check::setups(&definition, &cells, source)?;
        let relatives = definition.metrics.values().map(|metric| Relative::read(&definition, &cells, metric, source));
        let relatives = relatives.collect::<Result<_, _>>()?;
        let rows = rows::expanded(&definition, source)?;
        let rows = rows.iter().map(|row| Row::read(&definition, &cells, row, source)).collect::<Result<Vec<_>, _>>()?;
        let plots = plots::read(&definition, &cells, source)?;
        Ok(Self { definition, cells, setups, relatives, rows, plots })
    }
}

/// Where faults are.
#[derive(Clone, Copy, Debug)]
struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn fault(self, at: &Text, field: &str, what: impl std::fmt::Display) -> Fault {
        Fault::at(self.file, self.text, at.span(), field, what)
    }

    /// Where that field stands beside a text in the same table: of fields that are no texts.
    fn beside(self, near: &Text, field: &str, what: impl std::fmt::Display) -> Fault {
        Fault::beside(self.file, self.text, near.span(), field, what)
    }
}
