//! Extensions agreed on in the handshake, and validation of the peer's ECN echoes.
//!
//! Each extension processes its own options in a module of its own. This one decides which of them are in use, and has
//! what concerns several of them.

use longhaul_cc::{AckFrequency, Granted, Needs};
use longhaul_units::Time;

use super::ack_frequency::{self, AckRequests};
use super::arrivals::ArrivalTimes;
use super::ecn_check::EcnCheck;
use super::pairs::Pairs;
use super::probes::{self, ProbeReport, Probes};
use super::{LazyNetwork, Negotiated};
use crate::{ProbeInfo, add};

#[derive(Debug, Default)]
pub(super) struct Extensions {
    pub(super) ecn_check: EcnCheck,
    /// State of the arrival-times option, if negotiated.
    pub(super) arrivals: Option<Box<ArrivalTimes>>,
    /// Flipped pairs, if they are sent.
    pub(super) pairs: Option<Box<Pairs>>,
    /// Probes, if the controller uses them.
    pub(super) probes: Option<Box<Probes>>,
    /// Requests to routers, and their answers.
    pub(super) network: LazyNetwork,
    /// State of the ACK rate option, if negotiated.
    pub(super) ack_frequency: Option<Box<AckRequests>>,
}

impl Extensions {
    /// Starts the extensions that the controller needs and both sides support, and adds them to `granted`. `pairs`
    /// means that the application wants flipped pairs.
    pub(super) fn start(&mut self, negotiated: Negotiated, needs: &Needs, pairs: bool, granted: &mut Granted) {
        granted.arrival_times = self.arrivals.is_some();
        // The answer to a pair is read from SACK blocks.
        granted.pairs = negotiated.sack && (pairs || needs.required.pairs || needs.preferred.pairs);
        self.pairs = granted.pairs.then(Box::default);
        let kind = self.network.kind().filter(|_| negotiated.network);
        self.network.set_negotiated(kind);
        granted.network_header = self.network.kind();
        // An answer to a probe is a D-SACK or an echoed timestamp.
        granted.probes = probes::wants(needs) && negotiated.sack && negotiated.timestamps;
        granted.probe_echo = negotiated.probe_echo;
        self.probes = granted.probes.then(|| Box::new(Probes::new(negotiated.probe_echo)));
        // A peer that permits network feedback also honours ACK rate requests (`docs/wire.md`).
        let (wanted, heeds) = (ack_frequency::wanted(needs), negotiated.ack_rate || negotiated.network);
        granted.ack_frequency = heeds && wanted != AckFrequency::Usual;
        self.ack_frequency = heeds.then(|| Box::new(AckRequests::new(wanted)));
    }

    /// Records when a segment of the peer that begins at `start` arrived, if the peer requested reports.
    #[inline]
    pub(super) fn note_arrival(&mut self, start: i64, at: Time, coalesced: bool) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.note(start.max(1) as u64, at, coalesced);
        }
    }

    /// Updates the counters for data that the RC3 loop sends as the controller's probes, if they are in use.
    pub(super) fn count_probes(&mut self, count: impl FnOnce(&mut ProbeInfo)) {
        if let Some(probes) = &mut self.probes {
            count(probes.info_mut());
        }
    }

    /// Counts an acknowledgment of data that was not sent, which concerns the RC3 loop if it `has_rc3`.
    pub(super) fn count_invalid_ack(&mut self, has_rc3: bool) {
        if has_rc3 {
            self.count_probes(|info| add(&mut info.refused, 1));
        }
    }

    /// Returns the outcome of probes since the last call.
    pub(super) fn take_probe_report(&mut self) -> ProbeReport {
        self.probes.as_mut().map(|probes| probes.take_report()).unwrap_or_default()
    }

    /// Returns the bytes that the RC3 loop delivered outside the congestion window.
    pub(super) fn carried(&self) -> u64 {
        self.probes.as_ref().map_or(0, |probes| probes.info().carried)
    }

    /// Returns whether a D-SACK lies within one of the newest flipped pairs.
    pub(super) fn is_flipped(&self, left: u64, right: u64) -> bool {
        self.pairs.as_ref().is_some_and(|pairs| pairs.holds(left, right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(negotiated: Negotiated, needs: &Needs, pairs: bool) -> (Extensions, Granted) {
        let (mut ext, mut granted) = (Extensions::default(), Granted::basic());
        ext.start(negotiated, needs, pairs, &mut granted);
        (ext, granted)
    }

    /// What a controller needs is granted only if the peer supports the options on which it relies.
    #[test]
    fn extensions_need_the_options_they_rely_on() {
        let mut needs = Needs::default();
        (needs.preferred.probes, needs.preferred.pairs) = (true, true);
        for (sack, timestamps) in [(false, false), (false, true), (true, false), (true, true)] {
            let (ext, granted) = started(Negotiated { sack, timestamps, ..Negotiated::default() }, &needs, false);
            assert_eq!((granted.pairs, ext.pairs.is_some()), (sack, sack));
            assert_eq!((granted.probes, ext.probes.is_some()), (sack && timestamps, sack && timestamps));
        }
        let all = Negotiated { sack: true, timestamps: true, ack_rate: true, ..Negotiated::default() };
        let (ext, granted) = started(all, &Needs::default(), false);
        assert!(!granted.pairs && !granted.probes && !granted.ack_frequency, "nothing is needed");
        assert!(ext.ack_frequency.is_some(), "but the peer may request another ACK frequency");
        assert!(started(all, &Needs::default(), true).1.pairs, "the application wants pairs");
    }
}
