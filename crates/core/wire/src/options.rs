//! TCP options supported by longhaul, their lengths, and their priorities if they do not all fit.

use core::fmt;

use longhaul_units::Span;

use crate::{Arrivals, Flags, MAX_OPTIONS_LEN, MoveOption, NetworkOption, SackBlocks, moving};

mod emit;
mod parse;
pub(crate) mod raw;
#[cfg(test)]
mod tests;

pub(crate) use emit::{aligned_timestamps, emit};
pub(crate) use parse::parse;

/// Option kinds (IANA registry "TCP Option Kind Numbers").
pub mod kind {
    /// End of the option list (RFC 9293, section 3.1).
    pub const END: u8 = 0;
    /// No operation (RFC 9293, section 3.1).
    pub const NOP: u8 = 1;
    /// Maximum segment size (RFC 9293, section 3.7.1).
    pub const MSS: u8 = 2;
    /// Window scale (RFC 7323, section 2.2).
    pub const WINDOW_SCALE: u8 = 3;
    /// SACK-permitted (RFC 2018, section 2).
    pub const SACK_PERMITTED: u8 = 4;
    /// SACK (RFC 2018, section 3).
    pub const SACK: u8 = 5;
    /// Timestamps (RFC 7323, section 3.2).
    pub const TIMESTAMPS: u8 = 8;
    /// User timeout (RFC 5482, section 3.3).
    pub const USER_TIMEOUT: u8 = 28;
    /// Experiments, identified by an ExID (RFC 6994).
    pub const EXPERIMENT: u8 = 253;
}

/// Experiment identifier (ExID): the first 16 bits after kind 253 and the length (RFC 6994, section 3). ExIDs that
/// begin with `L` are specific to longhaul.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExId(pub u16);

impl ExId {
    /// `LT`: microsecond timestamps.
    pub const MICROSECOND_TIMESTAMPS: Self = Self(0x4c54);
    /// `LW`: scaled window in the SYN-ACK.
    pub const SCALED_WINDOW: Self = Self(0x4c57);
    /// `LA`: arrival times.
    pub const ARRIVALS: Self = Self(0x4c41);
    /// `LP`: probe echo.
    pub const PROBES: Self = Self(0x4c50);
    /// `LN`: network feedback.
    pub const NETWORK: Self = Self(0x4c4e);
    /// `LM`: move to another path.
    pub const MOVE: Self = Self(0x4c4d);
    /// ACK rate request (draft-ietf-tcpm-ack-rate-request; IANA registry "TCP Experimental Option Experiment
    /// Identifiers").
    pub const ACK_RATE: Self = Self(0x00ac);
}

/// Two NOPs, then the kind and length of timestamps (RFC 7323, appendix A).
pub(crate) const TIMESTAMPS_ALIGNED: u32 = 0x0101_080a;

/// Options of a segment.
///
/// Some options are valid only on segments with SYN, others only on segments without it. The parser ignores misplaced
/// options, and [`Options::fit`] removes them. [`Codec::emit`](crate::Codec::emit) emits every option that is set.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Largest segment in bytes accepted by the sender of this option; SYN only (RFC 9293, section 3.7.1). The parser
    /// does not check it; the connection applies a minimum.
    pub mss: Option<u16>,
    /// Left shift of the sender's window field, 0 to 14; SYN only. Larger values are parsed and emitted as 14
    /// (RFC 7323, section 2.3).
    pub window_scale: Option<u8>,
    /// SACK-permitted; SYN only (RFC 2018, section 2).
    pub sack_permitted: bool,
    /// Timestamps (RFC 7323, section 3.2).
    pub timestamps: Option<Timestamps>,
    /// SACK blocks, with a D-SACK block first; not on a SYN (RFC 2018, section 3; RFC 2883).
    pub sack: SackBlocks,
    /// User timeout advertised by the sender of this option (RFC 5482).
    pub user_timeout: Option<UserTimeout>,
    /// Permission to use microsecond timestamps after the SYN; SYN only. Experimental,
    /// [`ExId::MICROSECOND_TIMESTAMPS`].
    pub microsecond_timestamps: bool,
    /// On a SYN, permission to scale the window of the SYN-ACK; on a SYN-ACK, indication that its window is scaled. SYN
    /// only. Experimental, [`ExId::SCALED_WINDOW`].
    pub scaled_window: bool,
    /// Permission to send arrival times; SYN only. Experimental, [`ExId::ARRIVALS`].
    pub arrival_permitted: bool,
    /// Arrival times of data segments; not on a SYN. Experimental, [`ExId::ARRIVALS`].
    pub arrivals: Arrivals,
    /// Permission to send probe echoes; SYN only. Experimental, [`ExId::PROBES`].
    pub probe_permitted: bool,
    /// Identifies the segment that triggered this ACK; not on a SYN. Experimental, [`ExId::PROBES`].
    pub probe_echo: Option<ProbeEcho>,
    /// Permission to send network feedback; SYN only. [`Options::network`] on a SYN implies it, and the parser sets it.
    /// Experimental, [`ExId::NETWORK`].
    pub network_permitted: bool,
    /// Request to the routers and feedback from the receiver. Experimental, [`ExId::NETWORK`].
    pub network: Option<NetworkOption>,
    /// Permission to request ACK rates; SYN only. Experimental, [`ExId::ACK_RATE`].
    pub ack_rate_permitted: bool,
    /// ACK rate requested from the peer; not on a SYN. Experimental, [`ExId::ACK_RATE`].
    pub ack_rate: Option<AckRate>,
    /// Step of a move to another path; not on a SYN. Experimental, [`ExId::MOVE`].
    pub moving: Option<MoveOption>,
}

/// Timestamps (RFC 7323, section 3.2). The unit is negotiated per connection; see `docs/wire.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timestamps {
    /// TSval: the sender's clock.
    pub value: u32,
    /// TSecr: the echoed clock value; meaningful only if ACK is set.
    pub echo: u32,
}

/// Identifies the segment that triggered an ACK by its TSval. A probe's TSval is unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeEcho {
    /// TSval of the segment that triggered the ACK.
    pub value: u32,
}

/// Requested number of full-sized segments per ACK (draft-ietf-tcpm-ack-rate-request, `R`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AckRate(u8);

impl AckRate {
    /// Requests an immediate ACK for the segment that carries this option. The rate does not change.
    pub const AT_ONCE: Self = Self(0);

    /// Requests one ACK per `segments` full-sized segments. Values above 127 are treated as 127. Zero is
    /// [`AckRate::AT_ONCE`].
    #[must_use]
    pub const fn each(segments: u8) -> Self {
        Self(if segments > 0x7f { 0x7f } else { segments })
    }

    /// Returns the number of segments per ACK, at most 127; zero for [`AckRate::AT_ONCE`].
    #[must_use]
    pub const fn segments(self) -> u8 {
        self.0
    }

    /// Returns the option's byte: 7 bits of rate and a reserved bit, which is zero.
    pub(crate) const fn byte(self) -> u8 {
        self.0 << 1
    }

    /// Parses the option's byte, ignoring the reserved bit.
    pub(crate) const fn from_byte(byte: u8) -> Self {
        Self(byte >> 1)
    }
}

/// User timeout of 1 to 32767 seconds or minutes (RFC 5482, section 3.3). Zero is reserved and not representable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UserTimeout(u16);

impl UserTimeout {
    const MINUTES: u16 = 0x8000;

    /// Parses the option field, a granularity bit and 15 bits of time. Returns `None` if the time is zero.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Option<Self> {
        if bits & !Self::MINUTES == 0 { None } else { Some(Self(bits)) }
    }

    /// Returns the option field.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Rounds `span` up to seconds if it is at most 32767 s (9 hours), else to minutes. The result is at most 32767
    /// minutes (22 days). Returns `None` if `span` is zero.
    #[must_use]
    pub fn from_span(span: Span) -> Option<Self> {
        let seconds = span.as_nanos().div_ceil(1_000_000_000);
        let bits = match u16::try_from(seconds) {
            Ok(seconds) if seconds < Self::MINUTES => seconds,
            _ => u16::try_from(seconds.div_ceil(60)).unwrap_or(u16::MAX) | Self::MINUTES,
        };
        Self::from_bits(bits)
    }

    /// Returns the timeout as a duration.
    #[must_use]
    pub const fn span(self) -> Span {
        let time = (self.0 & !Self::MINUTES) as u64;
        Span::from_secs(if self.0 & Self::MINUTES == 0 { time } else { time.saturating_mul(60) })
    }
}

/// Shows the options that are set.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let none = Self::default();
        let mut all = f.debug_struct("Options");
        macro_rules! show {
            ($($field:ident)*) => {
                let Self { $($field),* } = self;
                $(if *$field != none.$field {
                    all.field(stringify!($field), $field);
                })*
            };
        }
        show!(mss window_scale sack_permitted timestamps sack user_timeout microsecond_timestamps scaled_window
            arrival_permitted arrivals probe_permitted probe_echo network_permitted network ack_rate_permitted ack_rate
            moving);
        all.finish()
    }
}

impl Options {
    /// No options set.
    pub const NONE: Self = Self {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        sack: SackBlocks::EMPTY,
        user_timeout: None,
        microsecond_timestamps: false,
        scaled_window: false,
        arrival_permitted: false,
        arrivals: Arrivals::EMPTY,
        probe_permitted: false,
        probe_echo: None,
        network_permitted: false,
        network: None,
        ack_rate_permitted: false,
        ack_rate: None,
        moving: None,
    };

    /// Returns the timestamps if no other option is set, as on an ordinary data segment.
    #[must_use]
    #[inline]
    pub fn only_timestamps(&self) -> Option<Timestamps> {
        // `|` instead of `||`: this many branches cost more than loading all the fields, even if they are predicted.
        let other = self.mss.is_some()
            | self.window_scale.is_some()
            | self.sack_permitted
            | !self.sack.is_empty()
            | self.user_timeout.is_some()
            | self.microsecond_timestamps
            | self.scaled_window
            | self.arrival_permitted
            | !self.arrivals.is_empty()
            | self.probe_permitted
            | self.probe_echo.is_some()
            | self.network_permitted
            | self.network.is_some()
            | self.ack_rate_permitted
            | self.ack_rate.is_some()
            | self.moving.is_some();
        if other { None } else { self.timestamps }
    }

    /// Returns the length in bytes of all options without padding.
    pub(crate) fn packed_len(&self) -> usize {
        self.lengths().0
    }

    /// Returns whether the options are emitted with the usual NOPs. The NOPs are omitted only if some option would not
    /// fit otherwise.
    pub(crate) fn is_aligned(&self) -> bool {
        self.lengths().1 <= MAX_OPTIONS_LEN
    }

    /// Returns the length in bytes of all options as emitted, a multiple of 4.
    pub(crate) fn padded_len(&self) -> usize {
        let (packed, aligned) = self.lengths();
        let len = if aligned <= MAX_OPTIONS_LEN { aligned } else { packed };
        len.saturating_add(3) & !3
    }

    /// Returns the length in bytes of all options without padding, and with the usual NOPs before the standard ones.
    fn lengths(&self) -> (usize, usize) {
        let when = |present: bool, packed: usize, aligned: usize| {
            if present { (packed, aligned) } else { (0, 0) }
        };
        let same = |present: bool, len: usize| when(present, len, len);
        let sack = self.sack.len().saturating_mul(8);
        let arrivals = self.arrivals.body_len();
        let network = self.network.as_ref().map_or(0, NetworkOption::body_len);
        let each = [
            same(self.mss.is_some(), 4),
            // SACK-permitted replaces the two NOPs before timestamps.
            when(self.sack_permitted, 2, if self.timestamps.is_some() { 0 } else { 4 }),
            when(self.timestamps.is_some(), 10, 12),
            when(self.window_scale.is_some(), 3, 4),
            when(sack > 0, sack.saturating_add(2), sack.saturating_add(4)),
            same(self.probe_echo.is_some(), 8),
            same(self.network_permitted || network > 0, network.saturating_add(4)),
            same(arrivals > 0, arrivals.saturating_add(4)),
            same(self.user_timeout.is_some(), 4),
            same(self.microsecond_timestamps, 4),
            same(self.scaled_window, 4),
            same(self.arrival_permitted, 4),
            same(self.probe_permitted, 4),
            same(self.ack_rate_permitted, 4),
            same(self.ack_rate.is_some(), 5),
            same(self.moving.is_some(), moving::BODY_LEN.saturating_add(4)),
        ];
        each.into_iter().fold((0, 0), |(packed, aligned), (more_packed, more_aligned): (usize, usize)| {
            (more_packed.saturating_add(packed), more_aligned.saturating_add(aligned))
        })
    }

    /// Removes misplaced options, and those of the lowest priority until the rest fits into 40 bytes. Returns whether
    /// all options were kept.
    ///
    /// The priorities on a SYN are: the standard options (MSS, SACK-permitted, timestamps, window scale), network
    /// feedback, scaled window, microsecond timestamps, arrival times, probe echo, user timeout, ACK rate.
    ///
    /// The priorities on other segments are: timestamps, Move, the D-SACK block (if the first block is one with respect to
    /// `ack`), the first SACK block, probe echo, network feedback, arrival times (oldest first), user timeout, further
    /// SACK blocks, ACK rate.
    ///
    /// If a network option has a request and feedback, the feedback has priority.
    pub fn fit(&mut self, flags: Flags, ack: u32) -> bool {
        let syn = flags.contains(Flags::SYN);
        self.network_permitted |= syn && self.network.is_some();
        if self.is_in_place(syn) && self.packed_len() <= MAX_OPTIONS_LEN {
            return true;
        }
        let fitted = if syn { self.fitted_on_syn() } else { self.fitted_after_syn(ack) };
        let all = fitted == *self;
        *self = fitted;
        all
    }

    /// Returns whether all options are valid on a SYN (if `syn`) or on any other segment (if not).
    fn is_in_place(&self, syn: bool) -> bool {
        let elsewhere_only = !self.sack.is_empty()
            | !self.arrivals.is_empty()
            | self.probe_echo.is_some()
            | self.ack_rate.is_some()
            | self.moving.is_some();
        let syn_only = self.mss.is_some()
            | self.window_scale.is_some()
            | self.sack_permitted
            | self.microsecond_timestamps
            | self.scaled_window
            | self.arrival_permitted
            | self.probe_permitted
            | self.network_permitted
            | self.ack_rate_permitted;
        if syn { !elsewhere_only } else { !syn_only }
    }

    fn fitted_on_syn(&self) -> Self {
        let mut fitted = Self {
            mss: self.mss,
            window_scale: self.window_scale,
            sack_permitted: self.sack_permitted,
            timestamps: self.timestamps,
            network_permitted: self.network_permitted,
            ..Self::NONE
        };
        fitted.add_network(self.network);
        fitted.add(|fitted| fitted.scaled_window = self.scaled_window);
        fitted.add(|fitted| fitted.microsecond_timestamps = self.microsecond_timestamps);
        fitted.add(|fitted| fitted.arrival_permitted = self.arrival_permitted);
        fitted.add(|fitted| fitted.probe_permitted = self.probe_permitted);
        fitted.add(|fitted| fitted.user_timeout = self.user_timeout);
        fitted.add(|fitted| fitted.ack_rate_permitted = self.ack_rate_permitted);
        fitted
    }

    fn fitted_after_syn(&self, ack: u32) -> Self {
        let mut fitted = Self { timestamps: self.timestamps, sack: self.sack, moving: self.moving, ..Self::NONE };
        let blocks = if self.sack.has_dsack(ack) { 2 } else { 1 };
        // Besides a Move and timestamps, there is no room for a block.
        fitted.sack.truncate(if self.moving.is_some() { 0 } else { blocks });
        fitted.add(|fitted| fitted.probe_echo = self.probe_echo);
        fitted.add_network(self.network);
        for len in 1..=self.arrivals.len() {
            fitted.add(|fitted| {
                fitted.arrivals = self.arrivals;
                fitted.arrivals.truncate(len);
            });
        }
        fitted.add(|fitted| fitted.user_timeout = self.user_timeout);
        for len in fitted.sack.len()..=self.sack.len() {
            fitted.add(|fitted| {
                fitted.sack = self.sack;
                fitted.sack.truncate(len);
            });
        }
        fitted.add(|fitted| fitted.ack_rate = self.ack_rate);
        fitted
    }

    /// Adds the request and the feedback if both fit, else the feedback alone, else the request alone.
    fn add_network(&mut self, network: Option<NetworkOption>) {
        let Some(network) = network.filter(|network| network.body_len() > 0) else {
            return;
        };
        let feedback = NetworkOption { forward: None, ..network };
        let forward = NetworkOption { feedback: None, ..network };
        for attempt in [network, feedback, forward] {
            if attempt.body_len() > 0 && self.add(|fitted| fitted.network = Some(attempt)) {
                return;
            }
        }
    }

    /// Applies `change` if the options still fit afterwards. Returns whether they do.
    fn add(&mut self, change: impl FnOnce(&mut Self)) -> bool {
        let mut changed = self.clone();
        change(&mut changed);
        let fits = changed.packed_len() <= MAX_OPTIONS_LEN;
        if fits {
            *self = changed;
        }
        fits
    }
}
