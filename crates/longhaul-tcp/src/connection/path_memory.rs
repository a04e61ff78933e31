//! What a connection takes from earlier ones to its host, and what it leaves (RFC 9040, section 6).

use std::net::IpAddr;

use longhaul_cc::{Control, RateSample, SavedPath, SavedPathUse, SendLimit, initial_window};
use longhaul_units::{Bytes, Rate, Span, Time};

use super::Connection;
use super::congestion::build_params;
use super::timers::Timer;
use crate::endpoint::{Learnt, PathMetrics, Taken};
use crate::info::SavedPathInfo;
use crate::state::State;

/// For so many round trips the window must have been the limit before its threshold says something of the path. RFC
/// 9040, section 8, wants long connections only. Thirteen doublings lead from the initial window to 81,920 segments, so
/// that no first slow start lasts as long.
const LONG: u64 = 16;
/// So many samples of the round trip make it worth keeping: each counts an eighth (RFC 6298), so that the first one,
/// which replaced nothing, then has a third of the weight.
const ENOUGH_SAMPLES: u32 = 8;

/// The window and its pace, as `limited` counts them.
const WINDOW: [usize; 2] = [SendLimit::Cwnd as usize, SendLimit::Pacing as usize];
/// And for so many times as long as all else together.
const MOST: u64 = 3;

/// What a connection was told of its path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recalled {
    /// Whether it asked: there is a memory, and its controller has a use for it.
    asked: bool,
    taken: Taken,
}

/// What a connection found out about its path, for later connections, and what it took over from earlier ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathHistory {
    recalled: Recalled,
    /// ssthresh while the window was the limit.
    kept_ssthresh: Option<Bytes>,
    /// The highest delivery rate since the last loss.
    best_rate: Rate,
    /// The most bytes delivered in a round trip since the last loss.
    best_round: u64,
}

impl PathHistory {
    /// Notes a delivery-rate sample: unless the application was the limit, the highest since the last loss is the path's.
    pub(super) fn note_rate(&mut self, sample: &RateSample) {
        if !sample.app_limited {
            self.best_rate = self.best_rate.max(sample.rate);
        }
    }

    pub(super) fn note_round(&mut self, delivered: u64) {
        self.best_round = self.best_round.max(delivered);
    }

    /// A loss shows that the path was carrying more than it holds: the rates seen so far are not sustainable.
    pub(super) fn forget_rate(&mut self) {
        (self.best_rate, self.best_round) = (Rate::ZERO, 0);
    }

    /// Keeps ssthresh when `next` replaces the window as the limit: losses from then on meet the connection with less in
    /// flight, as at its end, and lower ssthresh below what the path carries.
    pub(super) fn keep_ssthresh(&mut self, control: &Control, limit: SendLimit, next: SendLimit, repairing: bool) {
        if is_window(limit) && !is_window(next) {
            self.kept_ssthresh = settled_ssthresh(control, repairing).or(self.kept_ssthresh);
        }
    }
}

/// ssthresh in congestion avoidance; slow start and recovery have yet to show what the path carries. A window that has
/// doubled beyond ssthresh has shown that ssthresh was low.
fn settled_ssthresh(control: &Control, repairing: bool) -> Option<Bytes> {
    let ssthresh = control.ssthresh.filter(|ssthresh| *ssthresh <= control.cwnd)?;
    (!repairing).then(|| ssthresh.max(control.cwnd / 2))
}

impl Recalled {
    fn loan(&self) -> Option<Learnt<SavedPath>> {
        match self.taken {
            Taken::Loan(loan) => Some(loan),
            _ => None,
        }
    }

    fn path(&self) -> Option<SavedPath> {
        self.loan().map(|loan| loan.value())
    }

    /// What became of it, as far as the controller has made something of it.
    fn info(&self, made: SavedPathUse) -> SavedPathInfo {
        let mut info = SavedPathInfo::default();
        match (self.taken, made) {
            (Taken::TooOld, _) => info.too_old = 1,
            (Taken::Damaged, _) => info.damaged = 1,
            (Taken::Loan(_), SavedPathUse::Used) => info.used = 1,
            (Taken::Loan(_), SavedPathUse::OtherPath) => info.other_path = 1,
            _ => {}
        }
        info
    }
}

impl Connection {
    /// Begins with what is known of the path to `remote`; to be called before the first segment leaves.
    pub(crate) fn recall(&mut self, now: Time, remote: IpAddr) {
        let Some(cache) = &self.config.path_cache else { return };
        let name = self.config.congestion.name();
        let known = cache.find(now, remote, &name).unwrap_or_default();
        let needs = self.cc.controller.needs();
        if needs.required.saved_path || needs.preferred.saved_path {
            self.cc.history.recalled = Recalled { asked: true, taken: cache.take_saved(now, remote, &name) };
        }
        let saved = self.cc.history.recalled.path();
        if known.ssthresh.is_some() || saved.is_some() {
            let mut params = build_params(&self.config, Bytes::from(self.pmtu.mss(0)));
            // A launch that knows what the path carried is not to be stopped by where it was lost last.
            params.initial_ssthresh = known.ssthresh.filter(|_| saved.is_none());
            params.saved_path = saved;
            self.cc.rebuild(&self.config, &params);
        }
        if let Some(srtt) = known.srtt {
            self.rtt.expect(srtt, known.rttvar);
            self.timers.arm(Timer::Rto, now + self.rtt.rto());
        }
    }

    /// Whether nothing that is still to come can tell anything of the path: all that was sent is acknowledged, the FIN
    /// included, or the connection has failed.
    pub(crate) fn has_seen_its_path(&self) -> bool {
        self.snd.fin_acknowledged() || matches!(self.life.state, State::TimeWait | State::Closed)
    }

    /// What it leaves for later connections to its host.
    pub(crate) fn path_metrics(&self) -> PathMetrics {
        let mut metrics = PathMetrics::default();
        if self.is_about_its_window() {
            let now = settled_ssthresh(&self.cc.control, self.loss.is_repairing());
            metrics.ssthresh = now.filter(|_| is_window(self.cc.limits.current)).or(self.cc.history.kept_ssthresh);
        }
        if self.rtt.backoff() == 0 {
            metrics.saved = self.better_path();
        }
        // While the timer backs off, nobody knows how long the round trip is now.
        if self.rtt.samples() >= ENOUGH_SAMPLES && self.rtt.backoff() == 0 {
            (metrics.srtt, metrics.rttvar) = (self.rtt.srtt(), self.rtt.rttvar());
        }
        metrics
    }

    /// What the path delivered, if it was enough to be worth a jump (RFC 9959, section 3.1: four initial windows).
    fn found_path(&self) -> Option<SavedPath> {
        let found = SavedPath {
            window: Bytes(self.cc.history.best_round),
            rate: self.cc.history.best_rate,
            rtt: self.rtt.min()?,
        };
        let enough = initial_window::rfc6928(Bytes::from(self.mss()), initial_window::DEFAULT_SEGMENTS) * 4;
        (found.window >= enough && found.is_possible()).then_some(found)
    }

    /// What this connection took and could leave again: nothing was lost, its launch did not find that it is another path's, and it
    /// is not too old by now.
    fn kept_path(&self) -> Option<Learnt<SavedPath>> {
        let cache = self.config.path_cache.as_ref()?;
        let refused = self.cc.controller.saved_path_use() == SavedPathUse::OtherPath;
        let kept = self.stats.recoveries == 0 && !refused;
        self.cc.history.recalled.loan().filter(|loan| kept && cache.is_fresh(self.now, loan))
    }

    /// Its own finding, unless what it could leave again is more.
    fn better_path(&self) -> Option<SavedPath> {
        let kept = self.kept_path().map_or(Bytes::ZERO, |loan| loan.value().window);
        self.found_path().filter(|found| found.window >= kept)
    }

    /// What it took and found nothing better than. A handshake that failed says nothing against it: anybody can forge a SYN.
    pub(crate) fn unspent_path(&self) -> Option<Learnt<SavedPath>> {
        let sound = self.rtt.backoff() == 0 || self.snd.una == 0;
        self.kept_path().filter(|_| sound && self.better_path().is_none())
    }

    /// What became of the memory that its launch asked for, if it did.
    pub(super) fn saved_path_info(&self) -> Option<SavedPathInfo> {
        self.cc.history.recalled.asked.then(|| self.cc.history.recalled.info(self.cc.controller.saved_path_use()))
    }

    /// Whether the window, or its pace, was the limit for long, and for most of the time: what a connection that sends
    /// by fits and starts loses meets it with little in flight.
    fn is_about_its_window(&self) -> bool {
        let limited = self.cc.limits.spent(self.now, self.life.state.is_synchronized());
        let (mut window, mut others) = (Span::ZERO, Span::ZERO);
        for (limit, span) in limited.into_iter().enumerate() {
            *(if WINDOW.contains(&limit) { &mut window } else { &mut others }) += span;
        }
        self.rtt.srtt().is_some_and(|srtt| window >= srtt * LONG) && window >= others * MOST
    }
}

fn is_window(limit: SendLimit) -> bool {
    WINDOW.contains(&(limit as usize))
}
