//! Streams over IPv6, whose header is 20 bytes longer than that of IPv4: data arrives without errors, and packets
//! grow to the path MTU, but not beyond.

use std::cell::RefCell;
use std::rc::Rc;

use longhaul_link::{Corruption, Limit, LinkConfig, Loss, Mtu, Reordering};
use longhaul_sim::{Packet, Plan, Setup, Sighting, Sim, Tap, UDP_HEADER};
use longhaul_tests_core::Watch;
use longhaul_units::{Rate, Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Flags, Segment};

/// MTU of Ethernet in bytes.
const MTU: usize = 1500;
/// Length of an IP header in bytes (RFC 791 and RFC 8200).
const IPV4: usize = 20;
const IPV6: usize = 40;

/// Packets on the wire.
#[derive(Default)]
struct Sizes {
    /// Number of packets to or from an IPv6 address, and of others.
    packets: [usize; 2],
    /// Length of the longest packet in bytes, with all headers.
    longest: usize,
    /// MSS option of every SYN.
    announced: Vec<u16>,
}

impl Tap for Sizes {
    fn see(&mut self, _: Time, sighting: Sighting, packet: &Packet) {
        let Sighting::Sent(..) = sighting else { return };
        let ipv6 = packet.from.is_ipv6() && packet.to.is_ipv6();
        self.packets[usize::from(!ipv6)] += 1;
        assert_eq!(packet.wire_len(), if ipv6 { IPV6 } else { IPV4 } + UDP_HEADER + packet.payload.len());
        self.longest = self.longest.max(packet.wire_len());
        let segment = Segment::parse::<CheshireCodec>(&packet.payload).expect("a segment");
        if segment.header.flags.contains(Flags::SYN) {
            self.announced.extend(segment.header.options.mss);
        }
    }
}

/// Transfers 3 MB in one direction and 1 MB in the other, and returns the packet sizes.
fn exchange(setup: Setup) -> Sizes {
    let (up, down) = (3_000_000, 1_000_000);
    let mut sim = Sim::new(setup);
    let sizes = Rc::new(RefCell::new(Sizes::default()));
    sim.add_tap(Rc::clone(&sizes));
    let mut watch = Watch::new(&mut sim, Span::from_millis(200));
    let (client, server) = sim.open(Plan::bulk(up), Plan::bulk(down));
    watch.run(&mut sim, Span::from_secs(600), Sim::is_quiet).expect("the rules of the wire");
    assert!(sim.session(client).ended_well() && sim.session(server).ended_well());
    assert_eq!((sim.session(client).read, sim.session(server).read), (down, up));
    sizes.take()
}

#[test]
fn bulk_arrives_intact_over_a_rough_path() {
    for seed in 0..20 {
        let mut link = LinkConfig::new(Rate::from_bits_per_sec(20_000_000), Span::from_millis(20))
            .queue(Limit::Packets(59))
            .loss(Loss::Uniform(0.02));
        link.duplication = 0.01;
        link.corruption = Corruption { share: 0.01, unseen: 0.0 };
        link.reordering = Some(Reordering::Late { share: 0.05, least: Span::ZERO, most: Span::from_millis(10) });
        let sizes = exchange(Setup::symmetric(seed, link).over_ipv6());
        assert!(sizes.packets[0] > 2_000 && sizes.packets[1] == 0, "{:?}", sizes.packets);
    }
}

/// The MSS is the MTU minus the IP header and 20 bytes of TCP header (RFC 9293, section 3.7.1). Path MTU discovery
/// finds packets of exactly the MTU; longer ones are dropped.
#[test]
fn packets_grow_to_the_path_and_not_beyond() {
    let link = || {
        let mut link = LinkConfig::delay(Span::from_millis(10));
        link.mtu = Some(Mtu { from: Time::ZERO, size: MTU as u32 });
        link
    };
    let over = [(IPV4, Setup::symmetric(1, link())), (IPV6, Setup::symmetric(1, link()).over_ipv6())];
    for (ip, setup) in over {
        let sizes = exchange(setup);
        let mss = MTU - ip - UDP_HEADER - CheshireCodec::HEADER_LEN;
        assert_eq!(sizes.longest, MTU, "header of {ip}");
        assert!(sizes.announced.len() >= 2);
        assert!(sizes.announced.iter().all(|announced| usize::from(*announced) == mss), "{:?}", sizes.announced);
    }
}
