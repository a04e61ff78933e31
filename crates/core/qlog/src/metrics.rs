//! Metrics of the congestion controller and the path.

use longhaul_cc::SendLimit;
use longhaul_units::Rate;
use serde::Serialize;

use crate::log::millis;

/// Declares the metrics with their name in the log, type, and value in the engine.
macro_rules! metrics {
    ($engine:ident; $($name:ident: $type:ty = $value:expr;)*) => {
        /// Data of `recovery_metrics_updated`. Fields that have not changed or are unknown are omitted.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub(crate) struct Metrics {
            $(#[serde(skip_serializing_if = "Option::is_none")]
            $name: Option<$type>,)*
        }

        impl Metrics {
            pub(crate) fn of($engine: &longhaul_tcp::Metrics) -> Self {
                Self { $($name: $value),* }
            }

            /// Returns the fields that differ from `before`; the others are `None`, so that they are not logged.
            pub(crate) fn since(&self, before: &Self) -> Self {
                Self { $($name: self.$name.filter(|_| self.$name != before.$name)),* }
            }
        }
    };
}

metrics! {
    engine;
    min_rtt: f64 = engine.min_rtt.map(millis);
    smoothed_rtt: f64 = engine.srtt.map(millis);
    latest_rtt: f64 = engine.latest_rtt.map(millis);
    rtt_variance: f64 = engine.srtt.map(|_| millis(engine.rttvar));
    rto: f64 = Some(millis(engine.rto));
    pto_count: u64 = Some(engine.backoff.into());
    congestion_window: u64 = Some(engine.cwnd.0);
    bytes_in_flight: u64 = Some(engine.in_flight.0);
    ssthresh: u64 = engine.ssthresh.map(|bytes| bytes.0);
    packets_in_flight: u64 = Some(engine.unacked_segments);
    pacing_rate: u64 = engine.pacing_rate.map(Rate::as_bits_per_sec);
    delivery_rate: u64 = engine.delivery_rate.map(Rate::as_bits_per_sec);
    peer_window: u64 = Some(engine.peer_window.0);
    lost_bytes: u64 = Some(engine.bytes_lost);
    retransmitted_bytes: u64 = Some(engine.bytes_retransmitted);
    startup_phase: &'static str = Some(engine.phase);
    limited_by: &'static str = Some(limit_name(engine.limit));
}

const fn limit_name(limit: SendLimit) -> &'static str {
    match limit {
        SendLimit::App => "app",
        SendLimit::Cwnd => "cwnd",
        SendLimit::Pacing => "pacing",
        SendLimit::PeerWindow => "peer_window",
        SendLimit::SendBuffer => "send_buffer",
        SendLimit::Cpu => "cpu",
        _ => "other",
    }
}
