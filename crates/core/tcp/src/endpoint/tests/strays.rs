//! Endpoints on several hosts with one address, among which a load balancer chooses.

use super::*;

/// Returns an endpoint of a host that has been up for this time, and the time of its clock. The wall clock of the host
/// is wrong by `error` seconds.
fn host(uptime: Span, error: u64) -> (Endpoint, Time) {
    let wall = Span::from_secs(1_700_000_000 + error);
    let now = Time::ZERO + uptime;
    let config = EndpointConfig { shared_clock: Some(wall - uptime), ..EndpointConfig::new([5; 32]) };
    let mut endpoint = Endpoint::new(config, now);
    endpoint.listen(Arc::new(Config::default()));
    (endpoint, now)
}

fn always(endpoint: &mut Endpoint) {
    let config = EndpointConfig { always_cookies: true, ..EndpointConfig::new([9; 32]) };
    endpoint.set_limits(&config);
}

/// Returns the ACK of a client that has received this answer to [`syn`].
fn ack_of(answer: &Header) -> Header {
    let ack = answer.seq.wrapping_add(1);
    let mut ack = Header { flags: Flags::ACK, seq: 100, ack, window: 1000, ..Header::default() };
    ack.options.timestamps = answer.options.timestamps.map(|t| Timestamps { value: 2, echo: t.value });
    ack
}

/// RFC 4987, section 3.6: the cookie contains all state, so any host with its key can accept it. Slots last 64 s.
#[test]
fn a_cookie_is_valid_on_all_hosts_with_the_secret() {
    for (error, is_valid) in [(0, true), (50, true), (200, false), (3_000_000_000, false)] {
        let (mut one, at) = host(Span::from_secs(7), 0);
        let (mut two, then) = host(Span::from_secs(900_000), error);
        always(&mut one);
        let tuple = tuple(there(), here());
        deliver(&mut one, at, tuple, &syn(), &[]);
        let ack = ack_of(&sent(&mut one, at).pop().unwrap());
        assert_eq!(two.stray(then, &tuple, &datagram(&ack)).is_none(), is_valid, "{error}");
        let data = [datagram(&ack), vec![0; 3]].concat();
        assert_eq!(two.stray(then, &tuple, &data), Some(Flags::ACK), "the host of the cookie may have the connection");
        deliver(&mut two, then, tuple, &ack, &[]);
        assert_eq!((two.stats().cookies_accepted == 1, two.accept().is_some()), (is_valid, is_valid), "{error}");
        // The second host has sent no cookie, so it answers an invalid one with a reset.
        let reset = sent(&mut two, then).iter().any(|header| header.flags.contains(Flags::RST));
        assert_eq!(reset, !is_valid, "{error}");
    }
}

/// The peer's sequence numbers grow over the connections of all hosts (RFC 6528), whenever these have started.
#[test]
fn initial_sequence_numbers_come_from_the_shared_clock() {
    let first = |uptime: u64| {
        let (mut endpoint, now) = host(Span::from_secs(uptime), 0);
        deliver(&mut endpoint, now, tuple(there(), here()), &syn(), &[]);
        sent(&mut endpoint, now).pop().unwrap().seq
    };
    assert_eq!(first(7), first(123_456));
}

#[test]
fn what_another_host_may_know_is_a_stray() {
    let (mut host, now) = host(Span::from_secs(7), 0);
    let here = tuple(there(), here());
    let stray = |host: &mut Endpoint, header: &Header| host.stray(now, &here, &datagram(header));
    let ack = Header { flags: Flags::ACK, seq: 5, ack: 9, ..Header::default() };
    for flags in [Flags::ACK, Flags::RST, Flags::ACK | Flags::FIN, Flags::ACK | Flags::PSH] {
        assert_eq!(stray(&mut host, &Header { flags, ..ack.clone() }), Some(flags));
    }
    for header in [syn(), Header { flags: Flags::SYN | Flags::ACK, ..ack.clone() }] {
        assert_eq!(stray(&mut host, &header), None);
    }
    assert_eq!(host.stray(now, &here, &[0x50, 1, 2]), None, "not a segment");
    let nowhere = tuple([224, 0, 0, 1].into(), IpAddr::from([192, 0, 2, 2]));
    assert_eq!(host.stray(now, &nowhere, &datagram(&ack)), None);
    assert_eq!((host.stats().stray, sent(&mut host, now).len()), (0, 0), "asking has no effect");
    // A connection, and its TIME-WAIT record.
    deliver(&mut host, now, here, &syn(), &[]);
    let answer = sent(&mut host, now).pop().unwrap();
    deliver(&mut host, now, here, &ack_of(&answer), &[]);
    assert_eq!(stray(&mut host, &ack), None);
    let id = host.accept().unwrap();
    host.release(now, id);
    sent(&mut host, now);
    let fin = Header { flags: Flags::ACK | Flags::FIN, ack: answer.seq.wrapping_add(2), ..ack_of(&answer) };
    deliver(&mut host, now, here, &fin, &[]);
    sent(&mut host, now);
    assert_eq!((host.len(), host.time_wait_len(), stray(&mut host, &ack)), (0, 1, None));
    // A SYN is for others once nobody listens here.
    host.unlisten(now);
    let next = Tuple { remote: SocketAddr::new(here.remote.ip(), 9), ..here };
    assert_eq!(host.stray(now, &next, &datagram(&syn())), Some(Flags::SYN));
}
