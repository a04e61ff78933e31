//! Effects of losses: the short-term and long-term bounds, and how they are undone.

use longhaul_units::Bytes;

use super::super::{MARGIN, Phase, Sample};
use super::{BETA, Bbr, LOSS_THRESHOLD, ShortTerm, State};
use crate::{Ack, LostSegment, Path, PathEvent, Timeout};

/// The delivery process of the last round trip (`BBR.bw_latest`, `BBR.inflight_latest`). Its rounds are separate, and
/// restart at the first loss of a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latest {
    bw: f64,
    pub(super) inflight: f64,
    round_delivered: Bytes,
    /// `BBR.loss_round_start` for this ACK.
    pub(super) round_start: bool,
    /// `BBR.is_loss_in_round`.
    pub(super) loss: bool,
    pub(super) lost_ranges: u32,
    /// Minimum fraction of the bandwidth at which the sender paced while it sent the data of this round. A sender that
    /// paces at nine tenths of the bandwidth observes no higher delivery rate, regardless of the path's capacity. The
    /// first value is for this round and the previous one, the second for this round alone.
    own_share: f64,
    own_share_now: f64,
    /// Whether data of this round was sent during ProbeRTT, which allows half a BDP in flight.
    held: bool,
}

impl Default for Latest {
    fn default() -> Self {
        Self {
            bw: 0.0,
            inflight: 0.0,
            round_delivered: Bytes::ZERO,
            round_start: false,
            loss: false,
            lost_ranges: 0,
            own_share: MARGIN,
            own_share_now: MARGIN,
            held: false,
        }
    }
}

impl Latest {
    /// `BBRUpdateLatestDeliverySignals`.
    pub(super) fn observe(&mut self, sample: &Sample) {
        self.bw = self.bw.max(sample.bw);
        self.inflight = self.inflight.max(sample.delivered);
        self.round_start = sample.prior_delivered.is_some_and(|prior| prior >= self.round_delivered);
        if self.round_start {
            self.round_delivered = sample.total_delivered;
        }
    }

    /// Records the current pacing gain, and whether the delivered data was sent in ProbeRTT.
    pub(super) fn note_own(&mut self, gain: f64, held: bool) {
        self.held |= held;
        self.own_share_now = self.own_share_now.min(gain * MARGIN);
        self.own_share = self.own_share.min(self.own_share_now);
    }

    /// Ends a loss round after its losses were taken into account.
    fn end_round(&mut self, gain: f64) {
        (self.own_share, self.own_share_now) = (self.own_share_now, gain.min(1.0) * MARGIN);
        self.own_share = self.own_share.min(self.own_share_now);
        (self.loss, self.held) = (false, false);
    }

    /// `BBRAdvanceLatestDeliverySignals`.
    pub(super) const fn advance(&mut self, sample: &Sample) {
        if self.round_start {
            (self.bw, self.inflight) = (sample.bw, sample.delivered);
        }
    }

    /// Counts a lost range: the lost segment does not directly follow the previous one.
    const fn note_lost_range(&mut self) {
        self.lost_ranges = self.lost_ranges.saturating_add(1);
    }

    /// `BBRResetCongestionSignals`.
    pub(super) const fn reset(&mut self) {
        (self.loss, self.bw, self.inflight) = (false, 0.0, 0.0);
    }
}

/// State to restore if an episode turns out to be spurious.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    pub(super) state: Option<State>,
    short_term: ShortTerm,
    long_term: f64,
}

impl Bbr {
    /// `BBRSaveStateUponLoss`, at the beginning of an episode.
    pub(super) fn save_state(&mut self) {
        self.undo = Undo { state: None, short_term: self.short_term, long_term: self.long_term };
    }

    fn note_loss(&mut self, delivered: Bytes) {
        if !self.latest.loss {
            self.latest.round_delivered = delivered;
        }
        self.latest.loss = true;
    }

    /// Processes losses that an ACK or a timer revealed: individually, with the data in flight when each segment was
    /// sent, if the transport lists them.
    pub(super) fn on_losses(&mut self, ack: &Ack<'_>, sample: &Sample) {
        if ack.newly_lost == Bytes::ZERO {
            return;
        }
        self.note_loss(ack.total_delivered);
        for lost in ack.lost {
            self.on_lost_segment(lost, sample);
        }
        let told: Bytes = ack.lost.iter().map(|lost| lost.bytes).sum();
        self.total_lost += ack.newly_lost - told;
        // The transport does not list segments, so the rate sample has to suffice.
        if ack.lost.is_empty() {
            self.latest.note_lost_range();
            if self.cycle.is_sample && self.is_too_high(sample.lost, sample.tx_in_flight) {
                self.on_inflight_too_high(sample.tx_in_flight, sample);
            }
        }
    }

    /// `BBRHandleLostPacket`.
    fn on_lost_segment(&mut self, lost: &LostSegment, sample: &Sample) {
        if lost.tx.0 != self.last_lost.0.wrapping_add(1) {
            self.latest.note_lost_range();
        }
        self.last_lost = lost.tx;
        self.total_lost += lost.bytes;
        if !self.cycle.is_sample {
            return;
        }
        let (flight, gone) = (lost.in_flight_at_send.as_f64(), (self.total_lost - lost.lost_at_send).as_f64());
        if self.is_too_high(gone, flight) {
            self.on_inflight_too_high(inflight_at_loss(lost.bytes.as_f64(), flight, gone), sample);
        }
    }

    /// `BBRIsInflightTooHigh`.
    pub(super) fn is_too_high(&self, lost: f64, flight: f64) -> bool {
        lost > flight * LOSS_THRESHOLD || (lost > 0.0 && !self.sack)
    }

    /// `BBRHandleInflightTooHigh`: `flight` was more than the path can hold.
    fn on_inflight_too_high(&mut self, flight: f64, sample: &Sample) {
        self.cycle.prev_too_high = true;
        self.cycle.is_sample = false;
        if !sample.app_limited {
            self.long_term = flight.max(self.target_inflight() * BETA);
        }
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
            self.start_down(sample.now, sample.total_delivered, sample.rtt);
        }
    }

    /// `BBRUpdateCongestionSignals`, at the end of a round.
    pub(super) fn adapt_lower_bounds(&mut self) {
        if !self.latest.round_start {
            return;
        }
        let held = self.latest.held && !self.exact;
        if self.latest.loss && !held && !self.state.is_probing() {
            let ShortTerm { bw, inflight } = self.short_term;
            let bw = if bw.is_finite() { bw } else { self.max_bw.get() };
            let inflight = if inflight.is_finite() { inflight } else { self.unhurt_cwnd() };
            let own = if self.exact { 1.0 } else { self.latest.own_share };
            let bound = |latest: f64, bound: f64| latest.max(BETA * bound).max((latest / own).min(bound));
            self.short_term =
                ShortTerm { bw: bound(self.latest.bw, bw), inflight: bound(self.latest.inflight, inflight) };
        }
        self.latest.end_round(self.state.pacing_gain());
    }

    /// Returns the window. After a timeout, which reduces it to one segment regardless of the path, returns the
    /// previous window.
    fn unhurt_cwnd(&self) -> f64 {
        if self.base.phase == Phase::Timeout { self.base.cwnd.max(self.base.prior_cwnd) } else { self.base.cwnd }
    }

    /// `BBROnEnterRTO`.
    pub(super) fn on_rto(&mut self, event: &Timeout, path: &Path) {
        if self.base.phase != Phase::Timeout {
            self.save_state();
        }
        self.total_lost += self.base.on_timeout(event, path, self.state == State::ProbeRtt);
        self.note_loss(self.base.total_delivered);
    }

    /// `BBRHandleSpuriousLossDetection`.
    pub(super) fn on_spurious(&mut self, event: &PathEvent) {
        if let PathEvent::Spurious { in_flight, .. } = event {
            self.base.in_flight = *in_flight;
        }
        self.base.on_spurious();
        self.latest.loss = false;
        // The bounds return to their values before the episode.
        let undo = self.undo;
        self.short_term.bw = self.short_term.bw.max(undo.short_term.bw);
        self.short_term.inflight = self.short_term.inflight.max(undo.short_term.inflight);
        self.long_term = self.long_term.max(undo.long_term);
        self.undo.state = None;
        // The state that the loss ended resumes.
        match undo.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.base.filled = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => {
                self.start_refill(self.base.total_delivered);
            }
            _ => {}
        }
        self.bound_bw();
        self.bound_cwnd();
    }
}

/// Returns the data in flight at which the loss rate crossed the threshold, within data sent together
/// (`BBRInflightAtLoss`). Of `flight` bytes, `size` were lost just now and `lost` since they were sent, including
/// these.
pub(super) fn inflight_at_loss(size: f64, flight: f64, lost: f64) -> f64 {
    let (flight_before, lost_before) = (flight - size, lost - size);
    let prefix = (LOSS_THRESHOLD * flight_before - lost_before) / (1.0 - LOSS_THRESHOLD);
    (flight_before + prefix).max(0.0)
}
