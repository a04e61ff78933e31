//! Tests of the send side alone. Offset 0 is our SYN, and data begins at offset 1.

use longhaul_units::Time;

use super::*;

const MSS: u16 = 1000;
const LAYOUT: Layout = Layout { header: 12, payload: MSS };

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// Returns the send side of an established connection whose peer offers `window` bytes.
fn sender(window: u64, config: &Config) -> Sender {
    let mut snd = Sender::new(config);
    snd.nxt = 1;
    snd.on_peer_syn(MSS, window);
    snd.una = 1;
    snd
}

/// Queues `bytes` bytes of data, if there is room for them.
fn queue(snd: &mut Sender, bytes: usize) {
    assert_eq!(snd.write(&vec![7; bytes], LAYOUT), bytes);
}

/// Sends `segments` full-sized segments.
fn send(snd: &mut Sender, segments: u64) {
    snd.board.begin_burst(Burst::new(at(0)));
    (0..segments).for_each(|_| assert!(!snd.send_new(MSS, false).fin));
}

/// RFC 9293, section 3.10.7.4: SND.WL1 < SEG.SEQ, or SND.WL1 = SEG.SEQ and SND.WL2 =< SEG.ACK.
#[test]
fn the_newest_segment_sets_the_window() {
    let mut snd = sender(20_000, &Config::default());
    queue(&mut snd, 10_000);
    send(&mut snd, 10);
    (snd.wl1, snd.wl2) = (100, 1);
    let changes = |snd: &mut Sender, (seq, ack, window)| (snd.update_window(seq, ack, window, 0).changed, snd.window);
    assert_eq!(changes(&mut snd, (99, 1, 30_000)), (false, 20_000), "an older segment");
    assert_eq!(changes(&mut snd, (100, 1, 30_000)), (true, 30_000), "the same sequence number");
    assert_eq!(changes(&mut snd, (100, 1, 30_000)), (false, 30_000), "the same window again");
    assert_eq!(changes(&mut snd, (101, 0, 40_000)), (false, 30_000), "an ACK below SND.UNA");
    assert_eq!(changes(&mut snd, (101, 1, 40_000)), (true, 40_000), "a later segment");
    // A segment that advances SND.UNA is the newest, whatever its sequence number.
    assert_eq!(changes(&mut snd, (50, 2001, 38_000)), (true, 38_000));
    assert_eq!(snd.acknowledge(2001, 1000, Told::All, |_, _| {}), 2000);
    assert_eq!(snd.window_edge(), 40_001);
}

/// RFC 9293, section 3.8.6, discourages shrinking. What the rounding to the unit of the window moves is none.
#[test]
fn a_window_shrinks_if_its_edge_moves_left_by_a_unit() {
    for (window, shrank) in [(20_480, false), (20_479, false), (20_473, false), (20_472, true), (0, true)] {
        let mut snd = sender(20_480, &Config::default());
        let update = snd.update_window(1, 1, window, 3);
        assert_eq!((update.shrank, update.changed), (shrank, window != 20_480), "{window}");
    }
}

#[test]
fn the_usable_window_is_what_the_peer_offers_beyond_the_data_sent() {
    let mut snd = sender(2500, &Config::default());
    queue(&mut snd, 5000);
    assert_eq!((snd.usable_window(), snd.unsent(), snd.flight_size()), (2500, 5000, 0));
    send(&mut snd, 2);
    assert_eq!((snd.usable_window(), snd.unsent(), snd.flight_size()), (500, 3000, 2000));
    // A closed window is not a negative one.
    assert!(snd.update_window(1, 1, 0, 0).shrank);
    assert_eq!((snd.usable_window(), snd.window_edge(), snd.nxt), (0, 1, 2001));
}

/// RFC 5961, section 5.2: SND.UNA - MAX.SND.WND =< SEG.ACK =< SND.NXT.
#[test]
fn acks_within_the_largest_window_are_acceptable() {
    let mut snd = sender(5000, &Config::default());
    queue(&mut snd, 3000);
    send(&mut snd, 3);
    assert_eq!(snd.acceptable_acks(), (-4999, 3001));
    snd.update_window(1, 1, 10, 0);
    assert_eq!(snd.acceptable_acks().0, -4999, "the largest window counts");
    snd.set_window(u64::MAX);
    assert_eq!(snd.acceptable_acks().0, 1 - (1 << 30), "at most 1 GiB");
}

/// CVE-2019-11479.
#[test]
fn a_tiny_mss_of_the_peer_is_raised() {
    for (offered, used) in [(0, 128), (127, 128), (128, 128), (129, 129)] {
        let mut snd = Sender::new(&Config::default());
        assert_eq!(snd.on_peer_syn(offered, 0), used);
    }
}

#[test]
fn the_last_segment_carries_the_fin() {
    let mut snd = sender(10_000, &Config::default());
    queue(&mut snd, 1500);
    snd.fin_queued = true;
    send(&mut snd, 1);
    assert!(snd.has_unsent_fin() && !snd.fin_acknowledged());
    let last = snd.send_new(500, false);
    assert_eq!((last.start, last.fin, snd.nxt), (1001, true, 1502));
    assert!(snd.fin_sent && !snd.has_unsent_fin());
    snd.acknowledge(1501, 1000, Told::All, |_, _| {});
    assert!(!snd.fin_acknowledged(), "the data is acknowledged, the FIN is not");
    snd.acknowledge(1502, 1000, Told::All, |_, _| {});
    assert!(snd.fin_acknowledged() && !snd.has_outstanding());
}

/// A writer that fills the buffer leaves the data to be sent at once, and more if the peer's window is closed.
#[test]
fn unsent_data_is_limited() {
    let limited = |lowat, window, others: usize| {
        let config = Config { notsent_lowat: lowat, send_buffer: 8 << 20, ..Config::default() };
        let mut snd = sender(window, &config);
        snd.others = u16::try_from(others).unwrap_or(u16::MAX);
        snd.write(&vec![7; 8 << 20], LAYOUT)
    };
    assert_eq!(limited(None, 1000, 0), 256 << 10, "the window admits a segment");
    assert_eq!(limited(None, 999, 0), 4 << 20, "it does not");
    assert_eq!(limited(Some(0), 1000, 0), 1, "there is always room for a byte");
    assert_eq!(limited(Some(5), 0, 0), 5);
    assert_eq!(limited(Some(9 << 20), 1000, 0), 8 << 20, "the buffer is the limit");
    // Connections that send in turns share the limit, down to a send call for each.
    let shared = [1, 2, 3, 1000, 100_000].map(|others| limited(None, 1000, others));
    assert_eq!(shared, [128 << 10, (256 << 10) / 3, 64 << 10, 64 << 10, 64 << 10]);
    assert_eq!((limited(None, 999, 9), limited(Some(5), 1000, 9)), (4 << 20, 5));
}

#[test]
fn a_writer_is_woken_for_a_quarter_of_the_buffer() {
    let config = Config { send_buffer: 4000, notsent_lowat: Some(4000), ..Config::default() };
    let mut snd = sender(100_000, &config);
    queue(&mut snd, 4000);
    send(&mut snd, 4);
    assert!(snd.buffer.free() == 0);
    let mut free_up_to = |ack, blocks| {
        snd.acknowledge(ack, 1000, Told::All, |_, _| {});
        snd.release_acknowledged();
        if blocks {
            snd.writer_blocked = true;
        }
        snd.wake_writer()
    };
    assert!(!free_up_to(1000, true), "999 bytes are free");
    assert!(free_up_to(1001, true));
    assert!(!free_up_to(1001, false), "nobody waits any more");
    // There has to be a need for data as well: at most half of the limit is unsent.
    let mut snd = sender(100_000, &Config { notsent_lowat: Some(2000), ..Config::default() });
    queue(&mut snd, 2000);
    snd.writer_blocked = true;
    snd.board.begin_burst(Burst::new(at(0)));
    snd.send_new(999, false);
    assert!(!snd.wake_writer());
    snd.send_new(1, false);
    assert!(snd.wake_writer());
}

/// RFC 3168, section 6.1.2: one reduction per window of data, confirmed by CWR on the next new segment.
#[test]
fn ece_is_answered_once_per_window() {
    let mut snd = sender(100_000, &Config::default());
    queue(&mut snd, 10_000);
    send(&mut snd, 5);
    assert!(snd.respond_to_ece());
    assert!(!snd.respond_to_ece() && snd.cwr_due);
    assert!(std::mem::take(&mut snd.cwr_due) && !std::mem::take(&mut snd.cwr_due));
    send(&mut snd, 2);
    snd.acknowledge(5001, 1000, Told::All, |_, _| {});
    assert!(snd.is_responding_to_ece() && !snd.respond_to_ece(), "up to the data in flight at the reduction");
    snd.acknowledge(6001, 1000, Told::All, |_, _| {});
    assert!(!snd.is_responding_to_ece() && snd.respond_to_ece());
}

/// RFC 9293, section 3.8.6.2.1: at least half of the largest window, or after the override timeout, once.
#[test]
fn segments_shortened_by_the_window_wait() {
    let mut snd = sender(1001, &Config::default());
    assert!(!snd.admits_shortened(499) && snd.admits_shortened(500));
    snd.override_sws = true;
    assert!(!snd.admits_shortened(0), "there has to be some room");
    assert!(snd.admits_shortened(1) && snd.admits_shortened(1), "until the segment is sent");
    queue(&mut snd, 1);
    snd.send_new(1, false);
    assert!(!snd.admits_shortened(1));
}

/// RFC 9293, section 3.10.7.4: an ACK of something not yet sent is not acceptable; neither is a SACK.
#[test]
fn sacks_of_unsent_data_are_refused() {
    let mut snd = sender(100_000, &Config::default());
    queue(&mut snd, 10_000);
    send(&mut snd, 3);
    let mut seen = Vec::new();
    assert_eq!(snd.sack((2001, 3002), 1000, |_, _| {}), None);
    assert_eq!(snd.sack((2001, 3001), 1000, |record, _| seen.push(record.start)), Some(1000));
    assert_eq!(snd.sack((2001, 3001), 1000, |_, _| {}), Some(0), "already known");
    assert_eq!(snd.acknowledge(3001, 1000, Told::All, |record, _| seen.push(record.start)), 2000);
    assert_eq!((seen, snd.flight_size()), (vec![2001, 1, 1001], 0));
}

#[test]
fn idle_time_and_pauses_are_measured() {
    let mut snd = sender(100_000, &Config::default());
    assert_eq!(snd.idle_since(), None, "nothing was sent");
    snd.on_transmission(at(10), None);
    assert_eq!(snd.idle_since(), Some(at(10)));
    snd.update_window(1, 1, 0, 0);
    assert_eq!(snd.idle_since(), None, "the window is closed");
    snd.on_app_limited(at(30));
    snd.on_app_limited(at(40));
    assert_eq!(snd.end_pause(at(50)), Span::from_millis(20), "from the first report on");
    assert_eq!(snd.end_pause(at(60)), Span::ZERO);
    snd.writer_blocked = true;
    snd.on_app_limited(at(70));
    assert_eq!(snd.end_pause(at(80)), Span::ZERO, "a writer that waits has more data");
}
