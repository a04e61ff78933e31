//! Path MTU discovery during bulk transfers (RFC 8899; RFC 4821, section 7).

use std::cell::Cell;
use std::rc::Rc;

use super::*;
use crate::connection::pmtu::Pmtu;

/// Length of IPv4 and UDP headers.
const HEADERS: usize = 28;
const DELAY: Span = Span::from_millis(25);
const ROUND: Span = Span::from_millis(50);

/// Path with a variable MTU and an endless transfer over it.
struct Narrow {
    net: Net,
    ids: (ConnId, ConnId),
    mtu: Rc<Cell<usize>>,
    /// Number of packets dropped because they were too long.
    lost: Rc<Cell<u64>>,
}

impl Narrow {
    fn new(mtu: usize, ceiling: u16) -> Self {
        let mut net = Net::new(DELAY);
        let ids = net.connect(Config { max_plpmtu: ceiling, max_cwnd: 200_000, ..Config::default() });
        let (mtu, lost) = (Rc::new(Cell::new(mtu)), Rc::new(Cell::new(0)));
        let (width, counter) = (Rc::clone(&mtu), Rc::clone(&lost));
        net.lose = Box::new(move |_, _, datagram| {
            let drop = datagram.len() + HEADERS > width.get();
            counter.set(counter.get() + u64::from(drop));
            drop
        });
        Self { net, ids, mtu, lost }
    }

    fn info(&self) -> Info {
        self.net.ends[0].connection(self.ids.0).unwrap().info(self.net.now)
    }

    /// Sends for the given time; returns the time of the last change of packet size or last drop.
    fn pour(&mut self, span: Span) -> Span {
        let (begun, (a, b)) = (self.net.now, self.ids);
        let (mut seen, mut settled) = ((0, 0), begun);
        let lost = Rc::clone(&self.lost);
        self.net.run_until(span + Span::from_secs(200), |net| {
            let now = net.now;
            while net.ends[0].drive(now, a, |c| c.write(&[7; 65_536]).is_ok()).unwrap() {}
            while net.ends[1].drive(now, b, |c| c.read(1 << 20).is_ok()).unwrap() {}
            net.pump();
            let state = (net.ends[0].connection(a).unwrap().info(now).plpmtu, lost.get());
            if state != seen {
                (seen, settled) = (state, now);
            }
            now - begun >= span
        });
        settled - begun
    }
}

#[test]
fn the_search_takes_a_few_round_trips_and_probes() {
    // MTU of the path, ceiling, result, round trips of the search, and lost probes.
    for (mtu, ceiling, found, rounds, lost) in [
        (1280, 1472, 1252, 8, 5),
        (1350, 1472, 1312, 8, 4),
        (1400, 1472, 1372, 6, 3),
        (1420, 1472, 1392, 6, 2),
        (1492, 1472, 1464, 6, 1),
        (1500, 1472, 1472, 2, 0),
        (1500, 8972, 1472, 5, 2),
        (9000, 8972, 8972, 3, 0),
        (9000, 65_000, 8972, 3, 0),
    ] {
        let mut path = Narrow::new(mtu, ceiling);
        let settled = path.pour(Span::from_secs(10));
        let (info, drops) = (path.info(), path.lost.get());
        assert_eq!(info.plpmtu, found, "{mtu} {ceiling}");
        assert!(settled <= ROUND * rounds && drops == lost, "{mtu} {ceiling}: {settled}, {drops} lost");
        // A lost probe causes the retransmission of its own bytes, but neither a recovery episode nor a timeout.
        assert_eq!((info.recoveries, info.timeouts), (0, 0), "{mtu} {ceiling}");
        assert!(info.bytes_retransmitted <= drops * u64::from(ceiling), "{mtu} {ceiling}");
    }
}

/// A size that was refused is probed twice more later.
#[test]
fn a_refused_size_gets_three_probes() {
    let mut path = Narrow::new(1400, 1472);
    path.pour(Span::from_secs(10));
    let before = path.lost.get();
    path.pour(Span::from_secs(500));
    assert_eq!((path.lost.get() - before, path.info().plpmtu, path.info().recoveries), (2, 1372, 0));
}

/// RFC 8899, section 4.3: after a decrease of the path MTU, long packets are lost without notice.
#[test]
fn a_black_hole_is_detected_and_a_larger_mtu_is_found_again() {
    let mut path = Narrow::new(1500, 1472);
    path.pour(Span::from_secs(2));
    assert_eq!(path.info().plpmtu, 1472);
    path.mtu.set(1400);
    let settled = path.pour(Span::from_secs(10));
    // This includes two timeouts and the search.
    assert!(settled < Span::from_secs(3), "{settled}");
    assert_eq!(path.info().plpmtu, 1372);
    path.mtu.set(1500);
    // The refused size is probed again, and then the search continues above it.
    path.pour(Span::from_secs(20));
    assert_eq!(path.info().plpmtu, 1472);
}

/// An outage looks like a black hole; the packet size recovers soon afterwards.
#[test]
fn the_packet_size_recovers_soon_after_an_outage() {
    let mut path = Narrow::new(1500, 1472);
    path.pour(Span::from_secs(2));
    path.mtu.set(0);
    path.pour(Span::from_secs(2));
    path.mtu.set(1500);
    path.pour(Span::from_secs(20));
    assert_eq!(path.info().plpmtu, 1472);
}

/// MIN_PLPMTU of RFC 8899: data flows even if the path MTU falls below the base size, and the larger size is found
/// again.
#[test]
fn a_path_mtu_below_the_base_is_used_and_a_larger_one_found_again() {
    let mut path = Narrow::new(1500, 1472);
    path.pour(Span::from_secs(5));
    assert_eq!(path.info().plpmtu, 1472);
    path.mtu.set(600);
    let before = path.info().bytes_acked;
    path.pour(Span::from_secs(30));
    let narrow = path.info();
    assert!(narrow.bytes_acked > before + 1_000_000, "{} bytes", narrow.bytes_acked - before);
    assert!((508..=572).contains(&narrow.plpmtu), "{}", narrow.plpmtu);
    path.mtu.set(1500);
    path.pour(Span::from_secs(700));
    assert_eq!(path.info().plpmtu, 1472);
}

/// The same holds for a path that is too narrow from the start.
#[test]
fn a_narrow_path_carries_a_new_connection() {
    let mut path = Narrow::new(600, 1472);
    path.pour(Span::from_secs(30));
    assert!(path.info().bytes_acked > 1_000_000, "{}", path.info().bytes_acked);
}

#[test]
fn only_a_probe_larger_than_the_current_size_changes_it() {
    let mut pmtu = Pmtu::new(&Config::default(), false);
    assert!(!pmtu.on_probe_delivered(), "no probe is outstanding");
    for (payload, grows) in [(1400, true), (1400, false), (1300, false), (1440, true)] {
        pmtu.probe_sent(payload, 0);
        assert_eq!((pmtu.on_probe_delivered(), pmtu.payload(0) == payload.max(1400)), (grows, true), "{payload}");
    }
}
