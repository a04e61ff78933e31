//! A single bottleneck for tests of individual controllers. Packets are sent at the pacing rate, wait in a queue that
//! drops packets when it is full, and are acknowledged individually after a fixed delay.

use std::collections::VecDeque;

use longhaul_units::{Bytes, Rate, Span, Time};

use longhaul_cc::{
    Ack, BuildParams, Congestion, Control, Controller, Episode, Granted, LostSegment, Path, PathEvent, RateSample,
    RttSample, SendLimit, Sent, TxId,
};

pub(crate) const MSS: Bytes = Bytes(1000);

/// Returns whether `value` differs from `expected` by at most `part` of it.
pub(crate) fn near(value: f64, expected: f64, part: f64) -> bool {
    (value - expected).abs() <= expected * part
}

struct Packet {
    tx: TxId,
    sent_at: Time,
    /// Time at which its acknowledgment arrives; `None` if it is lost.
    acked_at: Option<Time>,
    in_flight: Bytes,
    delivered: Bytes,
    delivered_at: Time,
    first_sent_at: Time,
    lost: Bytes,
    app_limited: bool,
}

/// Start of a phase, and the controller's decisions at that time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) at: f64,
    pub(crate) phase: &'static str,
    pub(crate) control: Control,
    pub(crate) in_flight: Bytes,
}

pub(crate) struct World {
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) path: Path,
    pub(crate) now: Time,
    /// Rate of the bottleneck, bytes/s.
    pub(crate) rate: f64,
    pub(crate) rtt: Span,
    /// Capacity of the bottleneck's queue.
    pub(crate) queue: Bytes,
    /// Whether a packet is lost on the way, by its number.
    pub(crate) drop: fn(u64) -> bool,
    /// Rate that the application offers, bytes/s, if it is limited.
    pub(crate) offer: Option<f64>,
    pub(crate) delivered: Bytes,
    pub(crate) in_flight: Bytes,
    pub(crate) lost: Bytes,
    pub(crate) steps: Vec<Step>,
    /// Time and RTT of each acknowledged packet.
    pub(crate) rtts: Vec<(f64, Span)>,
    packets: VecDeque<Packet>,
    free_at: Time,
    send_at: Time,
    offered_at: Time,
    delivered_at: Time,
    first_sent_at: Time,
    app_limited_until: Option<Bytes>,
    next_tx: u64,
    recovery_point: Option<u64>,
    round_end: u64,
    cwnd_limited: bool,
}

const START: Time = Time::from_nanos(7_000_000_000);

impl World {
    pub(crate) fn new(name: &str, bytes_per_sec: f64, rtt: Span, queue: Bytes) -> Self {
        let congestion: Congestion = name.parse().expect("a name");
        let mut controller = congestion.build(&BuildParams::default());
        let mut path = Path::new(MSS);
        (path.srtt, path.min_rtt) = (Some(rtt), Some(rtt));
        let mut granted = Granted::basic();
        granted.segments = true;
        controller.on_granted(&granted, &path).expect("granted");
        controller.on_event(&PathEvent::Established { now: START, granted }, &path);
        Self {
            controller,
            path,
            now: START,
            rate: bytes_per_sec,
            rtt,
            queue,
            drop: |_| false,
            offer: None,
            delivered: Bytes::ZERO,
            in_flight: Bytes::ZERO,
            lost: Bytes::ZERO,
            steps: Vec::new(),
            rtts: Vec::new(),
            packets: VecDeque::new(),
            free_at: START,
            send_at: START,
            offered_at: START,
            delivered_at: START,
            first_sent_at: START,
            app_limited_until: None,
            next_tx: 1,
            recovery_point: None,
            round_end: 0,
            cwnd_limited: false,
        }
    }

    pub(crate) fn control(&self) -> Control {
        self.controller.control()
    }

    pub(crate) fn phase(&self) -> &'static str {
        self.controller.snapshot().phase
    }

    /// Returns the pacing rate, bytes/s.
    pub(crate) fn pace(&self) -> f64 {
        self.control().pace.expect("a pace").rate.as_bytes_per_sec() as f64
    }

    pub(crate) fn bandwidth(&self) -> f64 {
        self.controller.snapshot().bandwidth.map_or(0.0, |rate: Rate| rate.as_bytes_per_sec() as f64)
    }

    pub(crate) fn seconds(&self) -> f64 {
        (self.now - START).as_secs_f64()
    }

    /// Runs until `seconds` have passed since the start.
    pub(crate) fn run_to(&mut self, seconds: f64) {
        self.run_until(seconds, |_| false);
    }

    /// Runs until `seconds` or until `done`, and returns whether it was done.
    pub(crate) fn run_until(&mut self, seconds: f64, mut done: impl FnMut(&Self) -> bool) -> bool {
        while self.seconds() < seconds {
            if done(self) {
                return true;
            }
            let acked_at = self.packets.iter().find_map(|packet| packet.acked_at);
            match (self.may_send_at(), acked_at) {
                (Some(send), Some(ack)) if ack < send => self.acknowledge(ack),
                (Some(send), _) => self.send(send),
                (None, Some(ack)) => self.acknowledge(ack),
                (None, None) => panic!("stuck at {} s", self.seconds()),
            }
            self.log();
        }
        false
    }

    fn log(&mut self) {
        let phase = self.phase();
        if self.steps.last().is_none_or(|step| step.phase != phase) {
            let (at, control, in_flight) = (self.seconds(), self.control(), self.in_flight);
            self.steps.push(Step { at, phase, control, in_flight });
        }
    }

    fn may_send_at(&mut self) -> Option<Time> {
        let fits = self.in_flight + MSS <= self.control().cwnd;
        self.cwnd_limited |= !fits;
        fits.then(|| self.now.max(self.send_at).max(self.offered_at))
    }

    fn send(&mut self, at: Time) {
        let waited_for_data = self.offer.is_some() && at == self.offered_at && at > self.send_at;
        self.now = at;
        if waited_for_data {
            self.app_limited_until = Some(self.delivered + self.in_flight);
        }
        if self.in_flight == Bytes::ZERO {
            (self.delivered_at, self.first_sent_at) = (at, at);
        }
        let tx = TxId(self.next_tx);
        self.next_tx += 1;
        let mut event = Sent::new(at, tx, MSS);
        event.in_flight_before = self.in_flight;
        self.in_flight += MSS;
        self.controller.on_sent(&event, &self.path);
        let acked_at = self.transmit(at, tx.0);
        self.packets.push_back(Packet {
            tx,
            sent_at: at,
            acked_at,
            in_flight: self.in_flight,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            lost: self.lost,
            app_limited: self.app_limited_until.is_some(),
        });
        self.send_at = at + Span::from_secs_f64(MSS.as_f64() / self.pace());
        if let Some(offer) = self.offer {
            self.offered_at = self.offered_at.max(at) + Span::from_secs_f64(MSS.as_f64() / offer);
        }
    }

    /// Sends a packet through the bottleneck, and returns when its acknowledgment arrives.
    fn transmit(&mut self, at: Time, number: u64) -> Option<Time> {
        let waiting = (self.free_at - at).as_secs_f64() * self.rate;
        if waiting + MSS.as_f64() > self.queue.as_f64() || (self.drop)(number) {
            return None;
        }
        self.free_at = self.free_at.max(at) + Span::from_secs_f64(MSS.as_f64() / self.rate);
        Some(self.free_at + self.rtt)
    }

    /// Acknowledges the next packet that arrived. Those before it are lost.
    fn acknowledge(&mut self, at: Time) {
        self.now = at;
        let prior_in_flight = self.in_flight;
        let mut gone = Vec::new();
        let packet = loop {
            let packet = self.packets.pop_front().expect("a packet that arrived");
            if packet.acked_at.is_some() {
                break packet;
            }
            let mut lost = LostSegment::new(packet.tx, packet.sent_at, MSS);
            (lost.in_flight_at_send, lost.lost_at_send) = (packet.in_flight, packet.lost);
            gone.push(lost);
        };
        let rtt = at - packet.sent_at;
        self.rtts.push((self.seconds(), rtt));
        self.delivered += MSS;
        self.delivered_at = at;
        let newly_lost = MSS * gone.len() as u64;
        self.lost += newly_lost;
        self.in_flight -= MSS + newly_lost;
        if self.app_limited_until.is_some_and(|until| self.delivered > until) {
            self.app_limited_until = None;
        }
        longhaul_conformance::testing::smoothed::observe(&mut self.path, rtt, prior_in_flight);
        let mut ack = Ack::new(at);
        ack.rate = Some(self.sample(&packet));
        ack.rtt = Some(RttSample::new(rtt, packet.sent_at));
        (ack.delivered, ack.cumulative, ack.newly_lost) = (MSS, MSS, newly_lost);
        (ack.total_delivered, ack.prior_in_flight, ack.in_flight) = (self.delivered, prior_in_flight, self.in_flight);
        ack.episode = self.episode(packet.tx.0, newly_lost > Bytes::ZERO);
        ack.limit = if self.offer.is_some() { SendLimit::App } else { SendLimit::Pacing };
        (ack.cwnd_limited, ack.lost) = (self.cwnd_limited, &gone);
        if packet.tx.0 >= self.round_end {
            (self.round_end, self.cwnd_limited) = (self.next_tx, false);
        }
        self.controller.on_ack(&ack, &self.path);
    }

    fn sample(&mut self, packet: &Packet) -> RateSample {
        let send = packet.sent_at - packet.first_sent_at;
        let arrive = self.delivered_at - packet.delivered_at;
        self.first_sent_at = packet.sent_at;
        let mut sample = RateSample::new(self.delivered - packet.delivered, send.max(arrive));
        sample.prior_delivered = packet.delivered;
        sample.tx_in_flight = packet.in_flight;
        sample.lost = self.lost - packet.lost;
        sample.app_limited = packet.app_limited;
        sample
    }

    fn episode(&mut self, acked: u64, lossy: bool) -> Episode {
        match self.recovery_point {
            Some(point) if acked < point => Episode::In,
            _ if lossy => {
                self.recovery_point = Some(self.next_tx);
                Episode::Enter
            }
            Some(_) => {
                self.recovery_point = None;
                Episode::Exit
            }
            None => Episode::None,
        }
    }
}
