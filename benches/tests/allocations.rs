//! No congestion controller allocates memory for an ACK, in avoidance or in recovery.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use longhaul_instructions::acks::{ACKS_A_LOSS, Sender, State, laws};

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is the system allocator's; the counter is a `Cell` without destructor, which allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `dealloc`'s contract, and all memory is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Buffers grow to their size until the second loss; from there to the next nothing does.
#[test]
fn an_ack_allocates_nothing() {
    for law in laws() {
        for state in [State::Avoidance, State::Recovery] {
            let mut sender = Sender::new(law, state).unwrap();
            for _ in 0..ACKS_A_LOSS + 1 {
                sender.step();
            }
            let before = CALLS.get();
            for _ in 1..ACKS_A_LOSS {
                sender.step();
            }
            assert_eq!(CALLS.get() - before, 0, "{law}: {state:?}");
        }
    }
}
