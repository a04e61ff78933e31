//! When data segments arrived at the receiver: the body of the arrival-times option.

use core::fmt;

use longhaul_units::{Span, Time};

/// A data segment's arrival at the receiver, on the receiver's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The segment's sequence number: that of its first data byte.
    pub seq: u32,
    /// When, in ticks of [`Arrival::TICK`], modulo 2^31 (137 s).
    pub ticks: u32,
    /// Whether receive offload had merged the segment with others, so that `ticks` is the whole batch's and says
    /// nothing about the gap between its members.
    pub coalesced: bool,
}

impl Arrival {
    /// One tick: 64 ns, a twentieth of what 1500 bytes take at 10 Gb/s, and one shift away from nanoseconds.
    pub const TICK: Span = Span::from_nanos(1 << Self::TICK_SHIFT);

    const TICK_SHIFT: u32 = 6;
    const MASK: u32 = 0x7fff_ffff;

    /// The arrival of the segment with sequence number `seq` at `at`.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the tick counter is modulo 2^31")]
    pub const fn new(seq: u32, at: Time, coalesced: bool) -> Self {
        Self { seq, ticks: (at.as_nanos() >> Self::TICK_SHIFT) as u32 & Self::MASK, coalesced }
    }

    /// How long after `earlier` this segment arrived; `None` when it arrived before it, or 68 s or more after it.
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

/// Up to five arrivals, oldest first, in the form they have on the wire: the first in full, each further one as its
/// distance from the one before, in sequence space and in time.
///
/// A gap in time has 11 significant bits: up to 2047 ticks (131 us) it is exact, above that within 1/2048 of itself.
/// Each gap is measured from the true time of the arrival before, not from that time as the peer reads it: rounding
/// a long gap must not spoil the short one that follows, whose dispersion is what a sender is after.
#[derive(Clone, Copy, Default)]
pub struct Arrivals {
    seq: u32,
    /// Bit 31: coalesced; the rest: ticks.
    stamp: u32,
    /// The true time of the last arrival, from which the next gap is measured. Not on the wire, not in equality.
    last_ticks: u32,
    /// Unused places are zero, so that equality is the arrivals'.
    further: [Further; Self::CAPACITY - 1],
    len: u8,
}

/// An arrival after the first.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Further {
    /// Sequence number minus that of the arrival before.
    offset: i16,
    /// Bit 15: coalesced; bits 14 to 11: exponent; bits 10 to 0: mantissa of the ticks since the arrival before.
    gap: u16,
}

const COALESCED: u32 = 1 << 31;
const GAP_COALESCED: u16 = 1 << 15;
const MANTISSA_BITS: u32 = 11;
const MANTISSA_MASK: u16 = (1 << MANTISSA_BITS) - 1;
const EXPONENT_MAX: u32 = 15;

impl Arrivals {
    /// How many arrivals there is room for: what is left of 40 bytes beside timestamps.
    pub const CAPACITY: usize = 5;

    /// No arrival.
    pub const EMPTY: Self =
        Self { seq: 0, stamp: 0, last_ticks: 0, further: [Further { offset: 0, gap: 0 }; Self::CAPACITY - 1], len: 0 };

    /// Appends an arrival. Returns false, and changes nothing, when there are five already, or when it is no successor
    /// of the last one: earlier, 4.29 s or more later, or 32 KiB or more away in sequence space. It belongs into
    /// another segment then.
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

    /// How many arrivals there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is no arrival.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The arrivals, oldest first, as the peer reads them.
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

    /// Bytes of the option's body.
    pub(crate) fn body_len(&self) -> usize {
        // 8 bytes for the first, 4 for each further one.
        if self.is_empty() { 0 } else { self.len().saturating_add(1).saturating_mul(4) }
    }

    /// Reads an option's body; `None` when its length is that of no number of arrivals.
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

    /// The body's first eight bytes.
    pub(crate) fn first_bytes(&self) -> [u8; 8] {
        let [s0, s1, s2, s3] = self.seq.to_be_bytes();
        let [t0, t1, t2, t3] = self.stamp.to_be_bytes();
        [s0, s1, s2, s3, t0, t1, t2, t3]
    }

    /// The four body bytes of each further arrival.
    pub(crate) fn further_bytes(&self) -> impl Iterator<Item = [u8; 4]> + '_ {
        self.further.iter().take(self.len().saturating_sub(1)).map(|further| {
            let [o0, o1] = further.offset.to_be_bytes();
            let [g0, g1] = further.gap.to_be_bytes();
            [o0, o1, g0, g1]
        })
    }
}

/// The nearest gap that 4 bits of exponent and 11 of mantissa express; `None` when it is too long.
fn encode_gap(ticks: u32) -> Option<u16> {
    let significant = u32::BITS.saturating_sub(ticks.leading_zeros());
    let mut exponent = significant.saturating_sub(MANTISSA_BITS);
    let half = (1_u32 << exponent) >> 1;
    let mut mantissa = ticks.saturating_add(half) >> exponent;
    if mantissa > u32::from(MANTISSA_MASK) {
        mantissa >>= 1;
        exponent = exponent.saturating_add(1);
    }
    let mantissa = u16::try_from(mantissa).ok()?;
    let exponent = u16::try_from(exponent).ok().filter(|_| exponent <= EXPONENT_MAX)?;
    Some(exponent << MANTISSA_BITS | mantissa)
}

fn decode_gap(gap: u16) -> u32 {
    let exponent = u32::from(gap >> MANTISSA_BITS) & EXPONENT_MAX;
    u32::from(gap & MANTISSA_MASK) << exponent
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
