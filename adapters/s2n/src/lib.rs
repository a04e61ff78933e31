//! longhaul's congestion controllers for [s2n-quic](https://docs.rs/s2n-quic), whose interface for controllers is
//! unstable: the feature `unstable-congestion-controller` may change between minor versions.
//!
//! ```
//! use s2n_quic::client;
//!
//! let controllers = longhaul_s2n::congestion("copa-cubic")?;
//! let client = client::Client::builder().with_congestion_controller(controllers);
//! assert!(longhaul_s2n::congestion("cubik").is_err());
//! # let _ = client;
//! # Ok::<(), longhaul_s2n::ChoiceError>(())
//! ```
#![forbid(unsafe_code)]

mod delays;

use std::time::Duration;

use longhaul_adapter::{Choice, Driver, Kept, Stack};
use longhaul_cc::{Congestion, Pace, Pacer};
use longhaul_units::{Bytes, Rate, Span, Time};
use s2n_quic::provider::congestion_controller::{
    CongestionController, Endpoint, PathInfo, Publisher, RandomGenerator, RttEstimator, Timestamp,
};

pub use longhaul_adapter::ChoiceError;

use crate::delays::AckDelays;

/// s2n-quic sends when the controller allows it and reports only the total size of the packets that an ACK covers.
const S2N: Stack = Stack { name: "s2n-quic", paces: true, lists_packets: false };
/// The first packet is sent at this time.
const START: Time = Time::from_nanos(1_000_000_000);

/// Returns the controllers that `text` names, such as `bbr`, `copa-cubic` or `hystart-pp+new-reno`.
///
/// # Errors
/// Returns an error if the name is unknown, an option is out of range, s2n-quic lacks a feature that the controller
/// requires, or the controller is for controlled environments only.
pub fn congestion(text: &str) -> Result<Controllers, ChoiceError> {
    Choice::parse(text, S2N).map(Controllers)
}

/// Returns the controllers of `congestion`, even if they are for controlled environments only.
///
/// # Errors
/// Returns an error if s2n-quic lacks a feature that the controller requires.
pub fn controlled(congestion: Congestion) -> Result<Controllers, ChoiceError> {
    Choice::controlled(congestion, S2N).map(Controllers)
}

/// Builds a controller per path of each connection.
#[derive(Clone, Debug)]
pub struct Controllers(Choice);

impl Endpoint for Controllers {
    type CongestionController = Adapter;

    fn new_congestion_controller(&mut self, path: PathInfo) -> Adapter {
        let driver = Driver::new(&self.0, START, path.max_datagram_size);
        Adapter {
            driver,
            pacer: Pacer::new(START),
            mtu: path.max_datagram_size,
            origin: None,
            departure: None,
            delays: AckDelays::default(),
        }
    }
}

/// One of longhaul's controllers on a path of s2n-quic.
#[derive(Debug)]
pub struct Adapter {
    driver: Driver,
    pacer: Pacer,
    mtu: u16,
    /// The stack's timestamp that corresponds to [`START`].
    origin: Option<Timestamp>,
    departure: Option<Timestamp>,
    delays: AckDelays,
}

impl Clone for Adapter {
    fn clone(&self) -> Self {
        Self { driver: self.driver.migrated(), pacer: self.pacer.clone(), delays: AckDelays::default(), ..*self }
    }
}

impl Adapter {
    /// Returns the controller, for logs.
    #[must_use]
    pub fn controller(&self) -> &dyn longhaul_cc::Controller {
        self.driver.controller()
    }

    fn time(&mut self, at: Timestamp) -> Time {
        let origin = *self.origin.get_or_insert(at);
        START + Span::from(at.saturating_duration_since(origin))
    }

    /// Configures the pacer and computes the departure time of the next datagram.
    fn schedule(&mut self, now: Time) {
        let mss = Bytes(self.mtu.into());
        let pace = self.driver.pace().map(|(rate, quantum)| {
            let mut pace = Pace::new(Rate::from_bytes_per_sec(rate));
            pace.quantum = Some(Bytes(quantum));
            pace
        });
        self.pacer.set(now, pace, mss);
        let due = self.pacer.ready(now, mss).err().map(|due| due.since(START));
        self.departure =
            due.zip(self.origin).and_then(|(due, origin)| origin.checked_add(Duration::from_nanos(due.as_nanos())));
    }
}

impl CongestionController for Adapter {
    type PacketInfo = Kept;

    fn congestion_window(&self) -> u32 {
        u32::try_from(self.driver.window()).unwrap_or(u32::MAX)
    }

    fn bytes_in_flight(&self) -> u32 {
        u32::try_from(self.driver.in_flight()).unwrap_or(u32::MAX)
    }

    fn is_congestion_limited(&self) -> bool {
        self.driver.window().saturating_sub(self.driver.in_flight()) < self.mtu.into()
    }

    /// Always false: the window permits a retransmission as soon as a loss is detected.
    fn requires_fast_retransmission(&self) -> bool {
        false
    }

    fn on_packet_sent<Pub: Publisher>(
        &mut self,
        at: Timestamp,
        bytes: usize,
        app_limited: Option<bool>,
        _rtt: &RttEstimator,
        _publisher: &mut Pub,
    ) -> Kept {
        let now = self.time(at);
        let kept = self.driver.on_sent_kept(now, bytes as u64, app_limited.unwrap_or(false));
        self.pacer.sent(now, Bytes(bytes as u64));
        self.schedule(now);
        kept
    }

    fn on_rtt_update<Pub: Publisher>(
        &mut self,
        _sent: Timestamp,
        now: Timestamp,
        rtt: &RttEstimator,
        _publisher: &mut Pub,
    ) {
        self.delays.observe(now, rtt);
    }

    fn on_ack<Pub: Publisher>(
        &mut self,
        _newest_sent: Timestamp,
        bytes: usize,
        newest: Kept,
        _rtt: &RttEstimator,
        _random: &mut dyn RandomGenerator,
        at: Timestamp,
        _publisher: &mut Pub,
    ) {
        let now = self.time(at);
        self.driver.on_sum_acked(now, &newest, bytes as u64, self.delays.of(at));
        self.schedule(now);
    }

    fn on_packet_lost<Pub: Publisher>(
        &mut self,
        bytes: u32,
        packet: Kept,
        persistent: bool,
        _new_burst: bool,
        _random: &mut dyn RandomGenerator,
        at: Timestamp,
        _publisher: &mut Pub,
    ) {
        let now = self.time(at);
        self.driver.on_kept_lost(now, &packet, bytes.into(), persistent);
        self.schedule(now);
    }

    /// The stack does not report when the marked packets were sent; one round trip ago is assumed.
    fn on_explicit_congestion<Pub: Publisher>(&mut self, count: u64, at: Timestamp, _publisher: &mut Pub) {
        let now = self.time(at);
        if count > 0 {
            self.driver.on_mark(now, now - self.driver.srtt().unwrap_or(Span::ZERO));
            self.schedule(now);
        }
    }

    fn on_mtu_update<Pub: Publisher>(&mut self, mtu: u16, _publisher: &mut Pub) {
        self.mtu = mtu;
        self.driver.on_mtu(mtu);
    }

    fn on_packet_discarded<Pub: Publisher>(&mut self, bytes: usize, _publisher: &mut Pub) {
        self.driver.on_discarded(bytes as u64);
    }

    fn earliest_departure_time(&self) -> Option<Timestamp> {
        self.departure
    }

    fn send_quantum(&self) -> Option<usize> {
        self.driver.pace().and_then(|(_, quantum)| usize::try_from(quantum).ok())
    }
}
