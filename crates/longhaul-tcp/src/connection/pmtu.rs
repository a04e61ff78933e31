//! Packetization-layer path MTU discovery without ICMP (RFC 8899; RFC 4821 for a transport whose probes carry data).
//!
//! A probe is new data in one segment larger than the MSS in force. If it is acknowledged, the size is confirmed; if
//! only the probe is lost, the size is refused and the data goes again in smaller segments, which is no sign of
//! congestion. When nothing but small segments get through, the size falls back to the base.

use longhaul_units::{Span, Time};

use crate::config::Config;

/// UDP payload taken by our fixed header: sequence, acknowledgment, flags and window.
const HEADER: u16 = 12;
/// RFC 8899, section 5.1.3: MAX_PROBES.
const MAX_PROBES: u8 = 3;
/// RFC 8899, section 5.1.1: PMTU_RAISE_TIMER.
const RAISE_TIMER: Span = Span::from_secs(600);
/// Timeouts in a row without any delivery that are read as a black hole (RFC 8899, section 4.3).
const BLACK_HOLE_TIMEOUTS: u32 = 2;
/// Sizes worth trying before bisection: tunnels over Ethernet, Ethernet, and jumbo frames, less IP and UDP headers.
const LIKELY: [u16; 6] = [1392, 1424, 1440, 1452, 1472, 8952];
/// The search ends when the gap is smaller than this.
const RESOLUTION: u16 = 20;

#[derive(Clone, Debug)]
pub(super) struct Pmtu {
    base: u16,
    max: u16,
    ipv6: bool,
    /// Confirmed UDP payload.
    current: u16,
    /// The smallest size refused; sizes at and above are not tried until the raise timer.
    refused: u16,
    probe: Option<Probe>,
    failures: u8,
    /// No probing before this time.
    next_at: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    size: u16,
}

impl Pmtu {
    pub(super) fn new(config: &Config, ipv6: bool) -> Self {
        let cost = if ipv6 { 20 } else { 0 };
        let base = config.base_plpmtu.max(512);
        // `max_plpmtu` is said for IPv4; an IPv6 header is 20 bytes longer.
        let max = config.max_plpmtu.saturating_sub(cost).max(base);
        Self { base, max, ipv6, current: base, refused: max.saturating_add(1), probe: None, failures: 0, next_at: None }
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

    /// The payload of a probe segment, if one is due and has enough data.
    pub(super) fn probe_payload(&self, now: Time, options: u16, limit: u16) -> Option<u16> {
        if self.probe.is_some() || self.next_at.is_some_and(|at| now < at) {
            return None;
        }
        let size = self.next_size(limit.saturating_add(HEADER))?;
        Some(size - HEADER - options)
    }

    /// The next size to try: a likely one, then the middle of what is left.
    fn next_size(&self, limit: u16) -> Option<u16> {
        let top = self.max.min(self.refused - 1).min(limit);
        if top <= self.current {
            return None;
        }
        if self.refused > self.max {
            // Nothing refused yet: the ceiling itself is the most likely answer.
            return Some(top);
        }
        let likely = LIKELY.into_iter().rev().find(|s| *s <= top && *s > self.current);
        likely.or_else(|| (top - self.current >= RESOLUTION).then(|| self.current + (top - self.current) / 2))
    }

    pub(super) fn probe_sent(&mut self, payload: u16, options: u16) {
        self.probe = Some(Probe { size: payload + HEADER + options });
    }

    /// Everything below `una` was acknowledged, a probe's data by the probe itself. Whether the size grew.
    pub(super) fn on_probe_delivered(&mut self) -> bool {
        let Some(probe) = self.probe.take() else { return false };
        self.failures = 0;
        self.current = self.current.max(probe.size);
        true
    }

    /// The probe was held to be lost.
    pub(super) fn on_probe_lost(&mut self, now: Time) {
        let Some(probe) = self.probe.take() else { return };
        self.failures += 1;
        if self.failures < MAX_PROBES {
            return;
        }
        self.failures = 0;
        self.refused = probe.size;
        if self.next_size(u16::MAX).is_none() {
            self.refused = self.max.saturating_add(1);
            self.next_at = Some(now + RAISE_TIMER);
        }
    }

    /// The stack below says that a datagram of the current size is too long for the first hop.
    pub(super) fn on_too_long(&mut self, now: Time) {
        if self.probe.is_some() {
            self.failures = MAX_PROBES;
            self.on_probe_lost(now);
        }
    }

    /// A timeout fired with nothing delivered since the last. Whether the size fell back to the base.
    pub(super) fn on_timeout(&mut self, now: Time, in_a_row: u32) -> bool {
        if in_a_row < BLACK_HOLE_TIMEOUTS || self.current == self.base {
            return false;
        }
        self.refused = self.current;
        self.current = self.base;
        self.probe = None;
        self.next_at = Some(now + RAISE_TIMER);
        true
    }
}
