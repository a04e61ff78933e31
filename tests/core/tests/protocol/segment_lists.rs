//! Transmission, time and outcome of individual segments, for a controller that requests this information.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use longhaul_cc::{
    Ack, BuildParams, Congestion, Control, Controller, ControllerFactory, Detection, Needs, Path, PathEvent, Sent,
    Timeout, TxId,
};
use longhaul_link::{LinkConfig, Loss};
use longhaul_sim::{Plan, Setup, Sim};
use longhaul_units::{Bytes, Rate, Span, Time};

/// Information that a controller has about one transmission.
#[derive(Clone, Copy)]
struct Told {
    sent: Sent,
    /// Number of bytes reported lost before this transmission.
    lost_before: u64,
    acked: bool,
    lost: bool,
}

#[derive(Default)]
struct Record {
    told: HashMap<TxId, Told>,
    newly_lost: u64,
    timeouts: u32,
    acked: u32,
    lost: u32,
    retransmissions_lost: u32,
    broken: Option<String>,
}

impl Record {
    fn check(&mut self, holds: bool, what: impl Fn() -> String) {
        if !holds {
            self.broken.get_or_insert_with(what);
        }
    }

    fn on_sent(&mut self, sent: &Sent) {
        let told = Told { sent: *sent, lost_before: self.newly_lost, acked: false, lost: false };
        let before = self.told.insert(sent.tx, told);
        self.check(before.is_none(), || format!("{:?} left twice", sent.tx));
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let mut bytes = (0, 0);
        for segment in ack.acked {
            bytes.0 += segment.bytes.0;
            self.acked += 1;
            let told = self.look_up(segment.tx, segment.sent_at, segment.bytes, segment.tag);
            self.check(told.sent.kind == segment.kind && !told.acked, || format!("{segment:?}"));
            self.told.insert(segment.tx, Told { acked: true, ..told });
        }
        for segment in ack.lost {
            bytes.1 += segment.bytes.0;
            self.lost += 1;
            let told = self.look_up(segment.tx, segment.sent_at, segment.bytes, segment.tag);
            self.check(!told.acked && !told.lost, || format!("lost twice or after its delivery: {segment:?}"));
            self.retransmissions_lost += u32::from(told.sent.kind == longhaul_cc::SegmentKind::Retransmit);
            let at_least = told.sent.in_flight_before + told.sent.bytes;
            self.check(segment.in_flight_at_send >= at_least, || format!("{segment:?}, but {at_least} in flight"));
            if self.timeouts == 0 {
                let lost = told.lost_before;
                self.check(segment.lost_at_send == Bytes(lost), || format!("{segment:?}, but {lost} were lost"));
            }
            self.told.insert(segment.tx, Told { lost: true, ..told });
        }
        self.newly_lost += ack.newly_lost.0;
        // A FIN occupies one sequence number, but is no payload.
        let (lost, newly) = (bytes.1, ack.newly_lost.0);
        self.check(newly == lost || newly == lost + 1, || format!("{lost} of {newly} bytes lost are listed"));
        let (acked, delivered) = (bytes.0, ack.delivered.0);
        self.check(delivered == acked || delivered == acked + 1, || format!("{acked} of {delivered} listed"));
    }

    fn look_up(&mut self, tx: TxId, sent_at: Time, bytes: Bytes, tag: u16) -> Told {
        let Some(told) = self.told.get(&tx).copied() else {
            self.check(false, || format!("{tx:?} never left"));
            return Told { sent: Sent::new(sent_at, tx, bytes), lost_before: 0, acked: false, lost: false };
        };
        let same = told.sent.now == sent_at && told.sent.bytes == bytes && told.sent.tag == tag;
        self.check(same, || format!("{tx:?} at {sent_at}, {bytes}, tag {tag}: it was {:?}", told.sent));
        told
    }
}

/// A controller that records the events of another one.
#[derive(Clone, Debug)]
struct Recorder {
    inner: Box<dyn Controller>,
    asks: bool,
    detection: Detection,
    sends: u16,
    record: Arc<Mutex<Record>>,
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Record")
    }
}

impl Recorder {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().expect("no test panics with it")
    }
}

impl Controller for Recorder {
    longhaul_cc::forward_controller!(inner: name, on_tick, next_tick, snapshot);

    fn needs(&self) -> Needs {
        let mut needs = self.inner.needs();
        needs.preferred.segments = self.asks;
        needs.required.detection = (self.detection != Detection::DuplicateAcks).then_some(self.detection);
        needs
    }

    fn on_granted(&mut self, granted: &longhaul_cc::Granted, path: &Path) -> Result<(), longhaul_cc::NeedError> {
        assert_eq!((granted.segments, granted.detection), (self.asks, self.detection));
        self.inner.on_granted(granted, path)
    }

    fn on_sent(&mut self, event: &Sent, path: &Path) {
        self.sends = self.sends.wrapping_add(1);
        self.record().on_sent(event);
        self.inner.on_sent(event, path);
    }

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        if self.asks {
            self.record().on_ack(event);
        } else {
            assert!(event.acked.is_empty() && event.lost.is_empty());
        }
        self.inner.on_ack(event, path);
    }

    fn on_timeout(&mut self, event: &Timeout, path: &Path) {
        self.record().timeouts += 1;
        self.inner.on_timeout(event, path);
    }

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        if matches!(event, PathEvent::Spurious { .. }) {
            // Segments that are no longer marked lost may be marked, and reported, again.
            self.record().told.values_mut().for_each(|told| told.lost = false);
        }
        self.inner.on_event(event, path);
    }

    fn control(&self) -> Control {
        let mut control = self.inner.control();
        control.tag = self.sends;
        control
    }
}

#[derive(Debug)]
struct RecorderFactory {
    asks: bool,
    detection: Detection,
    record: Arc<Mutex<Record>>,
}

impl ControllerFactory for RecorderFactory {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        let (asks, detection, record) = (self.asks, self.detection, Arc::clone(&self.record));
        let inner = Congestion::default().build(params);
        Box::new(Recorder { inner, asks, detection, sends: 0, record })
    }

    fn name(&self) -> String {
        "recorder".to_owned()
    }
}

/// Transfers 1 MB over a lossy path, and returns the events of the sender's controller.
fn transfer(seed: u64, detection: Detection, asks: bool) -> Arc<Mutex<Record>> {
    let rate = Rate::from_bits_per_sec(20_000_000);
    let link = LinkConfig::new(rate, Span::from_millis(10)).loss(Loss::Uniform(0.03));
    let mut setup = Setup::symmetric(seed, link);
    let record = Arc::default();
    let factory = RecorderFactory { asks, detection, record: Arc::clone(&record) };
    let config = Arc::make_mut(&mut setup.hosts[0].config);
    config.sack = detection != Detection::DuplicateAcks;
    config.congestion = Congestion::new(factory);
    // If the segment size changed, segments in flight would be split, and the parts would be other segments.
    config.max_plpmtu = config.base_plpmtu;
    let mut sim = Sim::new(setup);
    let (client, server) = sim.open(Plan::bulk(1 << 20), Plan::sink());
    assert!(sim.run(Span::from_secs(300), Sim::all_done));
    assert!(sim.session(client).ended_well() && sim.session(server).ended_well());
    record
}

/// Each transmission marked lost is listed once, with the time, size, tag and counters at its transmission. The
/// listed sizes add up to the totals of the ACK.
#[test]
fn acknowledged_and_lost_segments_are_listed_with_their_snapshots() {
    for detection in [Detection::RackTlp, Detection::Sack, Detection::DuplicateAcks] {
        let (mut lost, mut again) = (0, 0);
        for seed in 0..10 {
            let record = transfer(seed, detection, true);
            let record = record.lock().unwrap();
            assert_eq!(record.broken, None, "{detection:?} {seed}");
            assert!(record.acked > 500 && record.lost > 0, "{detection:?} {seed}: {} {}", record.acked, record.lost);
            lost += record.lost;
            again += record.retransmissions_lost;
        }
        assert!(lost > 100, "{detection:?}: {lost}");
        // Only RACK detects lost retransmissions (RFC 8985, section 3.2).
        assert!(again > 0 || detection != Detection::RackTlp, "{detection:?}");
    }
}

/// A controller that does not request lists of segments gets none.
#[test]
fn nothing_is_listed_unasked() {
    let record = transfer(1, Detection::RackTlp, false);
    assert!(!record.lock().unwrap().told.is_empty());
}
