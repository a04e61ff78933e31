//! Workloads of the hot paths that execute the same instructions in every run, and the baseline of their counts.
//!
//! The bench `instructions` counts the instructions with Callgrind and compares the counts with `baseline.txt`. Unlike
//! a time, an instruction count does not depend on the load of the machine, so that a change by a few per cent is
//! significant.

pub mod acks;
pub mod baseline;
pub mod transfer;
