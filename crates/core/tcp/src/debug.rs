//! `Debug` output of types that hold data, keys or an unbounded number of entries.
//!
//! Applications log values that contain these types, so the output is at most 1 kB long and contains neither data nor
//! keys.

use std::fmt::{Debug, Formatter, Result};

use crate::{Batch, Chunks, Config, Connection, Endpoint, EndpointConfig, EndpointGroup, Info, Payload};

impl Debug for Connection {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Connection").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl Debug for Endpoint {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let (connections, memory) = (self.len(), self.memory());
        f.debug_struct("Endpoint")
            .field("connections", &connections)
            .field("memory", &memory)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Debug for EndpointGroup {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("EndpointGroup").field("connections", &self.connections()).finish_non_exhaustive()
    }
}

impl Debug for Batch {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { segments, segment_size, ecn, dscp, len, .. } = self;
        f.debug_struct("Batch")
            .field("segments", &segments.len())
            .field("segment_size", segment_size)
            .field("ecn", ecn)
            .field("dscp", dscp)
            .field("len", len)
            .finish_non_exhaustive()
    }
}

impl Debug for Payload<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Payload").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Debug for Chunks {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.debug_struct("Chunks").field("len", &bytes::Buf::remaining(self)).finish_non_exhaustive()
    }
}

longhaul_units::debug_in_part!(Info;
    state congestion phase recovery cwnd ssthresh in_flight srtt min_rtt rto delivery_rate pacing_rate mss
    bytes_acked bytes_received segments_retransmitted host_error age;
    initial_sequence startup bandwidth unacked_segments plpmtu rttvar latest_rtt rtt_samples backoff peer_window
    recv_buffer unread unsent options arrival_times pairs network saved_path ack_rate probes bytes_sent
    bytes_retransmitted bytes_lost duplicate_bytes_in bytes_refused segments_in segments_out data_segments_out
    timeouts tail_probes recoveries spurious_recoveries dsacks challenge_acks paws_dropped windows_shrunk ce_in
    echoes_asked echoes_missing host_errors r1_reached user_timeout peer_user_timeout delivered limited memory);

longhaul_units::debug_in_part!(EndpointConfig;
    backlog always_cookies max_connections max_per_address max_memory max_memory_per_address max_time_wait
    reset_unknown reflect shared_clock;
    initial_sequence;
    secret);

longhaul_units::debug_in_part!(Config;
    congestion path_cache send_buffer recv_buffer recv_buffer_max base_plpmtu max_plpmtu nagle ecn keep_alive
    user_timeout max_pacing_rate;
    notsent_lowat sack timestamps window_scaling extensions arrival_times probe_pairs routers_answer ttl
    user_timeout_option user_timeout_changeable syn_retries min_rto ack_delay ack_every quick_acks moderation time_wait
    fin_wait2_timeout max_cwnd shared_clock);
