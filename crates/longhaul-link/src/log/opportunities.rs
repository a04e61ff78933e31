//! When a link could have sent.

use longhaul_units::{Span, Time};

use crate::config::{LinkConfig, LinkRate};
use crate::overhead::Overhead;
use crate::trace::{OPPORTUNITY, TUN_PREFIX};
use crate::transmit::Transmitter;

/// The opportunities of so long share a line while packets come and go: mahimahi's logs know nothing shorter.
const TICK: Span = Span::from_millis(1);

/// After so long without a packet the link is idle.
const PAUSE: Span = Span::from_secs(1);

/// While it is, the opportunities of so long share a line.
const IDLE_TICK: Span = Span::from_millis(100);

/// A pause takes no more lines than about that.
const MOST_LINES: u64 = 100;

/// A transmitter that always has something to send: what it begins are the opportunities.
#[derive(Debug)]
pub(super) struct Opportunities {
    transmitter: Transmitter,
    /// What to give it for one opportunity.
    one: u32,
    /// When the last packet was seen.
    seen: Time,
}

impl Opportunities {
    /// `None` if there is no limit to what the link can send.
    pub(super) fn of(link: &LinkConfig) -> Option<Self> {
        let one = match link.rate {
            LinkRate::Unlimited => return None,
            LinkRate::Constant(_) => OPPORTUNITY,
            // Its transmitter adds the prefix, as a trace counts it for each packet.
            LinkRate::Trace(_) => OPPORTUNITY - TUN_PREFIX,
        };
        Some(Self { transmitter: Transmitter::new(&bare(link)), one, seen: Time::ZERO })
    }

    /// Those from `now` on.
    pub(super) fn from(now: Time, link: &LinkConfig) -> Option<Self> {
        let mut all = Self::of(link)?;
        all.transmitter.reconfigure(now, &bare(link));
        all.seen = now;
        Some(all)
    }

    /// A packet came or went.
    pub(super) fn seen(&mut self, at: Time) {
        self.seen = self.seen.max(at);
    }

    /// The time and the bytes of the next ones that share a line, if there are any until `until`.
    pub(super) fn next(&mut self, until: Time) -> Option<(Time, u64)> {
        let first = self.transmitter.next_start(Time::ZERO);
        if first > until {
            return None;
        }
        let end = if first - self.seen < PAUSE {
            let into_tick = first.since(Time::ZERO).as_nanos() % TICK.as_nanos();
            first + Span::from_nanos(TICK.as_nanos() - into_tick)
        } else {
            first + ((until - self.seen) / MOST_LINES).max(IDLE_TICK)
        };
        let (mut at, mut bytes) = (first, 0);
        loop {
            let count = self.count(end.min(until) - at);
            self.transmitter.send(at, self.one.saturating_mul(count), true);
            bytes += u64::from(count) * u64::from(OPPORTUNITY);
            let next = self.transmitter.next_start(Time::ZERO);
            if next >= end || next > until {
                return Some((at, bytes));
            }
            at = next;
        }
    }

    /// How many to take at once of so long a time: more than one only where the rate is always the same.
    fn count(&self, span: Span) -> u32 {
        if self.one != OPPORTUNITY || self.transmitter.may_hold() {
            return 1;
        }
        let bytes = self.transmitter.steady_rate().map_or(0, |rate| rate.bytes_in(span).0);
        u32::try_from(bytes / u64::from(OPPORTUNITY)).unwrap_or(u32::MAX / OPPORTUNITY).clamp(1, u32::MAX / OPPORTUNITY)
    }
}

/// The link without what it adds to packets: an opportunity is bytes on the link.
fn bare(link: &LinkConfig) -> LinkConfig {
    LinkConfig { overhead: Overhead::None, ..link.clone() }
}
