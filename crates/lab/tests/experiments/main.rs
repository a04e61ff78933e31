//! Experiments in virtual time: measures compared with computed values, their plots, xplot files and
//! web page, and the tables in `docs`.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod written;

mod claims;
mod documents;
mod hosts;
mod measures;
mod page;
mod path_estimates;
mod plots;
mod rows_of_links;
mod workloads;
mod xplot;
