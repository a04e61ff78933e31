//! SYN and SYN-ACK: what this end offers, and what follows from the peer's (RFC 9293, section 3.10.7.3).

use longhaul_cc::Needs;
use longhaul_units::Time;
use longhaul_wire::{Flags, Header, Timestamps};

use super::extension::{offered_header, offers_ack_rate, wants_probes};
use super::{Negotiated, Opening, Reclaimable, Timer};
use crate::{Config, State};

#[expect(clippy::multiple_inherent_impl, reason = "its use of the metrics cache")]
impl Opening<'_> {
    /// Advances SND.NXT over our SYN, which is ready to be sent, and arms its timers.
    pub(super) fn begin(&mut self, now: Time) {
        self.snd.nxt = 1;
        self.timers.arm(Timer::Rto, now + self.rtt.rto());
        if let Some(limit) = self.config.user_timeout {
            self.timers.arm(Timer::User, now + limit);
        }
    }

    pub(super) fn syn(&self, now: Time) -> Header {
        let offers_ecn = self.config.ecn && !self.ext.ecn_check.has_failed();
        let ecn = if offers_ecn { Flags::ECE | Flags::CWR } else { Flags::NONE };
        let mut header = Header {
            flags: Flags::SYN | ecn,
            window: self.rcv.syn_window(self.negotiated.syn_shift()),
            seq: self.numbers.initial.iss,
            ..Header::default()
        };
        let options = &mut header.options;
        options.mss = Some(self.pmtu.announced_mss());
        options.sack_permitted = self.config.sack;
        options.window_scale = self.config.window_scaling.then(|| self.config.window_shift());
        options.timestamps =
            self.config.timestamps.then(|| Timestamps { value: self.numbers.clock.value(now), echo: 0 });
        options.microsecond_timestamps = self.config.extensions && self.config.timestamps;
        options.scaled_window = requests_scaled_window(&self.cc.controller.needs(), self.config);
        options.arrival_permitted = self.config.extensions && wants_arrivals(&self.cc.controller.needs(), self.config);
        options.probe_permitted = offers_probe_echo(&self.cc.controller.needs(), self.config);
        options.ack_rate_permitted = offers_ack_rate(&self.cc.controller.needs(), self.config);
        options.user_timeout = self.peer.user_timeout.advice(self.config);
        header
    }

    pub(super) fn syn_ack(&mut self, now: Time) -> Header {
        let accepts_ecn = self.negotiated.ecn && !self.ext.ecn_check.has_failed();
        let ecn = if accepts_ecn { Flags::ECE } else { Flags::NONE };
        let mut header = Header {
            flags: Flags::SYN | Flags::ACK | ecn,
            window: self.rcv.syn_window(self.negotiated.syn_shift()),
            seq: self.numbers.initial.iss,
            ack: self.numbers.acknowledgment(1),
            ..Header::default()
        };
        let negotiated = *self.negotiated;
        let options = &mut header.options;
        options.mss = Some(self.pmtu.announced_mss());
        options.sack_permitted = negotiated.sack;
        options.window_scale = negotiated.window_scaling.then_some(negotiated.recv_shift);
        options.timestamps = negotiated
            .timestamps
            .then(|| Timestamps { value: self.numbers.clock.value(now), echo: self.rcv.ts_recent });
        options.microsecond_timestamps = negotiated.microseconds;
        options.scaled_window = negotiated.scaled_window;
        options.arrival_permitted = self.ext.arrivals.is_some();
        options.probe_permitted = negotiated.probe_echo;
        options.ack_rate_permitted = negotiated.ack_rate;
        // Sent only if the SYN had the option, so that the answer to an unvalidated address is not longer than the
        // SYN.
        options.user_timeout =
            self.peer.user_timeout.advice(self.config).filter(|_| self.peer.user_timeout.remote.is_some());
        self.rcv.on_ack_sent();
        header
    }

    /// Processes the peer's SYN: sequence number, options, window.
    pub(super) fn process_syn(&mut self, now: Time, syn: &Header) {
        self.numbers.initial.irs = syn.seq;
        let options = &syn.options;
        let config = &*self.config;
        // Negotiate the options that both sides support.
        let scaling = config.window_scaling && options.window_scale.is_some();
        let timestamps = config.timestamps && options.timestamps.is_some();
        let microseconds = timestamps && config.extensions && options.microsecond_timestamps;
        *self.negotiated = Negotiated {
            window_scaling: scaling,
            send_shift: if scaling { options.window_scale.unwrap_or(0) } else { 0 },
            recv_shift: if scaling { config.window_shift() } else { 0 },
            sack: config.sack && options.sack_permitted,
            timestamps,
            ecn: config.ecn && ecn_setup(syn.flags),
            microseconds,
            probe_echo: timestamps && config.extensions && options.probe_permitted,
            network: config.extensions && options.network_permitted,
            scaled_window: config.extensions && scaling && options.scaled_window,
            whole_window: false,
            ack_rate: config.extensions && options.ack_rate_permitted,
        };
        // Set the window that our SYN or SYN-ACK offers.
        let answers = self.life.state == State::SynSent && syn.flags.contains(Flags::ACK);
        let scaled = self.negotiated.scaled_window
            && answers
            && requests_scaled_window(&self.cc.controller.needs(), self.config);
        // Segments after the handshake have scaled windows, so the accepting side learns the whole window from its ACK.
        self.negotiated.whole_window = scaled || self.life.state == State::SynReceived;
        // In a simultaneous open neither side sends a SYN-ACK whose window could be scaled.
        self.negotiated.scaled_window &= self.life.state == State::SynReceived;
        let shift = if self.negotiated.scaled_window { self.negotiated.recv_shift } else { 0 };
        self.rcv.on_peer_syn(u64::from(self.rcv.syn_window(self.negotiated.syn_shift())) << shift, scaling);
        // In an active open, ignore extensions that our SYN did not request.
        self.negotiated.probe_echo &=
            self.life.state != State::SynSent || offers_probe_echo(&self.cc.controller.needs(), self.config);
        self.negotiated.ack_rate &=
            self.life.state != State::SynSent || offers_ack_rate(&self.cc.controller.needs(), self.config);
        self.negotiated.network &=
            self.life.state != State::SynSent || offered_header(&self.cc.controller.needs(), self.config).is_some();
        // A request of the peer is granted; an answer without a request is ignored.
        let arrivals = config.extensions && options.arrival_permitted;
        let asked = self.life.state != State::SynSent || wants_arrivals(&self.cc.controller.needs(), self.config);
        self.ext.arrivals = (arrivals && asked).then(|| Reclaimable::new(()));
        // Initialize the receive and send variables.
        if microseconds {
            self.numbers.clock.micros = true;
        }
        if let Some(stamp) = options.timestamps.filter(|_| timestamps) {
            self.rcv.set_ts_recent(stamp.value, now);
        }
        self.peer.user_timeout.take_advice(syn.options.user_timeout, self.config, self.rtt.rto());
        let window = u64::from(syn.window) << if scaled { self.negotiated.send_shift } else { 0 };
        let mss = self.snd.on_peer_syn(options.mss.unwrap_or(self.pmtu.default_peer_mss()), window);
        self.pmtu.peer_mss = mss;
        self.pmtu.options = self.negotiated.data_options(self.ext);
    }
}

fn wants_arrivals(needs: &Needs, config: &Config) -> bool {
    let (required, preferred) = (needs.required, needs.preferred);
    config.arrival_times
        || config.probe_pairs
        || required.arrival_times
        || preferred.arrival_times
        || required.pairs
        || preferred.pairs
}

/// Returns whether to request probe echoes. They cost the peer an ACK per out-of-order segment, so only a
/// controller that sends probes requests them.
fn offers_probe_echo(needs: &Needs, config: &Config) -> bool {
    config.extensions && config.timestamps && config.sack && wants_probes(needs)
}

/// Returns whether to request a scaled window in the SYN-ACK, so that more than 64 KiB may be sent in the first
/// round trip.
fn requests_scaled_window(needs: &Needs, config: &Config) -> bool {
    let wants = needs.required.whole_window || needs.preferred.whole_window;
    wants && config.extensions && config.window_scaling
}

/// Returns whether a SYN or SYN-ACK is ECN-setup (RFC 3168, section 6.1.1).
fn ecn_setup(flags: Flags) -> bool {
    if flags.contains(Flags::ACK) {
        flags.contains(Flags::ECE) && !flags.contains(Flags::CWR)
    } else {
        flags.contains(Flags::ECE | Flags::CWR)
    }
}
