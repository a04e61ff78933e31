//! Properties of the path that are measured by the packets of all methods: round trip, buffer, loss.

use std::collections::VecDeque;

use longhaul_units::{Bytes, Rate, Span};
use serde::Serialize;

use super::report::micros;
use crate::BufferDelay;

/// Number of packets kept: some minutes of most methods.
const KEPT: usize = 1 << 18;
/// Number of bins for the queueing delay.
const STEPS: u64 = 100;
/// Minimum number of packets for a reported loss rate, which can show a rate of 0.1 %.
const LEAST_PACKETS: u64 = 1000;
/// Largest delay that clocks and schedulers cause without a queue.
const NOISE: Span = Span::from_millis(1);

/// Round trips and losses in the order in which packets were sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    fates: VecDeque<Option<Span>>,
    base: Option<Span>,
    packets: u64,
    bytes: u64,
    lost: u64,
}

impl Path {
    pub(super) fn on_sent(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    /// Records the fate of the next packet, in the order of transmission.
    pub(super) fn on_fate(&mut self, rtt: Option<Span>) {
        if let Some(rtt) = rtt {
            self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        } else {
            self.lost += 1;
        }
        if self.fates.len() == KEPT {
            self.fates.pop_front();
        }
        self.fates.push_back(rtt);
    }

    /// Number of packets sent, and bytes of IP packets.
    pub(super) fn spent(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }

    pub(super) fn base_rtt(&self) -> Option<Span> {
        self.base
    }

    pub(super) fn most_queueing(&self) -> Option<Span> {
        let base = self.base?;
        self.fates.iter().flatten().map(|rtt| *rtt - base).max()
    }

    /// Delay of a full buffer, known only if round trips before losses have a peak above the shortest round trip
    /// ([`BufferDelay`]).
    pub(super) fn buffer_delay(&self) -> Option<Span> {
        let most = self.most_queueing().filter(|most| *most > NOISE)?;
        let mut buffer = BufferDelay::new(most / STEPS);
        // If the queue never empties, its most frequent round trip is not the base round trip. Adding as many samples
        // of the base round trip as there are packets makes it the most frequent one.
        let idle = self.base?;
        (0..self.fates.len()).for_each(|_| buffer.sample(idle));
        for fate in &self.fates {
            match fate {
                Some(rtt) => buffer.sample(*rtt),
                None => buffer.on_loss(),
            }
        }
        buffer.delay().filter(|delay| *delay > NOISE)
    }

    pub(super) fn buffer_bytes(&self, capacity: Option<Rate>) -> Option<Bytes> {
        Some(capacity?.bytes_in(self.buffer_delay()?))
    }

    /// Fraction of packets lost at random: while the queueing delay was less than half that of a full buffer, or half
    /// the longest queueing delay if the buffer is unknown (Gerla et al., PFLDnet 2006, section 3.1, distinguish losses
    /// by the same delay). Known only after [`LEAST_PACKETS`] packets.
    pub(super) fn random_loss(&self) -> Option<f64> {
        let full = self.buffer_delay().or_else(|| self.most_queueing())?;
        let all = self.fates.len().max(1) as f64;
        (self.packets >= LEAST_PACKETS).then(|| self.lost_by_chance(full) as f64 / all)
    }

    /// Number of random losses. The queueing delay at a loss is that of the last packet before it that arrived.
    fn lost_by_chance(&self, full: Span) -> usize {
        let base = self.base.unwrap_or(Span::ZERO);
        let mut waited = Span::ZERO;
        let mut by_chance = 0;
        for fate in &self.fates {
            match fate {
                Some(rtt) => waited = *rtt - base,
                None => by_chance += usize::from(full <= NOISE || waited * 2 < full),
            }
        }
        by_chance
    }

    pub(super) fn facts(&self, capacity: Option<Rate>) -> Facts {
        Facts {
            base_rtt_us: self.base_rtt().map(micros),
            queueing_us: self.most_queueing().map(micros),
            buffer_delay_us: self.buffer_delay().map(micros),
            buffer_bytes: self.buffer_bytes(capacity).map(|bytes| bytes.0),
            random_loss: self.random_loss(),
            lost: self.lost,
            packets: self.packets,
            bytes: self.bytes,
        }
    }
}

/// Properties of a path. Unknown ones are `None`: `null` in JSON, "unknown" in text.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Facts {
    /// Shortest round trip in microseconds.
    pub base_rtt_us: Option<f64>,
    /// Longest queueing delay in microseconds.
    pub queueing_us: Option<f64>,
    /// Delay of a full buffer in microseconds.
    pub buffer_delay_us: Option<f64>,
    /// Size of the buffer in bytes, at the capacity found.
    pub buffer_bytes: Option<u64>,
    /// Fraction of packets lost at random, 0 to 1.
    pub random_loss: Option<f64>,
    /// Number of packets without an answer, or marked lost.
    pub lost: u64,
    /// Number of packets sent.
    pub packets: u64,
    /// Bytes of IP packets sent.
    pub bytes: u64,
}

impl Facts {
    /// Combines the properties found by two parts of a measurement. Where they disagree, `self` takes precedence.
    pub(super) fn and(&self, other: &Self) -> Self {
        let of_both = |pick: fn(f64, f64) -> f64, a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(pick(a, b)),
            (a, b) => a.or(b),
        };
        let buffer = if self.buffer_delay_us.is_some() { self } else { other };
        Self {
            base_rtt_us: of_both(f64::min, self.base_rtt_us, other.base_rtt_us),
            queueing_us: of_both(f64::max, self.queueing_us, other.queueing_us),
            buffer_delay_us: buffer.buffer_delay_us,
            buffer_bytes: buffer.buffer_bytes,
            random_loss: self.random_loss.or(other.random_loss),
            lost: self.lost + other.lost,
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(fates: impl IntoIterator<Item = Option<u64>>) -> Path {
        let mut path = Path::default();
        for fate in fates {
            path.on_sent(1500);
            path.on_fate(fate.map(Span::from_millis));
        }
        path
    }

    /// A round trip of 40 ms and up to 15 ms of queueing at 80 Mb/s: the buffer holds 150 kB.
    #[test]
    fn losses_at_a_full_queue_show_the_buffer() {
        let ramp = || (40..=55).map(Some).chain([None]);
        let path = path((0..100).flat_map(|_| ramp()));
        assert_eq!(path.base_rtt(), Some(Span::from_millis(40)));
        assert_eq!(path.buffer_delay(), Some(Span::from_millis(15)));
        assert_eq!(path.buffer_bytes(Some(Rate::from_bits_per_sec(80_000_000))), Some(Bytes(150_000)));
        assert_eq!(path.random_loss(), Some(0.0));
        assert_eq!((path.lost, path.spent()), (100, (1700, 2_550_000)));
    }

    /// As in a transfer, the queueing delay is always between 20 and 40 ms.
    #[test]
    fn a_queue_that_never_empties_shows_all_of_its_buffer() {
        let busy = || (60..=80).chain([65; 20]).chain([80]).map(Some).chain([None]);
        let path = path([Some(40)].into_iter().chain((0..50).flat_map(|_| busy())));
        assert_eq!(path.buffer_delay(), Some(Span::from_millis(40)));
    }

    #[test]
    fn losses_without_a_queue_are_random_and_show_no_buffer() {
        let path = path((0..2000).map(|i| (i % 100 != 99).then_some(40 + u64::from(i % 100 == 10) * 20)));
        assert_eq!(path.random_loss(), Some(0.01));
        assert_eq!(path.buffer_delay(), None);
    }

    #[test]
    fn a_transfer_takes_precedence_over_probes() {
        let of = |base, buffer: Option<f64>, loss, packets| Facts {
            base_rtt_us: base,
            buffer_delay_us: buffer,
            buffer_bytes: buffer.map(|us| us as u64),
            random_loss: loss,
            packets,
            ..Facts::default()
        };
        let transfer = of(Some(41.0), Some(15.0), None, 5);
        let probes = of(Some(40.0), Some(3.0), Some(0.1), 7);
        assert_eq!(transfer.and(&probes), of(Some(40.0), Some(15.0), Some(0.1), 12));
        assert_eq!(transfer.and(&Facts::default()), transfer);
        assert_eq!(Facts::default().and(&probes), probes);
    }

    #[test]
    fn few_packets_show_no_loss_rate() {
        let path = path([Some(40), None, Some(41), None]);
        assert_eq!((path.random_loss(), path.buffer_delay()), (None, None));
        assert_eq!(Path::default().most_queueing(), None);
    }
}
