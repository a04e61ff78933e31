//! The user timeout, and the option that tells the peer of it (RFC 5482).
//!
//! Its names: ADV_UTO is what the application set, or our default; ENABLED is [`Config::user_timeout_option`];
//! CHANGEABLE is that the application set nothing, or [`Config::user_timeout_changeable`]; REMOTE_UTO is what the peer
//! told last; USER_TIMEOUT, what is in force, is the connection's `config.user_timeout`.

use std::sync::Arc;

use longhaul_units::{Span, Time};
use longhaul_wire::UserTimeout as Advice;

use super::Connection;
use crate::config::Config;

/// What R2 comes to without a user timeout: fifteen timeouts in a row, at the least RTO.
const DEFAULT: Span = Span::from_secs(15 * 60);
/// RFC 5482, section 3.1: L_LIMIT is at least 100 seconds.
const LOWER_LIMIT: Span = Span::from_secs(100);
/// RFC 5482, section 3.1, leaves U_LIMIT open; its section 6 wants one, lest peers that are gone bind memory for weeks.
/// An hour bridges what a user waits for: a suspended laptop, a tunnel, a router that starts anew.
const UPPER_LIMIT: Span = Span::from_secs(3600);

/// What either side wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct UserTimeout {
    /// The application's.
    local: Option<Span>,
    /// The peer's advice.
    remote: Option<Span>,
}

impl UserTimeout {
    pub(super) fn new(config: &Config) -> Self {
        Self { local: config.user_timeout, remote: None }
    }

    pub(super) fn remote(&self) -> Option<Span> {
        self.remote
    }

    /// RFC 5482, section 3.1. `None` leaves it to R2.
    fn in_force(&self, config: &Config, rto: Span) -> Option<Span> {
        let changeable = self.local.is_none() || config.user_timeout_changeable;
        let Some(remote) = self.remote.filter(|_| config.user_timeout_option && changeable) else { return self.local };
        if self.local.is_none() && remote <= DEFAULT {
            return None;
        }
        // The lower limit must be above the RTO.
        let lower = LOWER_LIMIT.max(rto * 2);
        Some(self.local.unwrap_or(DEFAULT).max(remote).max(lower).min(UPPER_LIMIT))
    }
}

impl Connection {
    /// The option that tells the peer of our user timeout, if the application wants it told.
    pub(super) fn user_timeout_advice(&self) -> Option<Advice> {
        let wanted = self.peer.user_timeout.local.unwrap_or(DEFAULT);
        Advice::from_span(wanted).filter(|_| self.config.user_timeout_option)
    }

    /// The peer told of its user timeout.
    pub(super) fn take_user_timeout(&mut self, advice: Option<Advice>) {
        let Some(advice) = advice.filter(|_| self.config.user_timeout_option) else { return };
        if self.peer.user_timeout.remote != Some(advice.span()) {
            self.peer.user_timeout.remote = Some(advice.span());
            self.settle_user_timeout();
        }
    }

    /// Lets `change` see and set the application's user timeout in place of the one in force. Whether it was changed.
    pub(super) fn change_config(&mut self, change: impl FnOnce(&mut Config)) -> bool {
        let before = self.user_timeout_advice();
        let config = Arc::make_mut(&mut self.config);
        config.user_timeout = self.peer.user_timeout.local;
        change(config);
        self.peer.user_timeout.local = config.user_timeout;
        self.settle_user_timeout();
        self.user_timeout_advice() != before
    }

    fn settle_user_timeout(&mut self) {
        let in_force = self.peer.user_timeout.in_force(&self.config, self.rtt.rto());
        if in_force != self.config.user_timeout {
            Arc::make_mut(&mut self.config).user_timeout = in_force;
        }
    }

    /// An ACK with the option goes out on its own: it is new, or no segment without SYN has carried it yet. Data
    /// segments stay free of it, which makes them all of one length.
    pub(super) fn announce_user_timeout(&mut self, now: Time) {
        let Some(advice) = self.user_timeout_advice().filter(|_| self.life.state.is_synchronized()) else { return };
        let mut header = self.ack_header(now);
        header.options.user_timeout = Some(advice);
        header.fit();
        self.rcv.ack_queue.push_back(header);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTO: Span = Span::from_secs(1);

    fn in_force(local: Option<u64>, remote: Option<u64>, changeable: bool, rto: Span) -> Option<u64> {
        let config = Config { user_timeout_option: true, user_timeout_changeable: changeable, ..Config::default() };
        let both = UserTimeout { local: local.map(Span::from_secs), remote: remote.map(Span::from_secs) };
        both.in_force(&config, rto).map(|span| span.as_nanos() / 1_000_000_000)
    }

    /// USER_TIMEOUT = min(U_LIMIT, max(ADV_UTO, REMOTE_UTO, L_LIMIT)), if it may be changed.
    #[test]
    fn the_formula_of_rfc_5482() {
        assert_eq!(in_force(Some(30), Some(200), true, RTO), Some(200));
        assert_eq!(in_force(Some(300), Some(200), true, RTO), Some(300));
        assert_eq!(in_force(Some(1), Some(2), true, RTO), Some(100), "the lower limit");
        assert_eq!(in_force(Some(1), Some(2), true, Span::from_secs(120)), Some(240), "above the RTO");
        assert_eq!(in_force(Some(1), Some(1_000_000), true, RTO), Some(3600), "the upper limit");
        assert_eq!(in_force(None, Some(2_000), false, RTO), Some(2_000));
        assert_eq!(in_force(None, Some(1_000_000), false, RTO), Some(3600));
        assert_eq!(in_force(None, Some(2), false, RTO), None, "the default is longer");
        assert_eq!(in_force(Some(30), Some(200), false, RTO), Some(30), "the application has spoken");
        assert_eq!(in_force(Some(30), None, true, RTO), Some(30));
    }
}
