//! Tests of endpoints that share their limits and keys.

use longhaul_wire::MoveStep;

use super::moves::{NUMBER, mobility};
use super::*;
use crate::Mobility;

/// Returns `count` listening endpoints of one group.
fn members(count: u32, change: impl Fn(&mut EndpointConfig)) -> (EndpointGroup, Vec<Endpoint>) {
    let mut config = EndpointConfig::new([5; 32]);
    change(&mut config);
    let group = EndpointGroup::new(&config.secret);
    let all = (0..count).map(|index| {
        let mut endpoint = Endpoint::in_group(config.clone(), NOW, group.clone(), Some(index));
        endpoint.listen(Arc::new(Config::default()));
        endpoint
    });
    (group.clone(), all.collect())
}

fn client(host: u8, port: u16) -> Tuple {
    Tuple { remote: SocketAddr::from(([192, 0, 2, host], port)), local: here() }
}

/// Delivers a SYN; returns whether it was answered.
fn knock(endpoint: &mut Endpoint, tuple: Tuple) -> bool {
    deliver(endpoint, NOW, tuple, &syn(), &[]);
    !sent(endpoint, NOW).is_empty()
}

fn aborted(endpoint: &mut Endpoint, id: ConnId) {
    endpoint.drive(NOW, id, Connection::abort);
    endpoint.release(NOW, id);
    let _ = sent(endpoint, NOW);
}

#[test]
fn limits_on_connections_hold_for_the_group() {
    let (group, mut all) = members(2, |config| (config.max_connections, config.max_per_address) = (3, 2));
    assert!(knock(&mut all[0], client(1, 1)) && knock(&mut all[1], client(1, 2)));
    assert!(!knock(&mut all[0], client(1, 3)) && !knock(&mut all[1], client(1, 4)), "two of one address");
    assert!(knock(&mut all[1], client(2, 1)));
    assert!(!knock(&mut all[0], client(3, 1)), "three in total");
    assert!(all[0].connect(NOW, client(4, 1), Arc::new(Config::default())).is_none(), "outgoing ones count as well");
    assert_eq!((group.connections(), all[0].len(), all[1].len()), (3, 1, 2));
    assert_eq!(all.iter().map(|endpoint| endpoint.stats().refused).sum::<u64>(), 3);
    // Room that one endpoint frees can be used by the other.
    all[1].unlisten(NOW);
    let _ = sent(&mut all[1], NOW);
    assert_eq!((group.connections(), group.pending()), (1, 1));
    assert!(knock(&mut all[0], client(2, 5)) && knock(&mut all[0], client(1, 5)));
    assert!(!knock(&mut all[0], client(5, 5)));
}

#[test]
fn one_backlog_decides_on_cookies_and_any_member_accepts_them() {
    let (_, mut all) = members(2, |config| config.backlog = 2);
    assert!(knock(&mut all[0], client(1, 1)) && knock(&mut all[1], client(1, 2)));
    assert_eq!(all[1].stats().cookies_sent, 0);
    // The backlog is full. The cookie of one member comes back to the other.
    deliver(&mut all[0], NOW, client(1, 3), &syn(), &[]);
    assert_eq!((all[0].stats().cookies_sent, all[0].len()), (1, 1));
    let answer = sent(&mut all[0], NOW).pop().unwrap();
    let mut ack = Header { flags: Flags::ACK, seq: 100, ack: answer.seq.wrapping_add(1), ..Header::default() };
    ack.options.timestamps = answer.options.timestamps.map(|t| Timestamps { value: 2, echo: t.value });
    deliver(&mut all[1], NOW, client(1, 3), &ack, &[]);
    assert_eq!(all[1].stats().cookies_accepted, 1);
    let id = all[1].accept().unwrap();
    assert_eq!(all[1].tuple(id), Some(client(1, 3)));
    // A segment without a cookie is dropped, also by a member that sent none.
    deliver(&mut all[1], NOW, client(1, 4), &ack, &[]);
    assert!(sent(&mut all[1], NOW).is_empty());
}

/// A client whose SYN is answered by a cookie, and whose repeated SYN opens a connection, answers the cookie.
#[test]
fn a_cookie_is_accepted_beside_the_connection_of_a_repeated_syn() {
    let (group, mut all) = members(1, |config| config.backlog = 1);
    let endpoint = &mut all[0];
    assert!(knock(endpoint, client(1, 1)));
    deliver(endpoint, NOW, client(1, 3), &syn(), &[]);
    let answer = sent(endpoint, NOW).pop().unwrap();
    assert_eq!(endpoint.stats().cookies_sent, 1);
    endpoint.unlisten(NOW);
    endpoint.listen(Arc::new(Config::default()));
    let _ = sent(endpoint, NOW);
    deliver(endpoint, NOW, client(1, 3), &syn(), &[]);
    let repeated = sent(endpoint, NOW).pop().unwrap();
    assert!(repeated.seq != answer.seq && endpoint.len() == 1 && endpoint.stats().cookies_sent == 1);
    let ack = |seq, stamp: u32| {
        let mut ack = Header { flags: Flags::ACK, seq, ack: answer.seq.wrapping_add(1), ..Header::default() };
        ack.options.timestamps = answer.options.timestamps.map(|t| Timestamps { value: 2, echo: t.value ^ stamp });
        ack
    };
    for other in [ack(1100, 0), ack(100, 1)] {
        deliver(endpoint, NOW, client(1, 3), &other, b"x");
        assert!(sent(endpoint, NOW).is_empty() && endpoint.accept().is_none(), "neither opens nor resets");
    }
    deliver(endpoint, NOW, client(1, 3), &ack(100, 0), b"hello");
    let id = endpoint.accept().unwrap();
    assert!(sent(endpoint, NOW).iter().all(|answer| answer.ack == 105 && !answer.flags.contains(Flags::RST)));
    assert_eq!((endpoint.tuple(id), endpoint.len(), group.pending()), (Some(client(1, 3)), 1, 0));
}

#[test]
fn a_full_accept_queue_counts_for_all_members() {
    let (_, mut all) = members(2, |config| (config.backlog, config.always_cookies) = (1, true));
    for (member, port) in [(0, 1), (1, 2)] {
        deliver(&mut all[member], NOW, client(1, port), &syn(), &[]);
        let answer = sent(&mut all[member], NOW).pop().unwrap();
        let mut ack = Header { flags: Flags::ACK, seq: 100, ack: answer.seq.wrapping_add(1), ..Header::default() };
        ack.options.timestamps = answer.options.timestamps.map(|t| Timestamps { value: 2, echo: t.value });
        deliver(&mut all[member], NOW, client(1, port), &ack, &[]);
        if member == 1 {
            assert_eq!((all[1].len(), all[1].stats().refused), (0, 1), "the other member's connection waits");
            assert!(all[0].accept().is_some());
            deliver(&mut all[1], NOW, client(1, port), &ack, &[]);
        }
        assert_eq!(all[member].len(), 1);
    }
}

/// Opens a connection with scaled windows.
fn open(endpoint: &mut Endpoint, from: Tuple) -> (ConnId, Tuple, Header) {
    let mut syn = syn();
    syn.options.window_scale = Some(7);
    let (id, ack) = connect(endpoint, from, &syn);
    (id, from, ack)
}

/// Delivers 280 kB of out-of-order data. Returns by how much the endpoint's memory grew.
fn flood(endpoint: &mut Endpoint, (_, from, ack): &(ConnId, Tuple, Header)) -> usize {
    let before = endpoint.memory();
    for segment in 1..=200 {
        let header = Header { seq: ack.seq + segment * 1_400, ..ack.clone() };
        deliver(endpoint, NOW, *from, &header, &[7; 1_400]);
        sent(endpoint, NOW);
    }
    endpoint.memory().saturating_sub(before)
}

#[test]
fn memory_limits_hold_for_the_group() {
    const LIMIT: usize = 1 << 20;
    for per_address in [true, false] {
        let (group, mut all) = members(2, |config| {
            let limit = if per_address { &mut config.max_memory_per_address } else { &mut config.max_memory };
            *limit = LIMIT;
        });
        let host = |n: u8| if per_address { 1 } else { n };
        let mut opened: Vec<_> =
            (0..12).map(|n| open(&mut all[usize::from(n % 2)], client(host(n), 1 + u16::from(n)))).collect();
        let (last, other) = (opened.pop().unwrap(), open(&mut all[1], client(99, 1)));
        // One member alone would stay below the limit.
        let held: Vec<_> = opened.iter().zip([0, 1].into_iter().cycle()).map(|(c, n)| flood(&mut all[n], c)).collect();
        let total: usize = all[0].memory() + all[1].memory();
        assert!((LIMIT..LIMIT + 12 * (64 << 10)).contains(&total), "{total}: {held:?}");
        let spared = flood(&mut all[1], &other);
        assert_eq!(spared >= 200 * 1_400, per_address, "{spared}");
        // Room that one member frees is available to the other.
        assert!(flood(&mut all[1], &last) < 200 * 1_400);
        for (id, ..) in opened.iter().step_by(2) {
            aborted(&mut all[0], *id);
        }
        assert_eq!(all[0].memory(), 0);
        assert!(flood(&mut all[1], &last) > 64 << 10);
        drop(all);
        assert_eq!((group.connections(), group.pending()), (0, 0));
    }
}

#[test]
fn members_know_each_others_connections() {
    let (_, mut all) = members(3, |_| {});
    let (id, _) = connect(&mut all[1], client(1, 1), &syn());
    let owners = |all: &mut Vec<Endpoint>| all.iter_mut().map(|e| e.owner(&client(1, 1), &[])).collect::<Vec<_>>();
    assert_eq!(owners(&mut all), [Some(1), None, Some(1)]);
    aborted(&mut all[1], id);
    assert_eq!(owners(&mut all), [None; 3]);
    // A member that vanishes leaves no entries and no counts.
    connect(&mut all[1], client(1, 1), &syn());
    assert_eq!(owners(&mut all), [Some(1), None, Some(1)]);
    drop(all.remove(1));
    assert_eq!(owners(&mut all), [None; 2]);
    assert_eq!(all[0].membership.memory(0), 0);
}

/// Opens and closes a connection, which leaves a TIME-WAIT record.
fn leave_time_wait(endpoint: &mut Endpoint, from: Tuple) {
    let _ = sent(endpoint, NOW);
    let (id, ack) = connect(endpoint, from, &syn());
    endpoint.drive(NOW, id, Connection::shutdown);
    let fin = sent(endpoint, NOW).pop().unwrap();
    deliver(endpoint, NOW, from, &Header { flags: Flags::ACK | Flags::FIN, ack: fin.seq.wrapping_add(1), ..ack }, &[]);
    endpoint.release(NOW, id);
    let _ = sent(endpoint, NOW);
    assert_eq!(endpoint.time_wait_len(), 1);
}

/// The kernel gives the datagrams of a new address to any socket of a listener.
#[test]
fn members_know_the_number_of_a_connection_that_moves() {
    let (_, mut all) = members(3, |config| config.max_per_address = 1);
    let [first, second, third] = [1, 2, 3].map(|host| client(host, 6000));
    let (id, ack) = connect(&mut all[1], first, &syn());
    assert!(all[1].set_mobility(id, mobility(false)));
    assert!(!all[1].set_mobility(id, Mobility { number: [4; 8], ..mobility(false) }), "it has a number");
    for (port, end) in (1..).zip(&mut all) {
        let (other, _) = connect(end, client(9, port), &syn());
        assert!(!end.set_mobility(other, mobility(false)), "the number is of another connection");
        aborted(end, other);
    }
    let signed = |step, counter, covered: &[u8]| {
        let mut header = ack.clone();
        header.options.timestamps.as_mut().unwrap().value = 9;
        header.options.moving = Some(mobility(true).sign(step, NUMBER, counter, covered));
        header
    };
    let claim = |counter| signed(MoveStep::Claim, counter, &ack.seq.to_be_bytes());
    let owners = |all: &mut Vec<Endpoint>, at: &Tuple, header: &Header| {
        all.iter_mut().map(|end| end.owner(at, &datagram(header))).collect::<Vec<_>>()
    };
    assert_eq!(owners(&mut all, &second, &claim(1)), [Some(1), None, Some(1)]);
    assert_eq!(owners(&mut all, &second, &ack), [None; 3]);
    let strays = all.iter_mut().map(|end| end.stray(NOW, &second, &datagram(&claim(1))));
    assert_eq!(strays.collect::<Vec<_>>(), [Some(Flags::ACK), None, Some(Flags::ACK)]);
    // A copy of a claim without its other options would have a challenge that is longer.
    let mut short = claim(1);
    short.options.timestamps = None;
    deliver(&mut all[1], NOW, second, &short, &[]);
    assert!(sent(&mut all[1], NOW).is_empty());
    let answer = |end: &mut Endpoint, at, counter| {
        deliver(end, NOW, at, &claim(counter), &[]);
        let challenge = sent(end, NOW).into_iter().find(|header| header.options.moving.is_some()).unwrap().options;
        assert_eq!(challenge.timestamps.unwrap().echo, 9, "the claim's timestamp");
        signed(MoveStep::Answer, counter, &challenge.moving.unwrap().value)
    };
    let moves = answer(&mut all[1], second, 1);
    deliver(&mut all[1], NOW, second, &moves, &[]);
    assert_eq!(owners(&mut all, &second, &ack), [Some(1), None, Some(1)]);
    assert_eq!(owners(&mut all, &first, &ack), [None; 3]);
    // It counts for its new address.
    assert!(knock(&mut all[0], client(1, 1)) && !knock(&mut all[0], client(2, 1)));
    // A client that has the keys moves no more often than others.
    leave_time_wait(&mut all[1], third);
    let moves = answer(&mut all[1], third, 2);
    for (after, expected) in [(49, second), (50, third)] {
        deliver(&mut all[1], NOW + Span::from_millis(after), third, &moves, &[]);
        assert_eq!(all[1].tuple(id), Some(expected), "after {after} ms");
    }
    assert_eq!(all[1].time_wait_len(), 0, "the addresses are those of the connection");
    aborted(&mut all[1], id);
    assert_eq!(owners(&mut all, &second, &claim(3)), [None; 3]);
}

/// Initial sequence numbers come from one clock, so that a reused pair of addresses never goes back in the sequence
/// space, whichever member it reaches.
#[test]
fn members_number_connections_alike() {
    let (_, mut all) = members(2, |_| {});
    let numbers: Vec<_> = all
        .iter_mut()
        .map(|endpoint| {
            deliver(endpoint, NOW, client(1, 1), &syn(), &[]);
            let answer = sent(endpoint, NOW).pop().unwrap();
            (answer.seq, answer.options.timestamps)
        })
        .collect();
    assert_eq!(numbers[0], numbers[1]);
}

/// Sockets of a connector have different ports: each may have a connection to the same peer.
#[test]
fn endpoints_outside_the_directory_share_limits_only() {
    let mut config = EndpointConfig::new([5; 32]);
    config.max_connections = 2;
    let group = EndpointGroup::new(&config.secret);
    let mut all: Vec<_> = (0..3).map(|_| Endpoint::in_group(config.clone(), NOW, group.clone(), None)).collect();
    let opened: Vec<_> =
        all.iter_mut().map(|e| e.connect(NOW, client(1, 1), Arc::new(Config::default())).is_some()).collect();
    assert_eq!(opened, [true, true, false]);
    assert_eq!(all[2].owner(&client(1, 1), &[]), None);
    drop(all.remove(0));
    assert_eq!(group.connections(), 1);
    assert!(all[1].connect(NOW, client(1, 1), Arc::new(Config::default())).is_some());
}
