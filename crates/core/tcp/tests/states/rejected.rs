//! Effects of an unacceptable segment, which must be none in any field, and the time until an acceptable one is
//! acknowledged.

use std::sync::Arc;

use longhaul_tcp::{Config, State};
use longhaul_units::{Span, Time};
use longhaul_wire::{AckRate, Flags, Header, SackBlock, Timestamps};

use crate::victim::{BUFFER, Reply, Victim, plain_config};

/// Fields that a rejected segment may change: counters, and limits of the responses to such segments.
const BOOKKEEPING: [&str; 7] =
    ["now", "segments_in", "segments_out", "challenge_acks", "challenged_at", "paws_dropped", "duplicate_bytes_in"];

/// Returns the state of a connection and its endpoint, line by line.
fn snapshot(victim: &mut Victim) -> Vec<String> {
    let id = victim.id.expect("a connection");
    // The sender records its limiting factor whenever it is polled, after a segment or without.
    for _ in 0..2 {
        assert!(victim.act(|_| ()).1.is_empty());
    }
    let connection = victim.endpoint.connection(id).expect("not released");
    let mut lines = Vec::new();
    let mut skipping = None;
    for line in format!("{:#?}", connection.contents()).lines() {
        let indent = line.len() - line.trim_start().len();
        let key = line.trim_start().split(':').next().unwrap_or_default();
        match skipping {
            // The value of an excluded field can span several lines.
            Some(depth) if indent > depth => {}
            Some(depth) if indent == depth && line.trim_start().starts_with(['}', ')', ']']) => skipping = None,
            _ if BOOKKEEPING.contains(&key) => skipping = line.ends_with(['{', '(', '[']).then_some(indent),
            _ => lines.push(line.to_owned()),
        }
    }
    let endpoint = &mut victim.endpoint;
    lines.push(format!("{} {} {:?}", endpoint.len(), endpoint.memory(), endpoint.poll_timeout()));
    lines
}

fn assert_unchanged(before: &[String], after: &[String], what: &str) {
    let changed: Vec<_> = before.iter().zip(after).filter(|(b, a)| b != a).collect();
    assert!(changed.is_empty() && before.len() == after.len(), "{what}: {changed:#?}");
}

/// An established victim with all options.
fn with_options(isn: u32, victim_isn: u32) -> Victim {
    let mut victim = Victim::new(isn, victim_isn);
    let mut config = Config::default();
    (config.recv_buffer, config.recv_buffer_max) = (BUFFER as usize, BUFFER as usize);
    victim.endpoint.listen(Arc::new(config));
    let mut syn = victim.header(Flags::SYN);
    (syn.options.mss, syn.options.sack_permitted, syn.options.window_scale) = (Some(1_200), true, Some(3));
    syn.options.timestamps = Some(Timestamps { value: 1_000_000, echo: 0 });
    victim.inject(&syn, &[]);
    (victim.next, victim.acked) = (isn.wrapping_add(1), victim_isn.wrapping_add(1));
    let ack = stamped(&victim, Flags::ACK);
    victim.inject(&ack, &[]);
    victim.id = victim.endpoint.accept();
    victim
}

/// A victim with data in flight, unread data in order, and data after a gap.
fn in_full_swing(isn: u32, victim_isn: u32) -> Victim {
    let mut victim = with_options(isn, victim_isn);
    let data = stamped(&victim, Flags::ACK);
    victim.inject(&data, &[1; 700]);
    victim.next = victim.next.wrapping_add(700);
    let mut beyond = stamped(&victim, Flags::ACK);
    beyond.seq = victim.next.wrapping_add(500);
    victim.inject(&beyond, &[3; 500]);
    victim.wait(Span::from_secs(1));
    let (written, sent) = victim.act(|c| c.write(&[9; 5_000]));
    assert!(written == Ok(5_000) && sent.len() >= 3, "{sent:?}");
    victim
}

/// Returns a header with a timestamp newer than all before.
fn stamped(victim: &Victim, flags: Flags) -> Header {
    let mut header = victim.header(flags);
    header.options.timestamps = Some(Timestamps { value: 2_000_000, echo: 0 });
    header
}

/// Returns segments that fail a check of RFC 9293, section 3.10.7.4, RFC 5961 or RFC 7323, each with otherwise
/// harmful contents.
fn unacceptable(victim: &Victim, timestamps: bool, ended: bool) -> Vec<(String, Header, Vec<u8>)> {
    let mut list = Vec::new();
    let window = BUFFER - u32::from(ended);
    let base = |flags: Flags| {
        let mut header = if timestamps { stamped(victim, flags) } else { victim.header(flags) };
        header.window = 60_000;
        header
    };
    let mut add = |what: &str, header: Header, len: usize| list.push((what.to_owned(), header, vec![0xee; len]));
    for distance in [1 << 31, window + 1, 1 << 30, 0u32.wrapping_sub(2_000), 0u32.wrapping_sub(1 << 30)] {
        for flags in [Flags::ACK, Flags::ACK | Flags::FIN, Flags::ACK | Flags::RST, Flags::ACK | Flags::SYN] {
            for (ack, len) in [(0, 0), (0, 900), (500, 900), (1 << 30, 0)] {
                let mut header = base(flags);
                header.seq = victim.next.wrapping_add(distance);
                header.ack = victim.acked.wrapping_add(ack);
                if timestamps {
                    let left = victim.acked.wrapping_add(1_188);
                    header.options.sack.push(SackBlock { left, right: left.wrapping_add(1_188) });
                }
                add(&format!("{distance} from RCV.NXT, {flags:?}, ack {ack}, {len} bytes"), header, len);
            }
        }
    }
    let mut again = base(Flags::ACK | Flags::FIN);
    again.seq = victim.next.wrapping_sub(700);
    again.ack = victim.acked.wrapping_add(500);
    add("what was received before", again, 600);
    let mut reset = base(Flags::RST);
    reset.seq = victim.next.wrapping_add(1);
    add("a RST inside the window", reset, 0);
    add("a SYN at RCV.NXT", base(Flags::SYN | Flags::ACK), 30);
    for flags in [Flags::NONE, Flags::FIN, Flags::PSH] {
        add("no ACK flag", base(flags), 100);
    }
    for ack in [6_000u32, 0u32.wrapping_sub(1 << 20), 1 << 31] {
        for flags in [Flags::ACK, Flags::ACK | Flags::FIN] {
            let mut header = base(flags);
            header.ack = victim.acked.wrapping_add(ack);
            add(&format!("an acknowledgment {ack} from SND.UNA"), header, 100);
        }
    }
    if timestamps {
        for flags in [Flags::ACK, Flags::ACK | Flags::FIN, Flags::SYN | Flags::ACK] {
            let mut old = base(flags);
            (old.ack, old.options.timestamps) =
                (old.ack.wrapping_add(500), Some(Timestamps { value: 999_999, echo: 77 }));
            add("an old timestamp", old.clone(), 600);
            old.options.timestamps = None;
            if !flags.contains(Flags::SYN) {
                add("no timestamp", old, 600);
            }
        }
    }
    list
}

/// RFC 5961, sections 3 to 5; RFC 7323, section 5.3. The segments are tested separately and in sequence, which
/// differs because of the limit on challenge ACKs.
#[test]
fn a_rejected_segment_changes_nothing() {
    for (isn, victim_isn) in [(1_000, 5_000), (u32::MAX - 800, u32::MAX - 900), ((1 << 31) - 900, 1 << 31)] {
        let mut victim = in_full_swing(isn, victim_isn);
        let begun = snapshot(&mut victim);
        assert!(begun.len() > 150);
        for (what, header, payload) in unacceptable(&victim, true, false) {
            let mut fresh = in_full_swing(isn, victim_isn);
            let before = snapshot(&mut fresh);
            let replies = fresh.inject(&header, &payload);
            assert!(
                replies.iter().all(|r| r.header.flags == Flags::ACK && r.payload.is_empty()),
                "{what}: {replies:?}"
            );
            assert_unchanged(&before, &snapshot(&mut fresh), &what);
            victim.inject(&header, &payload);
            assert_unchanged(&begun, &snapshot(&mut victim), &what);
        }
        // An acceptable segment does change the state.
        let good = stamped(&victim, Flags::ACK);
        victim.inject(&good, &[2; 500]);
        assert_ne!(begun, snapshot(&mut victim));
    }
}

/// Tests all synchronised states.
#[test]
fn a_rejected_segment_changes_nothing_in_any_state() {
    for state in State::ALL.into_iter().filter(|s| s.is_synchronized()) {
        let ended = matches!(state, State::CloseWait | State::LastAck | State::Closing | State::TimeWait);
        let list = unacceptable(&Victim::in_state(state, u32::MAX - 2, 7), false, ended);
        for (what, header, payload) in list {
            let mut victim = Victim::in_state(state, u32::MAX - 2, 7);
            victim.wait(Span::from_millis(50));
            let fits = header.flags == Flags::SYN || header.flags == Flags::SYN | Flags::PSH;
            if state == State::TimeWait && fits {
                // This segment opens a new connection (RFC 6191).
                continue;
            }
            let before = snapshot(&mut victim);
            let replies = victim.inject(&header, &payload);
            assert!(replies.iter().all(|r| !r.header.flags.contains(Flags::RST)), "{state}, {what}: {replies:?}");
            assert_unchanged(&before, &snapshot(&mut victim), &format!("{state}, {what}"));
        }
    }
}

fn victim(change: impl FnOnce(&mut Config)) -> Victim {
    let mut config = plain_config();
    change(&mut config);
    Victim::with_config(State::Established, u32::MAX - 20_000, 9, config)
}

/// Reads all available data, and returns the segments that the victim sends as a result.
fn read_all(victim: &mut Victim) -> Vec<Reply> {
    victim.act(|c| while c.read(1 << 20).is_ok() {}).1
}

/// RFC 9293, section 3.8.6.3, MUST-40: an ACK is delayed by less than 500 ms with any settings.
#[test]
fn no_acknowledgment_waits_half_a_second() {
    for millis in [0, 1, 40, 499, 500, 10_000] {
        let delay = Span::from_millis(millis);
        // At the start of a connection, and later.
        for before in [0, 300] {
            for len in [1, 535, 536, 1_400] {
                let mut victim = victim(|config| config.ack_delay = delay);
                for _ in 0..before {
                    victim.send(Flags::ACK, &[1; 536]);
                    read_all(&mut victim);
                }
                victim.wait(Span::from_secs(1));
                let arrived = victim.now;
                let mut acks: Vec<(Time, u32)> =
                    victim.send(Flags::ACK, &vec![2; len]).iter().map(|r| (arrived, r.header.ack)).collect();
                acks.extend(victim.wait(Span::from_secs(20)).iter().map(|(at, r)| (*at, r.header.ack)));
                assert!(matches!(acks.as_slice(), [(_, ack)] if *ack == victim.next), "{millis} {len}: {acks:?}");
                let late = acks[0].0 - arrived;
                assert!(late < Span::from_millis(500) && late <= delay, "{millis} {len}: {late:?}");
            }
        }
    }
}

/// RFC 9293, section 3.8.6.3, SHLD-18: at least every second full segment is acknowledged immediately.
#[test]
fn every_second_full_segment_is_acknowledged_at_once() {
    for len in [536, 1_000, 1_400] {
        let mut victim = victim(|_| {});
        let mut waiting = 0;
        for number in 0..1_000 {
            let mut replies = victim.send(Flags::ACK, &vec![1; len]);
            waiting = if replies.iter().any(|r| r.header.ack == victim.next) { 0 } else { waiting + 1 };
            assert!(waiting < 2, "{len}: {number}");
            replies.extend(read_all(&mut victim));
            waiting = if replies.is_empty() { waiting } else { 0 };
        }
    }
}

/// RFC 5681, section 4.2: segments out of order, segments that fill a gap partly or fully, and duplicates are
/// acknowledged immediately.
#[test]
fn holes_are_acknowledged_at_once() {
    for (options, young) in [(false, true), (false, false), (true, true), (true, false)] {
        let mut victim = if options { with_options(u32::MAX - 200_000, 9) } else { victim(|_| {}) };
        let stamp = |mut header: Header| {
            header.options.timestamps = options.then_some(Timestamps { value: 2_000_000, echo: 0 });
            header
        };
        for _ in 0..if young { 0 } else { 400 } {
            let header = stamp(victim.header(Flags::ACK));
            victim.inject(&header, &[1; 536]);
            victim.next = victim.next.wrapping_add(536);
            read_all(&mut victim);
        }
        victim.wait(Span::from_secs(1));
        let start = victim.next;
        // Offset and length of the segment, and the acknowledgment number in response.
        for (at, len, ack) in [
            (100u32, 100usize, 0u32),
            (400, 100, 0),
            (600, 50, 0),
            (100, 100, 0),
            (0, 50, 50),
            (50, 50, 200),
            (150, 300, 500),
            (500, 20, 520),
            (0, 500, 520),
            (510, 100, 650),
        ] {
            let mut header = stamp(victim.header(Flags::ACK));
            header.seq = start.wrapping_add(at);
            let replies = victim.inject(&header, &vec![1; len]);
            let acks: Vec<u32> = replies.iter().map(|r| r.header.ack.wrapping_sub(start)).collect();
            assert_eq!(acks, [ack], "{at} {len}, options {options}, young {young}");
        }
    }
}

/// Three duplicate ACKs mean a loss (RFC 5681, section 3.2), but ACKs that were sent to request an ACK frequency are no
/// duplicates, if the option was negotiated.
#[test]
fn requests_of_an_ack_frequency_are_no_duplicate_acks() {
    for (negotiated, requests, recoveries) in [(true, true, 0), (true, false, 1), (false, true, 1)] {
        let mut config = plain_config();
        config.extensions = true;
        let mut victim = Victim::new(7, 9);
        victim.endpoint.listen(Arc::new(config));
        let mut syn = victim.header(Flags::SYN);
        syn.options.ack_rate_permitted = negotiated;
        victim.inject(&syn, &[]);
        (victim.next, victim.acked) = (8, 10);
        victim.send(Flags::ACK, &[]);
        victim.id = victim.endpoint.accept();
        victim.act(|c| c.write(&[9; 5_000])).0.unwrap();
        for _ in 0..4 {
            let mut ack = victim.header(Flags::ACK);
            ack.options.ack_rate = requests.then_some(AckRate::each(4));
            victim.inject(&ack, &[]);
        }
        assert_eq!(victim.info().unwrap().recoveries, recoveries, "{negotiated} {requests}");
    }
}
