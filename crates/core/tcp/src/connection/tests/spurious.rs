//! Detection of spurious recovery episodes, with scripted ACKs; the tests check what the controller is notified of.
//!
//! Ten segments are sent at 0 ms over a path with a round-trip time of 100 ms, and the first is acknowledged at 100
//! ms. Segments are numbered from 0.

use std::sync::Mutex;

use longhaul_cc::{
    Ack, BuildParams, Congestion, Control, Controller, ControllerFactory, Detection, Episode, Granted, NeedError,
    Needs, Pace, Path, PathEvent, Timeout,
};
use longhaul_units::{Bytes, Rate};
use longhaul_wire::{CheshireCodec, Codec, Flags, Header, SackBlock, Timestamps};

use super::*;
use crate::connection::Connection;
use crate::seq;

mod reno;
mod timeouts;

/// Notifications to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Enter,
    Again,
    Exit,
    Timeout,
    /// The episode was spurious; `true` if it was a timeout.
    Undone(bool),
}

use Told::{Again, Enter, Exit, Undone};

/// State shared by a test and its controller.
#[derive(Debug, Default)]
struct Shared {
    told: Vec<Told>,
    /// Segments in flight at the last notification of a spurious episode.
    in_flight: u64,
    /// Window in segments that overrides the controller's.
    window: Option<u64>,
}

/// NewReno without pacing that records notifications and whose window can be overridden.
#[derive(Clone, Debug)]
struct Watched {
    shared: Arc<Mutex<Shared>>,
    detection: Option<Detection>,
}

#[derive(Clone, Debug)]
struct Watcher {
    inner: Box<dyn Controller>,
    watched: Watched,
    mss: Bytes,
}

impl ControllerFactory for Watched {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        let inner = "new-reno".parse::<Congestion>().unwrap().build(params);
        Box::new(Watcher { inner, watched: self.clone(), mss: params.mss })
    }
    fn name(&self) -> String {
        "watched".to_owned()
    }
}

impl Watcher {
    fn note(&self, told: Told) {
        self.watched.shared.lock().unwrap().told.push(told);
    }
}

impl Controller for Watcher {
    longhaul_cc::forward_controller!(inner: name, on_sent, on_tick, next_tick, snapshot);

    fn needs(&self) -> Needs {
        let mut needs = self.inner.needs();
        needs.preferred.detection = self.watched.detection;
        needs
    }
    fn on_granted(&mut self, granted: &Granted, path: &Path) -> Result<(), NeedError> {
        self.mss = path.mss;
        self.inner.on_granted(granted, path)
    }
    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        match event.episode {
            Episode::Enter => self.note(Enter),
            Episode::Again => self.note(Again),
            Episode::Exit => self.note(Exit),
            Episode::None | Episode::In | Episode::Rto => {}
        }
        self.inner.on_ack(event, path);
    }
    fn on_timeout(&mut self, event: &Timeout, path: &Path) {
        self.note(Told::Timeout);
        self.inner.on_timeout(event, path);
    }
    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        if let PathEvent::Spurious { timeout, in_flight, .. } = event {
            self.note(Undone(*timeout));
            self.watched.shared.lock().unwrap().in_flight = in_flight.0 / path.mss.0;
        }
        self.inner.on_event(event, path);
    }
    fn control(&self) -> Control {
        let mut control = self.inner.control();
        control.pace = Some(Pace::new(Rate::from_bits_per_sec(100_000_000_000)));
        if let Some(window) = self.watched.shared.lock().unwrap().window {
            control.cwnd = self.mss * window;
        }
        control
    }
}

/// Options of the connection and the amount of data.
#[derive(Clone, Copy)]
struct Setting {
    sack: bool,
    timestamps: bool,
    detection: Option<Detection>,
    segments: u64,
}

const STAMPED: Setting = Setting { sack: true, timestamps: true, detection: None, segments: 100 };
const PLAIN: Setting = Setting { timestamps: false, ..STAMPED };
const WITHOUT_SACK: Setting = Setting { sack: false, ..PLAIN };

/// Sender whose peer is scripted by the test.
struct Script {
    end: Endpoint,
    id: ConnId,
    begun: Time,
    now: Time,
    mss: u64,
    shared: Arc<Mutex<Shared>>,
    /// Send time in milliseconds and number of each segment.
    sent: Vec<(u64, u64)>,
}

impl Script {
    /// Connects, sends a window of ten segments, and delivers the ACK of the first.
    fn new(setting: Setting) -> Self {
        let mut script = Self::connected(setting);
        script.window(10);
        script.write(setting.segments);
        assert_eq!(script.ack(100, 1, 0, &[]), []);
        script
    }

    fn connected(Setting { sack, timestamps, detection, .. }: Setting) -> Self {
        let mut net = Net::new(Span::from_millis(50));
        let watched = Watched { shared: Arc::default(), detection };
        let shared = Arc::clone(&watched.shared);
        let congestion = Congestion::new(watched);
        let config = Config { congestion, sack, timestamps, base_plpmtu: 1472, ecn: false, ..Config::default() };
        let (id, _) = net.connect(config);
        let Net { now, ends: [end, _], .. } = net;
        let mss = u64::from(end.connection(id).unwrap().pmtu.mss());
        let mut script = Self { end, id, begun: now, now, mss, shared, sent: Vec::new() };
        // The window in the SYN-ACK is not scaled; the next ACK sets the final size.
        assert_eq!(script.ack(0, 0, 0, &[]), []);
        script
    }

    fn connection(&self) -> &Connection {
        self.end.connection(self.id).unwrap()
    }

    fn info(&self) -> Info {
        self.connection().info(self.now)
    }

    fn window(&mut self, segments: u64) {
        self.shared.lock().unwrap().window = Some(segments);
    }

    fn write(&mut self, segments: u64) {
        let data = vec![7; (segments * self.mss) as usize];
        assert_eq!(self.end.drive(self.now, self.id, |c| c.write(&data).unwrap()), Some(data.len()));
        self.poll();
    }

    fn poll(&mut self) {
        let mut batch = Batch::default();
        while self.end.poll_transmit(self.now, &mut batch, 64).is_some() {
            let millis = self.millis();
            let data = batch.segments.iter().filter(|segment| segment.payload_len > 0);
            self.sent.extend(data.map(|segment| (millis, (segment.payload_start - 1) / self.mss)));
        }
    }

    /// Milliseconds since the first segments were sent.
    fn millis(&self) -> u64 {
        self.now.since(self.begun).as_millis()
    }

    /// Fires the next timer that is due by `limit`; returns whether there was one.
    fn fire(&mut self, limit: Time) -> bool {
        let Some(next) = self.end.poll_timeout().filter(|next| *next <= limit) else { return false };
        self.now = self.now.max(next);
        self.end.handle_timeout(self.now);
        self.poll();
        true
    }

    /// Takes the notifications recorded since the last call.
    fn heard(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.shared.lock().unwrap().told)
    }

    /// Delivers an ACK at `millis` milliseconds that acknowledges all segments below `una`, echoes the timestamp of
    /// time `echo` and carries these SACK blocks. Returns all notifications since the last call.
    fn ack(&mut self, millis: u64, una: u64, echo: u64, blocks: &[(u64, u64)]) -> Vec<Told> {
        self.ack_bytes(millis, una * self.mss, echo, blocks)
    }

    fn ack_bytes(&mut self, millis: u64, una: u64, echo: u64, blocks: &[(u64, u64)]) -> Vec<Told> {
        let at = self.begun + Span::from_millis(millis);
        while self.fire(at) {}
        self.now = at;
        let connection = self.connection();
        let wire = |bytes: u64| seq::to_wire(connection.numbers.initial.iss, 1 + bytes);
        let seq = connection.numbers.acknowledgment(connection.rcv.next());
        let mut header = Header { flags: Flags::ACK, window: u16::MAX, seq, ack: wire(una), ..Header::default() };
        header.options.timestamps = connection.negotiated.timestamps.then(|| Timestamps {
            value: connection.rcv.ts_recent,
            echo: connection.numbers.clock.value(self.begun + Span::from_millis(echo)),
        });
        for (left, right) in blocks {
            header.options.sack.push(SackBlock { left: wire(left * self.mss), right: wire(right * self.mss) });
        }
        let mut datagram = [0; 60];
        let len = CheshireCodec::emit(&header, &mut datagram).unwrap();
        let mut meta = DatagramMeta::new(Net::tuple(1).remote, len);
        meta.tuple = Net::tuple(1);
        self.end.handle_datagram(self.now, &meta, &datagram[..len], None);
        self.poll();
        self.heard()
    }

    /// Delivers an ACK that reveals a loss.
    fn lose(&mut self, blocks: &[(u64, u64)]) {
        assert_eq!(self.ack(101, 1, 0, blocks), [Enter]);
    }

    /// Sets the window to one segment and waits for the retransmission timeout; returns its time.
    fn time_out(&mut self) -> u64 {
        self.window(1);
        while self.info().timeouts == 0 {
            assert!(self.fire(self.now + Span::from_secs(1)));
        }
        assert_eq!(self.heard(), [Told::Timeout]);
        let at = self.millis();
        assert_eq!(self.sent_again(), [(at, 1)]);
        // ACKs are timed in whole milliseconds.
        at + 1
    }

    /// Returns time and number of all retransmissions.
    fn sent_again(&self) -> Vec<(u64, u64)> {
        let is_again = |n: usize| self.sent[..n].iter().any(|before| before.1 == self.sent[n].1);
        (0..self.sent.len()).filter(|n| is_again(*n)).map(|n| self.sent[n]).collect()
    }

    /// Measures the reordering window in milliseconds: how long a segment may be overtaken before it is marked lost.
    fn patience(&mut self, millis: u64, una: u64) -> u64 {
        assert_eq!(self.ack(millis, una, 0, &[(una + 1, una + 2)]), []);
        let (from, before) = (self.now, self.info().recoveries);
        while self.info().recoveries == before {
            assert!(self.fire(from + Span::from_millis(200)));
        }
        (self.now.since(from).as_secs_f64() * 1e3).round() as u64
    }
}

/// RFC 3522, section 3.2: the ACK echoes a timestamp older than the retransmission's.
#[test]
fn a_late_original_is_detected_by_its_timestamp() {
    let mut script = Script::new(STAMPED);
    script.lose(&[(2, 5)]);
    assert_eq!(script.sent_again(), [(101, 1)]);
    assert_eq!(script.ack(110, 5, 0, &[]), [Undone(false)]);
    // In flight are segments 5 to 10, and 11 to 13, which were sent when the loss was detected.
    assert_eq!(script.shared.lock().unwrap().in_flight, 9);
    // The D-SACK that follows is not new information.
    assert_eq!(script.ack(202, 5, 0, &[(1, 2)]), []);
    let info = script.info();
    assert_eq!((info.recovery, info.recoveries, info.spurious_recoveries, info.dsacks), (RecoveryState::Open, 1, 1, 1));
    assert_eq!(script.sent_again(), [(101, 1)]);
}

/// RFC 3522, section 3.2, step 4: an equal timestamp is not a proof.
#[test]
fn the_retransmissions_own_timestamp_proves_nothing() {
    let mut script = Script::new(STAMPED);
    script.lose(&[(2, 5)]);
    assert_eq!(script.ack(110, 5, 101, &[]), []);
    assert_eq!(script.ack(205, 11, 101, &[]), [Exit]);
    assert_eq!(script.info().spurious_recoveries, 0);
}

/// RFC 3522, section 3.2, step 3, waits for the first ACK of new data. SACK blocks received before do not end the
/// wait.
#[test]
fn sack_blocks_do_not_end_the_wait_for_the_original() {
    let mut script = Script::new(STAMPED);
    script.lose(&[(2, 5)]);
    assert_eq!(script.ack(105, 1, 0, &[(2, 6)]), []);
    assert_eq!(script.ack(110, 6, 0, &[]), [Undone(false)]);
}

/// SACK blocks are no proof either: of two segments one was late, but the other was lost. ACKs of data above the hole
/// echo a timestamp older than any retransmission (RFC 7323, section 4.3). A peer cannot have the response undone by
/// forging the echo.
#[test]
fn one_late_segment_does_not_hide_a_lost_one() {
    for echo in [101, 0] {
        let mut script = Script::new(STAMPED);
        script.lose(&[(2, 3), (4, 7)]);
        assert_eq!(script.sent_again(), [(101, 1), (101, 3)]);
        assert_eq!(script.ack(110, 1, 0, &[(2, 7)]), [], "3 has arrived");
        assert_eq!(script.ack(205, 11, echo, &[]), [Exit], "and 1 has arrived for the first time");
        assert_eq!(script.ack(206, 11, 101, &[(3, 4)]), []);
        assert_eq!(script.info().spurious_recoveries, 0);
    }
}

/// RFC 3522, section 3.2, step 5: after the first ACK of new data, echoes are ignored; D-SACK still counts.
#[test]
fn only_the_timestamp_of_the_first_ack_of_new_data_counts() {
    let mut script = Script::new(STAMPED);
    script.lose(&[(2, 3), (4, 7)]);
    assert_eq!(script.ack(110, 3, 105, &[(4, 7)]), []);
    assert_eq!(script.ack(111, 7, 0, &[]), []);
    assert_eq!(script.ack(202, 7, 0, &[(1, 2)]), []);
    assert_eq!(script.ack(203, 7, 0, &[(3, 4)]), [Undone(false)]);
}

/// An ACK of half a segment proves nothing, whatever it echoes.
#[test]
fn half_a_segment_is_no_proof() {
    let mut script = Script::new(STAMPED);
    script.lose(&[(2, 5)]);
    let half = script.mss * 3 / 2;
    assert_eq!(script.ack_bytes(150, half, 0, &[]), []);
    assert_eq!(script.ack(205, 11, 0, &[]), [Exit]);
    assert_eq!(script.info().spurious_recoveries, 0);
}

/// After a spurious response, segments that were marked lost but not retransmitted are in flight again (RFC 4015,
/// section 3.2). The reordering window grows (RFC 8985, section 6.2, step 4), so that the next ACK does not mark them
/// lost again.
#[test]
fn segments_marked_lost_by_mistake_are_in_flight_again() {
    let mut script = Script::new(STAMPED);
    script.window(1);
    script.lose(&[(2, 3), (4, 6)]);
    script.window(10);
    assert_eq!(script.ack(110, 3, 0, &[(4, 6)]), [Undone(false)]);
    assert_eq!(script.shared.lock().unwrap().in_flight, 6, "3 and 6 to 10");
    // With the old reordering window, it would be lost at 0 + 101 + 25 ms.
    assert_eq!(script.ack(140, 6, 0, &[]), []);
    assert_eq!((script.sent_again(), script.info().recoveries), (vec![(101, 1)], 1));
}

/// RFC 2883: the D-SACK arrives a round trip after the retransmission, when the episode may be over.
#[test]
fn a_dsack_for_each_retransmission_undoes_the_response() {
    let mut script = Script::new(PLAIN);
    script.lose(&[(2, 5)]);
    assert_eq!(script.ack(110, 5, 0, &[]), [], "no proof without timestamps yet");
    assert_eq!(script.ack(200, 11, 0, &[]), [Exit]);
    assert_eq!(script.ack(202, 11, 0, &[(1, 2)]), [Undone(false)]);
    let info = script.info();
    assert_eq!((info.recovery, info.spurious_recoveries, info.dsacks), (RecoveryState::Open, 1, 1));
    assert_eq!(script.patience(203, 11), 50, "widened once, although there are two reasons");
}

#[test]
fn every_retransmission_needs_a_dsack() {
    let mut script = Script::new(PLAIN);
    script.lose(&[(2, 3), (4, 7)]);
    assert_eq!(script.ack(110, 7, 0, &[]), []);
    assert_eq!(script.ack(202, 7, 0, &[(1, 2)]), []);
    assert_eq!(script.ack(203, 7, 0, &[(3, 4)]), [Undone(false)]);
}

/// A D-SACK repeated for one segment does not hide the loss of another.
#[test]
fn a_repeated_dsack_counts_once() {
    let mut script = Script::new(PLAIN);
    script.lose(&[(2, 3), (4, 7)]);
    assert_eq!(script.ack(110, 3, 0, &[(4, 7)]), []);
    for at in 202..205 {
        assert_eq!(script.ack(at, 3, 0, &[(1, 2), (4, 7)]), [], "{at}");
    }
    assert_eq!(script.ack(210, 11, 0, &[]), [Exit]);
    assert_eq!((script.info().spurious_recoveries, script.info().dsacks), (0, 3));
}

/// The network may duplicate a retransmission, so that an honest peer sends a D-SACK for a lost segment. The ACK did
/// not arrive too early for the retransmission.
#[test]
fn a_dsack_after_an_ack_that_was_not_early_undoes_nothing() {
    let mut script = Script::new(PLAIN);
    script.lose(&[(2, 5)]);
    assert_eq!(script.ack(201, 11, 0, &[]), [Exit], "one round trip later");
    assert_eq!(script.ack(202, 11, 0, &[(1, 2)]), []);
    assert_eq!(script.info().spurious_recoveries, 0);
}

/// RFC 3708, section 3: a segment that was sent once was duplicated by the network.
#[test]
fn a_dsack_of_a_segment_sent_once_is_ignored() {
    let mut script = Script::new(PLAIN);
    script.lose(&[(2, 5)]);
    assert_eq!(script.ack(110, 6, 0, &[]), []);
    assert_eq!(script.ack(111, 6, 0, &[(5, 6)]), []);
    assert_eq!(script.ack(202, 6, 0, &[(1, 2)]), [Undone(false)], "it does not count for this episode");
    assert_eq!(script.info().dsacks, 2);
}

/// A D-SACK for a retransmission of an earlier episode does not count in this one.
#[test]
fn dsacks_of_an_earlier_episode_do_not_count() {
    let mut script = Script::new(PLAIN);
    script.lose(&[(2, 5)]);
    assert_eq!(script.ack(202, 11, 0, &[]), [Exit]);
    assert_eq!(script.ack(203, 14, 0, &[]), []);
    assert_eq!(script.ack(303, 14, 0, &[(15, 18)]), [Enter]);
    assert_eq!(script.ack(310, 18, 0, &[]), []);
    assert_eq!(script.ack(311, 18, 0, &[(1, 2)]), []);
    assert_eq!(script.ack(405, 18, 0, &[(14, 15)]), [Undone(false)]);
    assert_eq!(script.sent_again(), [(101, 1), (303, 14)]);
}

/// A lost retransmission causes a second congestion response. If the third copy turns out to be needless, neither is
/// undone.
#[test]
fn a_second_congestion_response_cannot_be_undone() {
    let mut script = Script::new(STAMPED);
    script.lose(&[(2, 5)]);
    assert_eq!(script.ack(203, 1, 0, &[(2, 14)]), [Again]);
    assert_eq!(script.sent_again(), [(101, 1), (203, 1)]);
    assert_eq!(script.ack(210, 14, 101, &[]), [Exit]);
    assert_eq!(script.ack(304, 14, 101, &[(1, 2)]), []);
    assert_eq!(script.info().spurious_recoveries, 0);
}

/// RFC 8985, section 6.2, step 4: the reordering window is a quarter of the minimum round-trip time, and another
/// quarter for each round trip with a D-SACK.
#[test]
fn the_reordering_window_grows_once_per_round_trip() {
    for (second, patience) in [(204, 50), (304, 75)] {
        let mut script = Script::new(PLAIN);
        script.lose(&[(2, 3), (4, 7)]);
        assert_eq!(script.ack(202, 11, 0, &[]), [Exit]);
        assert_eq!(script.ack(203, 11, 0, &[(1, 2)]), []);
        if second < 303 {
            assert_eq!(script.ack(second, 11, 0, &[(3, 4)]), []);
        }
        assert_eq!(script.ack(303, 21, 0, &[]), [], "everything sent before the first D-SACK");
        if second > 303 {
            assert_eq!(script.ack(second, 21, 0, &[(3, 4)]), []);
        }
        assert_eq!(script.patience(404, 21), patience, "{second}");
    }
}

/// A peer that repeats a D-SACK in each round trip increases the reordering window only once per retransmission.
#[test]
fn no_more_dsacks_count_than_segments_were_retransmitted() {
    let mut script = Script::new(PLAIN);
    script.lose(&[(2, 5)]);
    assert_eq!(script.ack(202, 11, 0, &[]), [Exit]);
    assert_eq!(script.ack(203, 11, 0, &[(1, 2)]), []);
    assert_eq!(script.ack(303, 21, 0, &[]), []);
    assert_eq!(script.ack(304, 21, 0, &[(1, 2)]), []);
    assert_eq!((script.patience(404, 21), script.info().dsacks), (50, 2));
    let mut script = Script::new(PLAIN);
    assert_eq!(script.ack(101, 1, 0, &[(0, 1)]), []);
    assert_eq!((script.patience(102, 1), script.info().dsacks), (25, 1), "nothing was retransmitted");
}

/// RFC 8985, section 6.2, step 4: 16 recoveries after the last D-SACK, the reordering window is reset.
#[test]
fn the_reordering_window_is_reset_after_16_recoveries() {
    for (recoveries, patience) in [(15, 50), (16, 25)] {
        let mut script = Script::new(PLAIN);
        script.lose(&[(2, 5)]);
        assert_eq!(script.ack(202, 11, 0, &[]), [Exit]);
        assert_eq!(script.ack(203, 11, 0, &[(1, 2)]), []);
        let (mut at, mut una) = (303, 21);
        assert_eq!(script.ack(at, una, 0, &[]), []);
        for _ in 0..recoveries {
            script.write(13);
            assert_eq!(script.ack(at + 101, una, 0, &[(una + 1, una + 4)]), [Enter]);
            (at, una) = (at + 202, script.sent.iter().map(|sent| sent.1).max().unwrap() + 1);
            assert_eq!(script.ack(at, una, 0, &[]), [Exit]);
        }
        assert_eq!(script.patience(at + 101, una), patience, "{recoveries}");
    }
}

/// RFC 4015, section 3.2: window and threshold are restored.
#[test]
fn the_controller_restores_window_and_threshold() {
    let mut script = Script::connected(STAMPED);
    script.write(100);
    assert_eq!(script.ack(100, 1, 0, &[]), []);
    let before = script.info();
    assert_eq!((before.cwnd.0 / script.mss, before.ssthresh), (11, None));
    script.lose(&[(2, 5)]);
    assert!(script.info().ssthresh.unwrap() < before.cwnd);
    assert_eq!(script.ack(110, 5, 0, &[]), [Undone(false)]);
    let after = script.info();
    assert!(after.cwnd >= before.cwnd && after.ssthresh.is_none(), "{after:?}");
}
