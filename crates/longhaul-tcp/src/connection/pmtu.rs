//! Packetization-layer path MTU discovery without ICMP (RFC 8899; RFC 4821 for a transport whose probes carry data).
//!
//! A probe is new data in one segment larger than the MSS in force. If it is acknowledged, the size is confirmed; if
//! only the probe is lost, the size is refused and the data goes again in smaller segments, which is no sign of
//! congestion (RFC 4821, section 7.6.2). When nothing but small segments get through, the size falls back to the base, and
//! if nothing passes at that, either, to the least that every IPv4 path carries.
//!
//! One probe a round trip from the first data on: Ethernet's size, jumbo frames', the ceiling; once one is refused, the
//! sizes that links and tunnels have, by halves; between two of those by halves again. A single loss refuses a size for
//! the time being, so that the search goes on below it at once; whether it was chance is seen later.

use longhaul_units::{Span, Time};

use crate::config::Config;

/// UDP payload taken by our fixed header: sequence, acknowledgment, flags and window.
const HEADER: u16 = 12;
/// RFC 8899, section 5.1.2: MAX_PROBES.
const MAX_PROBES: u8 = 3;
/// RFC 8899, section 5.1.1: PROBE_TIMER should be above 15 s; here between probes of a size that was refused.
const PROBE_TIMER: Span = Span::from_secs(16);
/// RFC 8899, section 5.1.1: PMTU_RAISE_TIMER.
const RAISE_TIMER: Span = Span::from_secs(600);
/// Timeouts in a row without any delivery that are read as a black hole (RFC 8899, section 4.3).
const BLACK_HOLE_TIMEOUTS: u32 = 2;
/// The same at the base size, which is rarely too large: repeated losses are more likely to be chance.
const BASE_TIMEOUTS: u32 = 3;
/// The UDP payload that fits an IPv4 packet of 576 bytes with the longest header, which every host has to take
/// (RFC 1122, section 3.3.2; RFC 791): RFC 8899's MIN_PLPMTU here. Every IPv6 link carries 1280 bytes (RFC 8200, section 5),
/// so that there the base is the least.
const MIN_PLPMTU: u16 = 508;
/// The MTU of Ethernet, which most paths have.
const ETHERNET: u16 = 1500;
/// The MTU of jumbo frames as networks that have them set it.
const JUMBO: u16 = 9000;
/// MTUs that paths commonly have: the least of IPv6 (RFC 8200, section 5), tunnels in general use, WireGuard over IPv6
/// and IPv4, GRE (RFC 2784), IP in IP (RFC 2003) and 6in4 (RFC 4213), PPPoE (RFC 2516), Ethernet, FDDI (RFC 1390),
/// jumbo frames.
const LIKELY: [u16; 10] = [1280, 1400, 1420, 1440, 1476, 1480, 1492, ETHERNET, 4352, JUMBO];
/// The search ends when what it may still win is less than this, or than a part of what it has.
const RESOLUTION: u16 = 20;
const RESOLUTION_PART: u16 = 32;

#[derive(Clone, Debug)]
pub(super) struct Pmtu {
    base: u16,
    /// Below the base, or equal to it.
    least: u16,
    max: u16,
    ipv6: bool,
    /// The timeouts in a row at which the size last fell.
    fell_at: u32,
    /// Confirmed UDP payload.
    current: u16,
    /// The smallest size refused, else more than the ceiling.
    refused: u16,
    /// How often it was, and when last.
    refusals: u8,
    refused_at: Time,
    probe: Option<Probe>,
    /// What was held before the newest refusal, which may prove to say nothing.
    before: Option<Before>,
    /// Refusals taken back since the last success.
    taken_back: u8,
    /// Recovery episodes of the connection so far.
    episodes: u64,
    /// No probing before this time.
    next_at: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    size: u16,
    /// Episodes before it was sent.
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
    /// Bytes of the IP and UDP headers in front of a datagram's payload, without options (RFC 791, RFC 8200, RFC 768).
    pub(super) fn ip_overhead(&self) -> longhaul_units::Bytes {
        longhaul_units::Bytes(if self.ipv6 { 48 } else { 28 })
    }

    pub(super) fn new(config: &Config, ipv6: bool) -> Self {
        let cost = if ipv6 { 20 } else { 0 };
        let base = config.base_plpmtu.max(512);
        // `max_plpmtu` is said for IPv4; an IPv6 header is 20 bytes longer.
        let max = config.max_plpmtu.saturating_sub(cost).max(base);
        Self {
            base,
            // Where discovery is switched off, the application knows the path.
            least: if ipv6 || max == base { base } else { base.min(MIN_PLPMTU) },
            max,
            ipv6,
            fell_at: 0,
            current: base,
            refused: max.saturating_add(1),
            refusals: 0,
            refused_at: Time::ZERO,
            probe: None,
            before: None,
            taken_back: 0,
            episodes: 0,
            next_at: None,
        }
    }

    /// Payload of a segment whose options take `options` bytes.
    pub(super) fn mss(&self, options: u16) -> u16 {
        self.current - HEADER - options
    }

    /// The MSS to announce (RFC 9293, section 3.7.1; RFC 6691: options not deducted): what the ceiling would allow.
    pub(super) fn announced_mss(&self) -> u16 {
        self.max - HEADER
    }

    /// The MSS assumed of a peer that names none (RFC 9293, section 3.7.1, MUST-15).
    pub(super) fn default_peer_mss(&self) -> u16 {
        if self.ipv6 { 1220 } else { 536 }
    }

    pub(super) fn current(&self) -> u16 {
        self.current
    }

    /// UDP payload of a packet that fills `mtu`.
    fn payload_of(&self, mtu: u16) -> u16 {
        mtu.saturating_sub(if self.ipv6 { 48 } else { 28 })
    }

    /// The payload of a probe segment, if one is due. `limit` is the peer's MSS.
    pub(super) fn probe_payload(&self, now: Time, options: u16, limit: u16) -> Option<u16> {
        if self.probe.is_some() || self.next_at.is_some_and(|at| now < at) {
            return None;
        }
        let top = self.max.min(limit.saturating_add(HEADER));
        let doubtful = || self.refused <= top && now >= self.refused_at + PROBE_TIMER;
        let size = self.next_size(top).or_else(|| doubtful().then_some(self.refused))?;
        Some(size - HEADER - options)
    }

    /// The next size to try up to `top`, unless the search is over.
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
        let likely = || LIKELY.into_iter().map(|mtu| self.payload_of(mtu)).filter(possible);
        if let Some(size) = likely().nth(likely().count() / 2) {
            return Some(size);
        }
        let gap = self.refused - self.current;
        // Nothing that is common lies between Ethernet and the next larger size.
        let over = self.current == ethernet || gap < RESOLUTION.max(self.current / RESOLUTION_PART);
        (!over).then(|| self.current + gap / 2)
    }

    pub(super) fn probe_sent(&mut self, payload: u16, options: u16) {
        self.probe = Some(Probe { size: payload + HEADER + options, episodes: self.episodes });
        self.before = None;
    }

    /// Everything below `una` was acknowledged, a probe's data by the probe itself. Whether the size grew.
    pub(super) fn on_probe_delivered(&mut self) -> bool {
        let Some(probe) = self.probe.take() else { return false };
        self.current = self.current.max(probe.size);
        self.taken_back = 0;
        if probe.size >= self.refused {
            self.forget_refusals();
        }
        true
    }

    /// The probe was held to be lost.
    pub(super) fn on_probe_lost(&mut self, now: Time) {
        if let Some(Probe { size, episodes }) = self.probe.take() {
            self.before = Some(Before { refused: self.refused, refusals: self.refusals, episodes });
            self.refuse(now, size, 1);
        }
    }

    /// The connection has seen so many recovery episodes. If one began since a lost probe was sent, the probe may have
    /// shared the fate of what was lost beside it, and says nothing of the size (RFC 4821, section 7.6.4).
    pub(super) fn note_episodes(&mut self, episodes: u64) {
        self.episodes = episodes;
        let Some(before) = self.before.filter(|before| before.episodes < episodes) else { return };
        self.before = None;
        if self.taken_back < MAX_PROBES && self.next_at.is_none() {
            self.taken_back += 1;
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

    /// The stack below says that a datagram of the current size is too long for the first hop.
    pub(super) fn on_too_long(&mut self, now: Time) {
        if let Some(probe) = self.probe.take() {
            self.refuse(now, probe.size, MAX_PROBES);
        }
    }

    /// Handles a timeout; `in_a_row` counts those since anything was delivered. Returns whether the size fell: to the base
    /// after two timeouts, and from there to the least after three more.
    pub(super) fn on_timeout(&mut self, now: Time, in_a_row: u32) -> bool {
        let since = if in_a_row > self.fell_at { in_a_row - self.fell_at } else { in_a_row };
        let enough = if self.current > self.base { BLACK_HOLE_TIMEOUTS } else { BASE_TIMEOUTS };
        if since < enough || self.current <= self.least {
            return false;
        }
        self.fell_at = in_a_row;
        // What passes now is searched anew, below what no longer does.
        self.probe = None;
        self.before = None;
        self.next_at = None;
        let next = if self.current > self.base { self.base } else { self.least };
        let size = std::mem::replace(&mut self.current, next);
        if next == self.base {
            self.refuse(now, size, 1);
        }
        // Below the base nothing is refused: after an outage, of which a black hole cannot be told, the first probe that is
        // delivered takes the size back to where it was.
        true
    }
}
