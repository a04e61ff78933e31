//! Counters of a link.

use longhaul_units::{Span, Time, named};

use crate::histogram::Histogram;

named! {
    /// Why a packet was dropped.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum Cause, ALL {
        /// The packet did not fit into the queue.
        QueueFull = "queue full",
        /// The packet was queued, and a packet of a higher class needed its place.
        PushedOut = "pushed out",
        /// The packet had low priority, and the queue exceeded its threshold.
        LowPriority = "low priority",
        /// Active queue management dropped it.
        Aqm = "aqm",
        /// The policer had too few tokens for the packet.
        Policed = "policed",
        /// Lost on the link.
        Lost = "lost",
        /// Dropped because of a bit error that a checksum detected.
        Corrupted = "corrupted",
        /// The link was in an outage.
        Outage = "outage",
        /// Larger than the path MTU.
        TooLong = "too long",
        /// The packet's TTL has expired.
        TtlExpired = "ttl expired",
    }
}

impl Cause {
    /// Returns whether the packet was dropped before its transmission, so that it used no time on the link.
    pub const fn is_before_link(self) -> bool {
        !matches!(self, Self::Lost | Self::Corrupted | Self::Outage | Self::TooLong)
    }
}

/// The maximum number of classes in a queue.
pub const MAX_CLASSES: usize = 8;

/// Counters of the packets of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Packets offered to the link.
    pub offered: u64,
    /// Bytes offered to the link, without link overhead.
    pub offered_bytes: u64,
    /// Number of packets that left the queue for the link.
    pub sent: u64,
    /// Bytes that left the queue for the link, without link overhead.
    pub sent_bytes: u64,
    /// Packets marked with congestion experienced (CE).
    pub marked: u64,
    /// Time from entering the queue until transmission began, for transmitted packets.
    pub sojourn: Histogram,
    /// Drops by cause, allocated at the first drop.
    dropped: Option<Box<[u64; Cause::ALL.len()]>>,
}

impl ClassStats {
    /// Returns the number of packets dropped for this cause.
    pub fn dropped(&self, cause: Cause) -> u64 {
        self.dropped.as_ref().map_or(0, |dropped| dropped[cause as usize])
    }

    /// Returns the number of packets dropped for any cause.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().flat_map(|dropped| dropped.iter()).sum()
    }

    fn add_dropped(&mut self, cause: Cause, more: u64) {
        if more > 0 {
            self.dropped.get_or_insert_default()[cause as usize] += more;
        }
    }

    fn merge(&mut self, other: &Self) {
        self.offered += other.offered;
        self.offered_bytes += other.offered_bytes;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.marked += other.marked;
        self.sojourn.merge(&other.sojourn);
        for cause in Cause::ALL {
            self.add_dropped(cause, other.dropped(cause));
        }
    }
}

/// Counters of a link and its queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    classes: Vec<ClassStats>,
    /// Number of packets that arrived at the other end, duplicates included.
    pub delivered: u64,
    /// Bytes that arrived at the other end, without link overhead.
    pub delivered_bytes: u64,
    /// Duplicates made by the link.
    pub duplicated: u64,
    /// Number of packets that the link reordered deliberately.
    pub reordered: u64,
    /// The maximum number of packets waiting.
    pub max_packets: u64,
    /// The maximum number of bytes waiting, without link overhead.
    pub max_bytes: u64,
    backlog: Backlog,
}

/// Time integral of the queue length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Backlog {
    bytes: u64,
    since: Time,
    byte_nanos: u128,
}

impl LinkStats {
    /// Returns the counters of one class. In a priority queue, class 0 has the highest priority. In DualPI2, 0 is
    /// Classic and 1 is L4S. Otherwise 0 is normal traffic and 1 is less-effort traffic (RFC 8622).
    pub fn class(&self, class: u8) -> ClassStats {
        self.classes.get(usize::from(class)).cloned().unwrap_or_default()
    }

    /// Returns the sum of the counters of all classes.
    pub fn all(&self) -> ClassStats {
        self.classes.iter().fold(ClassStats::default(), |mut sum, class| {
            sum.merge(class);
            sum
        })
    }

    /// Returns the integral of the bytes waiting over time until `now`, in byte seconds. `now` must not be before the
    /// last change of the queue.
    pub fn byte_seconds(&self, now: Time) -> f64 {
        let mut until = self.backlog;
        until.change(now, until.bytes);
        until.byte_nanos as f64 / 1e9
    }

    #[inline]
    pub(crate) fn offered(&mut self, class: u8, size: u32) {
        let stats = self.class_mut(class);
        stats.offered += 1;
        stats.offered_bytes += u64::from(size);
    }

    #[inline]
    pub(crate) fn sent(&mut self, class: u8, size: u32, sojourn: Span) {
        let stats = self.class_mut(class);
        stats.sent += 1;
        stats.sent_bytes += u64::from(size);
        stats.sojourn.add(sojourn);
    }

    pub(crate) fn marked(&mut self, class: u8) {
        self.class_mut(class).marked += 1;
    }

    pub(crate) fn dropped(&mut self, class: u8, cause: Cause) {
        self.class_mut(class).add_dropped(cause, 1);
    }

    #[inline]
    pub(crate) fn queue_changed(&mut self, now: Time, packets: u64, bytes: u64) {
        self.max_packets = self.max_packets.max(packets);
        self.max_bytes = self.max_bytes.max(bytes);
        self.backlog.change(now, bytes);
    }

    #[inline]
    fn class_mut(&mut self, class: u8) -> &mut ClassStats {
        let class = usize::from(class).min(MAX_CLASSES - 1);
        if class >= self.classes.len() {
            // Most links have one class, and there may be thousands of links.
            self.classes.reserve_exact(class + 1 - self.classes.len());
            self.classes.resize(class + 1, ClassStats::default());
        }
        &mut self.classes[class]
    }
}

impl Backlog {
    #[inline]
    fn change(&mut self, now: Time, bytes: u64) {
        self.byte_nanos += u128::from(self.bytes) * u128::from((now - self.since).as_nanos());
        (self.since, self.bytes) = (now, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_listed_in_their_order() {
        assert!(Cause::ALL.iter().enumerate().all(|(index, cause)| *cause as usize == index));
        let mut names = Cause::ALL.map(Cause::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn occupancy_is_integrated_over_time() {
        let mut stats = LinkStats::default();
        let at = Time::from_nanos;
        // From 100: one packet for 10, two for 20, none for 70, then the last change.
        for (now, packets) in [(100, 1), (110, 2), (130, 0), (200, 0)] {
            stats.queue_changed(at(now), packets, packets * 500);
        }
        assert_eq!((stats.max_packets, stats.max_bytes), (2, 1_000));
        // 500 bytes for 10 ns and 1000 for 20; and from 200 on 500 again.
        assert_eq!(stats.byte_seconds(at(200)), 25_000e-9);
        stats.queue_changed(at(200), 1, 500);
        assert_eq!(stats.byte_seconds(at(230)), 40_000e-9);
    }
}
