//! The smaller form of an established connection that rests: nothing is to be sent, read or acknowledged.
//!
//! Parts of it then have the values of a new connection, and only the others are kept. A connection takes this form some
//! time after its last data, and its former one before anything is done with it.

use std::sync::Arc;

use longhaul_units::{Span, Time};

use super::ecn_check::EcnCheck;
use super::extension;
use super::lifecycle::EventSet;
use super::loss::RestingLoss;
use super::moderation::tolerable_delay;
use super::receiver::RestingReceiver;
use super::sender::RestingSender;
use super::timers::{RestingTimers, Timer};
use super::{
    CongestionDriver, Extensions, Lifecycle, Liveness, Negotiated, Numbers, Observers, Pmtu, Pressure, Timers,
};
use crate::{Config, Connection, RttEstimator, State, Stats};

/// A connection at rest.
#[derive(Debug)]
pub(crate) struct Dormant {
    config: Arc<Config>,
    created_at: Time,
    pressure: Pressure,
    negotiated: Negotiated,
    numbers: Numbers,
    snd: RestingSender,
    rcv: RestingReceiver,
    rtt: RttEstimator,
    loss: RestingLoss,
    cc: CongestionDriver,
    pmtu: Pmtu,
    ecn_check: EcnCheck,
    has_arrivals: bool,
    extensions: extension::List,
    peer: Liveness,
    timers: RestingTimers,
    stats: Stats,
}

/// What a connection at rest keeps of its larger parts.
struct Resting {
    snd: RestingSender,
    rcv: RestingReceiver,
    loss: RestingLoss,
    timers: RestingTimers,
}

#[expect(clippy::multiple_inherent_impl, reason = "one file per phase")]
impl Connection {
    /// Returns the smaller form, or the connection itself if it is not at rest.
    pub(crate) fn rest(mut self: Box<Self>) -> Result<Dormant, Box<Self>> {
        let Some(resting) = self.resting() else { return Err(self) };
        // Arrival times that were not reported yet belong to data that a segment without such reports has acknowledged.
        if let Some(arrivals) = &mut self.ext.arrivals {
            **arrivals = Default::default();
        }
        let before = cfg!(debug_assertions).then(|| format!("{:?}", self.contents()));
        let dormant = Dormant::new(*self, resting);
        let Some(before) = before else { return Ok(dormant) };
        // Tests check each connection: it wakes as it was.
        let mut again = dormant.wake();
        debug_assert_eq!(format!("{:?}", again.contents()), before);
        match again.resting() {
            Some(resting) => Ok(Dormant::new(again, resting)),
            None => Err(Box::new(again)),
        }
    }

    /// Returns what the larger parts keep, if all of them are at rest, and the state and the other parts permit it.
    fn resting(&mut self) -> Option<Resting> {
        let Lifecycle { state, error, orphaned, .. } = self.life;
        let is_open = state == State::Established && error.is_none() && !orphaned;
        let is_silent = self.events.is_empty() && self.life.reset.is_none() && self.observers.is_empty();
        if !is_open || !is_silent || !self.ext.is_passive() {
            return None;
        }
        let (snd, rcv, timers) = (self.snd.rest()?, self.rcv.rest()?, self.timers.rest()?);
        // Nothing is outstanding that could still be lost.
        self.loss.settle();
        Some(Resting { snd, rcv, loss: self.loss.rest()?, timers })
    }

    /// Returns once whether the connection may rest: it has been idle for long enough, or woken by a call without effect.
    pub(crate) fn may_rest(&mut self) -> bool {
        std::mem::take(&mut self.life.may_rest)
    }

    /// Records that the connection has woken.
    pub(crate) fn note_waking(&mut self) {
        self.life.woken_at = Some(self.stats.segments());
    }

    /// Ends the call that has woken the connection, if one has: it rests again at once after a call without effect, and
    /// otherwise after another idle period, unless it has sent data or does not wait for any more.
    pub(crate) fn settle_after_waking(&mut self, now: Time) {
        let Some(segments) = self.life.woken_at.take() else { return };
        if segments == self.stats.segments() {
            self.life.may_rest = true;
        } else if self.life.state == State::Established && !self.snd.has_outstanding() {
            self.timers.arm(Timer::Idle, now + self.rtt.base_rto());
        }
    }
}

impl Dormant {
    /// Returns what is kept of a connection at rest.
    fn new(connection: Connection, resting: Resting) -> Self {
        let Connection { config, life, negotiated, numbers, rtt, cc, pmtu, ext, peer, stats, .. } = connection;
        let Resting { snd, rcv, loss, timers } = resting;
        let Lifecycle { created_at, pressure, .. } = life;
        let (ecn_check, has_arrivals) = (ext.ecn_check, ext.arrivals.is_some());
        Self {
            config,
            created_at,
            pressure,
            negotiated,
            numbers,
            snd,
            rcv,
            rtt,
            loss,
            cc,
            pmtu,
            ecn_check,
            has_arrivals,
            extensions: ext.into_list(),
            peer,
            timers,
            stats,
        }
    }

    /// Returns the connection as it was.
    pub(crate) fn wake(self) -> Connection {
        let Self { config, created_at, pressure, negotiated, numbers, rtt, cc, pmtu, peer, stats, .. } = self;
        let life = Lifecycle { state: State::Established, pressure, ..Lifecycle::new(created_at) };
        let ext = Extensions::wake(self.ecn_check, self.has_arrivals, self.extensions);
        Connection {
            config,
            life,
            negotiated,
            numbers,
            snd: self.snd.wake(),
            rcv: self.rcv.wake(),
            rtt,
            loss: self.loss.wake(),
            cc,
            pmtu,
            ext,
            peer,
            timers: Timers::wake(self.timers),
            stats,
            events: EventSet::default(),
            observers: Observers::default(),
        }
    }

    /// Returns [`Connection::tolerable_delay`].
    pub(crate) fn tolerable_delay(&self) -> Option<Span> {
        tolerable_delay(&self.rtt)
    }
}
