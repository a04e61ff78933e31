//! Runs of full-sized segments within a batch.

use std::ops::Range;
use std::sync::Mutex;

use longhaul_cc::{BuildParams, Congestion, Controller, ControllerFactory, Path, Sent};
use longhaul_units::Span;
use longhaul_wire::SackBlock;
use proptest::prelude::*;

use super::*;

/// Bytes of payload of a full-sized segment.
const MSS: usize = 524;

/// Controllers with and without pacing, and one that asks routers.
const CONTROLLERS: [&str; 4] = ["cubic", "copa-cubic", "bbr", "quick-start+cubic"];

/// Events of sent segments that a controller received.
#[derive(Clone, Debug, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

/// A controller that records what it is told of sent segments.
#[derive(Debug)]
struct Recording {
    inner: Congestion,
    told: Told,
}

#[derive(Clone, Debug)]
struct Recorder {
    inner: Box<dyn Controller>,
    told: Told,
}

impl ControllerFactory for Recording {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        Box::new(Recorder { inner: self.inner.build(params), told: self.told.clone() })
    }
    fn name(&self) -> String {
        self.inner.name()
    }
}

impl Controller for Recorder {
    longhaul_cc::forward_controller!(
        inner: name, needs, on_granted, on_ack, on_timeout, on_event, on_tick, next_tick, control, snapshot
    );

    fn on_sent(&mut self, event: &Sent, path: &Path) {
        self.told.0.lock().unwrap().push(format!("{event:?} {path:?}"));
        self.inner.on_sent(event, path);
    }
}

/// A step of the application, the peer or the clock.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write(usize),
    Shutdown,
    /// Acknowledges this many 64ths of the data in flight.
    Ack(u32),
    /// Reports the second half of the data in flight, so that the first is lost.
    Hole,
    /// Reports as many segments as this after the first one in flight.
    Late(u32),
    Echo,
    Window(u16),
    /// Sends this much data of the peer, in as many segments, of which the first may be lost.
    Data(u16, u8, bool),
    /// Lets this many milliseconds pass if nothing is in flight. The round trip thus takes no time, and the pacer,
    /// which counts by batches, has no effect.
    Wait(u64),
    /// Lets this many microseconds pass.
    Pass(u64),
}

fn timeless_steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_usize..30_000).prop_map(Step::Write),
        2 => (1_usize..40).prop_map(|segments| Step::Write(segments * MSS)),
        8 => (1_u32..=64).prop_map(Step::Ack),
        1 => Just(Step::Hole),
        2 => (1_u32..4).prop_map(Step::Late),
        1 => Just(Step::Echo),
        2 => (0_u16..40_000).prop_map(Step::Window),
        2 => (1_u16..1400, 1_u8..4, any::<bool>()).prop_map(|(len, segments, lost)| Step::Data(len, segments, lost)),
        3 => (1_u64..400).prop_map(Step::Wait),
        1 => Just(Step::Shutdown),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![3 => timeless_steps(), 1 => (1_u64..60_000).prop_map(Step::Pass)]
}

/// Header of a sent segment, and the stream offsets of its payload.
type Segment = (Header, Range<u64>);

/// A sender whose socket takes this many segments at once, and its peer's last segment.
struct End {
    endpoint: Endpoint,
    id: ConnId,
    header: Header,
    now: Time,
    max_segments: usize,
    /// Whether the connection is asked for more after every batch, even if it has announced it as the last one.
    asks_again: bool,
    told: Told,
}

impl End {
    fn new(controller: &str, probe_pairs: bool, max_segments: usize, round_trip: Span) -> Self {
        longhaul_zoo::register().unwrap();
        let told = Told::default();
        let congestion = Congestion::new(Recording { inner: controller.parse().unwrap(), told: told.clone() });
        let mut endpoint = listening(Config { congestion, probe_pairs, routers_answer: true, ..Config::default() });
        let syn = Header { flags: Flags::SYN | Flags::ECE | Flags::CWR, ..syn() };
        let syn = Header {
            options: longhaul_wire::Options {
                sack_permitted: true,
                network_permitted: true,
                ack_rate_permitted: true,
                ..syn.options
            },
            ..syn
        };
        let (id, mut header) = connect_in(&mut endpoint, tuple(there(), here()), &syn, round_trip);
        header.window = 40_000;
        Self { endpoint, id, header, now: NOW + round_trip, max_segments, asks_again: false, told }
    }

    /// Takes a step. Returns what is sent, what the controller is told of it, and counters of the connection.
    fn take(&mut self, step: Step) -> (Vec<Segment>, Vec<String>, Option<[u64; 7]>) {
        let in_flight = self.endpoint.connection(self.id).map_or(0, |c| c.info(self.now).in_flight.0) as u32;
        self.header.flags = Flags::ACK;
        self.header.options.sack = longhaul_wire::SackBlocks::default();
        let mut answers = true;
        match step {
            Step::Write(len) => {
                self.endpoint.drive(self.now, self.id, |c| c.write(&vec![7; len]).is_ok());
                answers = false;
            }
            Step::Shutdown => {
                self.endpoint.drive(self.now, self.id, Connection::shutdown);
                answers = false;
            }
            Step::Ack(part) => self.header.ack = self.header.ack.wrapping_add(in_flight / 64 * part),
            Step::Hole => {
                let (left, right) = (in_flight / 2, in_flight);
                let at = |offset| self.header.ack.wrapping_add(offset);
                self.header.options.sack = [SackBlock { left: at(left), right: at(right) }].into_iter().collect();
            }
            Step::Late(segments) => {
                let (left, right) = (in_flight.min(MSS as u32), in_flight.min((1 + segments) * MSS as u32));
                let at = |offset| self.header.ack.wrapping_add(offset);
                self.header.options.sack = [SackBlock { left: at(left), right: at(right) }].into_iter().collect();
            }
            Step::Echo => self.header.flags |= Flags::ECE,
            Step::Window(window) => self.header.window = window,
            Step::Data(len, segments, lost) => {
                let data = vec![9; len.into()];
                for number in 0..segments {
                    if number > 0 || !lost {
                        deliver(&mut self.endpoint, self.now, tuple(there(), here()), &self.header, &data);
                    }
                    self.header.seq = self.header.seq.wrapping_add(len.into());
                }
                answers = false;
            }
            Step::Pass(micros) => {
                self.now += Span::from_micros(micros);
                self.endpoint.handle_timeout(self.now);
                answers = false;
            }
            Step::Wait(millis) => {
                self.now += Span::from_millis(if in_flight == 0 { millis } else { 0 });
                self.endpoint.handle_timeout(self.now);
                answers = false;
            }
        }
        if answers {
            deliver(&mut self.endpoint, self.now, tuple(there(), here()), &self.header.clone(), &[]);
        }
        let (mut batch, mut sent) = (Batch::default(), Vec::new());
        while self.endpoint.poll_transmit(self.now, &mut batch, self.max_segments).is_some() {
            assert!(batch.segments.len() <= self.max_segments);
            let parts = batch.parts();
            sent.extend(parts.map(|(segment, header)| (CheshireCodec::parse(header).unwrap().0, segment.payload())));
            if self.asks_again {
                self.endpoint.drive(self.now, self.id, |_| ());
            }
        }
        let info = self.endpoint.connection(self.id).map(|connection| connection.info(self.now));
        let counters = info.map(|info| {
            let (sent, lost) = (info.bytes_sent, info.bytes_lost);
            let segments = [info.unacked_segments, info.data_segments_out, info.segments_retransmitted];
            [info.in_flight.0, info.unsent.0, sent, lost, segments[0], segments[1], segments[2]]
        });
        (sent, std::mem::take(&mut *self.told.0.lock().unwrap()), counters)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// The segments do not depend on how many of them the socket takes at once.
    #[test]
    fn batches_are_equal_to_their_segments(
        steps in prop::collection::vec(timeless_steps(), 1..40),
        controller in prop::sample::select(&CONTROLLERS[..]),
        probe_pairs in prop::bool::weighted(0.2),
    ) {
        let [mut runs, mut single] = [8, 1].map(|max_segments| End::new(controller, probe_pairs, max_segments, Span::ZERO));
        for step in steps {
            prop_assert_eq!(runs.take(step), single.take(step));
        }
    }

    /// After a batch that is announced as the last one, there is nothing to send, and nothing that asking changes.
    #[test]
    fn nothing_follows_the_last_batch(
        steps in prop::collection::vec(steps(), 1..40),
        controller in prop::sample::select([&CONTROLLERS[..], &["halfback(clock=segment)+cubic", "paced-start+cubic", "rc3+cubic"]].concat()),
        probe_pairs in prop::bool::weighted(0.2),
    ) {
        let [mut trusting, mut asking] = [(); 2].map(|()| End::new(controller, probe_pairs, 8, Span::from_millis(20)));
        asking.asks_again = true;
        for step in steps {
            prop_assert_eq!(trusting.take(step), asking.take(step));
            let timeouts = [&mut trusting, &mut asking].map(|end| end.endpoint.poll_timeout());
            prop_assert_eq!(timeouts[0], timeouts[1]);
        }
    }
}
