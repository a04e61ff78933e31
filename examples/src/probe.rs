//! The example `probe`: measures a path by packets sent for nothing else, against `receive --reflect`, and by a transfer to a
//! plain `receive`.
//!
//! | module | does |
//! |---|---|
//! | [`options`] | the command line, and which methods there are |
//! | [`run`] | one method after the other |
//! | [`socket`] | packets out at precise times |
//! | [`answers`] | answers in, with the kernel's time |
//! | [`reach`] | whether anybody answers, and up to which size |
//! | [`prober`] | drives a method of `longhaul_probe` until it is done |
//! | [`transfer`] | TCPProbe: a transfer whose segments measure |
//! | [`hops`] | at which hop packets queue |
//! | [`doubts`] | what speaks against a finding |
//! | [`path`] | what all packets together say: round trip, buffer, loss |
//! | [`report`] | what is printed |

pub mod answers;
pub mod doubts;
pub mod hops;
pub mod options;
pub mod path;
pub mod prober;
pub mod reach;
pub mod report;
pub mod run;
pub mod socket;
pub mod transfer;
