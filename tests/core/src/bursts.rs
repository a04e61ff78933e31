//! Burst sizes of a paced sender, compared with what its pacer allows.

use std::cell::RefCell;
use std::rc::Rc;

use longhaul_sim::{Packet, SessionId, Sighting, Sim, Tap};
use longhaul_tcp::Info;
use longhaul_units::{Span, Time};

/// Returns the maximum burst of the pacer in segments: 250 us at its rate, and at least two.
#[must_use]
pub fn quantum(info: &Info) -> u32 {
    let bytes = info.pacing_rate.map_or(0, |rate| rate.bytes_in(Span::from_micros(250)).0);
    u32::try_from(bytes.div_ceil(u64::from(info.mss).max(1))).unwrap_or(u32::MAX).max(2)
}

/// Tap that records the maximum number of data segments that the first host sent at one instant.
#[derive(Debug, Default)]
pub struct Bursts {
    at: Time,
    now: u32,
    most: u32,
}

impl Tap for Bursts {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        // Low-priority probes are not limited by the window, and have a pacer of their own.
        if sighting == Sighting::Sent(0) && packet.payload_len() > 100 && packet.dscp == 0 {
            self.now = if now == self.at { self.now + 1 } else { 1 };
            self.at = now;
            self.most = self.most.max(self.now);
        }
    }
}

/// A burst that exceeds the pacer's limit.
#[derive(Clone, Debug)]
pub struct Burst {
    /// Number of segments sent at one instant.
    pub segments: u32,
    /// Maximum burst of the pacer in segments.
    pub allowed: u32,
    /// Time at which the burst was noticed, at most 1 ms after it.
    pub before: Time,
    /// Phase of the controller at the time `before`.
    pub phase: &'static str,
}

/// Runs `sim` from `from` to `end`, or until `sender`, which must be on the first host, enters its first recovery,
/// whose bursts have limits of their own. Returns the first burst above the limit, and the statistics of the connection
/// at the end.
///
/// # Panics
/// Panics if the connection no longer exists.
pub fn watch(sim: &mut Sim, sender: SessionId, from: Time, end: Time) -> (Option<Burst>, Info) {
    let bursts = Rc::new(RefCell::new(Bursts::default()));
    sim.add_tap(Rc::clone(&bursts));
    let info = |sim: &Sim| {
        let id = sim.session(sender).id;
        sim.host(0).endpoint.connection(id).expect("a connection").info(sim.now())
    };
    sim.run_for(from - sim.now());
    let mut before = info(sim);
    while sim.now() < end {
        bursts.take();
        sim.run_for(Span::from_millis(1));
        let after = info(sim);
        if after.recoveries > 0 {
            break;
        }
        let (allowed, segments) = (quantum(&before).max(quantum(&after)), bursts.borrow().most);
        if segments > allowed {
            let burst = Burst { segments, allowed, before: sim.now(), phase: after.phase };
            return (Some(burst), after);
        }
        before = after;
    }
    (None, before)
}
