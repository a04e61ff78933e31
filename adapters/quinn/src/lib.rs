//! longhaul's congestion controllers for [quinn](https://docs.rs/quinn) 0.11.
//!
//! quinn paces by its own rule, at 1.25 windows per round trip. Controllers that require a pacing rate are rejected;
//! others run without it.
//!
//! ```
//! use quinn_proto::TransportConfig;
//!
//! let mut transport = TransportConfig::default();
//! transport.congestion_controller_factory(longhaul_quinn::congestion("cubic")?);
//! let error = longhaul_quinn::congestion("bbr").unwrap_err().to_string();
//! assert!(error.contains("bbr needs pacing"), "{error}");
//! # Ok::<(), longhaul_quinn::ChoiceError>(())
//! ```
#![forbid(unsafe_code)]

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use longhaul_adapter::{Acked, Choice, Clock, Driver, Lost, Stack};
use longhaul_cc::Congestion;
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

pub use longhaul_adapter::ChoiceError;

/// quinn ignores the controller's pacing rate and identifies batches by their send time.
const QUINN: Stack = Stack { name: "quinn", paces: false, lists_packets: false };

/// Returns a factory for the controllers that `text` names, such as `cubic`, `copa` or `hystart-pp+new-reno`.
///
/// # Errors
/// Returns an error if the name is unknown, an option is out of range, quinn lacks a feature that the controller
/// requires, or the controller is for controlled environments only.
pub fn congestion(text: &str) -> Result<Arc<Factory>, ChoiceError> {
    Choice::parse(text, QUINN).map(|choice| Arc::new(Factory(choice)))
}

/// Returns a factory for the controllers of `congestion`, even if they are for controlled environments only.
///
/// # Errors
/// Returns an error if quinn lacks a feature that the controller requires.
pub fn controlled(congestion: Congestion) -> Result<Arc<Factory>, ChoiceError> {
    Choice::controlled(congestion, QUINN).map(|choice| Arc::new(Factory(choice)))
}

/// Builds a controller per connection, and a new one after a migration to another address.
#[derive(Debug)]
pub struct Factory(Choice);

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let clock = Clock::new(now);
        Box::new(Adapter { clock, driver: Driver::new(&self.0, clock.time(now), current_mtu) })
    }
}

/// One of longhaul's controllers in a connection of quinn. [`Controller::into_any`] returns it.
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
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        self.driver.on_sent(self.clock.time(now), None, bytes);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, _rtt: &RttEstimator) {
        let (now, sent_at) = (self.clock.time(now), self.clock.time(sent));
        self.driver.on_acked(now, Acked { sent_at, number: None, bytes, app_limited });
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _app_limited: bool, _largest: Option<u64>) {
        self.driver.on_end_acks(self.clock.time(now), in_flight);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, bytes: u64) {
        let (now, sent_at) = (self.clock.time(now), self.clock.time(sent));
        if bytes == 0 {
            self.driver.on_mark(now, sent_at);
        } else {
            self.driver.on_unlisted_losses(now, Lost { sent_at, bytes, persistent });
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.driver.on_mtu(new_mtu);
    }

    /// Returns the window plus one byte: quinn never fills the window completely, and would send nothing if the window
    /// were one datagram.
    fn window(&self) -> u64 {
        (self.driver.window() + 1).min(u32::MAX.into())
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        (metrics.congestion_window, metrics.ssthresh) = (self.window(), self.driver.ssthresh());
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
