//! Body of the arrival-times option.

use core::fmt;

use longhaul_units::{Span, Time};

use crate::network::{pack, unpack};

/// Arrival time of a data segment, by the receiver's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Sequence number of the segment's first data byte.
    pub seq: u32,
    /// Arrival time in units of [`Arrival::TICK`], modulo 2^31 (137 s).
    pub ticks: u32,
    /// Whether receive offload (GRO) coalesced the segment with others. All segments of such a batch have the same
    /// `ticks`, so the gaps between them are unknown.
    pub coalesced: bool,
}

impl Arrival {
    /// Duration of a tick: 64 ns. It is about 1/20 of the serialization time of 1500 bytes at 10 Gb/s, and a power of
    /// two, so that nanoseconds are converted by a shift.
    pub const TICK: Span = Span::from_nanos(1 << Self::TICK_SHIFT);

    const TICK_SHIFT: u32 = 6;
    const MASK: u32 = 0x7fff_ffff;

    /// Creates the arrival time `at` of the segment with sequence number `seq`.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the tick counter is modulo 2^31")]
    pub const fn new(seq: u32, at: Time, coalesced: bool) -> Self {
        Self { seq, ticks: (at.as_nanos() >> Self::TICK_SHIFT) as u32 & Self::MASK, coalesced }
    }

    /// Returns the time between `earlier` and this arrival, or `None` if this segment arrived first or 68 s or more
    /// after `earlier`.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Option<Span> {
        match self.ticks_since(earlier) {
            Some(ticks) => Some(Span::from_nanos((ticks as u64) << Self::TICK_SHIFT)),
            None => None,
        }
    }

    const fn ticks_since(&self, earlier: &Self) -> Option<u32> {
        let ticks = self.ticks.wrapping_sub(earlier.ticks) & Self::MASK;
        if ticks > Self::MASK / 2 { None } else { Some(ticks) }
    }
}

/// Up to 5 arrivals in wire format, oldest first. The first is stored in full, each further one as its distance from
/// the previous one in sequence space and in time.
///
/// A time gap has 11 significant bits: it is exact up to 2047 ticks (131 us), and above that its relative error is at
/// most 1/2048. Each gap is measured from the exact time of the previous arrival, not from its decoded time. Otherwise,
/// the rounding error of a long gap would distort the short gap after it, which the sender uses to measure dispersion.
#[derive(Clone, Copy, Default)]
pub struct Arrivals {
    seq: u32,
    /// First arrival: bit 31 is `coalesced`, bits 30 to 0 are `ticks`.
    stamp: u32,
    /// Exact time of the last arrival, from which the next gap is measured. This field is neither transmitted nor
    /// compared.
    last_ticks: u32,
    /// Unused entries are zero, so that `PartialEq` compares only the arrivals.
    further: [Further; Self::CAPACITY - 1],
    len: u8,
}

/// Wire format of an arrival after the first.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Further {
    /// Difference of the sequence number from that of the previous arrival.
    offset: i16,
    /// Bit 15 is `coalesced`; bits 14 to 11 are the exponent and bits 10 to 0 the mantissa of the ticks since the
    /// previous arrival.
    gap: u16,
}

const COALESCED: u32 = 1 << 31;
const GAP_COALESCED: u16 = 1 << 15;
const MANTISSA_BITS: u32 = 11;

impl Arrivals {
    /// Largest number of arrivals. Options have 40 bytes, and timestamps take 10 of them.
    pub const CAPACITY: usize = 5;

    /// An empty list.
    pub const EMPTY: Self =
        Self { seq: 0, stamp: 0, last_ticks: 0, further: [Further { offset: 0, gap: 0 }; Self::CAPACITY - 1], len: 0 };

    /// Appends an arrival. Returns `false` and changes nothing if the list is full, or if the distance from the last
    /// arrival cannot be encoded because the new one is earlier, 4.29 s or more later, or 32 KiB or more away in
    /// sequence space. The caller must then report the arrival in another segment.
    pub fn push(&mut self, arrival: Arrival) -> bool {
        let Some(last) = self.iter().last() else {
            self.seq = arrival.seq;
            self.stamp = arrival.ticks & Arrival::MASK | if arrival.coalesced { COALESCED } else { 0 };
            self.last_ticks = arrival.ticks & Arrival::MASK;
            self.len = 1;
            return true;
        };
        let last = Arrival { ticks: self.last_ticks, ..last };
        let offset = i16::try_from(arrival.seq.wrapping_sub(last.seq).cast_signed());
        let gap = arrival.ticks_since(&last).and_then(encode_gap);
        let place = self.further.get_mut(usize::from(self.len).wrapping_sub(1));
        let (Ok(offset), Some(gap), Some(place)) = (offset, gap, place) else {
            return false;
        };
        *place = Further { offset, gap: gap | if arrival.coalesced { GAP_COALESCED } else { 0 } };
        self.last_ticks = arrival.ticks & Arrival::MASK;
        self.len = self.len.saturating_add(1);
        true
    }

    /// Returns the number of arrivals.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether there are no arrivals.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Iterates over the arrivals as decoded by the peer, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = Arrival> + '_ {
        let first =
            Arrival { seq: self.seq, ticks: self.stamp & Arrival::MASK, coalesced: self.stamp & COALESCED != 0 };
        let further = self.further.iter().scan(first, |last, further| {
            *last = Arrival {
                seq: last.seq.wrapping_add_signed(i32::from(further.offset)),
                ticks: last.ticks.wrapping_add(decode_gap(further.gap)) & Arrival::MASK,
                coalesced: further.gap & GAP_COALESCED != 0,
            };
            Some(*last)
        });
        core::iter::once(first).chain(further).take(self.len())
    }

    /// Keeps the first `len` arrivals.
    pub fn truncate(&mut self, len: usize) {
        if len == 0 {
            *self = Self::EMPTY;
            return;
        }
        for unused in self.further.iter_mut().skip(len.saturating_sub(1)) {
            *unused = Further::default();
        }
        self.len = self.len.min(u8::try_from(len).unwrap_or(u8::MAX));
        self.last_ticks = self.iter().last().map_or(0, |last| last.ticks);
    }

    pub(crate) fn body_len(&self) -> usize {
        // The first arrival takes 8 bytes, each of the others 4.
        if self.is_empty() { 0 } else { self.len().saturating_add(1).saturating_mul(4) }
    }

    /// Parses an option's body. Returns `None` if the length is not that of 1 to 5 arrivals.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let (&[s0, s1, s2, s3, t0, t1, t2, t3], rest) = body.split_first_chunk::<8>()?;
        let mut arrivals = Self::EMPTY;
        arrivals.seq = u32::from_be_bytes([s0, s1, s2, s3]);
        arrivals.stamp = u32::from_be_bytes([t0, t1, t2, t3]);
        arrivals.len = 1;
        let (chunks, []) = rest.as_chunks::<4>() else {
            return None;
        };
        let mut places = arrivals.further.iter_mut();
        for &[o0, o1, g0, g1] in chunks {
            *places.next()? = Further { offset: i16::from_be_bytes([o0, o1]), gap: u16::from_be_bytes([g0, g1]) };
            arrivals.len = arrivals.len.saturating_add(1);
        }
        arrivals.last_ticks = arrivals.iter().last().map_or(0, |last| last.ticks);
        Some(arrivals)
    }

    pub(crate) fn first_bytes(&self) -> [u8; 8] {
        let [s0, s1, s2, s3] = self.seq.to_be_bytes();
        let [t0, t1, t2, t3] = self.stamp.to_be_bytes();
        [s0, s1, s2, s3, t0, t1, t2, t3]
    }

    /// Iterates over the 4 body bytes of each arrival after the first.
    pub(crate) fn further_bytes(&self) -> impl Iterator<Item = [u8; 4]> + '_ {
        self.further.iter().take(self.len().saturating_sub(1)).map(|further| {
            let [o0, o1] = further.offset.to_be_bytes();
            let [g0, g1] = further.gap.to_be_bytes();
            [o0, o1, g0, g1]
        })
    }
}

/// Rounds a gap to 4 bits of exponent and 11 bits of mantissa. Returns `None` if it is too long.
fn encode_gap(ticks: u32) -> Option<u16> {
    u16::try_from(pack(ticks.into(), MANTISSA_BITS)).ok().filter(|gap| gap & GAP_COALESCED == 0)
}

fn decode_gap(gap: u16) -> u32 {
    unpack((gap & !GAP_COALESCED).into(), MANTISSA_BITS) as u32
}

impl PartialEq for Arrivals {
    fn eq(&self, other: &Self) -> bool {
        (self.seq, self.stamp, self.further, self.len) == (other.seq, other.stamp, other.further, other.len)
    }
}

impl Eq for Arrivals {}

impl fmt::Debug for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
