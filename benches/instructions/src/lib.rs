//! Workloads of the hot paths that run the same instructions every time, and the baseline of how many those are.
//!
//! The bench `instructions` counts them with Callgrind and compares them with `baseline.txt`. An instruction count does
//! not depend on what else the machine does, so that a change of a few per cent can be told from noise.

pub mod acks;
pub mod baseline;
pub mod transfer;
