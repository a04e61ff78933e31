//! SYN and SYN-ACK: the options that this end offers, and those negotiated with the peer (RFC 9293, section 3.10.7.3).

use longhaul_cc::{AckFrequency, Demands};
use longhaul_units::Time;
use longhaul_wire::{Flags, Header, Options, Timestamps};

use super::extension::offered_header;
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

    fn syn_header(&self, flags: Flags, options: Options) -> Header {
        let window = self.rcv.syn_window(self.negotiated.syn_shift());
        let options = Options { mss: Some(self.pmtu.announced_mss()), ..options };
        Header { flags, window, seq: self.numbers.initial.iss, ack: 0, options }
    }

    pub(super) fn syn(&self, now: Time) -> Header {
        let offers_ecn = self.config.ecn && !self.ext.ecn_check.has_failed();
        let ecn = if offers_ecn { Flags::ECE | Flags::CWR } else { Flags::NONE };
        let mut header = self.syn_header(Flags::SYN | ecn, offered(&self.cc.wants(), self.config));
        let options = &mut header.options;
        options.sack_permitted = self.config.sack;
        options.window_scale = self.config.window_scaling.then(|| self.config.window_shift());
        options.timestamps =
            self.config.timestamps.then(|| Timestamps { value: self.numbers.clock.value(now), echo: 0 });
        options.user_timeout = self.peer.user_timeout.advice(self.config);
        header
    }

    pub(super) fn syn_ack(&mut self, now: Time) -> Header {
        let accepts_ecn = self.negotiated.ecn && !self.ext.ecn_check.has_failed();
        let ecn = if accepts_ecn { Flags::ECE } else { Flags::NONE };
        let mut header = self.syn_header(Flags::SYN | Flags::ACK | ecn, Options::NONE);
        header.ack = self.numbers.acknowledgment(1);
        let negotiated = *self.negotiated;
        let options = &mut header.options;
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
        // Sent only if the SYN had the option, so that the reply to an unvalidated address is not longer than the SYN.
        options.user_timeout =
            self.peer.user_timeout.advice(self.config).filter(|_| self.peer.user_timeout.remote.is_some());
        self.rcv.on_ack_sent();
        header
    }

    /// Processes the peer's SYN: sequence number, options, window.
    pub(super) fn process_syn(&mut self, now: Time, syn: &Header) {
        self.numbers.initial.irs = syn.seq;
        let options = &syn.options;
        let (config, is_active) = (&*self.config, self.life.state == State::SynSent);
        // A request from the peer is granted. In an active open, extensions that our SYN did not request are ignored.
        let requested = is_active.then(|| offered(&self.cc.wants(), config));
        let grants = |extension: fn(&Options) -> bool| {
            config.extensions && extension(options) && requested.as_ref().is_none_or(extension)
        };
        // Negotiate the options that both sides support.
        let scaling = config.window_scaling && options.window_scale.is_some();
        let timestamps = config.timestamps && options.timestamps.is_some();
        let microseconds = timestamps && grants(|options| options.microsecond_timestamps);
        // In a simultaneous open neither side sends a SYN-ACK whose window could be scaled.
        let scales = scaling && grants(|options| options.scaled_window);
        let scaled = scales && is_active && syn.flags.contains(Flags::ACK);
        *self.negotiated = Negotiated {
            window_scaling: scaling,
            send_shift: if scaling { options.window_scale.unwrap_or(0) } else { 0 },
            recv_shift: if scaling { config.window_shift() } else { 0 },
            sack: config.sack && options.sack_permitted,
            timestamps,
            ecn: config.ecn && ecn_setup(syn.flags),
            microseconds,
            probe_echo: timestamps && grants(|options| options.probe_permitted),
            network: grants(|options| options.network_permitted),
            scaled_window: scales && !is_active,
            // Segments after the handshake have scaled windows, so the accepting side learns the whole window from its ACK.
            whole_window: scaled || !is_active,
            ack_rate: grants(|options| options.ack_rate_permitted),
        };
        self.ext.arrivals = grants(|options| options.arrival_permitted).then(|| Reclaimable::new(()));
        // Set the window that our SYN or SYN-ACK offers.
        let shift = self.negotiated.syn_shift();
        self.rcv.on_peer_syn(u64::from(self.rcv.syn_window(shift)) << shift, scaling);
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

/// Returns the experimental options that our SYN offers, because the controller or the application wants them.
fn offered(wants: &Demands, config: &Config) -> Options {
    let offers = |is_wanted: bool| config.extensions && is_wanted;
    Options {
        microsecond_timestamps: offers(config.timestamps),
        // More than 64 KiB may then be sent in the first round trip.
        scaled_window: offers(config.window_scaling && wants.whole_window),
        arrival_permitted: offers(config.arrival_times || config.probe_pairs || wants.arrival_times || wants.pairs),
        // Probe echoes cost the peer an ACK per out-of-order segment, so only a controller that sends probes requests them.
        probe_permitted: offers(config.timestamps && config.sack && wants.probes),
        network_permitted: offered_header(wants, config).is_some(),
        ack_rate_permitted: offers(wants.ack_frequency != AckFrequency::Usual),
        ..Options::NONE
    }
}

/// Returns whether a SYN or SYN-ACK is ECN-setup (RFC 3168, section 6.1.1).
fn ecn_setup(flags: Flags) -> bool {
    if flags.contains(Flags::ACK) {
        flags.contains(Flags::ECE) && !flags.contains(Flags::CWR)
    } else {
        flags.contains(Flags::ECE | Flags::CWR)
    }
}
