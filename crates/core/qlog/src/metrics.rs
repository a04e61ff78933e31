//! Metrics of the congestion controller and the path.

use longhaul_cc::SendLimit;
use longhaul_units::Span;
use serde::Serialize;

/// Data of `recovery_metrics_updated`. Fields that have not changed or are unknown are omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Metrics {
    #[serde(skip_serializing_if = "Option::is_none")]
    min_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    smoothed_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_variance: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rto: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pto_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    congestion_window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_in_flight: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ssthresh: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packets_in_flight: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pacing_rate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery_rate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer_window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retransmitted_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    startup_phase: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limited_by: Option<&'static str>,
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

impl Metrics {
    pub(crate) fn of(metrics: &longhaul_tcp::Metrics) -> Self {
        let millis = |span: Span| span.as_nanos() as f64 / 1e6;
        Self {
            min_rtt: metrics.min_rtt.map(millis),
            smoothed_rtt: metrics.srtt.map(millis),
            latest_rtt: metrics.latest_rtt.map(millis),
            rtt_variance: metrics.srtt.map(|_| millis(metrics.rttvar)),
            rto: Some(millis(metrics.rto)),
            pto_count: Some(metrics.backoff.into()),
            congestion_window: Some(metrics.cwnd.0),
            bytes_in_flight: Some(metrics.in_flight.0),
            ssthresh: metrics.ssthresh.map(|bytes| bytes.0),
            packets_in_flight: Some(metrics.unacked_segments),
            pacing_rate: metrics.pacing_rate.map(|rate| rate.as_bits_per_sec()),
            delivery_rate: metrics.delivery_rate.map(|rate| rate.as_bits_per_sec()),
            peer_window: Some(metrics.peer_window.0),
            lost_bytes: Some(metrics.bytes_lost),
            retransmitted_bytes: Some(metrics.bytes_retransmitted),
            startup_phase: Some(metrics.phase),
            limited_by: Some(limit_name(metrics.limit)),
        }
    }

    /// Returns the fields that differ from `before`; the others are `None`, so that they are not logged.
    pub(crate) fn since(&self, before: &Self) -> Self {
        fn changed<T: PartialEq + Copy>(new: Option<T>, old: Option<T>) -> Option<T> {
            new.filter(|_| new != old)
        }
        Self {
            min_rtt: changed(self.min_rtt, before.min_rtt),
            smoothed_rtt: changed(self.smoothed_rtt, before.smoothed_rtt),
            latest_rtt: changed(self.latest_rtt, before.latest_rtt),
            rtt_variance: changed(self.rtt_variance, before.rtt_variance),
            rto: changed(self.rto, before.rto),
            pto_count: changed(self.pto_count, before.pto_count),
            congestion_window: changed(self.congestion_window, before.congestion_window),
            bytes_in_flight: changed(self.bytes_in_flight, before.bytes_in_flight),
            ssthresh: changed(self.ssthresh, before.ssthresh),
            packets_in_flight: changed(self.packets_in_flight, before.packets_in_flight),
            pacing_rate: changed(self.pacing_rate, before.pacing_rate),
            delivery_rate: changed(self.delivery_rate, before.delivery_rate),
            peer_window: changed(self.peer_window, before.peer_window),
            lost_bytes: changed(self.lost_bytes, before.lost_bytes),
            retransmitted_bytes: changed(self.retransmitted_bytes, before.retransmitted_bytes),
            startup_phase: changed(self.startup_phase, before.startup_phase),
            limited_by: changed(self.limited_by, before.limited_by),
        }
    }
}
