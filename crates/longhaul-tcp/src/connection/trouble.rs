//! What the host says against the path, and the peer's silence (RFC 9293, sections 3.8.3, 3.9.1.8 and 3.9.2.2).

use longhaul_units::{Span, Time};

use super::timers::Timer;
use super::{Connection, Event};
use crate::error::{ConnectionError, HostError};
use crate::info::add;
use crate::state::State;

/// RFC 9293, section 3.8.3 (SHLD-10): R1 is three retransmissions at least.
const R1: u32 = 3;

/// How long after a report that nobody listens any more the peer is asked, and the least time for each answer.
const DOUBT_PAUSE: Span = Span::from_millis(100);
/// Segments that have to be refused, one after the other, before the peer is believed to be gone.
const DOUBT_PROBES: u32 = 3;

/// The host's errors so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trouble {
    last: Option<(HostError, Time)>,
    count: u64,
    doubt: Option<Doubt>,
}

/// An established connection was told that its peer's port is closed, and asks.
#[derive(Clone, Copy, Debug, Default)]
struct Doubt {
    /// Probes refused so far.
    refused: u32,
    /// When the probe left that is not answered yet.
    probed_at: Option<Time>,
    /// It was refused.
    is_refused: bool,
}

impl Trouble {
    pub(super) fn last(&self) -> Option<HostError> {
        self.last.map(|(error, _)| error)
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    fn note(&mut self, error: HostError, now: Time) {
        self.last = Some((error, now));
        add(&mut self.count, 1);
    }
}

impl Connection {
    /// The host says something against the path to the peer. It is remembered, and ends nothing: it may pass
    /// (RFC 1122, section 4.2.3.9), and can be forged (RFC 5927, section 4). Two things are confirmed and then believed:
    /// in SYN-SENT, that the peer cannot be reached or does not listen, if the next SYN meets with the same; later, that
    /// the peer's port is closed, if three segments in a row that a living peer would answer are refused and nothing is
    /// heard of it meanwhile (RFC 1122, section 4.2.3.9: a hard error; RFC 5461, section 4.1, has the risk).
    pub fn handle_host_error(&mut self, now: Time, error: HostError) {
        let now = self.advance(now);
        if self.life.state == State::Closed {
            return;
        }
        self.peer.trouble.note(error, now);
        match self.life.state {
            State::SynSent if error != HostError::Other => self.on_refusal(now, error),
            state if state.is_synchronized() && error == HostError::Refused => self.doubt_peer(now),
            _ => {}
        }
    }

    /// The peer's port is said to be closed: asks, or notes what became of the question.
    fn doubt_peer(&mut self, now: Time) {
        if self.life.state == State::TimeWait {
            return;
        }
        match &mut self.peer.trouble.doubt {
            Some(doubt) => doubt.is_refused |= doubt.probed_at.is_some_and(|at| now > at),
            None => {
                self.peer.trouble.doubt = Some(Doubt::default());
                self.timers.arm(Timer::Doubt, now + DOUBT_PAUSE);
            }
        }
    }

    /// The time for an answer has passed.
    pub(super) fn on_doubt(&mut self, now: Time) {
        let Some(mut doubt) = self.peer.trouble.doubt.take() else { return };
        if doubt.probed_at.is_some() && !doubt.is_refused {
            // Neither an answer nor a refusal: silence is for the other timers.
            return;
        }
        doubt.refused += u32::from(doubt.is_refused);
        if doubt.refused >= DOUBT_PROBES {
            self.finish(Some(ConnectionError::Gone));
            return;
        }
        (doubt.probed_at, doubt.is_refused) = (Some(now), false);
        self.peer.trouble.doubt = Some(doubt);
        let probe = self.keep_alive_header(now);
        self.rcv.ack_queue.push_back(probe);
        self.timers.arm(Timer::Doubt, now + self.rtt.base_rto().max(DOUBT_PAUSE));
    }

    /// The peer was heard.
    pub(super) fn trust_peer(&mut self) {
        if self.peer.trouble.doubt.take().is_some() {
            self.timers.stop(Timer::Doubt);
        }
    }

    /// What the host last said against the path, unless the peer was heard of since: the likely cause of a time-out.
    #[must_use]
    pub fn host_error(&self) -> Option<HostError> {
        let heard = |at| self.life.handshake.is_none() && at < self.peer.last_heard;
        self.peer.trouble.last.filter(|(_, at)| !heard(*at)).map(|(error, _)| error)
    }

    /// Whether R1 is reached: that many retransmissions in a row, those of a SYN included, went unanswered. Probes of a
    /// closed window count only if they were not answered, either.
    #[must_use]
    pub fn is_past_r1(&self) -> bool {
        self.unanswered() >= R1
    }

    /// After a retransmission timeout: whether the application is to be told.
    pub(super) fn consider_r1(&mut self) {
        if self.unanswered() == R1 {
            self.life.events.raise(Event::Stalled);
        }
    }

    fn unanswered(&self) -> u32 {
        if matches!(self.life.state, State::Closed | State::TimeWait) {
            return 0;
        }
        if self.snd.persist.in_flight { self.snd.persist.repetitions() } else { self.rtt.backoff() }
    }
}
