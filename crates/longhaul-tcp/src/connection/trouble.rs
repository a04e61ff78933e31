//! What the host says against the path, and the peer's silence (RFC 9293, sections 3.8.3, 3.9.1.8 and 3.9.2.2).

use longhaul_units::Time;

use super::{Connection, Event};
use crate::error::HostError;
use crate::info::add;
use crate::state::State;

/// RFC 9293, section 3.8.3 (SHLD-10): R1 is three retransmissions at least.
const R1: u32 = 3;

/// The host's errors so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trouble {
    last: Option<(HostError, Time)>,
    count: u64,
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
    /// (RFC 1122, section 4.2.3.9), and can be forged (RFC 5927, section 4). Only a connection in SYN-SENT that is
    /// refused, and refused again when it asks once more, is ended by it.
    pub fn handle_host_error(&mut self, now: Time, error: HostError) {
        let now = self.advance(now);
        if self.state == State::Closed {
            return;
        }
        self.trouble.note(error, now);
        if self.state == State::SynSent && error == HostError::Refused {
            self.on_refusal(now);
        }
    }

    /// What the host last said against the path, unless the peer was heard of since: the likely cause of a time-out.
    #[must_use]
    pub fn host_error(&self) -> Option<HostError> {
        let heard = |at| self.handshake.is_none() && at < self.last_heard;
        self.trouble.last.filter(|(_, at)| !heard(*at)).map(|(error, _)| error)
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
            self.events.raise(Event::Stalled);
        }
    }

    fn unanswered(&self) -> u32 {
        if matches!(self.state, State::Closed | State::TimeWait) {
            return 0;
        }
        if self.snd.persist.in_flight { self.snd.persist.repetitions() } else { self.rtt.backoff() }
    }
}
