//! Driver that runs a controller inside a QUIC stack.

mod kept;
mod losses;
mod pace;

pub use kept::Kept;

use longhaul_cc::{
    Ack, AckedSegment, Control, Controller, Episode, LostSegment, Path, PathEvent, RttSample, SendLimit, Sent, TxId,
};
use longhaul_units::{Bytes, Span, Time};

use crate::Choice;
use crate::ring::{Entry, Ring, Taken};
use crate::rounds::Rounds;
use crate::rtt::{self, Undelayed};
use crate::sampler::Sampler;

/// Maximum window: s2n-quic stores it in 32 bits, and quinn does not pace larger windows.
pub(crate) const MAX_WINDOW: Bytes = Bytes(u32::MAX as u64);
/// Number of transmissions that are tracked in addition to two windows of full-sized packets.
const SMALL_PACKETS: u64 = 1024;
/// Maximum number of consecutive ticks that one callback catches up on.
const TICKS: usize = 4;

/// An acknowledged packet as the stack reports it.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// Time at which the packet was sent.
    pub sent_at: Time,
    /// Packet number, if the stack reports it.
    pub number: Option<u64>,
    /// Packet size in bytes.
    pub bytes: u64,
    /// Whether the application had nothing to send before this ACK.
    pub app_limited: bool,
}

/// A congestion event as the stack reports it.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// Time at which the newest lost or marked packet was sent.
    pub sent_at: Time,
    /// Total size of the lost packets in bytes.
    pub bytes: u64,
    /// Whether the loss counts as persistent congestion (RFC 9002, section 7.6).
    pub persistent: bool,
}

/// Turns the callbacks of a stack into the events of a [`Controller`], and keeps its latest decisions.
///
/// Calls may arrive in any order and with any values: reports that match no transmission are ignored.
#[derive(Debug)]
pub struct Driver {
    choice: Choice,
    controller: Box<dyn Controller>,
    control: Control,
    path: Path,
    /// Latest time seen so far.
    now: Time,
    /// Whether the controller has received the path, which is reported with the first RTT.
    established: bool,
    ring: Ring,
    sampler: Sampler,
    rounds: Rounds,
    undelayed: Undelayed,
    in_flight: Bytes,
    next_tx: u64,
    /// Newest acknowledged transmission of an earlier ACK.
    settled: u64,
    /// Time since which nothing has been in flight.
    idle_since: Option<Time>,
    /// Number of the first transmission after the last congestion event, until it or a later one is acknowledged.
    recovery: Option<u64>,
    after_timeout: bool,
    /// Whether the last congestion event may still turn out to be spurious, and whether it was a timeout.
    undoable: Option<bool>,
    congestion_seen: bool,
    /// Time at which the last response to a mark began.
    marked_at: Option<Time>,
    batch: Batch,
    lost: Vec<LostSegment>,
    largest_lost: Option<u64>,
}

/// Acknowledged packets since the last end of an ACK.
#[derive(Debug, Default)]
struct Batch {
    acked: Vec<AckedSegment>,
    newest: Option<Entry>,
    delivered: Bytes,
    packets: u32,
    app_limited: bool,
    /// Time of the last ACK, and the bytes in flight before it.
    last: Option<(Time, Bytes)>,
    /// Part of the RTT for which the peer delayed the ACK.
    ack_delay: Span,
}

impl Driver {
    /// Creates a driver for a path with datagrams of `mtu` bytes.
    #[must_use]
    pub fn new(choice: &Choice, now: Time, mtu: u16) -> Self {
        let mut path = Path::new(Bytes(u64::from(mtu.max(1))));
        path.paced = choice.granted().pacing;
        let controller = choice.build(path.mss);
        Self {
            choice: choice.clone(),
            control: controller.control(),
            controller,
            path,
            now,
            established: false,
            ring: Ring::default(),
            sampler: Sampler::new(now),
            rounds: Rounds::default(),
            undelayed: Undelayed::default(),
            in_flight: Bytes::ZERO,
            next_tx: 0,
            settled: 0,
            idle_since: None,
            recovery: None,
            after_timeout: false,
            undoable: None,
            congestion_seen: false,
            marked_at: None,
            batch: Batch::default(),
            lost: Vec::new(),
            largest_lost: None,
        }
    }

    /// Returns a driver for the new path after a migration, with a clone of the controller and nothing in flight.
    #[must_use]
    pub fn migrated(&self) -> Self {
        Self {
            choice: self.choice.clone(),
            controller: self.controller.clone(),
            sampler: self.sampler.clone(),
            ring: Ring::default(),
            in_flight: Bytes::ZERO,
            recovery: None,
            undoable: None,
            idle_since: None,
            batch: Batch::default(),
            undelayed: Undelayed::default(),
            lost: Vec::new(),
            largest_lost: None,
            ..*self
        }
    }

    /// A packet, or a batch of packets, was sent.
    pub fn on_sent(&mut self, at: Time, number: Option<u64>, bytes: u64) {
        let Some(entry) = self.send(at, number, bytes) else { return };
        if !self.joins_last(&entry) {
            let full = self.control.cwnd.0 / self.path.mss.0.max(1);
            self.ring.push(entry, usize::try_from(full * 2 + SMALL_PACKETS).unwrap_or(usize::MAX));
        }
    }

    /// Records a transmission and reports it to the controller.
    fn send(&mut self, at: Time, number: Option<u64>, bytes: u64) -> Option<Entry> {
        let now = self.advance(at);
        let bytes = Bytes(bytes.min(MAX_WINDOW.0));
        if bytes == Bytes::ZERO {
            return None;
        }
        let before = self.in_flight;
        let idle = before == Bytes::ZERO;
        let pause = self.idle_since.take().filter(|_| idle).map_or(Span::ZERO, |since| now.since(since));
        if idle && self.established && pause > rtt::rto(&self.path) {
            self.tell(&PathEvent::IdleRestart { now, idle: pause });
        }
        self.in_flight += bytes;
        let (tx, tag) = (self.next_tx, self.control.tag);
        self.next_tx += 1;
        let snapshot = self.sampler.snapshot(now, idle, self.in_flight);
        self.rounds.limited |= self.in_flight + self.path.mss > self.control.cwnd;
        if self.established {
            let mut event = Sent::new(now, TxId(tx), bytes);
            (event.in_flight_before, event.tag, event.pause) = (before, tag, pause);
            self.controller.on_sent(&event, &self.path);
            self.refresh();
        }
        Some(Entry { tx, number, stamp: at, sent_at: now, bytes: bytes.0, left: bytes.0, tag, snapshot })
    }

    /// Adds a batch to the previous one if both were sent at the same time, because a stack that reports no packet
    /// numbers identifies batches by their time.
    fn joins_last(&mut self, next: &Entry) -> bool {
        let is_same = |last: &&mut Entry| (last.number, next.number, last.stamp) == (None, None, next.stamp);
        let last = self.ring.newest_mut().filter(is_same);
        if let Some(last) = last {
            (last.bytes, last.left) = (last.bytes.saturating_add(next.bytes), last.left.saturating_add(next.bytes));
            (last.tx, last.snapshot.in_flight) = (next.tx, next.snapshot.in_flight);
            return true;
        }
        false
    }

    /// Records that the window limited transmission.
    pub const fn on_cwnd_limited(&mut self) {
        self.rounds.limited = true;
    }

    /// Records that a packet was acknowledged. [`on_end_acks`](Self::on_end_acks) reports it to the controller.
    pub fn on_acked(&mut self, at: Time, acked: Acked) {
        let now = self.advance(at);
        let Some(taken) = self.ring.acked(acked.sent_at, acked.number, acked.bytes) else { return };
        if self.batch.newest.is_none() {
            self.batch.last = Some((now, self.in_flight));
            self.batch.app_limited = acked.app_limited;
            if acked.app_limited && self.in_flight < self.control.cwnd {
                self.sampler.on_app_limited(self.in_flight);
            }
        }
        self.batch.delivered += taken.bytes();
        self.batch.packets += 1;
        self.in_flight -= taken.bytes();
        self.sampler.on_delivered(taken.bytes, now);
        if self.batch.newest.is_none_or(|newest| newest.tx < taken.entry.tx) {
            self.batch.newest = Some(taken.entry);
        }
        if self.choice.granted().segments && self.control.each_segment {
            self.batch.acked.push(segment(&taken));
        }
    }

    /// Processes an ACK after all packets that it covers were reported. `in_flight` is the stack's own count, which
    /// excludes packets that it has discarded.
    pub fn on_end_acks(&mut self, at: Time, in_flight: u64) {
        let now = self.advance(at);
        self.in_flight = Bytes(in_flight.min(MAX_WINDOW.0));
        self.note_idleness(now);
        let Some(newest) = self.batch.newest.take() else { return };
        let (_, prior) = self.batch.last.unwrap_or((now, self.in_flight));
        let packets = core::mem::take(&mut self.batch.packets);
        let rtt = now.since(newest.sent_at) - core::mem::take(&mut self.batch.ack_delay);
        let rtt = self.undelayed.sample(now, rtt, packets);
        rtt::observe(&mut self.path, rtt, prior);
        let rate = self.sampler.sample(&newest.snapshot, self.path.min_rtt);
        let delivered = core::mem::take(&mut self.batch.delivered);
        let acked = core::mem::take(&mut self.batch.acked);
        if self.established {
            let mut ack = Ack::new(now);
            (ack.delivered, ack.cumulative, ack.acked) = (delivered, delivered, &acked);
            (ack.rtt, ack.rate) = (Some(RttSample::new(rtt, newest.sent_at)), rate);
            ack.episode = self.episode_of(newest.tx);
            (ack.prior_in_flight, ack.flight_size) = (prior, prior);
            self.report(ack, Some(newest.tx));
        } else {
            self.establish(now, rtt);
        }
        self.batch.acked = acked;
        self.batch.acked.clear();
        // Packets that an earlier ACK should have revealed as lost were discarded by the stack. Losses that this ACK
        // reveals are reported after it.
        let patience = self.path.srtt.unwrap_or(rtt).max(rtt) * 3 + Span::from_millis(10);
        self.ring.forget(self.settled, now - patience);
        self.settled = self.settled.max(newest.tx);
    }

    /// Updates the datagram size.
    pub fn on_mtu(&mut self, mtu: u16) {
        let (old, mss) = (self.path.mss, Bytes(u64::from(mtu.max(1))));
        self.path.mss = mss;
        if self.established && old != mss {
            self.tell(&PathEvent::Mss { now: self.now, old });
        }
    }

    /// Returns the window, at least one datagram.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.control.cwnd.max(self.path.mss).min(MAX_WINDOW).0
    }

    /// Returns the slow-start threshold, if there has been a congestion event.
    #[must_use]
    pub fn ssthresh(&self) -> Option<u64> {
        self.control.ssthresh.filter(|ssthresh| *ssthresh < Bytes::MAX).map(|ssthresh| ssthresh.0)
    }

    /// Returns the controller's estimate of the bandwidth, in bit/s.
    #[must_use]
    pub fn bandwidth(&self) -> Option<u64> {
        self.controller.snapshot().bandwidth.map(|rate| rate.as_bits_per_sec())
    }

    /// Returns the controller, for logs.
    #[must_use]
    pub fn controller(&self) -> &dyn Controller {
        &*self.controller
    }

    /// Advances the time to `at`, unless it is in the past, and runs the ticks that are due.
    fn advance(&mut self, at: Time) -> Time {
        self.now = self.now.max(at);
        for _ in 0..TICKS {
            if !self.established || self.controller.next_tick().is_none_or(|due| due > self.now) {
                break;
            }
            self.controller.on_tick(self.now, &self.path);
            self.refresh();
        }
        self.now
    }

    /// Reports the path to the controller when its RTT is known.
    fn establish(&mut self, now: Time, rtt: Span) {
        self.path.handshake_rtt = (!self.path.handshake_lossy).then_some(rtt);
        self.established = true;
        let granted = self.choice.granted();
        // When the choice was checked, a controller of this type accepted these features.
        let _ = self.controller.on_granted(&granted, &self.path);
        self.tell(&PathEvent::Established { now, granted });
    }

    fn episode_of(&mut self, newest: u64) -> Episode {
        match self.recovery {
            None => Episode::None,
            Some(first) if newest >= first => {
                (self.recovery, self.after_timeout) = (None, false);
                Episode::Exit
            }
            Some(_) if self.after_timeout => Episode::Rto,
            Some(_) => Episode::In,
        }
    }

    /// Completes an ACK event and reports it. `newest` is the newest acknowledged transmission.
    fn report(&mut self, mut ack: Ack<'_>, newest: Option<u64>) {
        let app_limited = self.batch.app_limited;
        ack.total_delivered = Bytes(self.sampler.delivered);
        ack.in_flight = self.in_flight;
        let is_full = ack.prior_in_flight + self.path.mss > self.control.cwnd;
        ack.limit = match (app_limited, is_full) {
            (true, _) => SendLimit::App,
            (false, true) => SendLimit::Cwnd,
            (false, false) => SendLimit::Pacing,
        };
        self.path.queued = if app_limited { Bytes::ZERO } else { self.path.mss };
        let limited = self.rounds.limited || Rounds::uses(app_limited, ack.prior_in_flight, self.control.cwnd);
        ack.cwnd_limited = limited || self.rounds.is_limited();
        ack.round_start = newest.is_some_and(|newest| self.rounds.advance(newest, self.next_tx, limited));
        self.controller.on_ack(&ack, &self.path);
        self.refresh();
    }

    fn tell(&mut self, event: &PathEvent) {
        self.controller.on_event(event, &self.path);
        self.refresh();
    }

    fn refresh(&mut self) {
        self.control = self.controller.control();
    }

    fn note_idleness(&mut self, now: Time) {
        let idle = self.in_flight == Bytes::ZERO;
        self.idle_since = if idle { self.idle_since.or(Some(now)) } else { None };
    }
}

fn segment(taken: &Taken) -> AckedSegment {
    let mut segment = AckedSegment::new(TxId(taken.entry.tx), taken.entry.sent_at, taken.bytes());
    segment.tag = taken.entry.tag;
    segment
}
