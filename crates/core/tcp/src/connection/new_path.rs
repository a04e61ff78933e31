//! Continuation of a connection on another path (`docs/wire.md`, "Move").

use longhaul_cc::PathEvent;
use longhaul_units::{Bytes, Time};

use super::congestion::CongestionDriver;
use super::extension::Mover;
use super::{Engine, Pmtu};
use crate::mobility::Mobility;
use crate::{ConnectionEvent, RttEstimator, Tuple};

#[expect(clippy::multiple_inherent_impl, reason = "one file per phase")]
impl Engine<'_> {
    /// Lets a client move to other paths.
    pub(crate) fn add_mover(&mut self, mobility: Mobility) {
        // The mover is the first extension, because it can hold back the others.
        self.ext.list.insert(0, Box::new(Mover::new(mobility)));
    }

    /// Continues on the path between other addresses. Window, round-trip time and path MTU start anew, unless `keeps`: if
    /// only a port has changed, the path is the same.
    pub(crate) fn change_path(&mut self, now: Time, tuple: &Tuple, keeps: bool) {
        self.observers.report(now, || {
            let local = Some(tuple.local).filter(|local| !local.is_unspecified());
            ConnectionEvent::Moved { remote: tuple.remote, local, keeps_path: keeps }
        });
        if !keeps {
            let mut pmtu = Pmtu::new(self.config, tuple.is_ipv6());
            (pmtu.peer_mss, pmtu.options) = (self.pmtu.peer_mss, self.pmtu.options);
            *self.pmtu = pmtu;
            let mut rtt = RttEstimator::new(self.config.min_rto);
            if let Some(srtt) = self.rtt.srtt {
                rtt.expect(srtt, self.rtt.rttvar);
            }
            *self.rtt = rtt;
            self.restart_controller(now);
        }
        self.abandon_flight(now);
        self.peer.stop_probing(self.timers);
        // An ACK tells the peer that the path works.
        self.rcv.acks.due = true;
    }

    /// Replaces the controller by a new one for an unknown path.
    fn restart_controller(&mut self, now: Time) {
        let mss = Bytes::from(self.pmtu.mss());
        let former = std::mem::replace(self.cc, CongestionDriver::new(self.config, mss, now));
        let established = former.sending.kept.established;
        (self.cc.rate, self.cc.limits) = (former.rate, former.limits);
        let Some((_, mut granted)) = established else { return };
        granted.saved_path = false;
        let path = self.cc.path(self.snd, self.loss, self.rtt, self.pmtu.mss());
        // The former controller has accepted the same features.
        let _ = self.cc.start(&granted, &path);
        self.cc.sending.kept.established = Some((now, granted));
        self.control_loop().tell(&PathEvent::Established { now, granted });
    }
}
