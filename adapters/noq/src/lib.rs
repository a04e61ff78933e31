//! longhaul's congestion controllers for [noq](https://docs.rs/noq), the QUIC stack of iroh.
//!
//! ```
//! use noq_proto::TransportConfig;
//!
//! let mut transport = TransportConfig::default();
//! transport.congestion_controller_factory(longhaul_noq::congestion("copa-cubic")?);
//! assert!(longhaul_noq::congestion("cubik").is_err());
//! # Ok::<(), longhaul_noq::ChoiceError>(())
//! ```
#![forbid(unsafe_code)]

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use longhaul_adapter::{Acked, Choice, Clock, Driver, Lost, Stack};
use longhaul_cc::Congestion;
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

pub use longhaul_adapter::ChoiceError;

/// noq follows the controller's pacing rate and reports each packet.
const NOQ: Stack = Stack { name: "noq", paces: true, lists_packets: true };

/// Returns a factory for the controllers that `text` names, such as `bbr`, `copa-cubic` or `hystart-pp+new-reno`.
///
/// # Errors
/// Returns an error if the name is unknown, an option is out of range, noq lacks a feature that the controller
/// requires, or the controller is for controlled environments only.
pub fn congestion(text: &str) -> Result<Arc<Factory>, ChoiceError> {
    Choice::parse(text, NOQ).map(|choice| Arc::new(Factory(choice)))
}

/// Returns a factory for the controllers of `congestion`, even if they are for controlled environments only.
///
/// # Errors
/// Returns an error if noq lacks a feature that the controller requires.
pub fn controlled(congestion: Congestion) -> Result<Arc<Factory>, ChoiceError> {
    Choice::controlled(congestion, NOQ).map(|choice| Arc::new(Factory(choice)))
}

/// Builds a controller per path of each connection.
#[derive(Debug)]
pub struct Factory(Choice);

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let clock = Clock::new(now);
        Box::new(Adapter { clock, driver: Driver::new(&self.0, clock.time(now), current_mtu) })
    }
}

/// One of longhaul's controllers on a path of noq. [`Controller::into_any`] returns it.
#[derive(Debug)]
pub struct Adapter {
    clock: Clock,
    driver: Driver,
}

impl Adapter {
    /// Returns the controller, for logs.
    #[must_use]
    pub fn controller(&self) -> &dyn longhaul_cc::Controller {
        self.driver.controller()
    }
}

impl Controller for Adapter {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.driver.on_sent(self.clock.time(now), Some(pn), bytes.into());
    }

    fn on_cwnd_limited(&mut self) {
        self.driver.on_cwnd_limited();
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, pn: u64, app_limited: bool, _rtt: &RttEstimator) {
        let (now, sent_at) = (self.clock.time(now), self.clock.time(sent));
        self.driver.on_acked(now, Acked { sent_at, number: Some(pn), bytes, app_limited });
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _app_limited: bool, _largest: Option<u64>) {
        self.driver.on_end_acks(self.clock.time(now), in_flight);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        persistent: bool,
        is_ecn: bool,
        bytes: u64,
        _largest_lost: u64,
    ) {
        let (now, sent_at) = (self.clock.time(now), self.clock.time(sent));
        if is_ecn {
            self.driver.on_mark(now, sent_at);
        } else {
            self.driver.on_losses(now, Lost { sent_at, bytes, persistent });
        }
    }

    fn on_packet_lost(&mut self, bytes: u16, pn: u64, _now: Instant) {
        self.driver.on_packet_lost(pn, bytes.into());
    }

    fn on_spurious_congestion_event(&mut self) {
        self.driver.on_spurious();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.driver.on_mtu(new_mtu);
    }

    fn window(&self) -> u64 {
        self.driver.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.ssthresh = self.driver.ssthresh();
        (metrics.pacing_rate, metrics.send_quantum) = self.driver.pace().unzip();
        metrics.bandwidth_estimate = self.driver.bandwidth();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { clock: self.clock, driver: self.driver.migrated() })
    }

    fn initial_window(&self) -> u64 {
        self.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
