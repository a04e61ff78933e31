//! BBR (bottleneck bandwidth and round-trip propagation time): whole controllers that send at the rate at which the path
//! delivers, and keep little more in flight than that rate needs.
//!
//! [`v3`] is version 3 (draft-ietf-ccwg-bbr), [`v1`] is version 1 (draft-cardwell-iccrg-bbr-congestion-control-00) as
//! Linux's `tcp_bbr.c` runs it. Both measure delivery rate and least round trip, probe for more by sending faster for
//! a while, and empty the queue now and then to see the path's own delay. Version 3 also bounds what it sends by the loss
//! it causes.
//!
//! Neither specifies an answer to congestion marks, so neither marks its segments as ECN-capable.

mod aggregation;
mod app_limit;
mod full_pipe;
mod pacing;
mod probe_rtt;
mod random;
mod repair;
mod rounds;
mod sample;
pub mod v1;
pub mod v3;

#[cfg(test)]
mod world;

pub use v1::BbrV1;
pub use v3::Bbr;

use longhaul_units::{Bytes, Span};

use crate::{SegmentKind, SendLimit, Sent};

/// How long ProbeRTT holds little in flight, at least: long enough for flows that share a bottleneck to overlap.
const PROBE_RTT_DURATION: Span = Span::from_millis(200);
/// How long a least round trip counts.
const MIN_RTT_WINDOW: Span = Span::from_secs(10);
/// The least window, in segments, that keeps a path going whose receiver acknowledges every second segment.
const MIN_PIPE_SEGMENTS: f64 = 4.0;

/// Whether data leaves after a time without any to send; `limit` is what the sender was limited by.
fn restarts_from_idle(event: &Sent, limit: SendLimit) -> bool {
    let idle = event.in_flight_before == Bytes::ZERO && event.kind == SegmentKind::Data;
    idle && matches!(limit, SendLimit::App | SendLimit::SendBuffer)
}

/// What is in flight once a segment has left; `before` as known from the last event.
fn in_flight_after(event: &Sent, before: Bytes) -> Bytes {
    if event.kind == SegmentKind::Probe { before } else { event.in_flight_before + event.bytes }
}
