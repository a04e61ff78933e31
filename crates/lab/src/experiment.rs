//! A checked definition and the setups of its cells.

mod calls;
mod cards;
mod check;
mod host;
mod plots;
mod prepare;
pub(crate) mod rows;
mod tables;
mod traffic;

use longhaul_link::topology::Duplex;
use longhaul_tcp::Config;
use longhaul_units::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::card::Card;
use crate::cell::{Cell, Chosen};
use crate::definition::{self, Definition, Fault, Text};
use crate::expression::{Call, Expression};
use crate::plot::Plot;
use crate::probing::ProbeSetup;
use crate::series::SeriesSetup;
use crate::stack::Stack;
use crate::table::Table;
pub(crate) use check::can_run;
pub(crate) use rows::Relative;
pub use rows::Row;
pub(crate) use traffic::{TrafficSetup, WorkloadSetup};

/// A valid experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Text of the experiment's file, with all choices.
    pub(crate) text: String,
    /// Contents of the experiment's file.
    pub definition: Definition,
    /// The cells, one per combination of choices.
    pub cells: Vec<Cell>,
    pub(crate) setups: Vec<CellSetup>,
    /// For each metric, in order, how it relates cells to each other.
    pub(crate) relatives: Vec<Option<Relative>>,
    /// The rows to judge.
    pub rows: Vec<Row>,
    /// The pictures to draw.
    pub plots: Vec<Plot>,
    /// The tables for documents.
    pub tables: Vec<Table>,
    /// The lines of the scorecard.
    pub(crate) cards: Vec<Card>,
}

#[derive(Clone, Debug)]
pub(crate) struct CellSetup {
    /// The shared links in a row, at least one. `there` leads from the senders to the receivers.
    pub(crate) links: Vec<Duplex>,
    pub(crate) flows: Vec<FlowSetup>,
    pub(crate) traffic: Vec<TrafficSetup>,
    pub(crate) workloads: Vec<WorkloadSetup>,
    pub(crate) probes: Vec<ProbeSetup>,
    pub(crate) duration: Span,
    pub(crate) real_time: bool,
    pub(crate) metrics: Vec<Expression>,
    pub(crate) series: Vec<SeriesSetup>,
    /// Folder for captures of all flows.
    pub(crate) captures: Option<PathBuf>,
}

impl CellSetup {
    /// Returns the first shared link, which is the only one in most cells.
    pub(crate) fn bottleneck(&self) -> &Duplex {
        &self.links[0]
    }

    pub(crate) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.metrics.iter().flat_map(Expression::calls)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct FlowSetup {
    pub(crate) name: String,
    pub(crate) count: u32,
    pub(crate) config: Arc<Config>,
    /// Transport other than longhaul, for which the configuration is not used.
    pub(crate) foreign: Option<Foreign>,
    pub(crate) bytes: u64,
    /// Size in bytes of a message and the interval between messages, if the application writes messages.
    pub(crate) messages: Option<(u64, Span)>,
    pub(crate) after: Option<usize>,
    pub(crate) hosts: Option<usize>,
    /// Whether the flows' hosts start with cached metrics of a connection that filled the path.
    pub(crate) knows_path: bool,
    pub(crate) arrival_times: bool,
    pub(crate) receive_hold: Span,
    /// Interval of the hosts' timers, if they are coarse.
    pub(crate) tick: Option<Span>,
    /// Indices of the links that they cross.
    pub(crate) hops: Range<usize>,
    pub(crate) start: Span,
    pub(crate) apart: Span,
    pub(crate) spread: Span,
    pub(crate) reads_after: Span,
    /// The senders' access link; `there` leads away from the host.
    pub(crate) left: Duplex,
    /// The receivers' access link; `there` leads away from the host.
    pub(crate) right: Duplex,
}

/// A transport other than longhaul, with the name of its congestion control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// The kernel's TCP.
    Kernel(String),
    /// QUIC of picoquic's demo program.
    Picoquic(String),
    /// A stack that the program has added, by name. It runs in virtual time only.
    Stack(&'static str, String),
}

impl Foreign {
    fn picoquic(congestion: &str) -> Result<Self, String> {
        let told = || format!("picoquic has c4, bbr and cubic, not {congestion:?}");
        ["c4", "bbr", "cubic"].contains(&congestion).then(|| Self::Picoquic(congestion.into())).ok_or_else(told)
    }

    fn of_stack(stack: &'static dyn Stack, congestion: &str) -> Result<Self, String> {
        stack.check(congestion).map(|()| Self::Stack(stack.name(), congestion.into()))
    }

    fn is_in_virtual_time(&self) -> bool {
        matches!(self, Self::Stack(..))
    }
}

impl std::fmt::Display for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Kernel(_) => "the kernel's TCP",
            Self::Picoquic(_) => "picoquic",
            Self::Stack(name, _) => name,
        })
    }
}

impl Experiment {
    /// Reads and checks the text of a file.
    ///
    /// # Errors
    /// Returns the first fault of the text and its position.
    pub fn read(file: &str, text: &str) -> Result<Self, Fault> {
        Self::with_choices(file, text, &[])
    }

    /// Reads and checks the text of a file with additional choices, given as pairs of axis and choice, after those of
    /// `add` in the text.
    ///
    /// # Errors
    /// Returns the first fault of the text or of the choices, with a position in the text.
    pub fn with_choices(file: &str, text: &str, choices: &[(String, String)]) -> Result<Self, Fault> {
        longhaul_zoo::register().map_err(|error| Fault::at(file, text, 0..0, "", error))?;
        let mut definition = definition::read(file, text)?;
        let source = Source { file, text };
        prepare::add(&mut definition, choices, source)?;
        prepare::set_defaults(&mut definition);
        check::definition(&definition, source)?;
        let cells = Cell::all(&definition);
        let setups = check::setups(&definition, &cells, source)?;
        let known = Lookup { definition: &definition, cells: &cells, source };
        let relatives = definition.metrics.values().map(|metric| Relative::read(known, metric));
        let relatives = relatives.collect::<Result<_, _>>()?;
        let (rows, plots, tables) = (rows::read(known)?, plots::read(known)?, tables::read(known)?);
        let cards = cards::read(known)?;
        Ok(Self { text: text.to_owned(), definition, cells, setups, relatives, rows, plots, tables, cards })
    }

    /// Returns the name of the experiment, which is also that of its folder of results.
    pub fn id(&self) -> &str {
        self.definition.id.get_ref()
    }

    /// Returns the names of the choices on an axis, or none if there is no such axis.
    pub fn choices(&self, axis: &str) -> impl Iterator<Item = &str> {
        let axis = self.definition.axes.iter().find(move |known| known.name.get_ref() == axis);
        axis.into_iter().flat_map(|axis| &axis.choices).map(|choice| choice.name.get_ref().as_str())
    }

    /// Returns the choice of a cell on each axis, as pairs of names.
    pub(crate) fn choices_of(&self, cell: usize) -> impl Iterator<Item = (&str, &str)> {
        let places = self.cells.get(cell).map_or(&[][..], |cell| &cell.places);
        let axes = self.definition.axes.iter().zip(places);
        axes.map(|(axis, place)| (axis.name.get_ref().as_str(), axis.choices[*place].name.get_ref().as_str()))
    }

    /// Returns the cells that have one of the given choices on each named axis. On other axes, any choice matches.
    ///
    /// # Errors
    /// Returns an error if there is no such axis or choice.
    pub fn cells_at(&self, at: &[(String, String)]) -> Result<BTreeSet<usize>, String> {
        let (definition, mut chosen) = (&self.definition, Chosen::new());
        for (name, choice) in at {
            let place = definition.axis(name).and_then(|axis| Ok((axis, definition.axes[axis].place(choice)?)));
            let (axis, place) = place.map_err(|what| format!("{name}={choice}: {}: {what}", self.id()))?;
            chosen.entry(axis).or_default().push(place);
        }
        Ok((0..self.cells.len()).filter(|cell| self.cells[*cell].is_at(&chosen)).collect())
    }
}

/// Choices by axis, at most one on each.
type Places = BTreeMap<usize, usize>;

/// A definition and its cells, in which rows, pictures and tables look up axes, choices and metrics.
#[derive(Clone, Copy)]
struct Lookup<'a> {
    definition: &'a Definition,
    cells: &'a [Cell],
    source: Source<'a>,
}

impl Lookup<'_> {
    fn axis(self, name: &Text, field: &str) -> Result<usize, Fault> {
        self.definition.axis(name.get_ref()).map_err(|what| self.source.fault(name, field, what))
    }

    fn place(self, axis: usize, choice: &Text, field: &str) -> Result<usize, Fault> {
        let axis = &self.definition.axes[axis];
        axis.place(choice.get_ref()).map_err(|what| self.source.fault(choice, field, what))
    }

    fn metric(self, name: &Text, field: &str) -> Result<usize, Fault> {
        self.definition.metric(name.get_ref()).map_err(|what| self.source.fault(name, field, what))
    }

    /// Returns the choice on each axis that `at` names.
    fn at(self, at: &BTreeMap<String, Text>, field: &str) -> Result<Places, Fault> {
        let chosen = |(name, choice): (&String, &Text)| {
            let axis = self.definition.axis(name).map_err(|what| self.source.fault(choice, field, what))?;
            Ok((axis, self.place(axis, choice, field)?))
        };
        at.iter().map(chosen).collect()
    }
}

#[derive(Clone, Copy, Debug)]
struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn fault(self, at: &Text, field: &str, what: impl std::fmt::Display) -> Fault {
        Fault::at(self.file, self.text, at.span(), field, what)
    }

    /// Creates a fault at a field that is not a string, in the same table as the text `near`.
    fn beside(self, near: &Text, field: &str, what: impl std::fmt::Display) -> Fault {
        Fault::beside(self.file, self.text, near.span(), field, what)
    }
}
