//! The pacer: when the next bytes may leave, and how many.
//!
//! A token bucket, filled at the pacing rate. What may leave at once is one *quantum*: one batch handed to the
//! network, clamp(rate x 250 us, 2 MSS, 64 KiB) unless the controller names another. A sender that had nothing to
//! send, or no window, finds at most one quantum in the bucket.
//!
//! A sender that *had* to wait, and whose timer fired late, is a different case: without compensation every late
//! wake-up would lower the rate achieved, and user-space timers are late by tens of microseconds to more than a
//! millisecond, on some systems by 15. So the bucket goes on filling while a due time has passed unused, for at most the
//! [lateness allowance](Pacer::set_lateness), and the quanta missed leave back to back. Beyond the allowance the time is lost, not made up for.
//! It is the time of a quantum, 1 ms at least; where each of the latest waits was late, as much more; and never above 20 ms.
//! Hence the bound that holds over every interval: with a constant rate and quantum, and a sender that sends no more than
//! it was allowed,
//!
//! > bytes sent in an interval <= rate x (its length + lateness allowance + 1 ns) + quantum.
//!
//! Where timers are exact, as in virtual time, the allowance is never drawn upon: the burst is one quantum.
//!
//! The bucket counts bytes times nanoseconds a second in 128 bits, so nothing is ever rounded: a due time is rounded
//! up to the next nanosecond, and what flows in meanwhile stays in the bucket.

mod lateness;

use longhaul_units::{Bytes, Rate, Span, Time};

use crate::Pace;
use lateness::Lateness;

/// A quantum is what the rate releases in this span, within the two bounds below. Linux's TCP sizes its offload
/// batches alike, by what the pacing rate sends in about a millisecond; a quarter of that keeps a batch below the
/// buffers of shallow bottlenecks.
const QUANTUM_SPAN: Span = Span::from_micros(250);
/// Two segments draw an immediate acknowledgment (RFC 9293, section 3.8.6.3).
const QUANTUM_MIN_SEGMENTS: u64 = 2;
/// The most that one offloaded send can carry: an IP datagram's length field has 16 bits.
const QUANTUM_MAX: Bytes = Bytes(65_536);

/// Bytes, scaled by 10^9: what a rate of one byte a second releases in a nanosecond is one unit.
type Nanobytes = i128;
const NANOBYTES: i128 = 1_000_000_000;

/// Releases bytes at the pacing rate, in quanta.
///
/// [`ready`](Self::ready) before each batch, [`sent`](Self::sent) after it, [`set`](Self::set) whenever the
/// controller's answer changed. `now` never goes back; if it does, it counts as unchanged.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// `None`: unlimited.
    rate: Option<Rate>,
    quantum: Bytes,
    lateness: Lateness,
    /// What may be sent; negative after more was sent than allowed.
    credit: Nanobytes,
    /// When `credit` was right.
    updated: Time,
    /// What a sender that may not send yet was told; `None` once it was allowed to.
    due: Option<Time>,
    /// Until then, credit beyond one quantum that the end of a wait found is still honoured.
    carry_until: Option<Time>,
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

    /// Changes the pace from `now` on; `None` lifts the limit. Credit and debt earned so far stay.
    ///
    /// `mss` is the largest segment: the quantum is at least one of them, however small a one `pace` names, and at
    /// least two where the pacer chooses.
    pub fn set(&mut self, now: Time, pace: Option<Pace>, mss: Bytes) {
        self.refill(now);
        let was_unlimited = self.rate.is_none();
        self.rate = pace.map(|pace| pace.rate);
        self.quantum = match pace {
            None => QUANTUM_MAX,
            Some(Pace { quantum: Some(named), .. }) => named.max(mss).max(Bytes(1)),
            Some(Pace { rate, quantum: None }) => default_quantum(rate, mss),
        };
        if was_unlimited {
            // What was earned since the last unlimited send, at the rate that is known now.
            self.refill(now);
        }
    }

    /// How late a wake-up may be and still be made up for in full; unless set, 1 to 20 ms, as the waits are. Zero makes
    /// every burst a single quantum, at the price of a lower rate with every late wake-up.
    pub const fn set_lateness(&mut self, lateness: Span) {
        self.lateness = Lateness::Fixed(lateness);
    }

    /// The most that leaves at once.
    #[must_use]
    pub const fn quantum(&self) -> Bytes {
        self.quantum
    }

    /// The pacing rate; `None` is unlimited.
    #[must_use]
    pub const fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// What may leave now of the `want` bytes that are there to be sent: all of it, or one quantum if that is less.
    /// Ask again after sending; there is more at once only while a late wake-up is being made up for.
    ///
    /// Send whole segments within the answer, or one if not even one fits: what the answer left unused stays in the
    /// bucket, what exceeded it is taken off the next quantum.
    ///
    /// # Errors
    /// The time from which the answer will be as above; [`Time::MAX`] at rate zero.
    pub fn ready(&mut self, now: Time, want: Bytes) -> Result<Bytes, Time> {
        let Some(rate) = self.rate else {
            return Ok(want.min(self.quantum));
        };
        self.refill(now);
        let batch = want.min(self.quantum);
        let missing = nanobytes(batch).saturating_sub(self.credit);
        if missing > 0 {
            let due = self.updated + wait(missing, rate);
            self.due = Some(due);
            return Err(due);
        }
        if let Some(due) = self.due.take() {
            self.carry_until = Some(now + self.lateness.carry());
            self.lateness.waited(self.updated - due);
        }
        Ok(batch)
    }

    /// Takes `bytes` off the credit. Bytes that leave without asking (a tail loss probe, say) count as well.
    pub fn sent(&mut self, now: Time, bytes: Bytes) {
        if self.rate.is_none() {
            self.credit = 0;
            self.updated = self.updated.max(now);
            return;
        }
        self.refill(now);
        self.credit = self.credit.saturating_sub(nanobytes(bytes));
    }

    /// Brings the credit up to `now`, within the bucket's depth at that moment.
    fn refill(&mut self, now: Time) {
        let Some(rate) = self.rate else { return };
        let grown = self.credit.saturating_add(flow(rate, now - self.updated));
        self.updated = self.updated.max(now);
        let quantum = nanobytes(self.quantum);
        let depth = match self.due {
            // The nanosecond keeps what flows in when a due time is rounded up.
            Some(due) => {
                let flow = |late| flow(rate, late + Span::from_nanos(1));
                quantum.saturating_add(self.lateness.allows(now - due, quantum, flow))
            }
            None if self.carry_until.is_some_and(|until| now <= until) => quantum.max(self.credit),
            None => quantum,
        };
        self.credit = grown.min(depth);
    }
}

fn default_quantum(rate: Rate, mss: Bytes) -> Bytes {
    let smallest = (mss * QUANTUM_MIN_SEGMENTS).max(Bytes(1));
    rate.bytes_in(QUANTUM_SPAN).min(QUANTUM_MAX).max(smallest)
}

fn nanobytes(bytes: Bytes) -> Nanobytes {
    i128::from(bytes.0) * NANOBYTES
}

/// What `rate` releases in `span`, exactly, up to the type's maximum.
fn flow(rate: Rate, span: Span) -> Nanobytes {
    let product = u128::from(rate.as_bytes_per_sec()) * u128::from(span.as_nanos());
    i128::try_from(product).unwrap_or(i128::MAX)
}

/// How long until `rate` has released `missing`, which is positive, rounded up.
fn wait(missing: Nanobytes, rate: Rate) -> Span {
    let (missing, rate) = (missing.unsigned_abs(), rate.as_bytes_per_sec());
    if rate == 0 {
        return Span::MAX;
    }
    // Quanta of ordinary rates fit the cheap division.
    let nanos = match u64::try_from(missing) {
        Ok(missing) => missing.div_ceil(rate),
        Err(_) => u64::try_from(missing.div_ceil(u128::from(rate))).unwrap_or(u64::MAX),
    };
    Span::from_nanos(nanos)
}

#[cfg(test)]
mod tests;
