//! How much a sender lets go at once, beside what its pacer may.

use std::cell::RefCell;
use std::rc::Rc;

use longhaul_sim::{Packet, SessionId, Sighting, Sim, Tap};
use longhaul_tcp::Info;
use longhaul_units::{Span, Time};

/// What the pacer lets go at once, in segments: 250 us of its rate, but two at least.
#[must_use]
pub fn quantum(info: &Info) -> u32 {
    let bytes = info.pacing_rate.map_or(0, |rate| rate.bytes_in(Span::from_micros(250)).0);
    u32::try_from(bytes.div_ceil(u64::from(info.mss).max(1))).unwrap_or(u32::MAX).max(2)
}

/// The most segments of data that the first host sent in one instant.
#[derive(Debug, Default)]
pub struct Bursts {
    at: Time,
    now: u32,
    most: u32,
}

impl Tap for Bursts {
    fn see(&mut self, now: Time, sighting: Sighting, packet: &Packet) {
        // What leaves at low priority beside the window has a pace of its own.
        if sighting == Sighting::Sent(0) && packet.payload_len() > 100 && packet.dscp == 0 {
            self.now = if now == self.at { self.now + 1 } else { 1 };
            self.at = now;
            self.most = self.most.max(self.now);
        }
    }
}

/// A burst that was found.
#[derive(Clone, Debug)]
pub struct Burst {
    /// Segments that left at one instant, and how many might have.
    pub segments: u32,
    /// See `segments`.
    pub allowed: u32,
    /// Not after this.
    pub before: Time,
    /// The controller's phase then.
    pub phase: &'static str,
}

/// Runs `sim` from `from` on until `end`, or until `sender`, on the first host, repairs its first loss: what repair sends at once is
/// recovery's affair. Returns the first burst above the quantum, and what is known of the connection at the end.
///
/// # Panics
/// The connection is gone.
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
