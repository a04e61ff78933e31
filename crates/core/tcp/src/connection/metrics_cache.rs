//! Metrics cache (RFC 9040, section 6): use of cached metrics by a connection, and the metrics that it stores.

use std::net::IpAddr;

use longhaul_cc::{Control, RateSample, SavedPath, SavedPathUse, SendLimit, initial_window};
use longhaul_units::{Bytes, Rate, Span, Time};

use super::congestion::build_params;
use super::{CongestionDriver, Opening, Status, Timer};
use crate::path_cache::{Learnt, Taken};
use crate::{PathCache, PathMetrics, SavedPathInfo, State};

/// Number of round trips for which the window must have been the send limit before ssthresh is stored. RFC 9040,
/// section 8, recommends caching for long connections only. Thirteen doublings lead from the initial window to 81,920
/// segments, so an initial slow start always takes fewer round trips.
const MIN_LIMITED_ROUNDS: u64 = 16;
/// Minimum number of RTT samples for SRTT to be stored. Each sample has a weight of 1/8 (RFC 6298), so the first one,
/// which initialized SRTT, has a weight of a third by then.
const MIN_RTT_SAMPLES: u32 = 8;

/// Send limits that count as the congestion window: cwnd and the pacer.
const WINDOW: [usize; 2] = [SendLimit::Cwnd as usize, SendLimit::Pacing as usize];
/// Factor by which the time limited by the window must exceed the time under all other limits.
const MIN_LIMITED_RATIO: u64 = 3;

/// Path metrics found by the connection for the cache, and those it started with.
#[derive(Clone, Debug, Default)]
pub(super) struct PathHistory {
    /// Metrics taken from the cache. Present only with a cache and a controller that uses saved paths.
    cached: Option<Box<Taken>>,
    /// ssthresh when the window last was the send limit.
    kept_ssthresh: Option<Bytes>,
    /// The highest delivery rate since the last loss.
    best_rate: Rate,
    /// The maximum number of bytes delivered per round trip since the last loss.
    pub(super) best_round: u64,
}

impl PathHistory {
    pub(super) fn checked_out(&self) -> Option<Learnt<SavedPath>> {
        match self.cached.as_deref() {
            Some(Taken::CheckedOut(checked_out)) => Some(*checked_out),
            _ => None,
        }
    }

    /// Records a delivery-rate sample, unless the application limited it.
    pub(super) fn note_rate(&mut self, sample: &RateSample) {
        if !sample.app_limited {
            self.best_rate = self.best_rate.max(sample.rate);
        }
    }

    /// Discards the rates found so far: a loss shows that the path cannot sustain them.
    pub(super) fn forget_rate(&mut self) {
        (self.best_rate, self.best_round) = (Rate::ZERO, 0);
    }

    /// Keeps ssthresh when `next` replaces the window as the send limit. Later losses occur with less data in flight,
    /// as at the end of the connection, and would reduce ssthresh below the capacity of the path.
    pub(super) fn keep_ssthresh(&mut self, control: &Control, limit: SendLimit, next: SendLimit, in_episode: bool) {
        if is_window(limit) && !is_window(next) {
            self.kept_ssthresh = settled_ssthresh(control, in_episode).or(self.kept_ssthresh);
        }
    }
}

/// Returns ssthresh in congestion avoidance; in slow start and recovery it is not meaningful yet. If cwnd has more
/// than doubled since, half of it is returned, because ssthresh was too low.
fn settled_ssthresh(control: &Control, in_episode: bool) -> Option<Bytes> {
    let ssthresh = control.ssthresh.filter(|ssthresh| *ssthresh <= control.cwnd)?;
    (!in_episode).then(|| ssthresh.max(control.cwnd / 2))
}

#[expect(clippy::multiple_inherent_impl, reason = "its use of the metrics cache")]
impl CongestionDriver {
    /// Returns the delivered data and rate, if sufficient for a jump (RFC 9959, section 3.1: four initial windows).
    fn found_path(&self, min_rtt: Option<Span>, mss: u16) -> Option<SavedPath> {
        let found = SavedPath::new(Bytes(self.history.best_round), self.history.best_rate, min_rtt?);
        let enough = initial_window::rfc6928(Bytes::from(mss), initial_window::DEFAULT_SEGMENTS) * 4;
        (found.window >= enough && found.is_possible()).then_some(found)
    }

    /// Returns the checked-out metrics if they are still valid: nothing was lost, the start-up scheme did not find
    /// that they belong to another path, and they have not expired.
    fn kept_path(&self, cache: Option<&PathCache>, now: Time, is_lossless: bool) -> Option<Learnt<SavedPath>> {
        let cache = cache?;
        let refused = self.sending.made()?.controller.saved_path_use() == SavedPathUse::OtherPath;
        self.history.checked_out().filter(|checked_out| is_lossless && !refused && cache.is_fresh(now, checked_out))
    }

    pub(super) fn saved_path_info(&self) -> Option<SavedPathInfo> {
        let taken = self.history.cached.as_deref()?;
        let mut info = SavedPathInfo::default();
        match (taken, self.peek(|sending| sending.controller.saved_path_use())) {
            (Taken::TooOld, _) => info.too_old = 1,
            (Taken::Damaged, _) => info.damaged = 1,
            (Taken::CheckedOut(_), SavedPathUse::Used) => info.used = 1,
            (Taken::CheckedOut(_), SavedPathUse::OtherPath) => info.other_path = 1,
            _ => {}
        }
        Some(info)
    }

    /// Returns whether the window or the pacer was the send limit until `now` for a long time and for most of the time. A
    /// connection that sends intermittently has little data in flight when a loss occurs.
    fn is_mostly_window_limited(&self, now: Time, open: bool, srtt: Option<Span>) -> bool {
        let (mut window, mut others) = (Span::ZERO, Span::ZERO);
        for (limit, span) in self.limits.spent(now, open).into_iter().enumerate() {
            *(if WINDOW.contains(&limit) { &mut window } else { &mut others }) += span;
        }
        srtt.is_some_and(|srtt| window >= srtt * MIN_LIMITED_ROUNDS) && window >= others * MIN_LIMITED_RATIO
    }
}

impl Opening<'_> {
    /// Applies cached metrics of the path to `remote`. Must be called before the first segment is sent.
    pub(crate) fn recall(&mut self, now: Time, remote: IpAddr) {
        let Some(cache) = &self.config.path_cache else { return };
        let name = self.config.congestion.name();
        let known = cache.find(now, remote, &name).unwrap_or_default();
        if known.drops_ect {
            self.ext.ecn_check.is_off = true;
            // A SYN cookie may already have accepted ECN. In that case, this end still echoes the marks that it receives.
            self.negotiated.ecn &= self.life.handshake.as_ref().is_some_and(|handshake| handshake.repeated);
        }
        if self.cc.wants().saved_path {
            self.cc.history.cached = Some(Box::new(cache.take_saved(now, remote, &name)));
        }
        let saved = self.cc.history.checked_out().map(|checked_out| checked_out.value);
        if known.ssthresh.is_some() || saved.is_some() {
            let mut params = build_params(self.config, Bytes::from(self.pmtu.payload(0)));
            // If the path's capacity is known, the ssthresh after the last loss must not stop the start-up scheme.
            params.initial_ssthresh = known.ssthresh.filter(|_| saved.is_none());
            params.saved_path = saved;
            self.cc.rebuild(self.config, &params);
        }
        if let Some(srtt) = known.srtt {
            self.rtt.expect(srtt, known.rttvar);
            self.timers.arm(Timer::Rto, now + self.rtt.rto());
        }
    }
}

impl Status<'_> {
    /// Returns whether no further metrics can be found: all data and the FIN are acknowledged, or the connection has
    /// failed.
    pub(crate) fn has_seen_its_path(&self) -> bool {
        self.0.snd.fin_acknowledged() || matches!(self.0.life.state, State::TimeWait | State::Closed)
    }

    pub(crate) fn path_metrics(&self) -> PathMetrics {
        let mut metrics = PathMetrics { drops_ect: self.0.ext.ecn_check.drops_ect(), ..PathMetrics::default() };
        let is_open = self.0.life.state.is_synchronized();
        if self.0.cc.is_mostly_window_limited(self.0.timers.now, is_open, self.0.rtt.srtt) {
            let now = settled_ssthresh(&self.0.cc.control, self.0.loss.in_episode());
            metrics.ssthresh = now.filter(|_| is_window(self.0.cc.limits.current)).or(self.0.cc.history.kept_ssthresh);
        }
        if self.0.rtt.backoff == 0 {
            metrics.saved = self.found_paths().1;
        }
        // During backoff of the retransmission timer the current RTT is unknown.
        if self.0.rtt.samples >= MIN_RTT_SAMPLES && self.0.rtt.backoff == 0 {
            (metrics.srtt, metrics.rttvar) = (self.0.rtt.srtt, self.0.rtt.rttvar);
        }
        metrics
    }

    /// Returns the checked-out metrics if nothing better was found. A failed handshake does not invalidate them,
    /// because a SYN can be forged by anyone.
    pub(crate) fn unspent_path(&self) -> Option<Learnt<SavedPath>> {
        let sound = self.0.rtt.backoff == 0 || self.0.snd.una == 0;
        let (kept, better) = self.found_paths();
        kept.filter(|_| sound && better.is_none())
    }

    /// Returns the checked-out metrics if they are still valid, and the metrics that the connection found, unless the
    /// checked-out metrics have a larger window.
    fn found_paths(&self) -> (Option<Learnt<SavedPath>>, Option<SavedPath>) {
        let is_lossless = self.0.stats.incidents().recoveries == 0;
        let kept = self.0.cc.kept_path(self.0.config.path_cache.as_ref(), self.0.timers.now, is_lossless);
        let least = kept.map_or(Bytes::ZERO, |checked_out| checked_out.value.window);
        let found = self.0.cc.found_path(self.0.rtt.min, self.0.pmtu.mss());
        (kept, found.filter(|found| found.window >= least))
    }
}

fn is_window(limit: SendLimit) -> bool {
    WINDOW.contains(&(limit as usize))
}
