//! Packetization-layer path MTU discovery without ICMP (RFC 8899; RFC 4821 for a transport whose probes carry data).
//!
//! A probe is one segment of new data that is larger than the current MSS. If it is acknowledged, its size is
//! confirmed. If only the probe is lost, its size is refused, the data is retransmitted in smaller segments, and the
//! loss does not count as congestion (RFC 4821, section 7.6.2). If only small segments are delivered, the size falls
//! back to BASE_PLPMTU, and if these are not delivered either, to MIN_PLPMTU.
//!
//! At most one probe is sent per round trip, starting with the first data: Ethernet's size, that of jumbo frames,
//! then MAX_PLPMTU. Once a size is refused, the search bisects the sizes common to links and tunnels, then the
//! interval between two of them. A single loss refuses a size for the time being, so the search continues at
//! once; the size is tried again later, because the loss may have been accidental.

use longhaul_units::{Span, Time};

use crate::Config;
use crate::send_buffer::Layout;

/// Length in bytes of our fixed header in the UDP payload: sequence, acknowledgment, flags and window.
const HEADER: u16 = 12;
/// MAX_PROBES (RFC 8899, section 5.1.2).
const MAX_PROBES: u8 = 3;
/// PROBE_TIMER before a refused size is probed again, which should exceed 15 s (RFC 8899, section 5.1.1).
const PROBE_TIMER: Span = Span::from_secs(16);
/// PMTU_RAISE_TIMER (RFC 8899, section 5.1.1).
const RAISE_TIMER: Span = Span::from_secs(600);
/// Number of consecutive timeouts without delivery that indicate a black hole (RFC 8899, section 4.3).
const BLACK_HOLE_TIMEOUTS: u32 = 2;
/// Number of such timeouts at BASE_PLPMTU, which is rarely too large, so repeated losses are more likely to be
/// accidental.
const BASE_TIMEOUTS: u32 = 3;
/// MIN_PLPMTU of RFC 8899 as UDP payload in bytes: an IPv4 packet of 576 bytes, which every host has to accept (RFC
/// 1122, section 3.3.2; RFC 791), with the longest header. Every IPv6 link carries 1280 bytes (RFC 8200, section 5),
/// so over IPv6 MIN_PLPMTU equals BASE_PLPMTU.
const MIN_PLPMTU: u16 = 508;
/// MTU of Ethernet, which most paths have.
const ETHERNET: u16 = 1500;
/// MTU of jumbo frames as commonly configured.
const JUMBO: u16 = 9000;
/// MTUs common to paths: the minimum of IPv6 (RFC 8200, section 5), common tunnels, WireGuard over IPv6 and IPv4, GRE
/// (RFC 2784), IP in IP (RFC 2003) and 6in4 (RFC 4213), PPPoE (RFC 2516), Ethernet, FDDI (RFC 1390), jumbo frames.
const COMMON_MTUS: [u16; 10] = [1280, 1400, 1420, 1440, 1476, 1480, 1492, ETHERNET, 4352, JUMBO];
/// The search ends if the remaining interval is below this, or below this fraction of the current size.
const RESOLUTION: u16 = 20;
const RESOLUTION_PART: u16 = 32;

/// Path MTU discovery, and the segment sizes that result from it and from the peer's limits.
#[derive(Clone, Debug, Default)]
pub(super) struct Pmtu {
    /// The peer's MSS, and the number of option bytes on each data segment.
    pub(super) peer_mss: u16,
    pub(super) options: u16,
    base: u16,
    /// MIN_PLPMTU, at most the base.
    least: u16,
    max: u16,
    ipv6: bool,
    /// Number of consecutive timeouts at which the size was last reduced.
    reduced_at: u32,
    /// PLPMTU: the confirmed size as UDP payload.
    pub(super) current: u16,
    /// Smallest probe size that was lost; greater than `max` if none was.
    refused: u16,
    /// Number of refusals by the peer, and the time of the last one.
    refusals: u8,
    refused_at: Time,
    probe: Option<Probe>,
    before: Option<Before>,
    /// Refusals undone since the last confirmed size.
    undone_refusals: u8,
    /// Recovery episodes of the connection so far.
    episodes: u64,
    next_at: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    size: u16,
    /// Episodes before the probe was sent.
    episodes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Before {
    refused: u16,
    refusals: u8,
    /// Episodes before the probe was sent.
    episodes: u64,
}

impl Pmtu {
    /// Returns the bytes of IP and UDP headers before a datagram's payload, without options (RFC 791, RFC 8200, RFC
    /// 768).
    pub(super) fn ip_overhead(&self) -> longhaul_units::Bytes {
        longhaul_units::Bytes(if self.ipv6 { 48 } else { 28 })
    }

    pub(super) fn new(config: &Config, ipv6: bool) -> Self {
        let cost = if ipv6 { 20 } else { 0 };
        let base = config.base_plpmtu.max(512);
        // `max_plpmtu` applies to IPv4; an IPv6 header is 20 bytes longer.
        let max = config.max_plpmtu.saturating_sub(cost).max(base);
        Self {
            peer_mss: 536,
            base,
            // If discovery is disabled, the application knows the path.
            least: if ipv6 || max == base { base } else { base.min(MIN_PLPMTU) },
            max,
            ipv6,
            current: base,
            refused: max.saturating_add(1),
            ..Self::default()
        }
    }

    /// Returns SMSS: the payload of a full-sized segment in bytes, after options.
    pub(super) fn mss(&self) -> u16 {
        self.payload(self.options).min(self.peer_mss.saturating_sub(self.options))
    }

    /// Returns the expected layout of new data segments.
    pub(super) fn layout(&self) -> Layout {
        Layout { header: HEADER + self.options, payload: self.mss().max(1) }
    }

    pub(super) fn payload(&self, options: u16) -> u16 {
        self.current - HEADER - options
    }

    /// Returns the MSS to announce for MAX_PLPMTU (RFC 9293, section 3.7.1; RFC 6691: options are not deducted).
    pub(super) fn announced_mss(&self) -> u16 {
        self.max - HEADER
    }

    /// Returns the MSS of a peer whose SYN has no MSS option (RFC 9293, section 3.7.1, MUST-15).
    pub(super) fn default_peer_mss(&self) -> u16 {
        if self.ipv6 { 1220 } else { 536 }
    }

    fn payload_of(&self, mtu: u16) -> u16 {
        mtu.saturating_sub(if self.ipv6 { 48 } else { 28 })
    }

    pub(super) fn probe_payload(&self, now: Time, options: u16) -> Option<u16> {
        if self.probe.is_some() || self.next_at.is_some_and(|at| now < at) {
            return None;
        }
        let top = self.max.min(self.peer_mss.saturating_add(HEADER));
        let doubtful = || self.refused <= top && now >= self.refused_at + PROBE_TIMER;
        let size = self.next_size(top).or_else(|| doubtful().then_some(self.refused))?;
        Some(size - HEADER - options)
    }

    /// Returns the next size to probe, up to `top`, unless the search is complete.
    fn next_size(&self, top: u16) -> Option<u16> {
        if top <= self.current {
            return None;
        }
        let ethernet = self.payload_of(ETHERNET);
        if self.refused > top {
            let steps = [ethernet, self.payload_of(JUMBO), top];
            return steps.into_iter().find(|size| self.current < *size).map(|size| size.min(top));
        }
        let possible = |size: &u16| self.current < *size && *size < self.refused;
        let likely = || COMMON_MTUS.into_iter().map(|mtu| self.payload_of(mtu)).filter(possible);
        if let Some(size) = likely().nth(likely().count() / 2) {
            return Some(size);
        }
        let gap = self.refused.saturating_sub(self.current);
        // No common MTU lies between Ethernet and the next larger size.
        let over = self.current == ethernet || gap < RESOLUTION.max(self.current / RESOLUTION_PART);
        (!over).then(|| self.current + gap / 2)
    }

    pub(super) fn probe_sent(&mut self, payload: u16, options: u16) {
        self.probe = Some(Probe { size: payload + HEADER + options, episodes: self.episodes });
        self.before = None;
    }

    pub(super) fn on_probe_delivered(&mut self) -> bool {
        let Some(probe) = self.probe.take() else { return false };
        let previous = self.current;
        self.current = previous.max(probe.size);
        self.undone_refusals = 0;
        if probe.size >= self.refused {
            self.forget_refusals();
        }
        self.current > previous
    }

    /// Refuses the size of the probe, which was marked lost.
    pub(super) fn on_probe_lost(&mut self, now: Time) {
        if let Some(Probe { size, episodes }) = self.probe.take() {
            self.before = Some(Before { refused: self.refused, refusals: self.refusals, episodes });
            self.refuse(now, size, 1);
        }
    }

    /// Sets the number of recovery episodes of the connection. If one began after a lost probe was sent, the probe may
    /// have been lost to congestion, so its refusal is undone (RFC 4821, section 7.6.4).
    pub(super) fn note_episodes(&mut self, episodes: u64) {
        self.episodes = episodes;
        let Some(before) = self.before.filter(|before| before.episodes < episodes) else { return };
        self.before = None;
        if self.undone_refusals < MAX_PROBES && self.next_at.is_none() {
            self.undone_refusals += 1;
            (self.refused, self.refusals) = (before.refused, before.refusals);
        }
    }

    fn refuse(&mut self, now: Time, size: u16, times: u8) {
        let again = size == self.refused;
        self.refusals = if again { self.refusals.saturating_add(times) } else { times };
        (self.refused, self.refused_at) = (size, now);
        if self.refusals >= MAX_PROBES && self.next_size(self.max).is_none() {
            self.forget_refusals();
            self.next_at = Some(now + RAISE_TIMER);
        }
    }

    fn forget_refusals(&mut self) {
        self.refused = self.max.saturating_add(1);
        self.refusals = 0;
    }

    /// Handles the error that a datagram is too long for the first hop.
    pub(super) fn on_too_long(&mut self, now: Time) {
        if let Some(probe) = self.probe.take() {
            self.refuse(now, probe.size, MAX_PROBES);
        }
    }

    /// Handles a retransmission timeout; `in_a_row` counts those since the last delivery. Returns whether the size
    /// was reduced: to BASE_PLPMTU after two timeouts, and to MIN_PLPMTU after three more.
    pub(super) fn on_timeout(&mut self, now: Time, in_a_row: u32) -> bool {
        let since = if in_a_row > self.reduced_at { in_a_row - self.reduced_at } else { in_a_row };
        let enough = if self.current > self.base { BLACK_HOLE_TIMEOUTS } else { BASE_TIMEOUTS };
        if since < enough || self.current <= self.least {
            return false;
        }
        self.reduced_at = in_a_row;
        // Restart the search below the size that is no longer delivered.
        self.probe = None;
        self.before = None;
        self.next_at = None;
        let next = if self.current > self.base { self.base } else { self.least };
        let size = std::mem::replace(&mut self.current, next);
        if next == self.base {
            self.refuse(now, size, 1);
        }
        // Below the base no size is refused: after an outage, which looks like a black hole, the first delivered
        // probe restores the previous size.
        true
    }
}

#[cfg(test)]
mod tests;
