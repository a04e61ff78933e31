//! Swift Start in NASA's testbed (TM-2004-212938) in virtual time: its failures, and the hardened variant. The tables
//! and figures of the report are experiments of the laboratory (`swift-start-*`).

mod again;
mod failures;
mod hand_over;
mod hardened;
mod testbed;
