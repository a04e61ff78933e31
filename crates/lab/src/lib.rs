//! Experiments on transport protocols, defined as data.
//!
//! An experiment file defines the senders, the network, the parameters to vary, the metrics, and the results of a
//! paper, row by row, each with a rule. [`experiment::Experiment::read`] checks the file, [`runner::run`] runs it, and
//! [`judge::judge`] decides which rows are reproduced. [`library`] contains the experiments of the papers. `docs/lab.md`
//! describes the format. The items of the library are for the program and its tests.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod adversary;
pub mod args;
mod card;
mod cell;
mod cost;
mod definition;
pub mod documents;
pub mod experiment;
mod expression;
pub mod judge;
pub mod library;
pub mod measure;
pub mod origin;
pub mod page;
pub mod papers;
pub mod plot;
mod probing;
mod random;
mod real;
pub mod record;
mod results;
pub mod rule;
pub mod runner;
pub mod series;
mod speed;
pub mod stack;
mod stats;
mod stopwatch;
mod table;
mod watching;
mod world;
mod xplot;

pub use definition::Kind;
