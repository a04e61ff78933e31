//! Congestion control in virtual time: goodput, delay, fairness, start-up, and receivers that send false feedback.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod bbr;
mod copa_cubic;
mod delay_based;
mod first_write;
mod fused_capacity;
mod handover;
mod handover_slow_start;
mod liars;
mod longer_route;
mod one_way_delay;
mod quick_start;
mod rc3;
mod resume;
mod router_controllers;
mod slow_start_variants;
mod stale_memory;
mod starts_jump;
mod westwood_family;
