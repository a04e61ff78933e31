//! SYN cookies: no state is kept until the peer has proved its address (RFC 4987, section 3.6).
//!
//! With timestamps, the initial sequence number has 22 bits of MAC and 10 bits of options: slot parity, MSS class,
//! window scale, SACK and ECN. Another 32 bits of MAC are sent as TSval and must be returned in TSecr, so that a
//! guess succeeds once in 2^54 attempts. Without timestamps, window scale, SACK and ECN are dropped; slot parity and
//! MSS class leave 28 bits of MAC.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use longhaul_units::{Span, Time};
use longhaul_wire::{Flags, Header, Timestamps};

use crate::Tuple;
use crate::keys::Keys;

/// Length of a time slot. A cookie is valid in the slot in which it was made and in the next one.
const SLOT: Span = Span::from_secs(64);
/// Number of option bits in the sequence number, with and without timestamps.
const OPTION_BITS: u32 = 10;
const PLAIN_OPTION_BITS: u32 = 4;

/// MSS classes: the MSS of the peer is rounded down to one of these.
const MSS_CLASSES: [u16; 8] = [216, 536, 1220, 1300, 1380, 1440, 1460, 8940];

/// Options of the peer's SYN that a cookie encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Remembered {
    pub(super) mss: u16,
    pub(super) window_scale: Option<u8>,
    pub(super) sack: bool,
    pub(super) ecn: bool,
    pub(super) timestamps: bool,
}

impl Remembered {
    /// Extracts the options of `syn` that can be encoded and that the listener supports.
    pub(super) fn from_syn(syn: &Header, sack: bool, timestamps: bool, scaling: bool, ecn: bool) -> Self {
        let options = &syn.options;
        let timestamps = timestamps && options.timestamps.is_some();
        let mss = options.mss.unwrap_or(536);
        Self {
            mss: MSS_CLASSES.into_iter().rev().find(|class| *class <= mss).unwrap_or(MSS_CLASSES[0]),
            window_scale: options.window_scale.filter(|_| timestamps && scaling),
            sack: timestamps && sack && options.sack_permitted,
            ecn: ecn && timestamps && syn.flags.contains(Flags::ECE | Flags::CWR),
            timestamps,
        }
    }

    /// Encodes the options: MSS class in bits 0 to 2; with timestamps, window scale in bits 3 to 6 (15: none), SACK
    /// in bit 7, and ECN in bit 8.
    fn bits(self) -> u32 {
        let class = MSS_CLASSES.into_iter().position(|c| c == self.mss).unwrap_or(0) as u32;
        if !self.timestamps {
            return class;
        }
        let scale = u32::from(self.window_scale.unwrap_or(15));
        class | (scale << 3) | (u32::from(self.sack) << 7) | (u32::from(self.ecn) << 8)
    }

    fn from_bits(bits: u32, timestamps: bool) -> Self {
        let mss = MSS_CLASSES.get((bits & 7) as usize).copied().unwrap_or_default();
        if !timestamps {
            return Self { mss, window_scale: None, sack: false, ecn: false, timestamps };
        }
        let scale = (bits >> 3 & 15) as u8;
        Self {
            mss,
            window_scale: (scale <= 14).then_some(scale),
            sack: bits >> 7 & 1 == 1,
            ecn: bits >> 8 & 1 == 1,
            timestamps,
        }
    }

    /// Reconstructs the SYN as far as it was encoded.
    pub(super) fn to_syn(self, peer_isn: u32, peer_stamp: u32, window: u16) -> Header {
        let ecn = if self.ecn { Flags::ECE | Flags::CWR } else { Flags::NONE };
        let mut syn = Header { flags: Flags::SYN | ecn, seq: peer_isn, window, ..Header::default() };
        syn.options.mss = Some(self.mss);
        syn.options.window_scale = self.window_scale;
        syn.options.sack_permitted = self.sack;
        syn.options.timestamps = self.timestamps.then_some(Timestamps { value: peer_stamp, echo: 0 });
        syn
    }
}

const fn option_bits(timestamps: bool) -> u32 {
    if timestamps { OPTION_BITS } else { PLAIN_OPTION_BITS }
}

fn slot_of(now: Time) -> u64 {
    now.as_nanos().checked_div(SLOT.as_nanos()).unwrap_or(0)
}

/// Returns the sequence number and the timestamp of the SYN-ACK.
pub(super) fn make(keys: &Keys, tuple: &Tuple, peer_isn: u32, now: Time, what: Remembered) -> (u32, u32) {
    let slot = slot_of(now);
    let width = option_bits(what.timestamps);
    let options = what.bits() | ((slot & 1) as u32) << width.saturating_sub(1);
    let code = keys.cookie(tuple, peer_isn, slot, (width, options));
    (code << width | options, keys.cookie_stamp(tuple, peer_isn, slot, options))
}

/// Returns the options of the SYN if `ack` returns a valid cookie.
pub(super) fn open(keys: &Keys, tuple: &Tuple, ack: &Header, now: Time) -> Option<Remembered> {
    let cookie = ack.ack.wrapping_sub(1);
    let peer_isn = ack.seq.wrapping_sub(1);
    let stamp = ack.options.timestamps;
    let width = option_bits(stamp.is_some());
    let parity_bit = 1u32 << width.saturating_sub(1);
    let options = cookie & ((1u32 << width).saturating_sub(1));
    let parity = u64::from(options & parity_bit != 0);
    let current = slot_of(now);
    let slot = if current & 1 == parity { current } else { current.checked_sub(1)? };
    // The MAC covers the width, so that a cookie of one width cannot pass for one of the other.
    let expected = keys.cookie(tuple, peer_isn, slot, (width, options)) << width | options;
    // All bits are compared at once, so that the timing does not depend on which of them differ.
    let wrong_stamp = stamp.map_or(0, |t| t.echo ^ keys.cookie_stamp(tuple, peer_isn, slot, options));
    if (expected ^ cookie) | wrong_stamp != 0 {
        return None;
    }
    Some(Remembered::from_bits(options & parity_bit.saturating_sub(1), stamp.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, SocketAddr};

    fn tuple(port: u16) -> Tuple {
        Tuple { remote: SocketAddr::from(([192, 0, 2, 9], port)), local: IpAddr::from([192, 0, 2, 2]) }
    }

    fn syn(timestamps: bool) -> Header {
        let mut syn = Header { flags: Flags::SYN, seq: 77, window: 65_535, ..Header::default() };
        syn.options.mss = Some(1452);
        syn.options.window_scale = Some(10);
        syn.options.sack_permitted = true;
        syn.options.timestamps = timestamps.then_some(Timestamps { value: 5, echo: 0 });
        syn
    }

    fn answer(cookie: (u32, u32), timestamps: bool) -> Header {
        let mut ack = Header { flags: Flags::ACK, seq: 78, ack: cookie.0.wrapping_add(1), ..Header::default() };
        ack.options.timestamps = timestamps.then_some(Timestamps { value: 6, echo: cookie.1 });
        ack
    }

    #[test]
    fn brings_the_options_back_with_timestamps_and_only_the_mss_without() {
        let keys = Keys::new(&[1; 32]);
        for timestamps in [true, false] {
            let what = Remembered::from_syn(&syn(timestamps), true, true, true, true);
            assert_eq!((what.mss, what.sack, what.window_scale), (1440, timestamps, timestamps.then_some(10)));
            let cookie = make(&keys, &tuple(1), 77, Time::ZERO, what);
            assert_eq!(open(&keys, &tuple(1), &answer(cookie, timestamps), Time::ZERO), Some(what));
        }
    }

    #[test]
    fn every_flipped_bit_other_address_or_old_slot_is_refused() {
        let keys = Keys::new(&[1; 32]);
        let what = Remembered::from_syn(&syn(true), true, true, true, true);
        let cookie = make(&keys, &tuple(1), 77, Time::ZERO, what);
        for bit in 0..32 {
            let isn = answer((cookie.0 ^ 1 << bit, cookie.1), true);
            let stamp = answer((cookie.0, cookie.1 ^ 1 << bit), true);
            assert_eq!(open(&keys, &tuple(1), &isn, Time::ZERO), None, "bit {bit} of the sequence number");
            assert_eq!(open(&keys, &tuple(1), &stamp, Time::ZERO), None, "bit {bit} of the timestamp");
        }
        let good = answer(cookie, true);
        assert_eq!(open(&keys, &tuple(2), &good, Time::ZERO), None);
        assert_eq!(open(&Keys::new(&[2; 32]), &tuple(1), &good, Time::ZERO), None);
        assert!(open(&keys, &tuple(1), &good, Time::ZERO + Span::from_secs(100)).is_some());
        assert_eq!(open(&keys, &tuple(1), &good, Time::ZERO + Span::from_secs(130)), None);
        assert_eq!(open(&keys, &tuple(1), &Header { seq: 79, ..good.clone() }, Time::ZERO), None);
        assert_eq!(open(&keys, &tuple(1), &answer(cookie, false), Time::ZERO), None);
    }
}
