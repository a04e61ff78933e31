//! Snapshots of a connection for applications, logs and tests.

use longhaul_cc::{Control, Estimate};
use longhaul_units::{Bytes, Time};

use super::Connection;
use super::congestion::SendControl;
use super::timers::Timer;
use crate::info::Info;
use crate::timestamps::TimestampClock;

/// Returns the slow-start threshold, if one is set.
pub(super) fn threshold(control: &Control) -> Option<Bytes> {
    control.ssthresh.filter(|ssthresh| *ssthresh < Bytes(u64::MAX))
}

impl Connection {
    /// Returns the controller's estimates of path properties; empty if it has none.
    #[must_use]
    pub fn estimates(&self) -> Vec<Estimate> {
        let mut estimates = Vec::new();
        self.cc.peek(|sending| sending.controller.estimates(&mut |estimate| estimates.push(estimate)));
        estimates
    }

    /// Returns a snapshot at `now`.
    #[must_use]
    pub fn info(&self, now: Time) -> Info {
        self.cc.peek(|sending| self.info_with(sending, now))
    }

    fn info_with(&self, sending: &SendControl, now: Time) -> Info {
        let now = now.max(self.timers.now());
        let stats = &self.stats;
        let incidents = stats.incidents();
        let echoes = self.ext.ecn_check.counts();
        let snapshot = sending.controller.snapshot();
        Info {
            state: self.life.state,
            initial_sequence: self.numbers.initial(),
            congestion: sending.controller.name(),
            phase: snapshot.phase,
            startup: sending.controller.startup(),
            recovery: self.recovery_state(),
            cwnd: sending.control.cwnd,
            ssthresh: threshold(&sending.control),
            delivery_rate: self.cc.rate.latest,
            bandwidth: snapshot.bandwidth,
            pacing_rate: sending.pacer.rate(),
            in_flight: Bytes(self.pipe()),
            unacked_segments: self.snd.board().len() as u64,
            mss: self.mss(),
            plpmtu: self.pmtu.current(),
            srtt: self.rtt.srtt(),
            rttvar: self.rtt.rttvar(),
            latest_rtt: self.rtt.latest(),
            rtt_samples: u64::from(self.rtt.samples()),
            min_rtt: self.rtt.min(),
            rto: self.rtt.rto(),
            backoff: self.rtt.backoff(),
            peer_window: Bytes(self.snd.window()),
            recv_buffer: Bytes(self.rcv.capacity()),
            unread: Bytes::from(self.rcv.unread()),
            unsent: Bytes(self.snd.unsent()),
            options: self.negotiated.options(),
            arrival_times: self.ext.arrivals.is_some(),
            pairs: self.ext.pairs.as_ref().map(|pairs| pairs.info()),
            network: self.ext.network.info(),
            saved_path: self.saved_path_info(),
            ack_rate: self.ext.ack_frequency.as_ref().map(|ack_frequency| ack_frequency.info()),
            probes: self.ext.probes.as_ref().map(|probes| probes.info()),
            bytes_acked: stats.bytes_acked,
            bytes_sent: stats.bytes_sent + incidents.bytes_retransmitted,
            bytes_retransmitted: incidents.bytes_retransmitted,
            bytes_received: stats.bytes_received,
            bytes_lost: incidents.bytes_lost,
            duplicate_bytes_in: incidents.duplicate_bytes_in,
            bytes_refused: incidents.bytes_refused,
            segments_in: stats.segments_in,
            segments_out: stats.segments_out,
            data_segments_out: stats.data_segments_out,
            segments_retransmitted: incidents.segments_retransmitted,
            timeouts: incidents.timeouts,
            tail_probes: incidents.tail_probes,
            recoveries: incidents.recoveries,
            spurious_recoveries: incidents.spurious_recoveries,
            dsacks: incidents.dsacks,
            challenge_acks: incidents.challenge_acks,
            paws_dropped: incidents.paws_dropped,
            windows_shrunk: incidents.windows_shrunk,
            ce_in: incidents.ce_in,
            echoes_asked: echoes.asked,
            echoes_missing: echoes.missing,
            host_error: self.peer.host_errors.last(),
            host_errors: self.peer.host_errors.count(),
            r1_reached: self.is_past_r1(),
            user_timeout: self.config.user_timeout,
            peer_user_timeout: self.peer.user_timeout.remote(),
            delivered: self.cc.rate.delivered + self.ext.carried(),
            limited: self.cc.limits.spent(now, self.life.state.is_synchronized()),
            age: now - self.life.created_at,
            memory: self.memory(),
        }
    }

    /// Returns the memory in bytes occupied by buffers and records, excluding the connection's own fixed size.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.snd.memory() + self.rcv.memory()
    }

    /// Returns SND.NXT and RCV.NXT as wire sequence numbers.
    pub(crate) fn wire_numbers(&self) -> (u32, u32) {
        (self.numbers.sequence(self.snd.nxt()), self.numbers.acknowledgment(self.rcv.next()))
    }

    /// Returns TS.Recent if timestamps were negotiated.
    pub(crate) fn recent_timestamp(&self) -> Option<u32> {
        self.negotiated.timestamps.then_some(self.rcv.ts_recent())
    }

    pub(crate) fn timestamp_clock(&self) -> TimestampClock {
        self.numbers.clock
    }

    /// Ends TIME-WAIT, because a new connection reuses the addresses.
    pub(crate) fn end_time_wait(&mut self) {
        self.finish(None);
    }

    /// Returns the end of TIME-WAIT.
    pub(crate) fn linger_deadline(&self) -> Time {
        self.timers.get(Timer::Linger).unwrap_or(self.timers.now())
    }
}
