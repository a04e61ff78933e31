//! What remains of the ACK schedule while nothing is to be acknowledged.

use std::collections::VecDeque;

use longhaul_units::Time;

use super::AckSchedule;

/// The fields of an [`AckSchedule`] at rest that have other values than those of a new one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestingAcks {
    last_sent: u64,
    peer_segment: usize,
    challenged_at: Option<Time>,
    initial_acks: u32,
    requested_every: u32,
    requested_left: u32,
}

impl AckSchedule {
    /// Returns what is to be kept, if nothing is to be acknowledged.
    pub(crate) fn rest(&self) -> Option<RestingAcks> {
        let Self { due, unacked_full, unacked, changed_blocks, immediate, dsack, probe_echo, echo_congestion, .. } =
            *self;
        let Self { last_sent, initial_acks, requested_every, requested_left, peer_segment, challenged_at, .. } = *self;
        let is_busy = due || immediate || echo_congestion || !self.queue.is_empty();
        let has_news = unacked_full > 0 || unacked > 0 || changed_blocks > 0 || dsack.is_some() || probe_echo.is_some();
        (!is_busy && !has_news).then_some(RestingAcks {
            last_sent,
            peer_segment,
            challenged_at,
            initial_acks,
            requested_every,
            requested_left,
        })
    }

    pub(crate) fn wake(kept: RestingAcks) -> Self {
        let RestingAcks { last_sent, peer_segment, challenged_at, initial_acks, requested_every, requested_left } =
            kept;
        Self {
            due: false,
            unacked_full: 0,
            unacked: 0,
            changed_blocks: 0,
            last_sent,
            initial_acks,
            requested_every,
            requested_left,
            immediate: false,
            dsack: None,
            probe_echo: None,
            echo_congestion: false,
            peer_segment,
            queue: VecDeque::new(),
            challenged_at,
        }
    }
}
