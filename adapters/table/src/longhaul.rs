//! The same flow over longhaul's own transport.

use longhaul_cc::Congestion;
use longhaul_link::{Cause, topology::Duplex};
use longhaul_sim::{Plan, Setup, Sim};

use crate::links::Place;
use crate::stack::Outcome;

/// Returns the goodput without arrival-time reports, which no QUIC stack offers.
pub(crate) fn transfer(place: &Place, congestion: &Congestion, seed: u64) -> Outcome {
    let links = Duplex { there: place.up.clone(), back: place.down.clone() };
    let setup = Setup::pair(seed, links).under(congestion).configure(|config| {
        (config.extensions, config.moderation) = (false, true);
        config.send_buffer = 64 << 20;
        config.recv_buffer_max = 64 << 20;
    });
    let mut sim = Sim::new(setup);
    let (_, server) = sim.open(Plan::timed(place.lasts * 2), Plan::sink());
    sim.run_for(place.lasts);
    let all = sim.link(0).stats().all();
    let overflow = all.dropped(Cause::QueueFull) as f64 / all.offered.max(1) as f64;
    Outcome { goodput: sim.session(server).read as f64 * 8.0 / place.lasts.as_secs_f64() / 1e6, overflow }
}
