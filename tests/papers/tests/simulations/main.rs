//! Published algorithms in virtual time: goodput, delay, fairness, start-up, probes, receivers that send false feedback,
//! and experiments of papers.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod ack_frequency;
mod any_pair;
mod arrival_times;
mod bbr;
mod copa_cubic;
mod corpora;
mod delay_based;
mod first_write;
mod flipped_pairs;
mod formulas;
mod fused_capacity;
mod handover;
mod handover_slow_start;
mod liars;
mod longer_route;
mod one_way_delay;
mod probes;
mod quick_start;
mod rc3;
mod resume;
mod router_controllers;
mod satellite;
mod slow_start_variants;
mod stale_memory;
mod starts_jump;
mod streams;
mod swift_start;
mod tide;
mod westwood_family;
