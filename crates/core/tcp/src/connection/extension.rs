//! Interface of extensions: features that only some connections use in addition to TCP, with their own options,
//! segments and samples.
//!
//! The extensions are in the directory `extension`. Most connections have none, so each call of the extensions is one
//! test of an empty list.

use std::fmt::Debug;
use std::mem;

use longhaul_cc::{Ack, AckFrequency, Control, Demands, Granted, NetworkHeaderKind, PathEvent};
use longhaul_units::{Span, Time};
use longhaul_wire::Header;

use super::acking::SackOption;
use super::arrivals::{ArrivalTimes, Reports};
use super::ecn_check::EcnCheck;
use super::send_loop::{Fill, FillStep};
use super::{Engine, Incoming, Negotiated, Reclaimable, SendLoop, Sender, Timer};
use crate::{Batch, Config, Info, Payload, Record, RttEstimator, SegmentMeta, State, TimestampClock};

mod ack_frequency;
mod mover;
mod network;
mod pairs;
mod probes;
mod rc3;
mod sent_timestamps;

use ack_frequency::AckRequests;
pub(super) use mover::Mover;
use network::Network;
pub(super) use network::SynRequest;
use pairs::Pairs;
use probes::Probes;
use rc3::Rc3;

/// Feature of a connection in addition to TCP. An extension with options on the SYN is created for the handshake, and
/// any other one after the handshake.
pub(super) trait Extension: Debug + Send {
    /// Adds the negotiated features to `granted`. Returns whether the connection keeps the extension.
    fn agree(&mut self, _negotiated: Negotiated, _granted: &mut Granted) -> bool {
        true
    }

    /// Adds options to a header. Returns whether it added any, so that the header must be trimmed to the available
    /// space.
    fn decorate(&mut self, _header: &mut Header, _carrier: Carrier<'_>) -> bool {
        false
    }

    /// Reads the options of an acceptable segment, SYNs included, before its acknowledgments are processed. The segment
    /// arrived in the given state.
    fn on_segment(&mut self, _segment: &Incoming<'_>, _state: State, _engine: &mut Engine<'_>) {}

    /// Returns whether the extension is notified of each segment that an ACK newly delivers.
    fn takes_records(&self) -> bool {
        false
    }

    fn on_delivered(&mut self, _record: &Record) {}

    /// Processes an ACK after the segments that it delivers, and adds the parts that concern the extension to `claims`.
    fn on_ack(&mut self, _ack: &AckFacts<'_>, _snd: &mut Sender, _claims: &mut Claims) {}

    fn complete(&mut self, _event: &mut Ack<'_>) {}

    /// Acts after an acceptable segment was processed. Returns whether the extension has data to
    /// [complete](Self::complete) an event with; no other event may be in progress then.
    fn settle(&mut self, _engine: &mut Engine<'_>) -> bool {
        false
    }

    /// Applies a new decision of the controller.
    fn follow(&mut self, _now: Time, _control: &Control, _snd: &mut Sender) {}

    fn on_timeout(&mut self, _rtt: &RttEstimator) {}

    /// Handles a reset, as sent by a host that does not know the connection. `_echo` is the timestamp of the segment
    /// that it answers, if the reset has it. Returns whether the connection continues.
    fn on_reset(&mut self, _now: Time, _echo: Option<u32>, _rtt: &RttEstimator) -> bool {
        false
    }

    /// Handles a change of our address. Returns whether the connection can follow it.
    fn on_new_address(&mut self, _now: Time, _rtt: &RttEstimator) -> bool {
        false
    }

    /// Sends the next new segment in place of TCP if the extension needs a different one.
    fn send_new(&mut self, _out: &mut SendLoop<'_>, _fill: &mut Fill<'_>, _room: u64) -> Option<FillStep> {
        None
    }

    /// Fills an empty batch with the extension's own segments.
    fn send(&mut self, _turn: Turn, _engine: &mut Engine<'_>, _out: &mut Outgoing<'_>) -> Filled {
        Filled::Nothing(None)
    }

    /// Notifies the extension of a sent batch whose segments have this TSval.
    fn on_batch(&mut self, _stamp: u32) {}

    /// Returns whether a pure ACK has to be sent, because data segments do not carry its options.
    fn needs_ack(&self) -> bool {
        false
    }

    /// Returns the number of option bytes on each data segment.
    fn data_options(&self) -> u16 {
        0
    }

    /// Returns whether the extension sends segments only in response to others.
    fn is_passive(&self) -> bool {
        true
    }

    fn info(&self, _snd: &Sender, _info: &mut Info) {}
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Carrier<'a> {
    Syn(SynRequest),
    SynAck(SynRequest),
    /// All data segments of a batch, with the controller's decision and our TTL.
    Data(&'a Control, u8),
    PureAck,
}

/// Contents of an ACK that are relevant to extensions.
pub(super) struct AckFacts<'a> {
    pub(super) segment: &'a Incoming<'a>,
    pub(super) sack: SackOption<'a>,
    pub(super) dsack: Option<(u64, u64)>,
    pub(super) reports: Option<&'a Reports>,
    pub(super) delivered: u64,
    /// Data below this offset was retransmitted in the last episodes of recovery.
    pub(super) retransmitted_to: u64,
    pub(super) clock: TimestampClock,
    pub(super) age: Span,
    pub(super) rto: Span,
}

/// Parts of an ACK that concern extensions.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// Whether the ACK was, or may have been, triggered by something other than data within the window, so it is not a
    /// duplicate ACK.
    pub(super) has_own_cause: bool,
    /// Whether the D-SACK does not indicate a spurious retransmission.
    pub(super) owns_dsack: bool,
    /// Whether the D-SACK is for data that the sender itself has reordered.
    pub(super) is_swapped: bool,
    /// Whether the ACK answers a segment of an extension.
    pub(super) is_answer: bool,
    /// Whether the segment filled a hole.
    pub(super) fills_hole: bool,
    pub(super) event: Option<PathEvent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Before anything else.
    First,
    /// When nothing else but an ACK is due.
    Last,
}

pub(super) struct Outgoing<'a> {
    pub(super) now: Time,
    pub(super) batch: &'a mut Batch,
    pub(super) max_segments: usize,
}

/// Result of filling a batch by extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// No segments. The extensions must be called again at this time.
    Nothing(Option<Time>),
    /// Data within the congestion window.
    InWindow,
    /// Segments outside the congestion window.
    Beside,
    /// Nothing, and nothing else may be sent either.
    Held,
}

/// The extensions of a connection, and the options that any connection may have.
#[derive(Debug, Default)]
pub(super) struct Extensions {
    pub(super) ecn_check: EcnCheck,
    /// State of the arrival-times option, if negotiated.
    pub(super) arrivals: Option<Reclaimable<ArrivalTimes>>,
    pub(super) list: List,
    /// Whether any of them is notified of each segment that an ACK newly delivers.
    pub(super) takes_records: bool,
    /// Whether any of them sends segments other than in response to received ones.
    pub(super) is_active: bool,
}

pub(super) type List = Vec<Box<dyn Extension>>;

impl Extensions {
    #[inline]
    pub(super) fn note_arrival(&mut self, start: i64, at: Time, coalesced: bool) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.note(start.max(1) as u64, at, coalesced);
        }
    }

    /// Returns the check of ECN, and the extensions that are notified of each segment that an ACK delivers.
    #[inline]
    pub(super) fn on_delivery(&mut self) -> (&mut EcnCheck, &mut [Box<dyn Extension>]) {
        (&mut self.ecn_check, if self.takes_records { &mut self.list } else { &mut [] })
    }

    #[inline]
    pub(super) fn needs_ack(&self) -> bool {
        self.list.iter().any(|extension| extension.needs_ack())
    }

    pub(super) fn data_options(&self) -> u16 {
        self.list.iter().map(|extension| extension.data_options()).sum()
    }

    /// Adds options to a header. Returns whether it must be trimmed.
    #[inline]
    pub(super) fn decorate(&mut self, header: &mut Header, carrier: Carrier<'_>) -> bool {
        let mut is_decorated = false;
        for extension in &mut self.list {
            is_decorated |= extension.decorate(header, carrier);
        }
        is_decorated
    }

    /// Adds router feedback, because our SYN offers it or the peer's SYN permits it. Nonces are drawn from the secret
    /// `seed`.
    pub(super) fn add_network(&mut self, seed: u64) {
        self.list.push(Box::new(Network::new(seed)));
    }

    /// Starts the extensions that the controller or the application needs and both sides support, and adds them to
    /// `granted`.
    pub(super) fn start(&mut self, negotiated: Negotiated, wants: &Demands, config: &Config, granted: &mut Granted) {
        granted.arrival_times = self.arrivals.is_some();
        self.list.retain_mut(|extension| extension.agree(negotiated, granted));
        // A peer that permits network feedback also honours ACK rate requests (`docs/wire.md`), and may request another
        // ACK frequency itself.
        if negotiated.ack_rate || negotiated.network {
            granted.ack_frequency = wants.ack_frequency != AckFrequency::Usual;
            self.list.push(Box::new(AckRequests::new(wants.ack_frequency)));
        }
        // The answer to a pair is read from SACK blocks.
        granted.pairs = negotiated.sack && (config.probe_pairs || wants.pairs);
        if granted.pairs {
            self.list.push(Box::<Pairs>::default());
        }
        // An answer to a probe is a D-SACK or an echoed timestamp.
        granted.probes = wants.probes && negotiated.sack && negotiated.timestamps;
        granted.probe_echo = negotiated.probe_echo;
        if granted.probes {
            self.list.push(Box::new(Probes::new(negotiated.probe_echo)));
            self.list.push(Box::<Rc3>::default());
        }
        self.takes_records = self.list.iter().any(|extension| extension.takes_records());
        self.is_active = !self.list.iter().all(|extension| extension.is_passive());
    }
}

#[cold]
pub(super) fn send_new(out: &mut SendLoop<'_>, fill: &mut Fill<'_>, room: u64) -> Option<FillStep> {
    let mut list = mem::take(&mut out.ext.list);
    let step = list.iter_mut().find_map(|extension| extension.send_new(out, fill, room));
    out.ext.list = list;
    step
}

/// Returns the kind of router feedback that our SYN offers: the kind that the controller requests, if the application
/// vouches for the routers.
pub(super) fn offered_header(wants: &Demands, config: &Config) -> Option<NetworkHeaderKind> {
    wants.network_header.filter(|_| config.extensions && config.routers_answer)
}

impl Engine<'_> {
    #[cold]
    pub(super) fn hear(&mut self, segment: &Incoming<'_>, state: State) {
        let mut list = mem::take(&mut self.ext.list);
        list.iter_mut().for_each(|extension| extension.on_segment(segment, state, self));
        self.ext.list = list;
    }

    pub(super) fn hear_syn(&mut self, now: Time, meta: &SegmentMeta, header: &Header, state: State) {
        if !self.ext.list.is_empty() && self.life.state != State::Closed {
            self.hear(&Incoming { now, meta, header, payload: Payload::copied(&[]), start: 0, ack: 1 }, state);
        }
    }

    /// Reports samples that were not part of an ACK event.
    #[cold]
    pub(super) fn settle(&mut self, now: Time) {
        let mut list = mem::take(&mut self.ext.list);
        let mut has_news = false;
        for extension in &mut list {
            has_news |= extension.settle(self);
        }
        self.ext.list = list;
        if has_news {
            self.control_loop().report_ack(Ack::new(now));
        }
    }

    #[cold]
    pub(super) fn send_for_extensions(&mut self, turn: Turn, mut out: Outgoing<'_>) -> Filled {
        let mut list = mem::take(&mut self.ext.list);
        let mut next: Option<Time> = None;
        let sent = list.iter_mut().find_map(|extension| match extension.send(turn, self, &mut out) {
            Filled::Nothing(due) => {
                next = next.into_iter().chain(due).min();
                None
            }
            sent => Some(sent),
        });
        self.ext.list = list;
        if turn == Turn::Last && sent.is_none() {
            self.timers.set(Timer::Extension, next);
        }
        sent.unwrap_or(Filled::Nothing(next))
    }

    /// Returns whether an extension keeps the connection open after a reset.
    #[cold]
    pub(super) fn outlives_reset(&mut self, now: Time, echo: Option<u32>) -> bool {
        self.ext.list.iter_mut().any(|extension| extension.on_reset(now, echo, self.rtt))
    }

    /// Returns whether the connection can continue after a change of our address.
    pub(crate) fn takes_new_address(&mut self, now: Time) -> bool {
        self.ext.list.iter_mut().any(|extension| extension.on_new_address(now, self.rtt))
    }

    /// Returns the header of a segment without text that carries options of an extension.
    pub(crate) fn textless_header(&mut self, now: Time) -> Header {
        let mut headers = self.headers();
        let offset = headers.textless_offset();
        headers.header(now, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(negotiated: Negotiated, wants: &Demands, config: &Config) -> (Extensions, Granted) {
        let (mut ext, mut granted) = (Extensions::default(), Granted::basic());
        ext.start(negotiated, wants, config, &mut granted);
        (ext, granted)
    }

    /// What a controller needs is granted only if the peer supports the options on which it relies.
    #[test]
    fn extensions_need_the_options_they_rely_on() {
        let (mut wants, config) = (Demands::default(), Config::default());
        (wants.probes, wants.pairs) = (true, true);
        for (sack, timestamps) in [(false, false), (false, true), (true, false), (true, true)] {
            let (ext, granted) = started(Negotiated { sack, timestamps, ..Negotiated::default() }, &wants, &config);
            assert_eq!((granted.pairs, granted.probes), (sack, sack && timestamps));
            // Copies and data of the tail are two extensions.
            assert_eq!(ext.list.len(), usize::from(sack) + 2 * usize::from(sack && timestamps));
        }
        let all = Negotiated { sack: true, timestamps: true, ack_rate: true, ..Negotiated::default() };
        let (ext, granted) = started(all, &Demands::default(), &config);
        assert!(!granted.pairs && !granted.probes && !granted.ack_frequency, "nothing is needed");
        assert_eq!(ext.list.len(), 1, "but the peer may request another ACK frequency");
        let config = Config { probe_pairs: true, ..Config::default() };
        assert!(started(all, &Demands::default(), &config).1.pairs, "the application wants pairs");
    }
}
