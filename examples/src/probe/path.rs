//! What all packets together say of a path, whatever they were sent for.

use std::collections::VecDeque;

use longhaul::cc::estimate::buffer;
use longhaul::units::{Bytes, Rate, Span};

/// Packets kept: minutes of most methods.
const KEPT: usize = 1 << 18;
/// Fewer losses at a full queue do not show where it ends.
const LEAST_LOSSES: usize = 3;
/// A loss rate of a thousandth needs so many packets.
const LEAST_PACKETS: u64 = 1000;
/// Under this delay nothing queues: it is what clocks and schedulers do.
const NOISE: Span = Span::from_millis(1);

/// Round trips and losses, in the order in which packets left.
#[derive(Clone, Debug, Default)]
pub struct Path {
    /// The round trip of each, `None` if it was lost.
    fates: VecDeque<Option<Span>>,
    base: Option<Span>,
    packets: u64,
    bytes: u64,
    lost: u64,
}

/// Losses, by what the queue was like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Losses {
    full: usize,
    by_chance: usize,
}

impl Path {
    /// A packet of so many bytes left.
    pub fn on_sent(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    /// What became of one of the packets, in the order in which they left.
    pub fn on_fate(&mut self, rtt: Option<Span>) {
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

    /// Packets sent, and bytes of IP packets.
    #[must_use]
    pub fn spent(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }

    /// Packets without an answer, either way.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The least round trip.
    #[must_use]
    pub fn base_rtt(&self) -> Option<Span> {
        self.base
    }

    /// The longest that a packet waited in a queue.
    #[must_use]
    pub fn most_queueing(&self) -> Option<Span> {
        let base = self.base?;
        self.fates.iter().flatten().map(|rtt| *rtt - base).max()
    }

    /// The delay of a full buffer. Known only if packets were lost when the queue was at its longest.
    #[must_use]
    pub fn buffer_delay(&self) -> Option<Span> {
        let most = self.most_queueing().filter(|most| *most > NOISE)?;
        (self.losses(most).full >= LEAST_LOSSES).then_some(most)
    }

    /// The buffer in bytes, if its delay and the capacity are known.
    #[must_use]
    pub fn buffer_bytes(&self, capacity: Option<Rate>) -> Option<Bytes> {
        Some(buffer::bytes(self.buffer_delay()?, capacity?))
    }

    /// The part of all packets that was lost by chance: with the queue at less than half of its longest (Gerla et al.,
    /// PFLDnet 2006, section 3.1, tells losses apart by the same delay). Known only from many packets.
    #[must_use]
    pub fn random_loss(&self) -> Option<f64> {
        let most = self.most_queueing()?;
        (self.packets >= LEAST_PACKETS).then(|| self.losses(most).by_chance as f64 / self.fates.len().max(1) as f64)
    }

    /// Each loss by the round trip of the last packet before it that was not lost.
    fn losses(&self, most: Span) -> Losses {
        let base = self.base.unwrap_or(Span::ZERO);
        let mut waited = Span::ZERO;
        let mut losses = Losses::default();
        for fate in &self.fates {
            match fate {
                Some(rtt) => waited = *rtt - base,
                None if most > NOISE && waited * 2 >= most => losses.full += 1,
                None => losses.by_chance += 1,
            }
        }
        losses
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

    /// 40 ms of round trip and up to 15 ms of queue at 80 Mb/s: 150 kB.
    #[test]
    fn losses_at_a_full_queue_show_the_buffer() {
        let ramp = || (40..=55).map(Some).chain([None]);
        let path = path((0..100).flat_map(|_| ramp()));
        assert_eq!(path.base_rtt(), Some(Span::from_millis(40)));
        assert_eq!(path.buffer_delay(), Some(Span::from_millis(15)));
        assert_eq!(path.buffer_bytes(Some(Rate::from_bits_per_sec(80_000_000))), Some(Bytes(150_000)));
        assert_eq!(path.random_loss(), Some(0.0));
        assert_eq!((path.lost(), path.spent()), (100, (1700, 2_550_000)));
    }

    #[test]
    fn losses_without_a_queue_are_by_chance_and_show_no_buffer() {
        let path = path((0..2000).map(|i| (i % 100 != 99).then_some(40 + u64::from(i % 100 == 10) * 20)));
        assert_eq!(path.random_loss(), Some(0.01));
        assert_eq!(path.buffer_delay(), None);
    }

    #[test]
    fn few_packets_say_nothing() {
        let path = path([Some(40), None, Some(41), None]);
        assert_eq!((path.random_loss(), path.buffer_delay()), (None, None));
        assert_eq!(Path::default().most_queueing(), None);
    }
}
