//! Experiments on transport protocols as data.
//!
//! A file says who sends what over which network, what is varied, what is measured, and what a paper says of it, row by row, with a rule
//! for each. [`experiment::Experiment::read`] checks it, [`runner::run`] runs it in virtual time and [`real::run`] over real sockets,
//! [`judge::judge`] says which rows are reproduced, [`results`] keeps it in a folder. [`library`] holds the experiments of the papers. `docs/lab.md` has the format.

pub mod args;
pub mod cell;
pub mod cost;
pub mod definition;
pub mod experiment;
pub mod expression;
pub mod judge;
pub mod library;
pub mod measure;
mod number;
pub mod page;
pub mod plot;
pub mod probing;
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
pub mod watching;
pub mod world;
pub mod xplot;
