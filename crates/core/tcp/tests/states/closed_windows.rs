//! Closed windows, segment by segment: the sequence numbers of segments without text, and the FIN (RFC 9293, sections
//! 3.8.6.1 and 3.10.7.4, and appendix A.2).

use longhaul_tcp::{Connection, ConnectionError, State};
use longhaul_units::{Span, Time};
use longhaul_wire::{Flags, Header, SackBlock};

use crate::victim::{BUFFER, Reply, Victim, WINDOW, plain_config};

const ISNS: [(u32, u32); 3] = [(1_000, 5_000), (u32::MAX, u32::MAX - 1), (u32::MAX - 3_000, (1 << 31) - 2)];

/// More than the retransmission timeout without backoff, and less than three times as much.
const TIMEOUT: Span = Span::from_millis(300);

/// Sends an ACK of everything that `victim.acked` covers, with this window.
fn ack(victim: &mut Victim, window: u16) -> Vec<Reply> {
    let header = Header { window, ..victim.header(Flags::ACK) };
    victim.inject(&header, &[])
}

/// Returns a victim in `state`, one that can send data, whose peer has closed its window.
fn closed(state: State, isn: (u32, u32)) -> Victim {
    let mut victim = Victim::in_state(state, isn.0, isn.1);
    ack(&mut victim, 0);
    victim
}

/// Lets the victim write and probe the window: the octet, or the FIN if there is no data, is on its way.
fn probe(victim: &mut Victim, bytes: usize) -> Reply {
    if bytes > 0 {
        assert_eq!(victim.act(|c| c.write(&vec![7; bytes])), (Ok(bytes), vec![]));
    }
    let sent = victim.wait(TIMEOUT);
    let [(_, probe)] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!((probe.header.seq, probe.payload.len()), (victim.acked, bytes.min(1)));
    probe.clone()
}

/// Sends data with this window.
fn data(victim: &mut Victim, window: u16, bytes: usize) -> Vec<Reply> {
    let header = Header { window, ..victim.header(Flags::ACK) };
    victim.next = victim.next.wrapping_add(bytes as u32);
    victim.inject(&header, &vec![1; bytes])
}

/// Fills the victim's receive buffer.
fn fill(victim: &mut Victim, window: u16) {
    for _ in 0..2 {
        data(victim, window, 5_000);
    }
    assert_eq!(victim.info().unwrap().unread.0, u64::from(BUFFER));
    victim.wait(Span::from_millis(100));
}

/// The peer drops what lies beyond its window: an ACK that follows the octet of a probe would not be heard.
#[test]
fn acks_while_the_peers_window_is_closed() {
    for isn in ISNS {
        for state in [State::Established, State::CloseWait] {
            let mut victim = closed(state, isn);
            probe(&mut victim, 100);
            // An answer to data, a window update, a challenge ACK and the answer to a keep-alive.
            let mut acks = Vec::new();
            if state == State::Established {
                fill(&mut victim, 0);
                acks.extend(victim.act(|c| c.read(1 << 20)).1);
                acks.extend(data(&mut victim, 0, 4));
                acks.extend(victim.wait(Span::from_millis(100)).into_iter().map(|(_, reply)| reply));
                assert!(acks.len() >= 2, "{acks:?}");
            }
            for (flags, behind) in [(Flags::ACK, 1), (Flags::SYN, 0)] {
                victim.wait(Span::from_millis(500));
                let mut header = Header { window: 0, ..victim.header(flags) };
                header.seq = header.seq.wrapping_sub(behind);
                acks.extend(victim.inject(&header, &[]));
            }
            acks.retain(|reply| reply.payload.is_empty());
            assert!(acks.len() >= 2, "{acks:?}");
            assert!(acks.iter().all(|reply| reply.header.seq == victim.acked), "{}: {acks:?}", victim.acked);
        }
    }
}

/// A probe may be dropped with its ACK: a delayed ACK follows alone.
#[test]
fn a_probe_does_not_replace_an_ack() {
    let mut victim = closed(State::Established, (1, 2));
    assert!(victim.act(|c| c.write(&[7; 100])).1.is_empty());
    victim.wait(Span::from_millis(190));
    assert_eq!(data(&mut victim, 0, 10), []);
    let sent = victim.wait(Span::from_millis(50));
    let seen: Vec<_> = sent.iter().map(|(_, reply)| (reply.payload.len(), reply.header.ack)).collect();
    assert_eq!(seen, [(1, victim.next), (0, victim.next)]);
}

/// The same if the window closes below data in flight, and if it shrinks to a part of it.
#[test]
fn acks_beyond_a_window_that_has_shrunk() {
    for window in [0, 600] {
        let mut victim = Victim::in_state(State::Established, 7, u32::MAX - 100);
        let sent = victim.act(|c| c.write(&[7; 1_500])).1;
        assert!(sent.len() >= 2, "{sent:?}");
        ack(&mut victim, window);
        let answer = [data(&mut victim, window, 1_000), data(&mut victim, window, 1_000)].concat();
        let edge = victim.acked.wrapping_add(u32::from(window));
        assert_eq!(answer.last().map(|reply| reply.header.seq), Some(edge));
    }
}

/// The peer of an aborted connection learns of it in spite of a closed window.
#[test]
fn rst_into_a_closed_window() {
    for bytes in [0, 100] {
        let mut victim = closed(State::Established, (1, 2));
        if bytes > 0 {
            probe(&mut victim, bytes);
        }
        let resets = victim.act(Connection::abort).1;
        assert!(
            matches!(resets.as_slice(), [one] if one.header.flags.contains(Flags::RST) && one.header.seq == victim.acked),
            "{resets:?}"
        );
    }
}

/// An ACK that follows the octet of a zero-window probe is processed at our closed window, for peers that send it. A RST
/// there is challenged, and nothing further beyond is accepted.
#[test]
fn ack_beyond_our_closed_window() {
    for isn in ISNS {
        for (distance, accepted) in [(0, true), (1, true), (2, false), (u32::MAX, true), (BUFFER, false)] {
            let mut victim = Victim::in_state(State::Established, isn.0, isn.1);
            fill(&mut victim, WINDOW);
            assert_eq!(victim.act(|c| c.write(&[7; 100])).1.len(), 1);
            victim.acked = victim.acked.wrapping_add(100);
            let mut header = Header { window: WINDOW - 100, ..victim.header(Flags::ACK) };
            header.seq = header.seq.wrapping_add(distance);
            victim.inject(&header, &[]);
            let info = victim.info().unwrap();
            assert_eq!(info.bytes_acked == 100, accepted, "{distance}");
            assert_eq!(info.peer_window.0 == u64::from(WINDOW - 100), accepted, "{distance}");
            // A probe's octet itself is not taken.
            assert_eq!(info.bytes_received, u64::from(BUFFER));
        }
    }
    let mut victim = Victim::in_state(State::Established, 3, 4);
    fill(&mut victim, WINDOW);
    let mut reset = victim.header(Flags::RST);
    reset.seq = reset.seq.wrapping_add(1);
    let challenge = victim.inject(&reset, &[]);
    assert!(matches!(challenge.as_slice(), [one] if one.header.flags == Flags::ACK), "{challenge:?}");
    assert_eq!((victim.state(), challenge[0].header.ack), (State::Established, victim.next));
}

/// A FIN without data takes no room. What follows it does not fit, and neither does data with a FIN.
#[test]
fn a_fin_at_a_closed_window_is_taken() {
    for (len, state) in [(0, State::CloseWait), (1, State::Established)] {
        let mut victim = Victim::in_state(State::Established, u32::MAX, 4);
        fill(&mut victim, WINDOW);
        let header = victim.header(Flags::FIN | Flags::ACK);
        let answer = victim.inject(&header, &[2; 1][..len]);
        let taken = u32::from(state == State::CloseWait);
        assert_eq!((victim.state(), answer[0].header.ack), (state, victim.next.wrapping_add(taken)));
        assert_eq!(victim.info().unwrap().bytes_received, u64::from(BUFFER));
    }
}

/// A FIN takes a number of the peer's window. It waits, serves as the probe, and its timer is not the one of losses.
#[test]
fn fin_beyond_a_closed_window() {
    for isn in ISNS {
        for (from, state) in [(State::Established, State::FinWait1), (State::CloseWait, State::LastAck)] {
            let mut victim = closed(from, isn);
            assert_eq!(victim.act(Connection::shutdown).1, []);
            assert_eq!(victim.state(), state);
            // If the window opens before the probe, the FIN follows at once.
            let mut other = closed(from, isn);
            other.act(Connection::shutdown);
            let fins = ack(&mut other, 1);
            assert!(matches!(fins.as_slice(), [one] if one.header.flags.contains(Flags::FIN)), "{fins:?}");
            let fin = probe(&mut victim, 0);
            assert!(fin.header.flags.contains(Flags::FIN));
            let info = victim.info().unwrap();
            assert_eq!((info.timeouts, info.recoveries), (0, 0));
            // A peer that takes it ends the stream.
            victim.acked = victim.acked.wrapping_add(1);
            ack(&mut victim, 0);
            assert!(matches!(victim.state(), State::FinWait2 | State::Closed));
        }
    }
}

/// Data that fills the window is sent without the FIN that follows it.
#[test]
fn a_fin_does_not_follow_data_that_fills_the_window() {
    for (window, with_data) in [(500, false), (501, true)] {
        let mut victim = Victim::in_state(State::Established, 1, u32::MAX - 400);
        ack(&mut victim, window);
        victim.act(|c| c.writer().set_nodelay(true));
        let sent = victim.act(|c| {
            c.write(&[7; 500]).unwrap();
            c.shutdown();
        });
        let fins: Vec<bool> = sent.1.iter().map(|reply| reply.header.flags.contains(Flags::FIN)).collect();
        assert_eq!((sent.1[0].payload.len(), fins), (500, vec![with_data]), "{window}");
        victim.acked = victim.acked.wrapping_add(500);
        let more = ack(&mut victim, 1);
        assert_eq!(more.iter().any(|reply| reply.header.flags.contains(Flags::FIN)), !with_data);
    }
}

/// An endpoint that is dropped while a FIN waits sends it, and no RST, which would cost the peer its unread data.
#[test]
fn a_fin_that_waits_leaves_before_the_end() {
    for (window, bytes) in [(0, 0), (500, 500), (500, 501)] {
        let mut victim = Victim::in_state(State::Established, 7, 8);
        ack(&mut victim, window);
        victim.act(|c| {
            c.write(&vec![7; bytes]).unwrap();
            c.shutdown();
        });
        victim.endpoint.abandon(victim.now);
        let last = victim.flush();
        let expected = if bytes > 500 { Flags::RST } else { Flags::FIN };
        assert!(matches!(last.as_slice(), [one] if one.header.flags == expected | Flags::ACK), "{bytes}: {last:?}");
    }
}

/// After a FIN has probed the window, ACKs of the peer's data are sent where it accepts them.
#[test]
fn acks_after_a_fin_into_a_closed_window() {
    let mut victim = closed(State::Established, (1, u32::MAX));
    victim.act(Connection::shutdown);
    probe(&mut victim, 0);
    for _ in 0..3 {
        let acks = data(&mut victim, 0, 1_000);
        assert!(acks.iter().all(|reply| reply.header.seq == victim.acked), "{acks:?}");
        let update = victim.act(|c| c.read(1 << 20)).1;
        assert!(update.iter().all(|reply| reply.header.seq == victim.acked), "{update:?}");
    }
}

/// A FIN that a closed window made the peer drop is repeated when the window opens, not when the backed-off timer
/// expires. This holds for the FIN as a probe, and for one that was sent before the window closed; data is no exception.
#[test]
fn fin_in_zero_window_is_retransmitted_when_it_opens() {
    for (window, bytes) in [(0, 0), (WINDOW, 0), (WINDOW, 100)] {
        let mut victim = Victim::in_state(State::Established, u32::MAX, 9);
        ack(&mut victim, window);
        victim.act(|c| {
            c.write(&vec![7; bytes]).unwrap();
            c.shutdown();
        });
        let (end, mut last) = (victim.now + Span::from_secs(300), victim.now);
        while let Some(at) = victim.endpoint.poll_timeout().filter(|at| *at <= end) {
            if !victim.wait(at - victim.now).is_empty() {
                last = victim.now;
                assert_eq!(ack(&mut victim, 0), [], "a closed window is no reason to repeat it");
            }
        }
        assert!(victim.now - last < Span::from_secs(125), "probed to the end");
        victim.wait(Span::from_secs(1));
        let again = ack(&mut victim, WINDOW);
        let first = &again[0];
        assert_eq!((again.len(), first.header.seq, first.payload.len()), (1, victim.acked, bytes), "{window}");
        assert!(first.header.flags.contains(Flags::FIN));
        // Once, however often the window is repeated.
        assert_eq!(ack(&mut victim, WINDOW), []);
    }
}

/// Answers every segment of the victim for `span` with a closed window. Returns the time of the last one.
fn answer_all(victim: &mut Victim, span: Span) -> Time {
    let (end, mut last) = (victim.now + span, victim.now);
    while let Some(at) = victim.endpoint.poll_timeout().filter(|at| *at <= end) {
        if !victim.wait(at - victim.now).is_empty() {
            last = victim.now;
            ack(victim, 0);
        }
    }
    last
}

/// RFC 9293, MUST-37: a peer that answers is not given up, and is missed if it falls silent. Only a peer that never answers
/// our FIN is taken for one that has closed and exited.
#[test]
fn last_ack_at_a_closed_window() {
    for (from, state) in [(State::CloseWait, State::LastAck), (State::Established, State::Closing)] {
        for (window, answers) in [(0, true), (WINDOW, true), (WINDOW, false)] {
            let mut victim = Victim::in_state(from, 1, u32::MAX);
            ack(&mut victim, window);
            victim.act(Connection::shutdown);
            if state == State::Closing {
                victim.wait(TIMEOUT);
                let fin = Header { window: 0, ..victim.header(Flags::FIN | Flags::ACK) };
                victim.next = victim.next.wrapping_add(1);
                victim.inject(&fin, &[]);
            }
            assert_eq!(victim.state(), state);
            let mut last = victim.now;
            if answers {
                last = answer_all(&mut victim, Span::from_secs(3_600));
                assert_eq!(victim.state(), state, "{window}");
                assert!(victim.now - last <= Span::from_secs(125));
            }
            while victim.state() == state {
                victim.wait(Span::from_secs(10));
                assert!(victim.now - last < Span::from_secs(1_500), "{state} {window}");
            }
            let error = victim.endpoint.connection(victim.id.unwrap()).and_then(|c| c.status().error());
            assert_eq!(error, answers.then_some(ConnectionError::TimedOut));
        }
    }
}

/// Both ends have sent more than the other accepts: new segments lie beyond the window, and only retransmissions, which are
/// old, carry acknowledgments.
#[test]
fn a_repeated_segment_acknowledges() {
    for (distance, len, accepted) in
        [(500, 499, true), (500, 0, true), (1, 1, true), (BUFFER, 1, true), (BUFFER + 1, 1, false), (1 << 31, 1, false)]
    {
        for good in [true, false] {
            let mut victim = Victim::in_state(State::Established, u32::MAX - 400, 9);
            victim.send(Flags::ACK, &[1; 1_000]);
            assert_eq!(victim.act(|c| c.write(&[7; 100])).1.len(), 1);
            let fin = if len > 1 { Flags::FIN } else { Flags::NONE };
            let mut header = victim.header(Flags::ACK | fin);
            header.seq = header.seq.wrapping_sub(distance);
            header.ack = header.ack.wrapping_add(if good { 100 } else { 101 });
            victim.inject(&header, &vec![2; len]);
            let info = victim.info().unwrap();
            assert_eq!(info.bytes_acked == 100, accepted && good, "{distance} {len}");
            // Its text is old.
            assert_eq!((info.state, info.bytes_received), (State::Established, 1_000));
        }
    }
}

/// Forged SACKs of the octet of a zero-window probe do not stop its retransmission.
#[test]
fn a_sacked_probe_is_repeated() {
    for opens in [false, true] {
        let mut config = plain_config();
        config.sack = true;
        let mut victim = Victim::new(1, u32::MAX - 5);
        victim.endpoint.listen(std::sync::Arc::new(config));
        let mut syn = victim.header(Flags::SYN);
        syn.options.sack_permitted = true;
        victim.next = victim.next.wrapping_add(1);
        victim.inject(&syn, &[]);
        victim.acked = victim.victim_isn.wrapping_add(1);
        ack(&mut victim, 0);
        victim.id = victim.endpoint.accept();
        probe(&mut victim, 100);
        let mut lie = Header { window: 0, ..victim.header(Flags::ACK) };
        lie.options.sack.push(SackBlock { left: victim.acked, right: victim.acked.wrapping_add(1) });
        lie.ack = lie.ack.wrapping_sub(1);
        victim.inject(&lie, &[]);
        lie.ack = lie.ack.wrapping_add(1);
        victim.inject(&lie, &[]);
        let again = if opens {
            ack(&mut victim, WINDOW)
        } else {
            victim.wait(Span::from_secs(5)).into_iter().map(|(_, reply)| reply).collect()
        };
        assert!(again.iter().any(|r| r.header.seq == victim.acked && !r.payload.is_empty()), "{opens}: {again:?}");
    }
}
