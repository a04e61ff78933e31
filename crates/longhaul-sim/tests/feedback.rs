//! Routers on the path that answer what a segment asks of them.

use std::cell::RefCell;
use std::rc::Rc;

use longhaul_link::topology::{Duplex, chain};
use longhaul_link::{Hook, LinkConfig, Router, View};
use longhaul_sim::{Packet, Parcel, Plan, Setup, Sighting, Sim, Tap};
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::network::{Feedback, Forward, Request, WireRate};
use longhaul_wire::{CheshireCodec, Codec, NetworkOption};

/// The TTL that packets leave with.
const TTL: u8 = 64;

/// Asks all routers for their rate, by an option in each data segment, where the first link begins.
struct Ask {
    asked: Rc<RefCell<u64>>,
}

impl Hook<Parcel> for Ask {
    fn offered(&mut self, _now: Time, packet: &mut longhaul_link::Packet<Parcel>, _view: &View) {
        let Some(inner) = &mut packet.payload else { return };
        let (mut header, offset) = CheshireCodec::parse(&inner.payload).expect("a whole segment");
        if inner.payload.len() == offset {
            return;
        }
        let request = Request::Rcp { rate: WireRate::UNLIMITED, rtt_micros: 0 };
        header.options.network =
            Some(NetworkOption { forward: Some(Forward { ttl: TTL, stamps: 0, request }), feedback: None });
        let mut bytes = vec![0; 60];
        let len = CheshireCodec::emit(&header, &mut bytes).expect("there is room");
        bytes.truncate(len);
        bytes.extend_from_slice(&inner.payload[offset..]);
        inner.payload = bytes;
        packet.size = inner.wire_len() as u32;
        *self.asked.borrow_mut() += 1;
    }
}

/// What arrives at a host of what routers wrote.
struct Arrived {
    at: usize,
    seen: Vec<Forward>,
}

impl Tap for Arrived {
    fn see(&mut self, _now: Time, sighting: Sighting, packet: &Packet) {
        if sighting == Sighting::Received(self.at) {
            let (header, _) = CheshireCodec::parse(&packet.payload).expect("a whole segment");
            self.seen.extend(header.options.network.and_then(|option| option.forward));
        }
    }
}

/// A router as RCP has it (Dukkipati, 2007): its own rate goes into the header if it is the least so far.
fn rcp(_now: Time, view: &View, _size: u32, forward: &mut Forward) {
    forward.stamps = forward.stamps.saturating_add(1);
    if let (Request::Rcp { rate, .. }, Some(own)) = (&mut forward.request, view.rate) {
        *rate = WireRate::new(rate.rate().min(own));
    }
}

/// Rates that the sender is told are those of the narrowest router, wherever on the path it is; a path of which one
/// router does not answer denies.
#[test]
fn routers_write_the_rate_of_the_bottleneck_into_passing_segments() {
    let megabits = |rate: u64| LinkConfig::new(Rate::from_bits_per_sec(rate * 1_000_000), Span::from_millis(2));
    for (rates, answering, least) in
        [([20, 8], [true, true], 8), ([8, 20], [true, true], 8), ([20, 8], [true, false], 20)]
    {
        let links = [100, rates[0], rates[1]].map(|rate| Duplex::symmetric(megabits(rate)));
        let net = chain(links);
        let (from, to) = (net.ends.0 as usize, net.ends.1 as usize);
        let mut sim = Sim::new(Setup::new(1, net.topology));
        let asked = Rc::new(RefCell::new(0));
        sim.set_hook(net.links[0].0, Ask { asked: Rc::clone(&asked) });
        for ((link, _), _) in net.links[1..].iter().zip(answering).filter(|(_, answers)| *answers) {
            sim.set_hook(*link, Router(rcp));
        }
        let arrived = Rc::new(RefCell::new(Arrived { at: to, seen: Vec::new() }));
        sim.add_tap(Rc::clone(&arrived));
        let (client, server) = sim.open_between(from, to, Plan::bulk(100_000), Plan::sink());
        assert!(sim.run(Span::from_secs(20), Sim::all_done));
        // The option is none of the stream's business.
        assert!(sim.session(client).ended_well() && sim.session(server).ended_well());
        assert_eq!(sim.session(server).read, 100_000);
        let seen = &arrived.borrow().seen;
        assert!(seen.len() as u64 == *asked.borrow() && seen.len() > 60, "{} of {}", seen.len(), asked.borrow());
        let rate = WireRate::new(Rate::from_bits_per_sec(least * 1_000_000));
        let answer = if answering == [true, true] { Feedback::Rcp { rate } } else { Feedback::Denied };
        for forward in seen {
            assert_eq!(forward.request, Request::Rcp { rate, rtt_micros: 0 });
            assert_eq!(usize::from(forward.stamps), answering.iter().filter(|answers| **answers).count());
            // Two routers decrement the TTL.
            assert_eq!(forward.feedback(Some(TTL - 2)), Some(answer));
        }
    }
}
