//! Tests of individual rules of RFC 9293, RFC 5961 and RFC 7323 with individual segments.

use longhaul_wire::Options;

use super::*;
use crate::ConnectionError;

/// Returns a SYN as sent by common clients.
fn full_syn() -> Header {
    let mut syn = syn();
    syn.options.mss = Some(1460);
    syn.options.sack_permitted = true;
    syn.options.window_scale = Some(7);
    syn
}

fn established(config: Config) -> (Endpoint, Tuple, ConnId, Header) {
    let (mut endpoint, tuple) = (listening(config), tuple(there(), here()));
    let (id, ack) = connect(&mut endpoint, tuple, &full_syn());
    let _ = sent(&mut endpoint, NOW);
    (endpoint, tuple, id, ack)
}

/// RFC 5681, section 4.2: no more than one ACK is sent per segment.
#[test]
fn data_with_fin_causes_one_ack_that_covers_both() {
    for len in [1, 600, 1400] {
        for ack_every in [1, 2] {
            let (mut endpoint, tuple, _, ack) = established(Config { ack_every, ..Config::default() });
            let fin = Header { flags: Flags::ACK | Flags::FIN | Flags::PSH, ..ack.clone() };
            deliver(&mut endpoint, NOW, tuple, &fin, &vec![7; len]);
            let answers = sent(&mut endpoint, NOW);
            let acks: Vec<_> = answers.iter().map(|header| header.ack.wrapping_sub(ack.seq)).collect();
            assert_eq!(acks, [len as u32 + 1], "{len} bytes, an ACK for {ack_every}");
        }
    }
}

/// RFC 9293, section 3.10.7.2.
#[test]
fn a_listener_drops_segments_with_neither_syn_nor_ack() {
    let (mut endpoint, tuple) = (listening(Config::default()), tuple(there(), here()));
    for flags in [Flags::NONE, Flags::FIN, Flags::PSH, Flags::SYN | Flags::FIN] {
        deliver(&mut endpoint, NOW, tuple, &Header { flags, seq: 99, ..Header::default() }, b"text of a stranger");
        assert_eq!(sent(&mut endpoint, NOW), [], "{flags:?}");
    }
    deliver(&mut endpoint, NOW, tuple, &Header { flags: Flags::ACK, ack: 77, ..Header::default() }, &[]);
    let resets = sent(&mut endpoint, NOW);
    assert_eq!((resets.len(), resets[0].flags, resets[0].seq), (1, Flags::RST, 77));
    // Without a listener, each of them is answered (section 3.10.7.1).
    let mut closed = Endpoint::new(EndpointConfig::new([5; 32]), NOW);
    deliver(&mut closed, NOW, tuple, &Header { flags: Flags::FIN, seq: 99, ..Header::default() }, &[]);
    assert_eq!(sent(&mut closed, NOW).len(), 1);
}

/// RFC 7323, section 3.2.
#[test]
fn a_reset_carries_timestamps_if_they_are_in_force() {
    for timestamps in [true, false] {
        let (mut endpoint, _, id, ack) = established(Config { timestamps, ..Config::default() });
        endpoint.drive(NOW, id, Connection::abort);
        let resets = sent(&mut endpoint, NOW);
        let echo = timestamps.then_some(ack.options.timestamps.map_or(0, |stamp| stamp.value));
        assert_eq!((resets.len(), resets[0].flags), (1, Flags::RST | Flags::ACK));
        assert_eq!(resets[0].options.timestamps.map(|stamp| stamp.echo), echo);
    }
}

/// RFC 9293, section 3.10.7.4: a RST within the window is answered with an ACK of SND.NXT before synchronization,
/// too.
#[test]
fn a_reset_in_the_window_of_syn_received_is_challenged_by_an_ack() {
    let (mut endpoint, tuple) = (listening(Config::default()), tuple(there(), here()));
    deliver(&mut endpoint, NOW, tuple, &full_syn(), &[]);
    let answer = sent(&mut endpoint, NOW).pop().unwrap();
    deliver(&mut endpoint, NOW, tuple, &Header { flags: Flags::RST, seq: 105, ..Header::default() }, &[]);
    let challenges = sent(&mut endpoint, NOW);
    let [challenge] = challenges.as_slice() else { panic!("{challenges:?}") };
    assert_eq!((challenge.flags, challenge.seq, challenge.ack), (Flags::ACK, answer.seq.wrapping_add(1), 100));
    // The connection still exists; a RST at RCV.NXT closes it.
    assert_eq!(endpoint.len(), 1);
    deliver(&mut endpoint, NOW, tuple, &Header { flags: Flags::RST, seq: 100, ..Header::default() }, &[]);
    assert_eq!((sent(&mut endpoint, NOW).len(), endpoint.len()), (0, 0));
}

/// RFC 9293, section 3.10.7.3: an ACK of something else than the SYN is answered with a RST. The SYN follows the first one
/// at once, and at its timeout after that, because each such ACK may be forged.
#[test]
fn a_syn_is_repeated_after_the_first_reset_only() {
    let mut endpoint = Endpoint::new(EndpointConfig::new([5; 32]), NOW);
    let tuple = tuple(there(), here());
    endpoint.connect(NOW, tuple, Arc::new(Config { ecn: true, ..Config::default() })).unwrap();
    let syn = sent(&mut endpoint, NOW).pop().unwrap();
    assert_eq!(syn.flags, Flags::SYN | Flags::ECE | Flags::CWR);
    let later = NOW + Span::from_millis(500);
    let challenge = Header { flags: Flags::ACK, ack: 77, ..Header::default() };
    // The challenge shows that the path does not drop ECN-setup SYNs.
    for flags in [vec![Flags::RST, syn.flags], vec![Flags::RST]] {
        deliver(&mut endpoint, later, tuple, &challenge, &[]);
        let answers = sent(&mut endpoint, later);
        assert_eq!(answers.iter().map(|header| header.flags).collect::<Vec<_>>(), flags);
        assert!(answers.iter().all(|header| header.seq == if header.flags == Flags::RST { 77 } else { syn.seq }));
    }
    // The timer is set anew.
    for (after, flags) in [(999, vec![]), (1000, vec![Flags::SYN])] {
        let now = later + Span::from_millis(after);
        endpoint.handle_timeout(now);
        assert_eq!(sent(&mut endpoint, now).iter().map(|header| header.flags).collect::<Vec<_>>(), flags);
    }
    // A RST with such an ACK belongs to something else, too, and is not answered.
    deliver(&mut endpoint, later, tuple, &Header { flags: Flags::RST | Flags::ACK, ..challenge }, &[]);
    assert_eq!(sent(&mut endpoint, later), []);
}

/// After a refusal, the SYN that finds out whether it was true is sent at its time.
#[test]
fn a_reset_does_not_put_off_the_check_of_a_refusal() {
    let mut endpoint = Endpoint::new(EndpointConfig::new([5; 32]), NOW);
    let tuple = tuple(there(), here());
    endpoint.connect(NOW, tuple, Arc::new(Config::default())).unwrap();
    assert_eq!(sent(&mut endpoint, NOW).len(), 1);
    endpoint.handle_host_error(NOW, tuple, crate::HostError::Refused);
    deliver(&mut endpoint, NOW, tuple, &Header { flags: Flags::ACK, ack: 77, ..Header::default() }, &[]);
    assert_eq!(sent(&mut endpoint, NOW).iter().map(|header| header.flags).collect::<Vec<_>>(), [Flags::RST]);
    let check = NOW + Span::from_millis(100);
    endpoint.handle_timeout(check);
    assert_eq!(sent(&mut endpoint, check).len(), 1);
}

/// The addresses are free before the application has heard of the reset, which receive offload may have merged with the SYN.
#[test]
fn a_syn_right_after_a_reset_opens_a_connection() {
    for merged in [false, true] {
        let (mut endpoint, tuple, id, ack) = established(Config::default());
        let syn = datagram(&Header { seq: 70_000, ..full_syn() });
        // Text in a RST is permitted (RFC 9293, section 3.5.3), and gives it the same length.
        let mut both = datagram(&Header { flags: Flags::RST, seq: ack.seq, ..Header::default() });
        both.resize(syn.len(), b' ');
        both.extend_from_slice(&syn);
        for part in if merged { vec![both.as_slice()] } else { both.chunks(syn.len()).collect() } {
            let mut meta = DatagramMeta::new(tuple.remote, syn.len());
            meta.tuple = tuple;
            endpoint.handle_datagram(NOW, &meta, part, None);
        }
        let events: Vec<_> = std::iter::from_fn(|| endpoint.poll_event()).collect();
        assert!(events.contains(&EndpointEvent::Connection(id, crate::Event::Closed)), "{events:?}");
        let answers = sent(&mut endpoint, NOW);
        assert_eq!(answers.iter().map(|answer| answer.flags).collect::<Vec<_>>(), [Flags::SYN | Flags::ACK]);
        assert_eq!(answers[0].ack, 70_001);
        let old = endpoint.connection(id).unwrap();
        assert_eq!((old.state(), old.status().error()), (crate::State::Closed, Some(ConnectionError::Reset)));
        endpoint.release(NOW, id);
        assert_eq!((sent(&mut endpoint, NOW).len(), endpoint.len()), (0, 1));
    }
}

/// If data and the end of the stream fill the window, the FIN is sent without waiting for another round trip.
#[test]
fn a_fin_is_sent_although_the_window_is_full() {
    let (mut endpoint, tuple, id, ack) = established(Config::default());
    let open = Header { window: 60_000, ..ack };
    deliver(&mut endpoint, NOW, tuple, &open, &[]);
    let window = endpoint.connection(id).unwrap().info(NOW).cwnd.0 as usize;
    endpoint.drive(NOW, id, |c| {
        assert_eq!(c.write(&vec![7; window]).unwrap(), window);
        c.shutdown();
    });
    let (mut now, mut headers) = (NOW, Vec::new());
    while headers.iter().all(|header: &Header| !header.flags.contains(Flags::FIN)) && now < NOW + Span::from_millis(100)
    {
        headers.extend(sent(&mut endpoint, now));
        now += Span::from_millis(1);
        endpoint.handle_timeout(now);
    }
    assert!(headers.iter().any(|header| header.flags.contains(Flags::FIN)), "{headers:?}");
}

/// RFC 9293, section 3.9.1.2: PSH marks the end of the queued data, but neither every retransmission nor a lone FIN.
#[test]
fn psh_marks_only_the_end_of_the_queued_data() {
    let (mut endpoint, tuple, id, ack) = established(Config { nagle: false, ..Config::default() });
    let open = Header { window: 60_000, ..ack };
    deliver(&mut endpoint, NOW, tuple, &open, &[]);
    endpoint.drive(NOW, id, |c| c.write(&[7; 3000]).unwrap());
    let pushes = |headers: &[Header]| headers.iter().map(|h| h.flags.contains(Flags::PSH)).collect::<Vec<_>>();
    assert_eq!(pushes(&sent(&mut endpoint, NOW)), [false, false, true]);
    let mut now = NOW;
    let mut again = Vec::new();
    while now < NOW + Span::from_secs(3) {
        now = endpoint.poll_timeout().unwrap();
        endpoint.handle_timeout(now);
        again.extend(sent(&mut endpoint, now));
    }
    let (first, last) = (open.ack, open.ack.wrapping_add(2 * 1208));
    assert!(again.iter().filter(|h| h.seq == first).count() > 0);
    assert!(again.iter().all(|h| h.flags.contains(Flags::PSH) == (h.seq.wrapping_sub(last) as i32 >= 0)), "{again:?}");
    endpoint.drive(now, id, Connection::shutdown);
    let mut done = Header { ack: open.ack.wrapping_add(3000), ..open.clone() };
    done.options.timestamps = again.last().unwrap().options.timestamps.map(|t| Timestamps { value: 3, echo: t.value });
    deliver(&mut endpoint, now, tuple, &done, &[]);
    let fins = sent(&mut endpoint, now);
    assert!(fins.iter().any(|h| h.flags == Flags::ACK | Flags::FIN), "{fins:?}");
}

/// Nagle's algorithm as Minshall changed it: the short end of a message is sent at once, and the next short segment waits
/// until that has been acknowledged. Data that fills a segment does not wait, nor does anything with `nodelay`.
#[test]
fn a_short_segment_waits_only_for_another_one() {
    for nagle in [true, false] {
        let (mut endpoint, tuple, id, ack) = established(Config { nagle, ..Config::default() });
        let mut open = Header { window: 60_000, ..ack };
        deliver(&mut endpoint, NOW, tuple, &open, &[]);
        let start = open.ack;
        let write = |endpoint: &mut Endpoint, len: usize| {
            endpoint.drive(NOW, id, |c| c.write(&vec![7; len]).unwrap());
            sent(endpoint, NOW).iter().map(|h| h.seq.wrapping_sub(start)).collect::<Vec<_>>()
        };
        assert_eq!(write(&mut endpoint, 1208), [0]);
        assert_eq!(write(&mut endpoint, 1308), [1208, 2416], "the end of a message");
        assert_eq!(write(&mut endpoint, 50).len(), usize::from(!nagle), "{nagle}: a second message");
        assert_eq!(
            write(&mut endpoint, 1208).first(),
            Some(if nagle { &2516 } else { &2566 }),
            "{nagle}: a whole segment"
        );
        // The rest follows the acknowledgment of the end, and not that of the data before it.
        for (acked, waits) in [(2416, nagle), (2516, false)] {
            open.ack = start.wrapping_add(acked);
            deliver(&mut endpoint, NOW, tuple, &open, &[]);
            let rest = sent(&mut endpoint, NOW);
            assert_eq!(rest.len(), usize::from(nagle && !waits), "{nagle}: {acked} bytes acknowledged");
        }
    }
}

/// RFC 5961, section 7: an attacker who knows only addresses and ports gets at most two ACKs per second, however many
/// segments he sends. Segments repeated by the peer are all answered (RFC 2883).
#[test]
fn forged_old_data_is_answered_twice_per_second() {
    for timestamps in [true, false] {
        let (mut endpoint, tuple, _, ack) = established(Config { timestamps, ..Config::default() });
        deliver(&mut endpoint, NOW, tuple, &ack, &[1; 1000]);
        deliver(&mut endpoint, NOW, tuple, &Header { seq: ack.seq.wrapping_add(1000), ..ack.clone() }, &[1; 1000]);
        let _ = sent(&mut endpoint, NOW);
        let flood = |endpoint: &mut Endpoint, forge: &dyn Fn(&mut Header, u32)| {
            let mut answers = 0;
            for i in 0..1000u32 {
                let mut header = ack.clone();
                forge(&mut header, i);
                let now = NOW + Span::from_secs(1) + Span::from_millis(u64::from(i));
                deliver(endpoint, now, tuple, &header, &[1; 8]);
                answers += sent(endpoint, now).len();
            }
            answers
        };
        let spread = |i: u32| i.wrapping_mul(0x9e37_79b9) | 1 << 30;
        for fin in [Flags::NONE, Flags::FIN] {
            let mut endpoint = {
                let (mut endpoint, _, _, again) = established(Config { timestamps, ..Config::default() });
                deliver(&mut endpoint, NOW, tuple, &again, &[1; 1000]);
                let _ = sent(&mut endpoint, NOW);
                endpoint
            };
            let guesses = flood(&mut endpoint, &|header, i| {
                header.flags |= fin;
                header.ack = header.ack.wrapping_add(spread(i));
            });
            assert!((1..=2).contains(&guesses), "{guesses} answers to unacceptable acknowledgments");
        }
        if timestamps {
            let guesses = flood(&mut endpoint, &|header, i| {
                let stamp = header.options.timestamps.as_mut().unwrap();
                stamp.echo = stamp.echo.wrapping_add(spread(i) & !(1 << 31));
            });
            assert!((1..=2).contains(&guesses), "{guesses} answers to echoes of timestamps that were not sent");
        }
        assert_eq!(flood(&mut endpoint, &|_, _| ()), 1000, "segments repeated by the peer, timestamps {timestamps}");
    }
}

/// An echoed SYN is not taken for a simultaneous open.
#[test]
fn an_echo_of_our_syn_opens_no_connection() {
    let mut endpoint = Endpoint::new(EndpointConfig::new([5; 32]), NOW);
    let tuple = tuple(there(), here());
    let id = endpoint.connect(NOW, tuple, Arc::new(Config::default())).unwrap();
    let syn = sent(&mut endpoint, NOW).pop().unwrap();
    // A simultaneous open with a different sequence number succeeds.
    let mut other = Endpoint::new(EndpointConfig::new([5; 32]), NOW);
    let simultaneous = other.connect(NOW, tuple, Arc::new(Config::default())).unwrap();
    let _ = sent(&mut other, NOW);
    deliver(&mut other, NOW, tuple, &Header { seq: syn.seq.wrapping_add(9), ..syn.clone() }, &[]);
    assert_eq!(other.connection(simultaneous).unwrap().state(), State::SynReceived);
    deliver(&mut endpoint, NOW, tuple, &syn, &[]);
    let connection = endpoint.connection(id).unwrap();
    assert_eq!((connection.state(), connection.status().error()), (State::Closed, Some(ConnectionError::Echoed)));
    assert_eq!(sent(&mut endpoint, NOW), []);
}

/// An unverified address gets at most three answers, each no longer than its SYN (compare RFC 9000, section 8).
#[test]
fn no_syn_ack_is_longer_than_its_syn() {
    let all = full_syn().options;
    for mask in 0..256u32 {
        for always_cookies in [false, true] {
            let has = |bit: u32| mask >> bit & 1 == 1;
            let options = Options {
                mss: all.mss.filter(|_| has(0)),
                sack_permitted: has(1),
                window_scale: all.window_scale.filter(|_| has(2)),
                timestamps: all.timestamps.filter(|_| has(3)),
                microsecond_timestamps: has(4),
                arrival_permitted: has(5),
                probe_permitted: has(6),
                ack_rate_permitted: has(7),
                ..Options::default()
            };
            let ecn = if has(0) { Flags::ECE | Flags::CWR } else { Flags::NONE };
            let mut syn = Header { flags: Flags::SYN | ecn, seq: 99, window: 65_535, options, ..Header::default() };
            syn.fit();
            let mut settings = EndpointConfig::new([5; 32]);
            settings.always_cookies = always_cookies;
            let mut endpoint = Endpoint::new(settings, NOW);
            endpoint.listen(Arc::new(Config::default()));
            let mut now = NOW;
            deliver(&mut endpoint, now, tuple(there(), here()), &syn, &[]);
            let mut answers = sent(&mut endpoint, now);
            while let Some(at) = endpoint.poll_timeout() {
                now = at;
                endpoint.handle_timeout(now);
                answers.extend(sent(&mut endpoint, now));
            }
            let came = CheshireCodec::header_len(&syn.options);
            assert!((1..=3).contains(&answers.len()));
            for answer in &answers {
                let left = CheshireCodec::header_len(&answer.options);
                assert!(left <= came, "{left} bytes for {came}: {answer:?} for {syn:?}");
            }
        }
    }
}

/// A SYN cookie without timestamps has 28 bits of MAC, as documented.
#[test]
fn a_cookie_without_timestamps_has_28_bits_of_mac() {
    let mut settings = EndpointConfig::new([5; 32]);
    settings.always_cookies = true;
    let mut endpoint = Endpoint::new(settings, NOW);
    endpoint.listen(Arc::new(Config::default()));
    let tuple = tuple(there(), here());
    let mut plain = Header { flags: Flags::SYN, seq: 99, window: 65_535, ..Header::default() };
    plain.options.mss = Some(1460);
    deliver(&mut endpoint, NOW, tuple, &plain, &[]);
    let cookie = sent(&mut endpoint, NOW).pop().unwrap();
    // A cookie with any other option bits is refused: of all combinations of the low bits, only one is valid, and any
    // change of the other bits is refused as well.
    let mut accepted = 0;
    for low in 0..1u32 << 14 {
        let guess = cookie.seq & !((1 << 14) - 1) | low;
        let ack = Header { flags: Flags::ACK, seq: 100, ack: guess.wrapping_add(1), window: 900, ..Header::default() };
        let before = endpoint.stats().cookies_accepted;
        deliver(&mut endpoint, NOW, tuple, &ack, &[]);
        if endpoint.stats().cookies_accepted > before {
            accepted += 1;
            let id = endpoint.accept().unwrap();
            endpoint.drive(NOW, id, Connection::abort);
            endpoint.release(NOW, id);
        }
        let _ = sent(&mut endpoint, NOW);
    }
    assert_eq!(accepted, 1, "of 2^14 guesses with 16 combinations of MSS class and slot, only the original is valid");
}

/// If the FIN has not been sent when the endpoint is abandoned, the peer would wait forever without a RST.
#[test]
fn an_abandoned_endpoint_resets_connections_whose_fin_was_not_sent() {
    for (bytes, resets) in [(0, 0), (1_000_000, 1)] {
        let (mut endpoint, tuple, id, ack) = established(Config::default());
        deliver(&mut endpoint, NOW, tuple, &Header { window: 60_000, ..ack }, &[]);
        endpoint.drive(NOW, id, |c| {
            assert_eq!(c.write(&vec![7; bytes]).unwrap_or(0), bytes.min(256 << 10));
            c.shutdown();
        });
        let left = sent(&mut endpoint, NOW);
        assert_eq!(left.iter().any(|header| header.flags.contains(Flags::FIN)), bytes == 0);
        assert_eq!(endpoint.connection(id).unwrap().state(), State::FinWait1);
        endpoint.abandon(NOW);
        let last = sent(&mut endpoint, NOW);
        assert_eq!(last.iter().filter(|header| header.flags.contains(Flags::RST)).count(), resets, "{bytes} bytes");
    }
}

/// A peer whose data is discarded is told so, even if the FIN was sent.
#[test]
fn an_abandoned_endpoint_resets_connections_that_discard_data() {
    for unread in [false, true] {
        let (mut endpoint, tuple, id, ack) = established(Config::default());
        if unread {
            deliver(&mut endpoint, NOW, tuple, &Header { flags: Flags::ACK | Flags::PSH, ..ack }, b"unread");
        }
        endpoint.drive(NOW, id, |c| c.shutdown());
        endpoint.release(NOW, id);
        let left = sent(&mut endpoint, NOW);
        assert!(left.iter().any(|header| header.flags.contains(Flags::FIN)), "{left:?}");
        endpoint.abandon(NOW);
        let resets = sent(&mut endpoint, NOW).iter().filter(|header| header.flags.contains(Flags::RST)).count();
        assert_eq!(resets, usize::from(unread));
    }
}

/// The first ACK of a connection that a cookie opens may have been lost, and its later segments do not match the cookie.
#[test]
fn late_segments_of_a_cookie_are_not_reset() {
    let config = EndpointConfig { always_cookies: true, ..EndpointConfig::new([5; 32]) };
    let mut endpoint = Endpoint::new(config, NOW);
    endpoint.listen(Arc::new(Config::default()));
    let mut resets = |after: u64| {
        let (now, stray) = (NOW + Span::from_secs(after), Header { flags: Flags::ACK, seq: 7, ..Header::default() });
        deliver(&mut endpoint, now, tuple(there(), here()), &stray, &[]);
        let answers = sent(&mut endpoint, now);
        if after == 0 {
            deliver(&mut endpoint, now, tuple(there(), here()), &syn(), &[]);
            sent(&mut endpoint, now);
        }
        answers.len()
    };
    assert_eq!([0, 1, 128, 129].map(&mut resets), [1, 0, 0, 1]);
}
