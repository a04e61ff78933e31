//! Experiments on transport protocols, defined as data.
//!
//! An experiment file defines the senders, the network, the parameters to vary, the metrics, and the results of a
//! paper, row by row, each with a rule. [`experiment::Experiment::read`] checks the file, [`runner::run`] runs it in
//! virtual time and [`real::run`] over real sockets, [`judge::judge`] decides which rows are reproduced, and
//! [`results`] stores everything in a folder. [`library`] contains the experiments of the papers. `docs/lab.md`
//! describes the format.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod args;
pub mod cell;
pub mod cost;
pub mod definition;
pub mod documents;
pub mod experiment;
pub mod expression;
pub mod judge;
pub mod library;
pub mod measure;
mod number;
pub mod page;
pub mod plot;
pub mod probing;
pub mod random;
pub mod real;
pub mod record;
pub mod results;
pub mod rule;
pub mod runner;
pub mod series;
pub mod shard;
pub mod speed;
pub mod stats;
mod stopwatch;
pub mod table;
pub mod watching;
pub mod world;
pub mod xplot;
