//! The example `probe`: measures a path by packets sent for nothing else, against `receive --reflect`.
//!
//! | module | does |
//! |---|---|
//! | [`options`] | the command line, and which methods there are |
//! | [`socket`] | packets out at precise times, answers in |
//! | [`reach`] | whether anybody answers, and up to which size |
//! | [`prober`] | drives a method of `longhaul::cc::estimate::active` until it is done |
//! | [`path`] | what all packets together say: round trip, buffer, loss |
//! | [`report`] | what is printed |

pub mod options;
pub mod path;
pub mod prober;
pub mod reach;
pub mod report;
pub mod socket;
