//! RC3's low-priority loop, which sends new data from the tail of the send buffer: its benefit, and its effects on
//! the primary loop.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;

use longhaul_wire::{CheshireCodec, Codec, Flags, Header, SackBlock, SackBlocks};

use super::*;
use crate::ProbeInfo;

const DELAY: Span = Span::from_millis(50);
const RTT: Span = Span::from_millis(100);
const MSS: u64 = 1448;
const AGES: Span = Span::from_secs(2000);
/// RC3 as published: at the rate of the line, without a limit.
const LINE: &str = "rc3(pace=line)+slow-start+new-reno";

fn config(congestion: &str) -> Config {
    longhaul_zoo::register().unwrap();
    let mut config = Config { base_plpmtu: 1472, recv_buffer: 4 << 20, nagle: false, ..Config::default() };
    config.congestion = congestion.parse().unwrap();
    config
}

fn info(net: &Net, id: ConnId) -> Info {
    net.ends[0].connection(id).unwrap().info(net.now)
}

fn probes(info: &Info) -> ProbeInfo {
    info.probes.unwrap()
}

fn damage(info: &Info) -> [u64; 6] {
    let Info { recoveries, spurious_recoveries, segments_retransmitted, bytes_lost, timeouts, dsacks, .. } = *info;
    [recoveries, spurious_recoveries, segments_retransmitted, bytes_lost, timeouts, dsacks]
}

/// Data segments sent by end 0, by stream offset and priority.
#[derive(Default)]
struct Wire {
    isn: u32,
    low: Vec<Range<u64>>,
    data: Vec<Range<u64>>,
}

impl Wire {
    /// Records a datagram; returns the stream offsets of its data, and whether the low-priority loop sent it.
    fn see(&mut self, dscp: u8, datagram: &[u8]) -> Option<(Range<u64>, bool)> {
        let (header, offset) = CheshireCodec::parse(datagram).unwrap();
        let start = u64::from(header.seq.wrapping_sub(self.isn));
        let range = start..start + (datagram.len() - offset) as u64;
        if range.is_empty() {
            return None;
        }
        let low = dscp != 0;
        if low { &mut self.low } else { &mut self.data }.push(range.clone());
        Some((range, low))
    }

    /// Asserts that the low-priority loop sent no octet twice, and returns the range of its octets.
    fn tail(&self) -> Range<u64> {
        let mut sorted = self.low.clone();
        sorted.sort_by_key(|range| range.start);
        assert!(
            sorted.windows(2).all(|pair| pair[0].end <= pair[1].start),
            "sent twice by the low-priority loop: {sorted:?}"
        );
        sorted.first().map_or(0, |first| first.start)..sorted.last().map_or(0, |last| last.end)
    }
}

type Seen = Rc<RefCell<Wire>>;

/// Records what end 0 sends, and drops the segments for which `lose` returns true; its arguments are the range and
/// whether the low-priority loop sent it.
fn watch(net: &mut Net, a: ConnId, mut lose: impl FnMut(&Range<u64>, bool) -> bool + 'static) -> Seen {
    let isn = info(net, a).initial_sequence.iss;
    let seen = Rc::new(RefCell::new(Wire { isn, ..Wire::default() }));
    let (wire, dscp) = (Rc::clone(&seen), Rc::clone(&net.dscp));
    net.lose = Box::new(move |_, from, datagram| {
        let data = if from == 0 { wire.borrow_mut().see(dscp.get(), datagram) } else { None };
        data.is_some_and(|(range, low)| lose(&range, low))
    });
    seen
}

/// Modifies the headers sent by the peer after its SYN.
fn lying(net: &mut Net, mut lie: impl FnMut(&mut Header) + 'static) {
    net.tamper = Box::new(move |from, ecn, datagram| {
        if from == 1 {
            let (mut header, _) = CheshireCodec::parse(datagram).unwrap();
            if !header.flags.contains(Flags::SYN) {
                lie(&mut header);
                CheshireCodec::emit(&header, datagram).unwrap();
            }
        }
        Some(ecn)
    });
}

/// Writes `bytes`, and runs until the peer has read all of them or `limit` has passed; returns the time taken.
fn write(net: &mut Net, ids: (ConnId, ConnId), bytes: usize, limit: Span) -> Option<Span> {
    write_and_look(net, ids, bytes, limit, |_| ())
}

/// The same as `write`, with a call of `look` after each step.
fn write_and_look(
    net: &mut Net,
    (a, b): (ConnId, ConnId),
    bytes: usize,
    limit: Span,
    mut look: impl FnMut(&Info),
) -> Option<Span> {
    let (begun, mut written, mut read) = (net.now, 0, 0);
    net.run_until(AGES, |net| {
        net.ends[0].drive(net.now, a, |c| {
            while let Ok(n @ 1..) = c.write(&vec![7; bytes - written]) {
                written += n;
            }
        });
        net.ends[1].drive(net.now, b, |c| {
            while let Ok(part) = c.read(1 << 20) {
                read += part.len();
            }
        });
        net.pump();
        look(&info(net, a));
        read == bytes || net.now - begun >= limit
    });
    (read == bytes).then(|| net.now - begun)
}

/// Advances the time by `span`.
fn wait(net: &mut Net, span: Span) {
    let end = net.now + span;
    net.run_until(AGES, |net| net.now >= end);
}

/// 1 MB arrives half a round trip after it was written and is acknowledged after a whole one. In that time, the primary
/// loop sends no more than usual, and the window grows no more than usual. Nothing is lost, retransmitted, reported as
/// duplicate, or taken for a round-trip time sample.
#[test]
fn queued_data_arrives_after_one_one_way_delay() {
    for extensions in [true, false] {
        let mut net = Net::new(DELAY);
        let ids = net.connect(Config { extensions, recv_buffer: 2 << 20, ..config(LINE) });
        let seen = watch(&mut net, ids.0, |_, _| false);
        // Without the extensions, the peer advertises its whole window only after the first data; the loop waits for
        // that.
        let first = if extensions { 0 } else { 20_000 };
        if first > 0 {
            write(&mut net, ids, first, RTT * 3).unwrap();
            wait(&mut net, RTT * 2);
        }
        let (before, bytes) = (info(&net, ids.0), 1_000_000);
        let took = write(&mut net, ids, bytes, RTT * 10).unwrap();
        // The data takes 8 ms at the rate of the line, and the pacer up to half a round trip for the first window.
        assert!(took < RTT + Span::from_millis(20), "{took}");
        wait(&mut net, RTT * 2);
        let after = info(&net, ids.0);
        assert_eq!(damage(&after), [0; 6], "{after:?}");
        assert_eq!((after.in_flight.0, after.bytes_acked), (0, (first + bytes) as u64));
        assert_eq!((after.delivered, after.min_rtt, after.latest_rtt), (after.bytes_acked, Some(RTT), Some(RTT)));
        let ProbeInfo { sent, acked, lost, refused, carried_bytes: carried, .. } = probes(&after);
        // Where both loops meet, an ACK for the primary loop may arrive before those for the low-priority loop.
        assert!(acked + lost >= sent && lost <= 4 && refused == 0, "{:?}", probes(&after));
        assert!(carried > 800_000 && after.cwnd.0 <= before.cwnd.0 + (after.bytes_acked - carried), "{after:?}");
        assert!(after.bytes_sent < 200_000 && !after.rto.is_zero());
        assert_eq!(seen.borrow().tail().end, after.bytes_acked + 1, "from the end of the data");
    }
}

/// Data that fits into the congestion window is left to the primary loop, with and without pacing, including later
/// writes that fit.
#[test]
fn data_within_the_window_is_left_to_the_primary_loop() {
    for segments in [1, 5, 10] {
        let mut net = Net::new(DELAY);
        let ids = net.connect(config(LINE));
        write(&mut net, ids, segments * MSS as usize, RTT * 3).unwrap();
        assert_eq!(probes(&info(&net, ids.0)).sent, 0, "{segments}");
    }
    let mut net = Net::new(DELAY);
    let ids = net.connect(config(LINE));
    write(&mut net, ids, 12 * MSS as usize, RTT * 3).unwrap();
    assert_eq!(probes(&info(&net, ids.0)).sent, 2);
}

/// Each write restarts the loop at the new end of the data, down to what was sent before.
#[test]
fn a_new_write_restarts_the_loop() {
    let mut net = Net::new(DELAY);
    let ids = net.connect(config(LINE));
    let seen = watch(&mut net, ids.0, |_, _| false);
    let mut sent = 0;
    for batch in 1..=4_u64 {
        write(&mut net, ids, 200_000, RTT * 3).unwrap();
        let now = probes(&info(&net, ids.0)).sent;
        assert!(now > sent + 20, "batch {batch}: {sent} and {now}");
        sent = now;
        assert_eq!(seen.borrow().tail().end, batch * 200_000 + 1);
        wait(&mut net, RTT);
    }
    // With small writes every millisecond, the loop starts at each new end and later returns to the rest.
    let mut net = Net::new(DELAY);
    let ids = net.connect(config("rc3(rate=20)+slow-start+new-reno"));
    let seen = watch(&mut net, ids.0, |_, _| false);
    for _ in 0..30 {
        net.ends[0].drive(net.now, ids.0, |c| assert_eq!(c.write(&[7; 10_000]), Ok(10_000)));
        wait(&mut net, Span::from_millis(1));
    }
    wait(&mut net, RTT * 4);
    assert_eq!(info(&net, ids.0).bytes_acked, 300_000);
    assert_eq!(damage(&info(&net, ids.0)), [0; 6]);
    let _ = seen.borrow().tail();
}

/// If all segments of the low-priority loop are lost, the primary loop does exactly the same as without it.
#[test]
fn loss_of_all_low_priority_segments_has_no_effect() {
    for recovery in ["", "+rfc6675"] {
        let mut results = Vec::new();
        for start in ["rc3(pace=line)+", ""] {
            let mut net = Net::new(DELAY);
            let ids = net.connect(config(&format!("{start}slow-start+new-reno{recovery}")));
            watch(&mut net, ids.0, |_, low| low);
            let took = write(&mut net, ids, 1_000_000, RTT * 20).unwrap();
            wait(&mut net, RTT);
            let info = info(&net, ids.0);
            assert_eq!(damage(&info), [0; 6], "{start}{recovery} {info:?}");
            results.push((took, info.cwnd, info.bytes_sent, info.delivered, info.min_rtt));
            if let Some(probes) = info.probes {
                assert!(probes.sent > 650 && (probes.acked, probes.carried_bytes) == (0, 0), "{probes:?}");
                assert!(probes.lost > 650, "{probes:?}");
            }
        }
        assert_eq!(results[0], results[1], "{recovery}");
    }
}

/// SACKs of the low-priority loop are not a sign of loss in the primary loop. Retransmissions begin only after SACKs of
/// primary segments.
#[test]
fn low_priority_sacks_are_no_sign_of_loss() {
    for recovery in ["prr", "rfc6675"] {
        let mut net = Net::new(DELAY);
        let ids = net.connect(config(&format!("rc3(pace=line)+slow-start(iw=2)+new-reno+{recovery}")));
        let mut front = 0;
        watch(&mut net, ids.0, move |_, low| {
            front += u32::from(!low);
            front <= 2 && !low
        });
        net.ends[0].drive(net.now, ids.0, |c| assert_eq!(c.write(&[7; 100_000]), Ok(100_000)));
        net.run_until(AGES, |net| probes(&info(net, ids.0)).acked > 60);
        let early = info(&net, ids.0);
        assert_eq!((damage(&early), early.in_flight.0), ([0; 6], 2 * MSS), "{recovery} {early:?}");
        wait(&mut net, RTT * 10);
        let late = info(&net, ids.0);
        assert_eq!((late.bytes_acked, late.delivered), (100_000, 100_000), "{recovery} {late:?}");
        assert!(late.segments_retransmitted >= 2 && late.spurious_recoveries == 0, "{late:?}");
    }
}

/// With random losses in both directions, all data arrives with both loss detections, any number of priorities, and
/// various sizes.
#[test]
fn bytes_arrive_intact_whatever_is_lost() {
    let starts = ["rc3(pace=line,levels=4)", "rc3", "rc3(rate=30,burst=20)", "rc3(budget=100)"];
    for (k, congestion) in starts.into_iter().flat_map(|start| [(1, start), (2, start)]) {
        for recovery in ["prr", "rfc6675"] {
            for percent in [1_u64, 5, 20] {
                let mut net = Net::new(Span::from_millis(10));
                let mut random = 7919 * percent + k;
                let mut config = config(&format!("{congestion}+cubic+{recovery}"));
                // The path MTU changes during the transfer in one case; in the other, the window is not a multiple of
                // the segment size.
                (config.base_plpmtu, config.recv_buffer) = if k == 1 { (1472, 4 << 20) } else { (1232, 300_001) };
                let ids = net.connect(config);
                net.lose = Box::new(move |_, _, _| {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (random >> 33) % 100 < percent
                });
                let info = net.transfer(ids, 600_000, Span::from_secs(900));
                assert_eq!(probes(&info).refused, 0, "{congestion} {recovery}: {info:?}");
            }
        }
    }
}

/// The low-priority loop requires SACK and timestamps, and waits for the first round-trip time sample.
#[test]
fn the_loop_requires_sack_timestamps_and_a_round_trip_time_sample() {
    for (sack, timestamps) in [(false, true), (true, false)] {
        let mut net = Net::new(DELAY);
        let ids = net.connect(Config { sack, timestamps, ..config(LINE) });
        let seen = watch(&mut net, ids.0, |_, _| false);
        write(&mut net, ids, 300_000, RTT * 20).unwrap();
        assert!(seen.borrow().low.is_empty() && info(&net, ids.0).probes.is_none());
    }
    let mut net = Net::new(DELAY);
    let mut lost = false;
    net.lose = Box::new(move |_, from, _| from == 1 && !std::mem::replace(&mut lost, true));
    let (a, b) = net.connect(config(LINE));
    net.ends[1].drive(net.now, b, |c| assert_eq!(c.write(&[7; 300_000]), Ok(300_000)));
    let mut known = (false, false);
    let end = net.now + RTT * 10;
    net.run_until(AGES, |net| {
        net.ends[0].drive(net.now, a, |c| while c.read(1 << 20).is_ok_and(|part| !part.is_empty()) {});
        net.pump();
        let info = net.ends[1].connection(b).unwrap().info(net.now);
        let sent = probes(&info).sent;
        assert!(info.srtt.is_some() || sent == 0, "{info:?}");
        known = (known.0 | (info.srtt.is_none() && info.bytes_sent > 0), sent > 0);
        net.now >= end
    });
    assert_eq!(known, (true, true), "data was sent before the first sample, and by the low-priority loop afterwards");
}

/// Forged ACKs and SACKs of octets that were not sent have no effect, except that they are counted as refused.
#[test]
fn acknowledgments_of_data_not_sent_are_refused() {
    const BYTES: u64 = 500_000;
    // The loop sends 20 segments at the end of the data; these ranges are claimed instead.
    let tail = BYTES + 1 - 20 * MSS;
    let claims: [(&str, Range<u64>); 4] = [
        ("a SACK of octets not sent in between", tail - 100 * MSS..tail),
        ("a SACK that begins one octet below the tail", tail - 1..BYTES + 1),
        ("a SACK beyond the end", BYTES + 1 - MSS..BYTES + 2),
        ("an ACK of everything", 0..BYTES + 1),
    ];
    for (what, claim) in claims {
        let mut net = Net::new(DELAY);
        let ids = net.connect(config("rc3(pace=line,budget=20)+slow-start+new-reno"));
        let seen = watch(&mut net, ids.0, |_, _| false);
        let (wire, mut lies) = (Rc::clone(&seen), 0);
        lying(&mut net, move |header| {
            let isn = wire.borrow().isn;
            let wire_number = |offset: u64| isn.wrapping_add(offset as u32);
            if lies >= 3 || header.options.sack.as_slice().len() != 1 {
                return;
            }
            lies += 1;
            if claim.start == 0 {
                header.ack = wire_number(claim.end);
            } else {
                let (left, right) = (wire_number(claim.start), wire_number(claim.end));
                header.options.sack = SackBlocks::EMPTY;
                header.options.sack.push(SackBlock { left, right });
            }
        });
        let info = send_all(&mut net, ids, BYTES as usize);
        assert_eq!(probes(&info).refused, 3, "{what}: {info:?}");
        assert_eq!((info.bytes_acked, info.delivered), (BYTES, BYTES), "{what}: {info:?}");
        assert!(probes(&info).carried_bytes <= 20 * MSS && info.bytes_sent >= BYTES - 20 * MSS, "{what}: {info:?}");
    }
}

/// Sends the data, asserts that all of it arrives, and waits for the last ACKs.
fn send_all(net: &mut Net, ids: (ConnId, ConnId), bytes: usize) -> Info {
    write(net, ids, bytes, Span::from_secs(60)).unwrap();
    wait(net, RTT * 4);
    info(net, ids.0)
}

/// If the peer discards SACKed data or SACKs data that it does not have, the primary loop skips it at first, and the
/// retransmission timer has it sent later.
#[test]
fn data_discarded_by_the_receiver_is_sent_again() {
    for recovery in ["prr", "rfc6675"] {
        let mut net = Net::new(DELAY);
        let ids = net.connect(config(&format!("rc3(pace=line)+slow-start+new-reno+{recovery}")));
        // Only the last segment of the low-priority loop arrives.
        let seen = watch(&mut net, ids.0, |range, low| low && range.end != 300_001);
        let wire = Rc::clone(&seen);
        lying(&mut net, move |header| {
            let wire = wire.borrow();
            let end = wire.isn.wrapping_add(300_001);
            let mut blocks = SackBlocks::EMPTY;
            for block in header.options.sack.iter() {
                let lowest = wire.isn.wrapping_add(wire.tail().start as u32);
                let left = if block.right == end { lowest } else { block.left };
                blocks.push(SackBlock { left, ..*block });
            }
            header.options.sack = blocks;
        });
        let info = send_all(&mut net, ids, 300_000);
        assert!(info.timeouts >= 1 && probes(&info).refused == 0, "{info:?}");
        assert_eq!(info.bytes_acked, 300_000);
        assert!(info.segments_retransmitted > 100, "{info:?}");
    }
}

/// If the window closes or shrinks while the loop runs, nothing is sent beyond it, nothing is lost, and the transfer
/// continues when it opens again.
#[test]
fn a_window_that_shrinks_is_obeyed() {
    for window in [0_u64, 3, 20, 100] {
        let mut net = Net::new(DELAY);
        let ids = net.connect(config("rc3(rate=50)+slow-start+new-reno"));
        let mut acks = 0;
        lying(&mut net, move |header| {
            acks += 1;
            if (10..200).contains(&acks) {
                header.window = header.window.min(((window * MSS) >> 10) as u16);
            }
        });
        let seen = watch(&mut net, ids.0, |_, _| false);
        let (wire, mut known) = (Rc::clone(&seen), 0);
        write_and_look(&mut net, ids, 1_000_000, Span::from_secs(60), |info| {
            let (edge, wire) = (info.bytes_acked + 1 + info.peer_window.0, wire.borrow());
            let above = wire.low.iter().skip(known).find(|range| range.end > edge);
            assert_eq!(above, None, "{window}: the edge is {edge}");
            known = wire.low.len();
        })
        .unwrap();
        wait(&mut net, RTT * 4);
        let info = info(&net, ids.0);
        assert_eq!((info.bytes_acked, probes(&info).refused), (1_000_000, 0), "{window} {info:?}");
        assert!(info.windows_shrunk > 0, "{window} {info:?}");
    }
}

/// The loop sends nothing beyond the peer's window.
#[test]
fn nothing_is_sent_beyond_the_peers_window() {
    for window in [20_000, 100_000, 300_000_u64] {
        let mut net = Net::new(DELAY);
        let ids = net.connect(Config { recv_buffer: window as usize, ..config(LINE) });
        let seen = watch(&mut net, ids.0, |_, _| false);
        net.ends[0].drive(net.now, ids.0, |c| assert_eq!(c.write(&[7; 1_000_000]), Ok(1_000_000)));
        // The application does not read, so the right edge of the window does not move.
        wait(&mut net, RTT * 4);
        let edge = info(&net, ids.0).bytes_acked + 1 + info(&net, ids.0).peer_window.0;
        let seen = seen.borrow();
        let highest = seen.low.iter().chain(&seen.data).map(|range| range.end).max().unwrap();
        assert!(highest <= edge.max(window + 2000), "{highest} above {edge}");
        assert!(window < 100_000 || !seen.low.is_empty());
        assert_eq!(damage(&info(&net, ids.0)), [0; 6]);
    }
}

/// During an outage, only the retransmission timer probes the path. The low-priority loop waits for an answer.
#[test]
fn the_loop_waits_during_an_outage() {
    let mut net = Net::new(DELAY);
    let ids = net.connect(config("rc3(rate=5)+slow-start+new-reno"));
    let down = Rc::new(Cell::new(false));
    let is_down = Rc::clone(&down);
    let seen = watch(&mut net, ids.0, move |_, _| is_down.get());
    net.ends[0].drive(net.now, ids.0, |c| assert_eq!(c.write(&[7; 2_000_000]), Ok(2_000_000)));
    wait(&mut net, RTT / 2);
    down.set(true);
    net.run_until(RTT * 40, |net| info(net, ids.0).timeouts > 0);
    let sent = seen.borrow().low.len();
    assert!(sent > 20, "{sent}");
    wait(&mut net, RTT * 30);
    assert_eq!(seen.borrow().low.len(), sent);
    down.set(false);
    net.run_until(RTT * 200, |net| info(net, ids.0).bytes_acked == 2_000_000);
    assert!(seen.borrow().low.len() > sent);
    let info = info(&net, ids.0);
    assert_eq!((info.bytes_acked, probes(&info).refused), (2_000_000, 0), "{info:?}");
}

/// The primary loop sends the FIN, after all data before it.
#[test]
fn the_fin_follows_skipped_data() {
    for bytes in [30_000, 300_000, 1_000_000] {
        let mut net = Net::new(DELAY);
        let ids = net.connect(config(LINE));
        let info = net.transfer(ids, bytes, RTT * 30);
        assert!(damage(&info) == [0; 6] && probes(&info).lost <= 4, "{info:?}");
    }
}

/// The Nagle algorithm applies to the end of the data, and small writes are sent by the primary loop.
#[test]
fn small_writes_wait_for_nagle() {
    let mut net = Net::new(DELAY);
    let ids = net.connect(Config { nagle: true, ..config("rc3(pace=line)+slow-start(iw=1)+new-reno") });
    let seen = watch(&mut net, ids.0, |_, _| false);
    for _ in 0..20 {
        net.ends[0].drive(net.now, ids.0, |c| assert_eq!(c.write(&[7; 50]), Ok(50)));
        wait(&mut net, Span::from_millis(2));
    }
    assert!(seen.borrow().low.is_empty() && seen.borrow().data.len() < 20);
}

/// A path MTU probe is confirmed only by its own acknowledgment: smaller segments of the low-priority loop confirm no
/// size.
#[test]
fn low_priority_segments_confirm_no_mtu() {
    for mtu in [1260, 1400_usize] {
        let mut net = Net::new(DELAY);
        let ids = net.connect(Config { base_plpmtu: 1232, ..config("rc3(rate=20)+slow-start+new-reno") });
        net.lose = Box::new(move |_, _, datagram| datagram.len() > mtu);
        for _ in 0..6 {
            let info = send_all(&mut net, ids, 400_000);
            assert!(usize::from(info.plpmtu) <= mtu && info.timeouts == 0, "{info:?}");
        }
    }
}

/// If both loops deliver a segment, the D-SACK is not attributed to a retransmission.
#[test]
fn dsacks_of_the_low_priority_loop_undo_nothing() {
    let mut net = Net::new(DELAY);
    let ids = net.connect(config(LINE));
    let mut lost = HashSet::new();
    // Every 20th segment of the primary loop is lost once, so that there are retransmissions to which a D-SACK might
    // be attributed.
    let seen =
        watch(&mut net, ids.0, move |range, low| !low && range.start / MSS % 20 == 3 && lost.insert(range.start));
    // SACKs of the low-priority loop are removed, so that the primary loop sends the same octets.
    let wire = Rc::clone(&seen);
    lying(&mut net, move |header| {
        let (wire, ack) = (wire.borrow(), header.ack);
        let lowest = wire.tail().start;
        let offset = |number: u32| u64::from(number.wrapping_sub(wire.isn));
        let mut blocks = SackBlocks::EMPTY;
        for block in header.options.sack.iter() {
            let is_of_tail = lowest > 0 && offset(block.left) >= lowest && offset(block.right) > offset(ack);
            blocks.push(SackBlock { left: if is_of_tail { block.right } else { block.left }, ..*block });
        }
        header.options.sack = blocks;
    });
    let info = send_all(&mut net, ids, 600_000);
    assert_eq!(info.bytes_acked, 600_000, "{info:?}");
    assert!(
        info.segments_retransmitted > 0 && net.ends[1].connection(ids.1).unwrap().info(net.now).duplicate_bytes_in > 0
    );
    assert_eq!((info.spurious_recoveries, info.dsacks), (0, 0), "{info:?}");
    let _ = seen.borrow().tail();
}
