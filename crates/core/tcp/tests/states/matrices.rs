//! Tables: reactions of each state to RSTs, SYNs and out-of-range acknowledgments, and the possible state
//! transitions.

use longhaul_tcp::{Connection, ConnectionError, State};
use longhaul_units::Span;
use longhaul_wire::{Flags, Header};

use crate::victim::{BUFFER, Reply, Victim, WINDOW, plain_config};

const ISNS: [(u32, u32); 5] =
    [(1_000, 5_000), (0, 0), (u32::MAX, u32::MAX), ((1 << 31) - 1, 1 << 31), (u32::MAX - 3_000, (1 << 31) - 500)];

/// Position of a sequence number in the victim's receive window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Next,
    Inside,
    Outside,
}

/// Distances from RCV.NXT. The peer's FIN occupies one number of the window.
fn places(state: State) -> [(u32, Place); 7] {
    let ended = matches!(state, State::CloseWait | State::LastAck | State::Closing | State::TimeWait);
    let window = BUFFER - u32::from(ended);
    [
        (u32::MAX, Place::Outside),
        (0, Place::Next),
        (1, Place::Inside),
        (window / 2, Place::Inside),
        (window - 1, Place::Inside),
        (window, Place::Outside),
        (1 << 31, Place::Outside),
    ]
}

/// The challenge ACK of RFC 5961: one bare ACK with the current numbers.
fn is_challenge(victim: &Victim, replies: &[Reply]) -> bool {
    matches!(replies, [one] if one.header.flags == Flags::ACK
        && one.header.ack == victim.next
        && one.payload.is_empty()
        && !one.header.flags.contains(Flags::RST))
}

/// RFC 9293, section 3.10.7.4, second check; RFC 5961, section 3.2; RFC 1337.
#[test]
fn resets_by_state_place_and_acknowledgment() {
    for (isn, victim_isn) in ISNS {
        for state in State::ALL {
            for (distance, place) in places(state) {
                for ack in [None, Some(true), Some(false)] {
                    let mut victim = Victim::in_state(state, isn, victim_isn);
                    let right = if state == State::SynSent { victim_isn.wrapping_add(1) } else { victim.acked };
                    let mut header = victim.header(Flags::RST);
                    header.seq = victim.next.wrapping_add(distance);
                    if let Some(good) = ack {
                        header.flags = Flags::RST | Flags::ACK;
                        header.ack = if good { right } else { right.wrapping_add(77_777) };
                    }
                    let replies = victim.inject(&header, &[]);
                    let what = format!("{state} {place:?} {distance} ack {ack:?} isn {isn} {victim_isn}");
                    assert!(replies.iter().all(|r| !r.header.flags.contains(Flags::RST)), "{what}: a RST for a RST");
                    let error = victim.id.and_then(|id| victim.endpoint.connection(id)?.status().error());
                    match (state, place) {
                        (State::Closed | State::Listen, _) => assert!(replies.is_empty(), "{what}"),
                        (State::SynSent, _) if ack == Some(true) => {
                            assert_eq!(error, Some(ConnectionError::Refused), "{what}");
                        }
                        (State::SynReceived, Place::Next) => {
                            assert!(replies.is_empty() && victim.endpoint.is_empty(), "{what}");
                            continue;
                        }
                        (State::SynReceived, Place::Inside) => {
                            assert!(replies.len() <= 1 && victim.state() == state, "{what}: {replies:?}");
                        }
                        (State::SynSent | State::TimeWait | State::SynReceived, _) | (_, Place::Outside) => {
                            assert!(replies.is_empty() && victim.state() == state, "{what}: {replies:?}");
                        }
                        (_, Place::Next) => {
                            assert_eq!(
                                (victim.state(), error),
                                (State::Closed, Some(ConnectionError::Reset)),
                                "{what}"
                            );
                            assert!(replies.is_empty(), "{what}");
                        }
                        (_, Place::Inside) => {
                            assert!(is_challenge(&victim, &replies) && victim.state() == state, "{what}: {replies:?}");
                        }
                    }
                }
            }
        }
    }
}

/// With a closed window, an RST at RCV.NXT is accepted, and no other.
#[test]
fn resets_at_a_closed_window() {
    for (distance, dies) in [(u32::MAX, false), (0, true), (1, false)] {
        let mut victim = Victim::in_state(State::Established, 7, 9);
        for chunk in [vec![1; 5_000], vec![1; 5_000]] {
            victim.send(Flags::ACK, &chunk);
        }
        let replies = victim.wait(Span::from_secs(1));
        assert!(replies.iter().any(|(_, r)| r.header.window == 0) || victim.info().unwrap().unread.0 == 10_000);
        let mut header = victim.header(Flags::RST);
        header.seq = victim.next.wrapping_add(distance);
        victim.inject(&header, &[]);
        assert_eq!(victim.state() == State::Closed, dies, "{distance}");
    }
}

/// RFC 5961, section 4.2: a SYN in a synchronised state causes one challenge ACK and changes nothing.
#[test]
fn syns_in_synchronised_states() {
    for (isn, victim_isn) in ISNS {
        for state in State::ALL.into_iter().filter(|s| s.is_synchronized()) {
            for (distance, _) in places(state) {
                for (extra, payload) in
                    [(Flags::NONE, 0), (Flags::ACK, 0), (Flags::NONE, 9), (Flags::ACK, 9), (Flags::FIN, 0)]
                {
                    let mut victim = Victim::in_state(state, isn, victim_isn);
                    let before = victim.info();
                    let mut header = victim.header(Flags::SYN | extra);
                    header.seq = victim.next.wrapping_add(distance);
                    // In TIME-WAIT, a newer SYN opens a new connection (RFC 6191), as the next test shows.
                    let newer = distance.cast_signed() > 0;
                    if state == State::TimeWait && newer && !header.flags.intersects(Flags::ACK | Flags::FIN) {
                        continue;
                    }
                    let replies = victim.inject(&header, &[b'x'; 9][..payload]);
                    let what = format!("{state} {distance} {:?} {payload}: {replies:?}", header.flags);
                    assert!(is_challenge(&victim, &replies), "{what}");
                    assert_eq!(victim.state(), state, "{what}");
                    let (before, after) = (before.unwrap(), victim.info().unwrap());
                    assert_eq!(
                        (before.bytes_received, before.unread, before.peer_window, before.bytes_acked),
                        (after.bytes_received, after.unread, after.peer_window, after.bytes_acked),
                        "{what}"
                    );
                    // Within half a second, there is no second challenge ACK.
                    assert!(victim.inject(&header, &[]).is_empty(), "{what}");
                }
            }
        }
    }
}

/// RFC 9293, section 3.10.7.4, fourth step, with RFC 5961, section 4.2, also before the handshake is complete: whatever SYN is
/// not the peer's own, it neither completes the handshake nor ends it. A peer that has restarted ends it by a RST.
#[test]
fn syns_in_syn_received() {
    for (isn, victim_isn) in ISNS {
        // A SYN with our own number in SYN-SENT is an echo.
        for passive in [true, false].into_iter().filter(|passive| *passive || isn != victim_isn) {
            for (distance, place) in places(State::SynReceived) {
                for (extra, payload) in
                    [(Flags::NONE, 0), (Flags::ACK, 0), (Flags::NONE, 9), (Flags::ACK, 9), (Flags::FIN, 0)]
                {
                    let mut victim =
                        Victim::in_state(if passive { State::SynReceived } else { State::SynSent }, isn, victim_isn);
                    if !passive {
                        victim.send(Flags::SYN, &[]);
                        victim.acked = victim_isn.wrapping_add(1);
                    }
                    let mut header = victim.header(Flags::SYN | extra);
                    header.seq = victim.next.wrapping_add(distance);
                    let own = distance == u32::MAX;
                    let what = format!("{passive} {place:?} {distance} {:?} {payload} {isn}", header.flags);
                    let replies = victim.inject(&header, &[b'x'; 9][..payload]);
                    if own && !passive && extra == Flags::ACK {
                        assert_eq!(victim.state(), State::Established, "{what}");
                        continue;
                    }
                    assert_eq!(victim.state(), State::SynReceived, "{what}");
                    if own && extra != Flags::ACK {
                        assert!(
                            replies.iter().all(|r| r.header.flags == Flags::SYN | Flags::ACK),
                            "{what}: {replies:?}"
                        );
                    } else {
                        assert!(is_challenge(&victim, &replies), "{what}: {replies:?}");
                        assert!(victim.inject(&header, &[]).is_empty(), "{what}: within half a second");
                    }
                    // The half-open connection has not changed.
                    victim.send(Flags::ACK, &[]);
                    victim.id = victim.id.or_else(|| victim.endpoint.accept());
                    assert_eq!(victim.state(), State::Established, "{what}");
                }
            }
        }
    }
}

/// A client that has restarted answers the challenge by a RST, and its SYN, when it is repeated, is answered anew.
#[test]
fn a_new_syn_in_syn_received_opens_after_a_reset() {
    for distance in [1, BUFFER / 2, BUFFER + 1, 1 << 31] {
        let mut victim = Victim::in_state(State::SynReceived, 5, 8);
        let mut syn = victim.header(Flags::SYN);
        syn.seq = victim.next.wrapping_add(distance);
        let challenge = victim.inject(&syn, &[]);
        let mut reset = victim.header(Flags::RST);
        reset.seq = challenge[0].header.ack;
        assert!(victim.inject(&reset, &[]).is_empty());
        assert!(victim.endpoint.is_empty());
        let replies = victim.inject(&syn, &[]);
        assert!(
            matches!(replies.as_slice(), [one] if one.header.flags == Flags::SYN | Flags::ACK
            && one.header.ack == syn.seq.wrapping_add(1)),
            "{replies:?}"
        );
    }
}

/// RFC 6191, section 2: without timestamps, a later sequence number ends TIME-WAIT, whether the application still
/// holds the connection or not.
#[test]
fn a_newer_syn_ends_time_wait() {
    for released in [false, true] {
        for (distance, opens) in [(u32::MAX, false), (0, false), (1, true), (BUFFER + 1, true), (1 << 31, false)] {
            let mut victim = Victim::in_state(State::TimeWait, 4, u32::MAX);
            if released {
                victim.endpoint.release(victim.now, victim.id.unwrap());
                assert!(victim.flush().is_empty());
            }
            let mut header = victim.header(Flags::SYN);
            header.seq = victim.next.wrapping_add(distance);
            let replies = victim.inject(&header, &[]);
            let answered = matches!(replies.as_slice(), [one] if one.header.flags == Flags::SYN | Flags::ACK);
            assert_eq!(answered, opens, "{distance} {released}: {replies:?}");
        }
    }
}

/// RFC 5961, section 5.2: unless SND.UNA - MAX.SND.WND <= SEG.ACK <= SND.NXT, the whole segment is ignored.
#[test]
fn acknowledgments_out_of_range_carry_no_data() {
    let wide = u32::from(WINDOW);
    for (isn, victim_isn) in ISNS {
        for state in State::ALL.into_iter().filter(|s| s.is_synchronized()) {
            for (from_una, from_nxt, good) in [
                (Some(0u32.wrapping_sub(wide + 1)), None, false),
                (Some(0u32.wrapping_sub(wide)), None, true),
                (Some(u32::MAX), None, true),
                (Some(0), None, true),
                (None, Some(0), true),
                (None, Some(1), false),
                (Some(1 << 31), None, false),
            ] {
                let mut victim = Victim::in_state(state, isn, victim_isn);
                let mut una = victim.acked;
                let mut nxt =
                    una.wrapping_add(u32::from(matches!(state, State::FinWait1 | State::Closing | State::LastAck)));
                if state == State::Established {
                    let (_, sent) = victim.act(|c| c.write(&[3; 500]));
                    assert_eq!(sent.len(), 1);
                    nxt = nxt.wrapping_add(500);
                }
                if state == State::FinWait2 || state == State::TimeWait {
                    una = victim.acked;
                }
                let mut header = victim.header(Flags::ACK | Flags::PSH);
                header.ack = from_una.map_or(nxt.wrapping_add(from_nxt.unwrap_or(0)), |d| una.wrapping_add(d));
                let (receives, replies) = (state.can_receive(), victim.inject(&header, b"evil"));
                let read = victim.act(|c| c.read(100)).0;
                let what = format!("{state} {from_una:?} {from_nxt:?} {victim_isn}: {replies:?}");
                let got = read.is_ok_and(|bytes| !bytes.is_empty());
                assert_eq!(got, good && receives, "{what}");
                if !good {
                    assert!(is_challenge(&victim, &replies) && victim.state() == state, "{what}");
                }
            }
        }
    }
}

/// RFC 9293, section 3.10.7.4, fifth check: a segment without ACK is dropped.
#[test]
fn segments_without_acknowledgment_are_dropped() {
    for state in State::ALL.into_iter().filter(|s| s.is_synchronized() || *s == State::SynReceived) {
        for flags in [Flags::NONE, Flags::PSH, Flags::FIN] {
            let mut victim = Victim::in_state(state, 10, 20);
            let header = victim.header(flags);
            let replies = victim.inject(&header, b"evil");
            assert!(replies.is_empty(), "{state} {flags:?}: {replies:?}");
            assert_eq!(victim.state(), state);
            if victim.id.is_some() {
                assert!(victim.act(|c| c.read(9)).0.map_or(true, |b| b.is_empty()));
            }
        }
    }
}

/// A FIN after a gap marks the end of the stream, but is not processed yet; no data after it is accepted.
#[test]
fn a_fin_waits_for_the_hole_before_it() {
    let mut victim = Victim::in_state(State::Established, u32::MAX - 2, 0);
    let start = victim.next;
    let segment = |victim: &mut Victim, at: u32, fin: bool, bytes: &[u8]| {
        let mut header = victim.header(if fin { Flags::FIN | Flags::ACK } else { Flags::ACK });
        header.seq = start.wrapping_add(at);
        victim.inject(&header, bytes)
    };
    segment(&mut victim, 3, false, b"de");
    // A FIN before data that has arrived is invalid.
    segment(&mut victim, 4, true, b"");
    segment(&mut victim, 3, true, b"def");
    assert_eq!(victim.state(), State::Established);
    // Data beyond the FIN, and a different FIN, are invalid.
    segment(&mut victim, 6, false, b"XYZ");
    segment(&mut victim, 4, true, b"");
    assert_eq!(victim.state(), State::Established);
    let replies = segment(&mut victim, 0, false, b"abc");
    assert_eq!(victim.state(), State::CloseWait);
    assert_eq!(replies.last().map(|r| r.header.ack), Some(start.wrapping_add(7)));
    assert_eq!(victim.act(|c| c.read(100)).0.as_deref(), Ok(&b"abcdef"[..]));
    assert_eq!(victim.act(|c| c.read(100)).0.as_deref(), Ok(&b""[..]));
}

/// A SYN-ACK with data in SYN-RECEIVED completes a simultaneous open. Its data follows the SYN and is not taken for
/// later data.
#[test]
fn simultaneous_open_ignores_data_on_the_syn() {
    let mut victim = Victim::in_state(State::SynSent, 70, 80);
    let syn = victim.header(Flags::SYN);
    assert_eq!(victim.inject(&syn, &[]).len(), 1);
    assert_eq!(victim.state(), State::SynReceived);
    let answer = Header { flags: Flags::SYN | Flags::ACK, ack: 81, ..syn };
    let replies = victim.inject(&answer, b"early");
    assert_eq!(victim.state(), State::Established);
    assert_eq!(replies.last().map(|r| (r.header.flags, r.header.ack)), Some((Flags::ACK, 71)));
    (victim.next, victim.acked) = (71, 81);
    victim.send(Flags::ACK, b"early");
    assert_eq!(victim.act(|c| c.read(100)).0.as_deref(), Ok(&b"early"[..]));
}

/// RFC 7323, section 2.2: the window of a SYN-ACK is not scaled, not even in a simultaneous open.
#[test]
fn the_window_of_a_syn_ack_is_not_scaled() {
    let mut config = plain_config();
    config.window_scaling = true;
    let mut victim = Victim::with_config(State::SynSent, 70, 80, config);
    let mut syn = victim.header(Flags::SYN);
    syn.options.window_scale = Some(7);
    victim.inject(&syn, &[]);
    let answer = Header { flags: Flags::SYN | Flags::ACK, ack: 81, ..syn };
    victim.inject(&answer, &[]);
    assert_eq!(victim.info().map(|i| (i.state, i.peer_window.0)), Some((State::Established, u64::from(WINDOW))));
    (victim.next, victim.acked) = (71, 81);
    victim.send(Flags::ACK, b"x");
    assert_eq!(victim.info().map(|i| i.peer_window.0), Some(u64::from(WINDOW) << 7));
}

/// RFC 5681, section 2: a duplicate ACK acknowledges SND.UNA. Older ACKs, which occur with reordering, are ignored.
#[test]
fn old_acknowledgments_are_no_duplicates() {
    for (behind, retransmits) in [(536, false), (0, true)] {
        let mut victim = Victim::in_state(State::Established, 1, u32::MAX - 1_000);
        let sent = victim.act(|c| c.write(&[7; 4_824])).1;
        assert!(sent.len() >= 7, "{}", sent.len());
        victim.acked = victim.acked.wrapping_add(536);
        victim.send(Flags::ACK, &[]);
        let mut ack = victim.header(Flags::ACK);
        ack.ack = ack.ack.wrapping_sub(behind);
        let again: Vec<Reply> = (0..5).flat_map(|_| victim.inject(&ack, &[])).collect();
        let front = again.iter().any(|r| r.header.seq == victim.acked && !r.payload.is_empty());
        assert_eq!(front, retransmits, "{behind}");
    }
}

/// RFC 9293, section 3.3.2, figure 5, and transitions to CLOSED from any state by abort, reset or timeout.
#[test]
fn edges_of_the_state_machine() {
    use State::{
        CloseWait, Closed, Closing, Established, FinWait1, FinWait2, LastAck, Listen, SynReceived, SynSent, TimeWait,
    };
    let figure = [
        (Closed, vec![Listen, SynSent]),
        (Listen, vec![SynReceived, SynSent, Listen]),
        (SynSent, vec![SynReceived, Established]),
        // With data in flight, the FIN may arrive together with the ACK of our SYN.
        (SynReceived, vec![Established, FinWait1, Listen, CloseWait]),
        (Established, vec![FinWait1, CloseWait]),
        (FinWait1, vec![FinWait2, Closing, TimeWait]),
        (FinWait2, vec![TimeWait]),
        (CloseWait, vec![LastAck]),
        (Closing, vec![TimeWait]),
        (LastAck, vec![]),
        // RFC 9293, section 3.6.1: a new SYN may reopen the connection.
        (TimeWait, vec![SynReceived]),
    ];
    for (from, to) in figure {
        for next in State::ALL {
            assert_eq!(from.may_become(next), to.contains(&next) || next == Closed, "{from} to {next}");
        }
    }
}

/// Every order in which the two ends can close.
#[test]
fn every_order_of_the_two_closes() {
    let shut = |v: &mut Victim| {
        v.act(Connection::shutdown);
    };
    let fin = |v: &mut Victim| {
        v.send(Flags::FIN | Flags::ACK, &[]);
    };
    let ack = |v: &mut Victim| {
        v.acked = v.victim_isn.wrapping_add(2);
        v.send(Flags::ACK, &[]);
    };
    let fin_ack = |v: &mut Victim| {
        v.acked = v.victim_isn.wrapping_add(2);
        v.send(Flags::FIN | Flags::ACK, &[]);
    };
    type Act<'a> = &'a dyn Fn(&mut Victim);
    let ways: [(&[Act<'_>], &[State]); 4] = [
        (&[&shut, &ack, &fin], &[State::FinWait1, State::FinWait2, State::TimeWait]),
        (&[&shut, &fin, &ack], &[State::FinWait1, State::Closing, State::TimeWait]),
        (&[&shut, &fin_ack], &[State::FinWait1, State::TimeWait]),
        (&[&fin, &shut, &ack], &[State::CloseWait, State::LastAck, State::Closed]),
    ];
    for (isn, victim_isn) in ISNS {
        for (steps, states) in ways {
            let mut victim = Victim::in_state(State::Established, isn, victim_isn);
            for (step, state) in steps.iter().zip(states) {
                step(&mut victim);
                assert_eq!(victim.state(), *state);
            }
        }
    }
}
