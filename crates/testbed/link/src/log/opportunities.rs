//! Delivery opportunities of a link.

use longhaul_units::{Span, Time};

use crate::config::{LinkConfig, LinkRate};
use crate::overhead::Overhead;
use crate::trace::{OPPORTUNITY, TUN_PREFIX};
use crate::transmit::Transmitter;

/// Opportunities within this time share a line while there is traffic. It is the resolution of mahimahi's logs.
const TICK: Span = Span::from_millis(1);

/// The link is idle after this long without a packet.
const PAUSE: Span = Span::from_secs(1);

/// Opportunities within this time share a line while the link is idle.
const IDLE_TICK: Span = Span::from_millis(100);

/// Approximate maximum number of lines per pause.
const MOST_LINES: u64 = 100;

/// A transmitter that always has a packet to send; the packets it begins are the opportunities.
#[derive(Debug)]
pub(super) struct Opportunities {
    transmitter: Transmitter,
    /// Packet size that uses exactly one opportunity.
    one: u32,
    seen: Time,
}

impl Opportunities {
    /// Returns the opportunities from `now` on; `None` if the link's rate is unlimited.
    pub(super) fn from(now: Time, link: &LinkConfig) -> Option<Self> {
        let one = match link.rate {
            LinkRate::Unlimited => return None,
            LinkRate::Constant(_) => OPPORTUNITY,
            // The transmitter of a trace adds the prefix to each packet.
            LinkRate::Trace(_) => OPPORTUNITY - TUN_PREFIX,
        };
        // Without overhead, because an opportunity is measured in bytes on the link.
        let bare = LinkConfig { overhead: Overhead::None, ..link.clone() };
        let mut transmitter = Transmitter::new(&bare);
        transmitter.reconfigure(now, &bare);
        Some(Self { transmitter, one, seen: now })
    }

    pub(super) fn seen(&mut self, at: Time) {
        self.seen = self.seen.max(at);
    }

    /// Returns the time and the size in bytes of the next opportunities that share a line, if there are any up to
    /// `until`.
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

    /// Returns how many opportunities to take at once within `span`. The number exceeds one only if the rate is
    /// constant.
    fn count(&self, span: Span) -> u32 {
        if self.one != OPPORTUNITY || self.transmitter.may_hold() {
            return 1;
        }
        let bytes = self.transmitter.steady_rate().map_or(0, |rate| rate.bytes_in(span).0);
        u32::try_from(bytes / u64::from(OPPORTUNITY)).unwrap_or(u32::MAX / OPPORTUNITY).clamp(1, u32::MAX / OPPORTUNITY)
    }
}
