//! Low-priority probes: their effects on loss recovery, and invalid answers to them.

use std::collections::HashSet;

use longhaul_cc::{
    Ack, BuildParams, Congestion, Control, Controller, ControllerFactory, Needs, Path, ProbeKind, ProbePlan, Snapshot,
    Timeout, registry::Safety,
};
use longhaul_units::Bytes;
use longhaul_wire::{CheshireCodec, Codec, Flags, Header, SackBlock, SackBlocks};

use super::*;
use crate::ProbeInfo;

mod expanding;
mod stale;

const DELAY: Span = Span::from_millis(50);
const RTT: Span = Span::from_millis(100);
const MSS: u64 = 1448;

fn config(congestion: &str, extensions: bool) -> Config {
    longhaul_zoo::register().unwrap();
    let mut config = Config { extensions, base_plpmtu: 1472, recv_buffer: 1 << 20, ..Config::default() };
    config.congestion = congestion.parse().unwrap();
    config
}

/// Returns whether the sequence number of a data segment was seen before; `None` for other segments.
fn again(seen: &mut HashSet<u32>, datagram: &[u8]) -> Option<bool> {
    let (header, offset) = CheshireCodec::parse(datagram).unwrap();
    (datagram.len() > offset + 100).then(|| !seen.insert(header.seq))
}

fn info(net: &Net, id: ConnId) -> Info {
    net.ends[0].connection(id).unwrap().info(net.now)
}

/// Transfers data until `done`, for at most 500 round trips.
fn run_until(net: &mut Net, (a, b): (ConnId, ConnId), mut done: impl FnMut(Time, &Info) -> bool) -> Info {
    net.run_until(RTT * 500, |net| {
        net.ends[0].drive(net.now, a, |c| while c.write(&[7; 64 << 10]).is_ok() {});
        net.ends[1].drive(net.now, b, |c| while c.read(1 << 20).is_ok_and(|part| !part.is_empty()) {});
        net.pump();
        done(net.now, &info(net, a))
    });
    info(net, a)
}

/// Transfers data for the given number of round trips and calls `watch` after each step.
fn run(net: &mut Net, ids: (ConnId, ConnId), round_trips: u64, mut watch: impl FnMut(&Info)) -> Info {
    let end = net.now + RTT * round_trips;
    run_until(net, ids, |now, info| {
        watch(info);
        now >= end
    })
}

fn probes(info: &Info) -> ProbeInfo {
    info.probes.unwrap()
}

fn damage(info: &Info) -> [u64; 6] {
    let Info { recoveries, spurious_recoveries, segments_retransmitted, bytes_lost, timeouts, dsacks, .. } = *info;
    [recoveries, spurious_recoveries, segments_retransmitted, bytes_lost, timeouts, dsacks]
}

/// Resolution 22 of TCP-Swift: probes are not in flight, and the ACKs they cause do not decrease the bytes in flight.
#[test]
fn r22_probes_are_not_in_flight_and_their_acks_do_not_decrease_it() {
    for extensions in [true, false] {
        let mut net = Net::new(DELAY);
        let ids = net.connect(config("speedy-start+new-reno", extensions));
        let mut least = u64::MAX;
        run(&mut net, ids, 1, |info| assert!(info.in_flight.0 <= info.cwnd.0.max(MSS), "{info:?}"));
        let info = run(&mut net, ids, 3, |info| least = least.min(info.in_flight.0));
        assert_eq!((probes(&info).sent, probes(&info).acked), (63, 63), "{extensions}");
        assert_eq!((info.in_flight.0, damage(&info)), (64 * MSS, [0; 6]), "{extensions}: {info:?}");
        assert!(least >= MSS, "{extensions}: {least}");
    }
}

/// If all probes are dropped, nothing is marked lost or retransmitted.
#[test]
fn probes_never_count_as_loss() {
    for extensions in [true, false] {
        for congestion in ["tcp-peach", "tcp-peach-plus", "tcp-swift"] {
            let mut net = Net::new(DELAY);
            let ids = net.connect(config(congestion, extensions));
            let mut seen = HashSet::new();
            net.lose = Box::new(move |_, from, datagram| from == 0 && again(&mut seen, datagram) == Some(true));
            let info = run(&mut net, ids, 30, |_| ());
            let ProbeInfo { sent, acked, lost, .. } = probes(&info);
            assert_eq!((sent, acked, lost, damage(&info)), (63, 0, 63, [0; 6]), "{congestion} {extensions}");
            assert!((20 * MSS..40 * MSS).contains(&info.cwnd.0), "one segment per round trip: {info:?}");
        }
    }
}

/// The same in recovery: one new segment and all probes sent for its recovery are lost. There is one loss and one
/// retransmission; the window is halved, and no probe increases it.
#[test]
fn probes_of_a_recovery_never_count_as_loss() {
    for extensions in [true, false] {
        for congestion in ["tcp-peach", "tcp-peach-plus", "tcp-swift"] {
            let mut net = Net::new(DELAY);
            let ids = net.connect(config(congestion, extensions));
            let (dscp, mut seen, mut count) = (Rc::clone(&net.dscp), HashSet::new(), 0);
            net.lose = Box::new(move |_, from, datagram| {
                let fresh = from == 0 && again(&mut seen, datagram) == Some(false);
                count += u64::from(fresh);
                (fresh && count == 200) || (count >= 200 && dscp.get() == 1)
            });
            let before = run_until(&mut net, ids, |_, info| info.recoveries > 0);
            let info = run(&mut net, ids, 10, |_| ());
            let ProbeInfo { sent, acked, lost, .. } = probes(&info);
            assert_eq!((acked, lost), (63, sent - 63), "{congestion} {extensions}: {info:?}");
            assert!(sent > 63 + 60, "{congestion} {extensions}: {sent}");
            assert_eq!(damage(&info), [1, 0, 1, MSS, 0, 0], "{congestion} {extensions}: {info:?}");
            let grown = info.cwnd.0 - before.cwnd.0;
            assert!((4 * MSS..10 * MSS).contains(&grown), "one segment per round trip: {grown} {info:?}");
        }
    }
}

/// Karn's algorithm: the answer to a copy gives no sample for the original. The first copy arrives 1/64 of a round
/// trip after the lost original, but all samples equal the round-trip time of the path.
#[test]
fn a_copied_segment_gives_no_sample() {
    for extensions in [true, false] {
        let mut net = Net::new(DELAY);
        let ids = net.connect(config("speedy-start+new-reno", extensions));
        let (mut seen, mut count) = (HashSet::new(), 0);
        net.lose = Box::new(move |_, from, datagram| {
            let fresh = from == 0 && again(&mut seen, datagram) == Some(false);
            count += u64::from(fresh);
            fresh && count == 1
        });
        let mut longest = Span::ZERO;
        let info = run(&mut net, ids, 3, |info| longest = longest.max(info.latest_rtt.unwrap_or_default()));
        assert_eq!((info.min_rtt, longest), (Some(RTT), RTT), "{extensions}");
        assert!(info.segments_retransmitted == 0 && probes(&info).acked > 0, "the probe filled the hole: {info:?}");
    }
}

/// Duplicates caused by probes neither undo a congestion response nor count as D-SACKs; one lost segment is one loss.
#[test]
fn duplicates_of_probes_undo_nothing() {
    for extensions in [true, false] {
        for congestion in ["tcp-peach", "tcp-peach-plus", "tcp-swift", "speedy-start+cubic+speedy-recovery"] {
            let mut net = Net::new(DELAY);
            let ids = net.connect(config(congestion, extensions));
            let (mut seen, mut count) = (HashSet::new(), 0);
            net.lose = Box::new(move |_, from, datagram| {
                let fresh = from == 0 && again(&mut seen, datagram) == Some(false);
                count += u64::from(fresh);
                fresh && count == 200
            });
            let info = run(&mut net, ids, 15, |_| ());
            assert_eq!((info.recoveries, info.spurious_recoveries, info.timeouts), (1, 0, 0), "{congestion} {info:?}");
            let [_, _, retransmitted, lost, _, dsacks] = damage(&info);
            assert!(retransmitted <= 1 && lost <= MSS && dsacks == 0, "{congestion} {extensions}: {info:?}");
            assert!(probes(&info).sent > 63 + 30, "{congestion} probed: {:?}", probes(&info));
            assert!(info.cwnd.0 >= 58 * MSS, "{congestion} {extensions}: taken for a random loss: {info:?}");
        }
    }
}

/// If a loss ends the start-up scheme, recovery gets its own probe budget.
#[test]
fn a_loss_during_startup_begins_a_new_probe_plan() {
    let mut net = Net::new(DELAY);
    let ids = net.connect(config("tcp-swift", true));
    let (mut seen, mut copies, mut count) = (HashSet::new(), 0, 0);
    net.lose = Box::new(move |_, from, datagram| match again(&mut seen, datagram).filter(|_| from == 0) {
        // Every third probe of the start-up is dropped, so that answers are outstanding when the loss is found.
        Some(true) => {
            copies += 1;
            copies < 64 && copies % 3 == 0
        }
        Some(false) => {
            count += 1;
            count == 2
        }
        None => false,
    });
    let mut phases = Vec::new();
    let info = run(&mut net, ids, 6, |info| {
        if phases.last().is_none_or(|(phase, _)| *phase != info.phase) {
            phases.push((info.phase, probes(info).sent));
        }
    });
    let recovery = phases.iter().position(|(phase, _)| *phase == "recovery").unwrap_or_else(|| panic!("{phases:?}"));
    assert_eq!((phases[recovery - 1].0, phases[recovery].1), ("speedy-start", 63), "{phases:?}");
    assert!(probes(&info).sent > phases[recovery].1, "{phases:?} {:?}", probes(&info));
}

/// Modifies the headers sent by the peer.
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

/// Acknowledging probes that were not sent has no effect: timestamps from the future, from before the connection, and
/// of times at which nothing was sent are refused and counted.
#[test]
fn a_peer_that_acknowledges_probes_not_sent_gains_nothing() {
    let before = 0_u32.wrapping_sub(1 << 29);
    for ahead in [1_u32 << 20, before, 0_u32.wrapping_sub(3), 1] {
        let mut net = Net::new(DELAY);
        let ids = net.connect(config("speedy-start+new-reno", true));
        lying(&mut net, move |header| {
            if let Some(echo) = &mut header.options.probe_echo {
                echo.value = echo.value.wrapping_add(ahead);
            }
        });
        let info = run(&mut net, ids, 2, |info| assert!(info.cwnd.0 <= 2 * MSS, "{info:?}"));
        let probes = probes(&info);
        assert_eq!((probes.acked, probes.refused), (0, 63), "{ahead}: {probes:?}");
        assert_eq!(damage(&info)[..5], [0; 5]);
    }
}

/// Repeated answers to one probe count once.
#[test]
fn an_answer_to_a_probe_counts_once() {
    let mut net = Net::new(DELAY);
    let ids = net.connect(config("speedy-start+new-reno", true));
    let mut first = None;
    lying(&mut net, move |header| {
        if let Some(echo) = &mut header.options.probe_echo {
            echo.value = *first.get_or_insert(echo.value);
        }
    });
    let info = run(&mut net, ids, 2, |_| ());
    assert_eq!((probes(&info).acked, info.cwnd.0 <= 3 * MSS), (1, true), "{info:?}");
    assert_eq!(probes(&info).refused, 62, "{info:?}");
}

/// The same for a peer without the option: a D-SACK of octets that no probe copied is refused.
#[test]
fn a_dsack_of_octets_that_were_not_copied_answers_nothing() {
    let mut net = Net::new(DELAY);
    let ids = net.connect(config("speedy-start+new-reno", false));
    lying(&mut net, |header| {
        let blocks: Vec<_> = header.options.sack.iter().copied().collect();
        header.options.sack = SackBlocks::EMPTY;
        for SackBlock { left, right } in blocks {
            header.options.sack.push(SackBlock { left: left.wrapping_sub(7), right: right.wrapping_sub(7) });
        }
    });
    let info = run(&mut net, ids, 2, |_| ());
    assert_eq!((probes(&info).acked, info.cwnd.0 <= 2 * MSS), (0, true), "{info:?}");
    assert_eq!(probes(&info).refused, 63, "no octet precedes the first: {info:?}");
}

/// All probes are lost, and so are the ACK of the segment that they copy and the tail loss probe. The segment is
/// retransmitted needlessly. The duplicate that the peer reports might be due to a probe, therefore it answers none.
#[test]
fn the_dsack_of_a_retransmission_answers_no_probe() {
    let mut net = Net::new(DELAY);
    let ids = net.connect(config("speedy-start(timeout=slow-start)+new-reno", false));
    let (mut seen, mut copies, mut acks) = (HashSet::new(), 0, 0);
    net.lose = Box::new(move |_, from, datagram| {
        acks += u64::from(from == 1);
        copies += u64::from(from == 0 && again(&mut seen, datagram) == Some(true));
        if from == 0 { (1..=63).contains(&copies) && datagram.len() > 1000 } else { acks == 1 }
    });
    let info = run(&mut net, ids, 9, |_| ());
    assert_eq!((probes(&info).sent, probes(&info).acked), (63, 0), "{info:?}");
    let twice = net.ends[1].connection(ids.1).unwrap().info(net.now).duplicate_bytes_in;
    assert_eq!((info.segments_retransmitted, twice), (2, MSS), "{info:?}");
}

/// The delay increases while probes are sent, so that the copied segment is retransmitted. The reported duplicates
/// may be due to the probes or to the retransmission. They are not duplicate ACKs either, so three of them are no
/// sign of loss.
#[test]
fn an_ambiguous_dsack_is_no_duplicate_ack() {
    let mut net = Net::new(DELAY);
    let ids = net.connect(config("startup=speedy-start,avoidance=new-reno,recovery=new-reno", false));
    net.delay = RTT * 3;
    run_until(&mut net, ids, |_, info| info.timeouts > 0);
    net.delay = DELAY;
    let info = run(&mut net, ids, 20, |_| ());
    let ProbeInfo { sent, acked, lost, .. } = probes(&info);
    assert_eq!((sent, acked, lost), (63, 0, 63), "{info:?}");
    assert_eq!((info.timeouts, info.recoveries, info.segments_retransmitted), (1, 1, 1), "{info:?}");
    let twice = net.ends[1].connection(ids.1).unwrap().info(net.now).duplicate_bytes_in;
    assert!(twice >= 63 * MSS, "all of them arrived: {twice}");
}

/// The peer shrinks its window while probes are sent: copies beyond the window are held back, nothing is lost, and
/// the transfer continues when the window opens again.
#[test]
fn a_window_that_shrinks_while_probing_is_survived() {
    for extensions in [true, false] {
        for window in [0_u64, 3, 20] {
            let mut net = Net::new(DELAY);
            let ids = net.connect(config("tcp-swift", extensions));
            let mut acks = 0;
            lying(&mut net, move |header| {
                acks += 1;
                if (10..64).contains(&acks) {
                    header.window = header.window.min(((window * MSS) >> 10) as u16);
                }
            });
            let info = run(&mut net, ids, 200, |info| {
                assert!(info.in_flight.0 <= info.cwnd.0.max(info.peer_window.0) + MSS, "{info:?}");
            });
            assert_eq!((info.recoveries, info.bytes_lost, probes(&info).refused), (0, 0, 0), "{window}: {info:?}");
            assert!(info.bytes_acked > 20 * 20 * MSS, "{window} {extensions}: {info:?}");
            assert!(info.windows_shrunk > 0, "{window} {extensions}: {info:?}");
        }
    }
}

/// Controller that requests probes from the start.
#[derive(Clone, Copy, Debug)]
struct Greedy {
    segments: u32,
    prefer: ProbeKind,
    gap: Span,
}

impl ControllerFactory for Greedy {
    fn build(&self, _: &BuildParams) -> Box<dyn Controller> {
        Box::new(*self)
    }
    fn name(&self) -> String {
        "greedy".to_owned()
    }
    fn safety(&self) -> Safety {
        Safety::Controlled
    }
}

impl Controller for Greedy {
    fn name(&self) -> String {
        "greedy".to_owned()
    }
    fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        needs.preferred.probes = true;
        needs
    }
    fn on_ack(&mut self, _: &Ack<'_>, _: &Path) {}
    fn on_timeout(&mut self, _: &Timeout, _: &Path) {}
    fn control(&self) -> Control {
        let prefer = [Some(self.prefer), None, None];
        let mut plan = ProbePlan::new(1, ProbeKind::Dummy, self.segments);
        (plan.prefer, plan.gap) = (prefer, self.gap);
        let mut control = Control::window(Bytes(10 * MSS));
        control.probe = Some(plan);
        control
    }
    fn snapshot(&self) -> Snapshot {
        Snapshot::new("greedy")
    }
}

/// Whatever kind of probe a plan prefers, no more are sent than it permits.
#[test]
fn probes_never_exceed_their_budget() {
    for extensions in [true, false] {
        for prefer in [ProbeKind::Dummy, ProbeKind::Outstanding, ProbeKind::Backwards] {
            for segments in [0, 1, 7, 100] {
                let mut config = config("cubic", extensions);
                config.congestion = Congestion::new(Greedy { segments, prefer, gap: Span::ZERO });
                let mut net = Net::new(DELAY);
                let ids = net.connect(config);
                let most = u64::from(segments);
                let info = run(&mut net, ids, 12, |info| assert!(probes(info).sent <= most, "{info:?}"));
                // With `Backwards`, each segment is copied once, so there may be fewer probes.
                let all = if prefer == ProbeKind::Backwards { probes(&info).sent } else { most };
                assert_eq!((probes(&info).sent, probes(&info).acked), (all, all), "{prefer:?} {extensions}");
                assert!(all > 0 || segments == 0);
                assert_eq!(damage(&info), [0; 6], "{prefer:?} {extensions}");
            }
        }
    }
}

/// If the SYN-ACK is lost, the server has no round-trip time sample; its probes wait for the first ACK of data.
#[test]
fn no_probe_is_sent_before_the_first_round_trip_time_sample() {
    let mut net = Net::new(DELAY);
    let mut config = config("cubic", true);
    config.congestion = Congestion::new(Greedy { segments: 50, prefer: ProbeKind::Outstanding, gap: Span::ZERO });
    let mut lost = false;
    net.lose = Box::new(move |_, from, _| from == 1 && !std::mem::replace(&mut lost, true));
    let (a, b) = net.connect(config);
    let mut known = false;
    let end = net.now + RTT * 5;
    net.run_until(RTT * 10, |net| {
        net.ends[1].drive(net.now, b, |c| while c.write(&[7; 64 << 10]).is_ok() {});
        net.ends[0].drive(net.now, a, |c| while c.read(1 << 20).is_ok_and(|part| !part.is_empty()) {});
        net.pump();
        let info = net.ends[1].connection(b).unwrap().info(net.now);
        if info.srtt.is_none() {
            assert_eq!(info.probes.map(|probes| probes.sent), Some(0));
        }
        known |= info.srtt.is_none() && info.bytes_sent > 0;
        net.now >= end
    });
    assert!(known, "data was sent before the first sample");
    assert_eq!(net.ends[1].connection(b).unwrap().info(net.now).probes.map(|probes| probes.sent), Some(50));
}

/// After the host was suspended, a few probes are sent at once and no more; later ones are sent on schedule.
#[test]
fn a_late_host_sends_no_burst_of_probes() {
    let mut net = Net::new(DELAY);
    let mut config = config("cubic", false);
    let gap = Span::from_millis(1);
    config.congestion = Congestion::new(Greedy { segments: 60, prefer: ProbeKind::Outstanding, gap });
    let (a, _) = net.connect(config);
    net.ends[0].drive(net.now, a, |c| c.write(&[7; 14_000]));
    net.run_until(RTT, |net| probes(&info(net, a)).sent >= 10);
    // At most 6 at once: the probe that is due, four missed ones, and the first of them.
    for (slept, left) in [(1, 1), (3, 3), (20, 6)] {
        let before = probes(&info(&net, a)).sent;
        net.now += gap * slept;
        net.ends[0].handle_timeout(net.now);
        net.pump();
        assert_eq!(probes(&info(&net, a)).sent - before, left, "{slept}");
    }
    let (before, from) = (probes(&info(&net, a)).sent, net.now);
    net.run_until(RTT, |net| probes(&info(net, a)).sent == before + 10);
    assert_eq!(net.now - from, gap * 10);
}
