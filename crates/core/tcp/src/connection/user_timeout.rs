//! User timeout, and the option that advertises it to the peer (RFC 5482).
//!
//! The RFC's variables correspond as follows: ADV_UTO is the timeout set by the application, or our default; ENABLED
//! is [`Config::user_timeout_option`]; CHANGEABLE holds if the application set no timeout or set
//! [`Config::user_timeout_changeable`]; REMOTE_UTO is the peer's last advice; USER_TIMEOUT, the value in use, is
//! `config.user_timeout` of the connection.

use std::sync::Arc;

use longhaul_units::Span;
use longhaul_wire::UserTimeout as Advice;

use crate::Config;

/// R2 without a user timeout: fifteen consecutive timeouts at the minimum RTO.
const DEFAULT: Span = Span::from_secs(15 * 60);
/// L_LIMIT, which is at least 100 seconds (RFC 5482, section 3.1).
const LOWER_LIMIT: Span = Span::from_secs(100);
/// U_LIMIT. RFC 5482, section 3.1, leaves it open, but its section 6 requires one, so that peers that have disappeared
/// do not occupy memory for weeks. One hour covers a suspended laptop, a tunnel, or a router that restarts.
const UPPER_LIMIT: Span = Span::from_secs(3600);

#[derive(Clone, Copy, Debug)]
pub(super) struct UserTimeout {
    local: Option<Span>,
    pub(super) remote: Option<Span>,
}

impl UserTimeout {
    pub(super) fn new(config: &Config) -> Self {
        Self { local: config.user_timeout, remote: None }
    }

    pub(super) fn advice(&self, config: &Config) -> Option<Advice> {
        Advice::from_span(self.local.unwrap_or(DEFAULT)).filter(|_| config.user_timeout_option)
    }

    pub(super) fn take_advice(&mut self, advice: Option<Advice>, config: &mut Arc<Config>, rto: Span) {
        let Some(advice) = advice.filter(|_| config.user_timeout_option) else { return };
        if self.remote != Some(advice.span()) {
            self.remote = Some(advice.span());
            self.apply(config, rto);
        }
    }

    /// Calls `change` with the application's user timeout in place of the one in use. Returns whether the advertised
    /// value changed.
    pub(super) fn change(&mut self, config: &mut Arc<Config>, rto: Span, change: impl FnOnce(&mut Config)) -> bool {
        let before = self.advice(config);
        let changed = Arc::make_mut(config);
        changed.user_timeout = self.local;
        change(changed);
        self.local = changed.user_timeout;
        self.apply(config, rto);
        self.advice(config) != before
    }

    fn apply(&self, config: &mut Arc<Config>, rto: Span) {
        let effective = self.effective(config, rto);
        if effective != config.user_timeout {
            Arc::make_mut(config).user_timeout = effective;
        }
    }

    /// Returns USER_TIMEOUT (RFC 5482, section 3.1). `None` means that R2 applies.
    fn effective(&self, config: &Config, rto: Span) -> Option<Span> {
        let changeable = self.local.is_none() || config.user_timeout_changeable;
        let Some(remote) = self.remote.filter(|_| config.user_timeout_option && changeable) else { return self.local };
        if self.local.is_none() && remote <= DEFAULT {
            return None;
        }
        // The lower limit must exceed the RTO.
        let lower = LOWER_LIMIT.max(rto * 2);
        Some(self.local.unwrap_or(DEFAULT).max(remote).max(lower).min(UPPER_LIMIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTO: Span = Span::from_secs(1);

    fn effective(local: Option<u64>, remote: Option<u64>, changeable: bool, rto: Span) -> Option<u64> {
        let config = Config { user_timeout_option: true, user_timeout_changeable: changeable, ..Config::default() };
        let both = UserTimeout { local: local.map(Span::from_secs), remote: remote.map(Span::from_secs) };
        both.effective(&config, rto).map(|span| span.as_nanos() / 1_000_000_000)
    }

    /// USER_TIMEOUT = min(U_LIMIT, max(ADV_UTO, REMOTE_UTO, L_LIMIT)), if CHANGEABLE.
    #[test]
    fn the_formula_of_rfc_5482() {
        assert_eq!(effective(Some(30), Some(200), true, RTO), Some(200));
        assert_eq!(effective(Some(300), Some(200), true, RTO), Some(300));
        assert_eq!(effective(Some(1), Some(2), true, RTO), Some(100), "the lower limit");
        assert_eq!(effective(Some(1), Some(2), true, Span::from_secs(120)), Some(240), "above the RTO");
        assert_eq!(effective(Some(1), Some(1_000_000), true, RTO), Some(3600), "the upper limit");
        assert_eq!(effective(None, Some(2_000), false, RTO), Some(2_000));
        assert_eq!(effective(None, Some(1_000_000), false, RTO), Some(3600));
        assert_eq!(effective(None, Some(2), false, RTO), None, "the default is longer");
        assert_eq!(effective(Some(30), Some(200), false, RTO), Some(30), "the application set a timeout");
        assert_eq!(effective(Some(30), None, true, RTO), Some(30));
    }
}
