//! No congestion controller allocates memory for an ACK, in avoidance or in recovery.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use allocation_counter::measure;
use longhaul_instructions::acks::{ACKS_A_LOSS, Sender, State, controllers};

/// Buffers grow to their full size until the second loss. Between the second loss and the third, nothing is allocated.
#[test]
fn an_ack_allocates_nothing() {
    for controller in controllers() {
        for state in [State::Avoidance, State::Recovery] {
            let mut sender = Sender::new(controller, state).unwrap();
            let mut step = |acks| (0..acks).for_each(|_| sender.step());
            step(ACKS_A_LOSS + 1);
            assert_eq!(measure(|| step(ACKS_A_LOSS - 1)).count_total, 0, "{controller}: {state:?}");
        }
    }
}
