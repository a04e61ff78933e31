//! Tests of the check whether the peer echoes ECN marks (RFC 3168, section 20.2).

use std::cell::RefCell;
use std::rc::Rc;

use longhaul_wire::{CheshireCodec, Codec, Flags};

use super::super::ecn_check::EcnCheck;
use super::super::loss::Phase;
use super::*;
use crate::connection::Connection;

/// Observations on the path.
#[derive(Default)]
struct Seen {
    /// New data of end 0: the ECN field, and whether CWR is set.
    data: Vec<(Ecn, bool)>,
    /// ACKs of end 1: whether ECE is set.
    echoes: Vec<bool>,
}

/// Returns the fate of a new data segment by the number of data segments before it and its ECN field.
type Path = fn(usize, Ecn) -> Option<Ecn>;

const CLEAR: Path = |_, ecn| Some(ecn);
/// One loss, which makes the check due.
const SUSPECT: Path = |before, ecn| (before != 400).then_some(ecn);

/// Transfers 8 MB over `path`; `echo` replaces the receiver's ECE flag.
fn transfer(lead: u64, path: Path, echo: fn(bool) -> bool) -> (Info, Seen) {
    let mut net = Net::new(Span::from_millis(50));
    net.lead = Span::from_millis(lead);
    let seen = Rc::new(RefCell::new(Seen::default()));
    let kept = Rc::clone(&seen);
    let mut highest = 0;
    net.tamper = Box::new(move |from, ecn, datagram| {
        let (mut header, offset) = CheshireCodec::parse(datagram).unwrap();
        if header.flags.contains(Flags::SYN) {
            return Some(ecn);
        }
        let mut seen = seen.borrow_mut();
        if from == 1 {
            let says = echo(header.flags.contains(Flags::ECE));
            seen.echoes.push(says);
            let rest = Flags::from_bits_truncate(header.flags.bits() & !Flags::ECE.bits());
            header.flags = if says { rest | Flags::ECE } else { rest };
            CheshireCodec::emit(&header, datagram).unwrap();
        } else if datagram.len() > offset && (highest == 0 || header.seq.wrapping_sub(highest).cast_signed() > 0) {
            highest = header.seq;
            let before = seen.data.len();
            seen.data.push((ecn, header.flags.contains(Flags::CWR)));
            return path(before, ecn);
        }
        Some(ecn)
    });
    let config = Config { recv_buffer: 1 << 20, recv_buffer_max: 1 << 20, ..Config::default() };
    let ids = net.connect(config);
    let info = net.transfer(ids, 8_000_000, Span::from_secs(100));
    drop(net);
    (info, Rc::into_inner(kept).unwrap().into_inner())
}

fn asked(info: &Info) -> (u64, u64) {
    (info.echoes_asked, info.echoes_missing)
}

#[test]
fn an_honest_peer_is_checked_once_and_passes() {
    let (info, seen) = transfer(0, SUSPECT, |echo| echo);
    assert_eq!((info.recoveries, info.timeouts, asked(&info)), (1, 0, (1, 0)));
    let at = seen.data.iter().position(|data| data.0 == Ecn::Ce).unwrap();
    assert!(at > 400, "{at} is after the loss");
    assert!(seen.data.iter().enumerate().all(|(k, data)| data.0 == Ecn::Ect0 || k == at));
    // One segment with CWR ends the echo.
    let cwr: Vec<usize> = (0..seen.data.len()).filter(|k| seen.data[*k].1).collect();
    assert!(cwr.len() == 1 && cwr[0] > at, "{cwr:?}, {at}");
    assert!(seen.echoes.contains(&true) && !seen.echoes.last().unwrap());
    // The mark is not a congestion event: ssthresh is the same as without ECN.
    let (last, _) = transfer(0, |before, ecn| SUSPECT(before, ecn).map(|_| Ecn::NotEct), |echo| echo);
    assert_eq!(info.ssthresh, last.ssthresh);
}

#[test]
fn a_short_transfer_without_loss_makes_no_check() {
    let (info, _) = transfer(0, CLEAR, |_| false);
    assert_eq!((info.recoveries, asked(&info)), (0, (0, 0)));
}

/// If the receiver or the network conceals marks, ECN is switched off after two unanswered marks.
#[test]
fn two_missing_echoes_disable_ecn() {
    const BLEACHED: Path = |before, ecn| SUSPECT(before, if ecn == Ecn::Ce { Ecn::Ect0 } else { ecn });
    for (path, echo) in [(SUSPECT, (|_| false) as fn(bool) -> bool), (BLEACHED, |echo| echo)] {
        let (info, seen) = transfer(0, path, echo);
        assert_eq!((info.recoveries, asked(&info)), (1, (2, 2)));
        let last = seen.data.iter().rposition(|data| data.0 == Ecn::Ce).unwrap();
        let incapable = seen.data.iter().position(|data| data.0 == Ecn::NotEct).unwrap();
        assert!(incapable > last && seen.data[incapable..].iter().all(|data| data.0 == Ecn::NotEct));
        assert_eq!(info.bytes_retransmitted, 1448);
    }
}

#[test]
fn a_lost_mark_counts_as_no_answer() {
    const LOST: Path = |before, ecn| SUSPECT(before, ecn).filter(|ecn| *ecn != Ecn::Ce || before > 3000);
    let (info, seen) = transfer(0, LOST, |echo| echo);
    let marked = seen.data.iter().filter(|data| data.0 == Ecn::Ce).count() as u64;
    assert!(marked > 1 && asked(&info) == (marked, 0), "{marked}, {:?}", asked(&info));
    assert_eq!(seen.data.last().unwrap().0, Ecn::Ect0);
}

/// With a separate queue for marked packets (RFC 9331, section 5.1), overtaken segments are not marked lost.
#[test]
fn a_marked_segment_that_overtakes_causes_no_loss() {
    let (info, _) = transfer(45, SUSPECT, |echo| echo);
    assert_eq!((info.recoveries, info.bytes_lost, asked(&info)), (1, 1448, (1, 0)));
}

/// Returns a check that is due and has marked the segment 10..20.
fn asking() -> EcnCheck {
    let mut check = EcnCheck::default();
    assert!(!check.is_due());
    check.on_episode();
    assert!(check.is_due());
    check.on_sent(10, 20);
    assert!(!check.is_due() && check.asked_at() == Some(10));
    check
}

#[test]
fn an_echo_before_the_mark_arrives_is_a_mark_of_the_network() {
    let mut check = asking();
    assert!(!check.on_ack(10, true), "congestion");
    assert!(!check.on_ack(20, false));
    assert_eq!((check.marked, check.missing, check.is_due()), (1, 0, true), "no result");
    // After the marked segment is SACKed, an echo is attributed to our mark.
    check.on_sent(30, 40);
    check.on_delivered(true);
    assert!(check.on_ack(20, true));
    assert!(!check.is_due());
}

/// Without losses, the check becomes due after 50 round trips.
#[test]
fn fifty_round_trips_without_loss_make_a_check_due() {
    let mut check = EcnCheck::default();
    for _ in 0..50 {
        assert!(!check.is_due());
        check.on_round();
    }
    assert!(check.is_due());
    // After an echo, two reasons are needed.
    check.on_sent(10, 20);
    assert!(check.on_ack(20, true));
    for _ in 0..100 {
        assert!(!check.is_due());
        check.on_round();
    }
    assert!(check.is_due());
}

#[test]
fn a_retransmitted_mark_gives_no_answer() {
    let mut check = asking();
    check.on_delivered(false);
    assert!(!check.on_ack(20, false) && (check.marked, check.missing) == (1, 0));
    assert!(check.is_due());
}

/// Echoes do not offset missing ones: a peer that echoes sometimes is still checked after losses, and fails at the
/// second missing echo.
#[test]
fn echoes_do_not_offset_missing_ones() {
    let mut check = asking();
    assert!(!check.on_ack(20, false) && check.is_due() && !check.has_failed());
    check.on_sent(30, 40);
    assert!(check.on_ack(40, true));
    for patience in [2, 4, 8, 16, 24, 24] {
        for _ in 0..patience {
            assert!(!check.is_due());
            check.on_episode();
            assert!(!check.on_ack(40, true));
        }
        assert!(check.is_due());
        check.on_sent(50, 60);
        assert!(check.on_ack(60, true));
    }
    for _ in 0..24 {
        check.on_episode();
    }
    check.on_sent(70, 80);
    assert!(!check.on_ack(80, false) && check.has_failed());
    assert!(!check.is_due(), "although there are enough reasons");
}

/// Returns the ECN field of a new segment when the check is due, after `change` has been applied.
fn suspected(change: fn(&mut Connection), len: u16, mtu_probe: bool) -> Ecn {
    let mut net = Net::new(Span::from_millis(1));
    let (a, _) = net.connect(Config::default());
    let field = |c: &mut Connection| {
        c.ext.ecn_check.on_episode();
        change(c);
        c.engine().send_loop().next_ecn(len, mtu_probe)
    };
    net.ends[0].drive(net.now, a, field).unwrap()
}

/// FINs, path MTU probes and retransmissions are not marked. There is no mark either while an echo is being answered
/// (RFC 3168, section 6.1.2), without SACK, because echoes cannot be attributed then, or without ECN.
#[test]
fn only_new_data_is_marked() {
    assert_eq!(suspected(|_| (), 1448, false), Ecn::Ce);
    assert_eq!(suspected(|_| (), 1, false), Ecn::Ce);
    assert_eq!(suspected(|_| (), 0, false), Ecn::Ect0);
    assert_eq!(suspected(|_| (), 1448, true), Ecn::Ect0);
    assert_eq!(suspected(|c| assert!(c.snd.respond_to_ece()), 1448, false), Ecn::Ect0);
    assert_eq!(suspected(|c| c.negotiated.sack = false, 1448, false), Ecn::Ect0);
    assert_eq!(
        suspected(|c| assert!(c.snd.respond_to_ece() && std::mem::take(&mut c.snd.cwr_due)), 1448, false),
        Ecn::Ect0
    );
    assert_eq!(suspected(|c| c.loss.phase = Phase::Recovery(9), 1448, false), Ecn::Ect0);
    assert_eq!(suspected(|c| c.loss.phase = Phase::Timeout(9), 1448, false), Ecn::Ect0);
    assert_eq!(suspected(|c| c.negotiated.ecn = false, 1448, false), Ecn::NotEct);
}
