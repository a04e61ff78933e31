//! Consecutive connections between the same addresses (RFC 6191; RFC 1122, section 4.2.2.13).

use std::cell::RefCell;

use longhaul_wire::{CheshireCodec, Segment};

use super::*;
use crate::connection::Connection;

const DELAY: Span = Span::from_millis(10);

/// Transfers `bytes` in each direction. The server closes first and enters TIME-WAIT; if `held`, its application
/// keeps the handle. Returns the duration of the handshake, and the first and last sequence number of the server.
fn one_connection(net: &mut Net, bytes: usize, rest: Span, held: bool, config: &Arc<Config>) -> (Span, [u32; 2]) {
    // The client uses a new socket with the same address.
    net.ends[0] = Endpoint::new(EndpointConfig::new([1; 32]), net.now);
    let begun = net.now;
    let a = net.ends[0].connect(net.now, Net::tuple(1), Arc::clone(config)).unwrap();
    let mut accepted = None;
    net.run_until(Span::from_secs(100), |net| {
        accepted = accepted.or_else(|| net.ends[1].accept());
        accepted.is_some()
    });
    let (b, opened) = (accepted.unwrap(), net.now);
    let data = vec![7; bytes];
    let (mut written, mut read, mut returned) = (0, 0, 0);
    net.now += rest;
    net.run_until(Span::from_secs(100), |net| {
        let now = net.now;
        net.ends[0].drive(now, a, |c| {
            while let Ok(n @ 1..) = c.write(&data[written..]) {
                written += n;
            }
            while c.read(1 << 20).is_ok_and(|part| !part.is_empty()) {}
            if c.state() == State::CloseWait {
                c.shutdown();
            }
        });
        net.ends[1].drive(now, b, |c| {
            while let Ok(part) = c.read(1 << 20) {
                read += part.len();
                if part.is_empty() {
                    break;
                }
            }
            while let Ok(n @ 1..) = c.write(&data[returned..]) {
                returned += n;
            }
            if read == bytes && returned == bytes {
                c.shutdown();
            }
        });
        net.pump();
        net.ends[1].connection(b).unwrap().state() == State::TimeWait
    });
    let first = net.ends[1].connection(b).unwrap().info(net.now).initial_sequence.iss;
    if !held {
        net.ends[1].release(net.now, b);
    }
    net.run_until(Span::from_secs(1), |net| net.ends[0].connection(a).unwrap().state() == State::Closed);
    (opened - begun, [first, first.wrapping_add(bytes as u32 + 2)])
}

/// Connects from the same address, with a new socket. Returns the duration of the handshake.
fn connect_anew(net: &mut Net, config: &Arc<Config>) -> Span {
    net.ends[0] = Endpoint::new(EndpointConfig::new([1; 32]), net.now);
    let begun = net.now;
    net.ends[0].connect(net.now, Net::tuple(1), Arc::clone(config)).unwrap();
    net.run_until(Span::from_secs(100), |net| net.ends[1].accept().is_some());
    net.now - begun
}

/// The client's process was killed: its end of the connection is gone, and the server's remains.
#[test]
fn after_a_crash_the_next_connection_does_not_wait_for_a_timeout() {
    let mut net = Net::new(DELAY);
    let config = Arc::new(Config::default());
    net.ends[1].listen(Arc::clone(&config));
    assert_eq!(connect_anew(&mut net, &config), DELAY * 3);
    net.now += Span::from_secs(1);
    // SYN, challenge ACK, RST and SYN, SYN-ACK, ACK.
    assert_eq!(connect_anew(&mut net, &config), DELAY * 5);
}

#[test]
fn a_thousand_connections_from_one_port_do_not_wait() {
    // A client that offers microseconds to a server without them counts milliseconds from a value of the finer clock on.
    for (extensions, held) in [([true; 2], false), ([true; 2], true), ([false; 2], false), ([true, false], false)] {
        let mut net = Net::new(DELAY);
        let [config, server] = extensions
            .map(|extensions| Arc::new(Config { extensions, time_wait: Span::from_secs(300), ..Config::default() }));
        net.ends[1].listen(server);
        let mut last = None;
        for i in 0..1000 {
            // Some connections advance faster than the clock of initial sequence numbers, some idle until microsecond
            // timestamps wrap around.
            let bytes = if i % 50 == 0 { 500_000 } else { 10 };
            let rests = i % 100 == 7 && extensions[0] == extensions[1];
            let rest = Span::from_secs(if rests { 3_000 + i } else { 0 });
            let (handshake, [first, end]) = one_connection(&mut net, bytes, rest, held, &config);
            // RFC 1122, section 4.2.2.13: sequence numbers of the old connection are not reused.
            assert!(last.is_none_or(|last| crate::seq::later(first, last)), "{i}");
            last = Some(end);
            // SYN, SYN-ACK, ACK.
            assert_eq!(handshake, DELAY * 3, "{i} {extensions:?} {held}");
        }
    }
}

/// The client resets the connection and connects again from the same port. Copies of earlier data arrive late, with
/// sequence numbers in the window of the new connection, and are recognised by their timestamps (RFC 7323, section 5).
#[test]
fn late_data_of_a_reset_connection_is_not_read() {
    for (extensions, from) in [(true, 0), (true, 1), (false, 0), (false, 1)] {
        let mut net = Net::new(DELAY);
        let config = Config { extensions, ..Config::default() };
        let connect = |net: &mut Net| <[ConnId; 2]>::from(net.connect(config.clone()));
        let old = connect(&mut net);
        let (late, mut read) = (Rc::new(RefCell::new(Vec::new())), 0);
        let copies = Rc::clone(&late);
        net.tamper = Box::new(move |by, ecn, datagram| {
            copies.borrow_mut().extend((by == from).then(|| datagram.to_vec()));
            Some(ecn)
        });
        net.ends[from].drive(net.now, old[from], |c| c.write(&[7; 200_000]).unwrap());
        net.run_until(Span::from_secs(1), |net| {
            net.ends[1 - from].drive(net.now, old[1 - from], |c| read += c.read(1 << 20).map_or(0, |part| part.len()));
            read > 100_000
        });
        net.tamper = Box::new(|_, ecn, _| Some(ecn));
        for (side, id) in old.into_iter().enumerate() {
            net.ends[side].drive(net.now, id, Connection::abort);
            net.run_until(Span::from_secs(1), |net| net.ends[side].connection(id).unwrap().state() == State::Closed);
            net.ends[side].release(net.now, id);
        }
        let new = connect(&mut net);
        let receiver = net.ends[1 - from].connection(new[1 - from]).unwrap();
        let expected = receiver.numbers.acknowledgment(receiver.rcv.next());
        let mut inside = 0;
        for datagram in late.borrow().iter() {
            let segment = Segment::parse::<CheshireCodec>(datagram).unwrap();
            inside += usize::from(segment.header.seq.wrapping_sub(expected) < 30_000 && !segment.payload.is_empty());
            let mut meta = DatagramMeta::new(Net::tuple(from).remote, datagram.len());
            meta.tuple = Net::tuple(from);
            net.ends[1 - from].handle_datagram(net.now, &meta, datagram, None);
        }
        assert!(inside > 5, "{inside} segments in the window");
        net.ends[from].drive(net.now, new[from], |c| c.write(&[9; 100_000]).unwrap());
        let mut data = Vec::new();
        net.run_until(Span::from_secs(10), |net| {
            let part = net.ends[1 - from].drive(net.now, new[1 - from], |c| c.read(1 << 20)).unwrap();
            data.extend(part.into_iter().flatten());
            data.len() >= 100_000
        });
        assert!(data == [9; 100_000], "{extensions} {from}: {:?}", data.iter().position(|byte| *byte != 9));
    }
}
