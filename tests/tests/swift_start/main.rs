//! NASA's tests of Swift Start in virtual time: the tables and figures of TM-2004-212938, and its failures.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod again;
mod failures;
mod figures;
mod hand_over;
mod hardened;
mod tables;
mod testbed;
