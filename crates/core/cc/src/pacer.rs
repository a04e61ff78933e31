//! Pacer, which determines when data may be sent and how much at once.
//!
//! The pacer is a token bucket, filled at the pacing rate. Without lateness, at most one *quantum* is sent at once: one
//! batch of clamp(rate x 250 us, 2 MSS, 64 KiB), unless the controller sets another size. After a pause in which the sender
//! had no data or no window, the bucket contains at most one quantum.
//!
//! If the sender *had* to wait for the pacer and its timer fired late, the pacer compensates for the lateness.
//! Otherwise, every late wake-up would lower the achieved rate, and user-space timers are late by tens of
//! microseconds to more than a millisecond, on some systems by 15 ms. Therefore the bucket continues to fill after a
//! due time, for at most the [lateness allowance](Pacer::set_lateness), and the missed quanta are sent back to back, or
//! [in one batch](Pacer::more). Lateness beyond the allowance is not compensated. The allowance is the time of a quantum plus
//! the minimum lateness of the recent waits, at least 1 ms and at most 20 ms. A sender that may send and
//! [waits for its turn](Pacer::wait) is treated in the same way. With a constant rate and quantum, and a sender that sends only
//! what is allowed, every interval has the bound
//!
//! > bytes sent in an interval <= rate x (its length + lateness allowance + 1 ns) + quantum.
//!
//! If timers are exact, as in virtual time, the allowance is not used and each burst is one quantum.
//!
//! The bucket counts bytes times nanoseconds per second in 128 bits, without rounding. Due times are rounded up to
//! the next nanosecond, and the tokens of the fraction stay in the bucket.

mod lateness;

use longhaul_units::{Bytes, Rate, Span, Time};

use crate::Pace;
use lateness::Lateness;

/// A quantum is the amount that the rate releases in this time, within the two bounds below. Linux's TCP determines its
/// offload batches in a similar way, from the amount sent in about 1 ms; a quarter of that keeps a batch below the
/// buffers of shallow bottlenecks.
const QUANTUM_SPAN: Span = Span::from_micros(250);
/// Two full-sized segments trigger an immediate acknowledgment (RFC 9293, section 3.8.6.3).
const QUANTUM_MIN_SEGMENTS: u64 = 2;
/// The most that one offloaded send can carry: an IP datagram's length field has 16 bits.
const QUANTUM_MAX: Bytes = Bytes(65_536);

/// Bytes multiplied by 10^9: a rate of 1 byte/s releases one unit per nanosecond.
type Nanobytes = i128;
const NANOBYTES: i128 = 1_000_000_000;

/// Releases bytes at the pacing rate, in quanta.
///
/// Callers use [`ready`](Self::ready) before each batch, [`sent`](Self::sent) after it, and [`set`](Self::set)
/// whenever the controller's decisions change. `now` should not decrease; if it does, it counts as unchanged.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// `None` means unlimited.
    rate: Option<Rate>,
    quantum: Bytes,
    lateness: Lateness,
    /// Bytes that may be sent; negative if more was sent than allowed.
    credit: Nanobytes,
    /// Time at which `credit` was calculated.
    updated: Time,
    /// Present while a sender waits, until it is allowed to send.
    due: Option<Due>,
    /// Time until which credit beyond one quantum, left at the end of a wait, remains valid.
    carry_until: Option<Time>,
}

/// Time at which a blocked sender may send again.
#[derive(Clone, Copy, Debug)]
struct Due {
    at: Time,
    /// Whether the sender waits for a time, so that its wake-up shows how late timers are, or for its turn.
    timed: bool,
}

impl Pacer {
    /// An unlimited pacer with full credit.
    #[must_use]
    pub const fn new(now: Time) -> Self {
        Self {
            rate: None,
            quantum: QUANTUM_MAX,
            lateness: Lateness::new(),
            credit: i128::MAX,
            updated: now,
            due: None,
            carry_until: None,
        }
    }

    /// Returns the quantum at `rate` for a pace that sets none.
    #[must_use]
    pub fn default_quantum(rate: Rate, mss: Bytes) -> Bytes {
        let smallest = (mss * QUANTUM_MIN_SEGMENTS).max(Bytes(1));
        rate.bytes_in(QUANTUM_SPAN).min(QUANTUM_MAX).max(smallest)
    }

    /// Changes the pace from `now` on; `None` lifts the limit. Accumulated credit and debt are kept.
    ///
    /// `mss` is the largest segment: the quantum is at least one segment even if `pace` sets a smaller one, and at
    /// least two segments if the pacer chooses.
    pub fn set(&mut self, now: Time, pace: Option<Pace>, mss: Bytes) {
        self.refill(now);
        let was_unlimited = self.rate.is_none();
        self.rate = pace.map(|pace| pace.rate);
        self.quantum = match pace {
            None => QUANTUM_MAX,
            Some(Pace { quantum: Some(named), .. }) => named.max(mss).max(Bytes(1)),
            Some(Pace { rate, quantum: None }) => Self::default_quantum(rate, mss),
        };
        if was_unlimited {
            // The time since the last unlimited send earns credit at the new rate.
            self.refill(now);
        }
    }

    /// Sets the lateness of a wake-up for which the pacer compensates in full. By default, it adapts to the waits, from
    /// 1 to 20 ms. With zero, every burst is a single quantum, and every late wake-up lowers the rate.
    pub const fn set_lateness(&mut self, lateness: Span) {
        self.lateness = Lateness::Fixed(lateness);
    }

    /// Returns the quantum: the largest burst without lateness.
    #[must_use]
    pub const fn quantum(&self) -> Bytes {
        self.quantum
    }

    /// Returns the pacing rate; `None` is unlimited.
    #[must_use]
    pub const fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Returns how many of `want` bytes may be sent immediately: all of them, or one quantum if that is less, or 64 KiB
    /// of a larger quantum. Call it again after sending; more may be sent at once only while the pacer compensates for
    /// a late wake-up.
    ///
    /// The caller should send whole segments within the returned amount, or one segment if not even one fits. Unused
    /// bytes stay in the bucket, and an excess is subtracted from the next quantum.
    ///
    /// # Errors
    /// Returns the earliest time at which these bytes may be sent, or [`Time::MAX`] at rate zero.
    pub fn ready(&mut self, now: Time, want: Bytes) -> Result<Bytes, Time> {
        let Some(rate) = self.rate else {
            return Ok(self.batch(want));
        };
        self.refill(now);
        let batch = self.batch(want);
        let missing = nanobytes(batch).saturating_sub(self.credit);
        if missing > 0 {
            let at = self.updated + wait(missing, rate);
            self.due = Some(Due { at, timed: true });
            return Err(at);
        }
        if let Some(due) = self.due.take() {
            self.carry_until = Some(now + self.lateness.carry());
            if due.timed {
                self.lateness.waited(self.updated - due.at);
            }
        }
        Ok(batch)
    }

    /// Lets the pacer know that `want` more bytes wait for the sender's next turn, in which it calls
    /// [`ready`](Self::ready) again. The pacer then compensates for a late turn as for a late timer.
    pub fn wait(&mut self, now: Time, want: Bytes) {
        if self.ready(now, want).is_ok() && self.rate.is_some() {
            self.due = Some(Due { at: self.updated, timed: false });
        }
    }

    /// Returns how many of `want` bytes may follow at the time of the last [`ready`](Self::ready), after `spent` bytes
    /// that [`sent`](Self::sent) has not counted yet: another quantum while the pacer compensates for a late wake-up,
    /// or zero. A batch of several quanta takes a single system call.
    #[must_use]
    pub fn more(&self, spent: Bytes, want: Bytes) -> Bytes {
        let batch = self.batch(want);
        let left = self.credit.saturating_sub(nanobytes(spent));
        if self.rate.is_some() && left >= nanobytes(batch) { batch } else { Bytes::ZERO }
    }

    /// Subtracts `bytes` from the credit. Bytes sent without the pacer's permission, such as a tail loss probe, count
    /// as well.
    pub fn sent(&mut self, now: Time, bytes: Bytes) {
        if self.rate.is_none() {
            self.credit = 0;
            self.updated = self.updated.max(now);
            return;
        }
        self.refill(now);
        self.credit = self.credit.saturating_sub(nanobytes(bytes));
    }

    /// Returns how many of `want` bytes one call may permit. A larger quantum takes several batches.
    fn batch(&self, want: Bytes) -> Bytes {
        want.min(self.quantum).min(QUANTUM_MAX)
    }

    /// Updates the credit to `now`, limited by the current depth of the bucket.
    fn refill(&mut self, now: Time) {
        let Some(rate) = self.rate else { return };
        let grown = self.credit.saturating_add(flow(rate, now - self.updated));
        self.updated = self.updated.max(now);
        let quantum = nanobytes(self.quantum);
        let carried = match self.carry_until {
            Some(until) if now <= until => quantum.max(self.credit),
            _ => quantum,
        };
        let depth = match self.due {
            // The additional nanosecond keeps the tokens of a due time that was rounded up.
            Some(due) => {
                let flow = |late| flow(rate, late + Span::from_nanos(1));
                carried.max(quantum.saturating_add(self.lateness.allows(now - due.at, quantum, flow)))
            }
            None => carried,
        };
        self.credit = grown.min(depth);
    }
}

fn nanobytes(bytes: Bytes) -> Nanobytes {
    i128::from(bytes.0) * NANOBYTES
}

/// Returns the bytes that `rate` releases in `span`, exactly, saturating at the type's maximum.
fn flow(rate: Rate, span: Span) -> Nanobytes {
    let product = u128::from(rate.as_bytes_per_sec()) * u128::from(span.as_nanos());
    i128::try_from(product).unwrap_or(i128::MAX)
}

/// Returns the time in which `rate` releases `missing`, which is positive, rounded up.
fn wait(missing: Nanobytes, rate: Rate) -> Span {
    let (missing, rate) = (missing.unsigned_abs(), rate.as_bytes_per_sec());
    if rate == 0 {
        return Span::MAX;
    }
    // At ordinary rates, a 64-bit division is sufficient.
    let nanos = match u64::try_from(missing) {
        Ok(missing) => missing.div_ceil(rate),
        Err(_) => u64::try_from(missing.div_ceil(u128::from(rate))).unwrap_or(u64::MAX),
    };
    Span::from_nanos(nanos)
}

#[cfg(test)]
mod tests;
