//! BBR (bottleneck bandwidth and round-trip propagation time): monolithic controllers that send at the rate at which
//! the path delivers, and keep little more in flight than that rate needs.
//!
//! [`v3`] is version 3 (draft-ietf-ccwg-bbr), and [`v1`] is version 1
//! (draft-cardwell-iccrg-bbr-congestion-control-00) as in Linux's `tcp_bbr.c`. Both measure the delivery rate and the
//! smallest RTT, probe for bandwidth by sending faster for a while, and occasionally empty the queue to measure the
//! propagation delay. Version 3 also limits its rate and window by the loss that it causes.
//!
//! Neither version specifies a response to congestion marks, so neither sends its segments as ECN-capable.

mod aggregation;
mod app_limit;
mod full_pipe;
mod pacing;
mod probe_rtt;
mod random;
mod recovery;
mod rounds;
mod sample;
pub(crate) mod v1;
pub(crate) mod v3;

use longhaul_units::{Bytes, Span};

use crate::{SegmentKind, SendLimit, Sent};

/// Minimum time for which ProbeRTT keeps little in flight, long enough for flows that share a bottleneck to
/// overlap.
const PROBE_RTT_DURATION: Span = Span::from_millis(200);
/// Validity period of the smallest RTT.
const MIN_RTT_WINDOW: Span = Span::from_secs(10);
/// Minimum window, in segments, that keeps data flowing to a receiver that acknowledges every second segment.
const MIN_PIPE_SEGMENTS: f64 = 4.0;

/// Returns whether data is sent after a pause in which there was none; `limit` is the sender's last limit.
fn restarts_from_idle(event: &Sent, limit: SendLimit) -> bool {
    let idle = event.in_flight_before == Bytes::ZERO && event.kind == SegmentKind::Data;
    idle && matches!(limit, SendLimit::App | SendLimit::SendBuffer)
}

/// Returns the data in flight after a segment was sent; `before` is the amount at the last event.
fn in_flight_after(event: &Sent, before: Bytes) -> Bytes {
    if event.kind == SegmentKind::Probe { before } else { event.in_flight_before + event.bytes }
}
