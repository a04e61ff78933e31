//! What a connection takes from earlier ones to its host, and what it leaves (RFC 9040, section 6).

use std::net::IpAddr;

use longhaul_cc::{RateSample, SavedPath, SavedPathUse, SendLimit, initial_window};
use longhaul_units::{Bytes, Span, Time};

use super::loss::Phase;
use super::timers::Timer;
use super::{Connection, build_params};
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
        let needs = self.controller.needs();
        if needs.required.saved_path || needs.preferred.saved_path {
            self.recalled = Recalled { asked: true, taken: cache.take_saved(now, remote, &name) };
        }
        let saved = self.recalled.path();
        if known.ssthresh.is_some() || saved.is_some() {
            let mut params = build_params(&self.config, Bytes::from(self.pmtu.mss(0)));
            // A launch that knows what the path carried is not to be stopped by where it was lost last.
            params.initial_ssthresh = known.ssthresh.filter(|_| saved.is_none());
            params.saved_path = saved;
            self.controller = self.config.congestion.build(&params);
            self.control = self.controller.control();
        }
        if let Some(srtt) = known.srtt {
            self.rtt.expect(srtt, known.rttvar);
            self.timers.arm(Timer::Rto, now + self.rtt.rto());
        }
    }

    /// Whether nothing that is still to come can tell anything of the path: all that was sent is acknowledged, the FIN
    /// included, or the connection has failed.
    pub(crate) fn has_seen_its_path(&self) -> bool {
        self.snd.fin_acknowledged() || matches!(self.state, State::TimeWait | State::Closed)
    }

    /// What it leaves for later connections to its host.
    pub(crate) fn path_metrics(&self) -> PathMetrics {
        let mut metrics = PathMetrics::default();
        if self.is_about_its_window() {
            let now = self.settled_ssthresh().filter(|_| is_window(self.limit));
            metrics.ssthresh = now.or(self.kept_ssthresh);
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

    /// A delivery-rate sample that the application did not limit: the greatest since the last loss is the path's.
    pub(super) fn note_rate(&mut self, rate: &RateSample) {
        if self.config.path_cache.is_some() && !rate.app_limited {
            self.best_rate = self.best_rate.max(rate.rate);
        }
    }

    /// What the path delivered, if it was enough to be worth a jump (RFC 9959, section 3.1: four initial windows).
    fn found_path(&self) -> Option<SavedPath> {
        let found = SavedPath { window: Bytes(self.loss.best_round), rate: self.best_rate, rtt: self.rtt.min()? };
        let enough = initial_window::rfc6928(Bytes::from(self.mss()), initial_window::DEFAULT_SEGMENTS) * 4;
        (found.window >= enough && found.is_possible()).then_some(found)
    }

    /// What this connection took and could leave again: nothing was lost, its launch did not find that it is another path's, and it
    /// is not too old by now.
    fn kept_path(&self) -> Option<Learnt<SavedPath>> {
        let cache = self.config.path_cache.as_ref()?;
        let refused = self.controller.saved_path_use() == SavedPathUse::OtherPath;
        let kept = self.stats.recoveries == 0 && !refused;
        self.recalled.loan().filter(|loan| kept && cache.is_fresh(self.now, loan))
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
        self.recalled.asked.then(|| self.recalled.info(self.controller.saved_path_use()))
    }

    /// Something else than the window is about to become the limit: what is lost from then on meets the connection with
    /// less in flight, as at its end, and lowers the threshold below what the path carries.
    pub(super) fn keep_ssthresh(&mut self, next: SendLimit) {
        if self.config.path_cache.is_some() && is_window(self.limit) && !is_window(next) {
            self.kept_ssthresh = self.settled_ssthresh().or(self.kept_ssthresh);
        }
    }

    /// The threshold in congestion avoidance: slow start, and recovery, have yet to show what the path carries. A window
    /// that has doubled beyond it has shown that it was low.
    fn settled_ssthresh(&self) -> Option<Bytes> {
        let cwnd = self.control.cwnd;
        let ssthresh = self.controller.snapshot().ssthresh.filter(|ssthresh| *ssthresh <= cwnd)?;
        matches!(self.loss.phase, Phase::Open).then(|| ssthresh.max(cwnd / 2))
    }

    /// Whether the window, or its pace, was the limit for long, and for most of the time: what a connection that sends
    /// by fits and starts loses meets it with little in flight.
    fn is_about_its_window(&self) -> bool {
        let mut limited = self.stats.limited;
        if let Some(runs) = limited.get_mut(self.limit as usize).filter(|_| self.state.is_synchronized()) {
            *runs += self.now - self.limit_since;
        }
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
