//! What remains of the receive side while nothing is unread, missing or to be acknowledged.

use longhaul_units::{Span, Time};

use super::{AckSchedule, Reassembly};
use crate::connection::ack_schedule::RestingAcks;
use crate::connection::{Flow, Receiver};

/// The fields of a [`Receiver`] at rest that have other values than those of a new one.
#[derive(Debug)]
pub(crate) struct RestingReceiver {
    /// RCV.NXT.
    next: u64,
    acks: RestingAcks,
    inflow: Flow,
    edge: u64,
    consumed: u64,
    capacity: u64,
    ceiling: u64,
    ts_recent_at: Option<Time>,
    tune_since: Time,
    tune_consumed: u64,
    round_trip: Option<Span>,
    ts_recent: u32,
}

impl Receiver {
    /// Returns what is to be kept, if the receiver is at rest.
    pub(crate) fn rest(&self) -> Option<RestingReceiver> {
        let Self { inflow, edge, consumed, capacity, ceiling, ts_recent, ts_recent_at, .. } = *self;
        let Self { fin, closed, tune_since, tune_consumed, round_trip, .. } = *self;
        if closed || fin.is_some() {
            return None;
        }
        Some(RestingReceiver {
            next: self.data.resting()?,
            acks: self.acks.rest()?,
            inflow,
            edge,
            consumed,
            capacity,
            ceiling,
            ts_recent_at,
            tune_since,
            tune_consumed,
            round_trip,
            ts_recent,
        })
    }
}

impl RestingReceiver {
    pub(crate) fn wake(self) -> Receiver {
        let Self { next, acks, inflow, edge, consumed, capacity, ceiling, .. } = self;
        let Self { ts_recent, ts_recent_at, tune_since, tune_consumed, round_trip, .. } = self;
        Receiver {
            data: Reassembly::new(next),
            acks: AckSchedule::wake(acks),
            inflow,
            edge,
            consumed,
            capacity,
            ceiling,
            ts_recent,
            ts_recent_at,
            fin: None,
            closed: false,
            tune_since,
            tune_consumed,
            round_trip,
        }
    }
}
