//! Controllers that pass most calls on to another one.

use crate::avoidance::Cubic;
use crate::compose::Stages;
use crate::startup::swift_start::{SwiftStart, hardened::HardenedConfig};
use crate::{AckFrequency, Demands, Needs};

/// Delegates these methods of [`Controller`](crate::Controller) to a field, in an `impl` that defines the other
/// methods. Not part of the public interface: semantic versioning does not cover it.
#[doc(hidden)]
#[macro_export]
macro_rules! forward_controller {
    ($inner:tt: $($method:ident),+) => { $($crate::forward_controller!(@$method $inner);)+ };
    (@name $inner:tt) => { fn name(&self) -> String { self.$inner.name() } };
    (@needs $inner:tt) => { fn needs(&self) -> $crate::Needs { self.$inner.needs() } };
    (@on_granted $inner:tt) => {
        fn on_granted(&mut self, granted: &$crate::Granted, path: &$crate::Path) -> Result<(), $crate::NeedError> {
            self.$inner.on_granted(granted, path)
        }
    };
    (@on_sent $inner:tt) => {
        fn on_sent(&mut self, event: &$crate::Sent, path: &$crate::Path) { self.$inner.on_sent(event, path); }
    };
    (@on_ack $inner:tt) => {
        fn on_ack(&mut self, event: &$crate::Ack<'_>, path: &$crate::Path) { self.$inner.on_ack(event, path); }
    };
    (@on_timeout $inner:tt) => {
        fn on_timeout(&mut self, event: &$crate::Timeout, path: &$crate::Path) { self.$inner.on_timeout(event, path); }
    };
    (@on_event $inner:tt) => {
        fn on_event(&mut self, event: &$crate::PathEvent, path: &$crate::Path) { self.$inner.on_event(event, path); }
    };
    (@on_tick $inner:tt) => {
        fn on_tick(&mut self, now: $crate::internal::Time, path: &$crate::Path) { self.$inner.on_tick(now, path); }
    };
    (@next_tick $inner:tt) => { fn next_tick(&self) -> Option<$crate::internal::Time> { self.$inner.next_tick() } };
    (@is_dispensable $inner:tt) => {
        fn is_dispensable(&self, idle: $crate::internal::Span) -> bool { self.$inner.is_dispensable(idle) }
    };
    (@control $inner:tt) => { fn control(&self) -> $crate::Control { self.$inner.control() } };
    (@saved_path_use $inner:tt) => {
        fn saved_path_use(&self) -> $crate::SavedPathUse { self.$inner.saved_path_use() }
    };
    (@snapshot $inner:tt) => { fn snapshot(&self) -> $crate::Snapshot { self.$inner.snapshot() } };
}

/// Returns the stages of CUBIC with the start-up scheme of controllers that estimate the capacity.
#[must_use]
pub fn cubic(name: String, gamma: u64) -> Stages {
    let start = HardenedConfig { gamma, follow: false, ..Default::default() };
    Stages {
        name,
        startup: Box::new(SwiftStart::hardened(start).bounded().with_pauses()),
        avoidance: Box::new(Cubic::new(Default::default())),
        ..Stages::default()
    }
}

/// Adds the requests that all controllers that estimate the capacity make to the transport.
#[must_use]
pub fn needs(mut needs: Needs) -> Needs {
    let own = Demands {
        pacing: true,
        arrival_times: true,
        segments: true,
        whole_window: true,
        ack_frequency: AckFrequency::Varied,
        ..Demands::default()
    };
    needs.preferred = needs.preferred.union(own);
    needs
}

/// Implements the common methods of controllers that let CUBIC and its start-up scheme, in the field `cubic`, control
/// the window: while `is_composed`, or throughout if the transport does not pace. CUBIC is notified of transmissions
/// while `$follows`. Not part of the public interface: semantic versioning does not cover it.
#[doc(hidden)]
#[macro_export]
macro_rules! with_cubic {
    ($follows:ident) => {
        $crate::forward_controller!(cubic: name);

        fn needs(&self) -> $crate::Needs {
            $crate::internal::copa_cubic::needs(self.cubic.needs())
        }

        fn on_granted(&mut self, granted: &$crate::Granted, path: &$crate::Path) -> Result<(), $crate::NeedError> {
            self.paced = granted.pacing;
            self.ecn = granted.ecn.min($crate::EcnMark::Ect0);
            self.cubic.on_granted(granted, path)
        }

        fn on_sent(&mut self, event: &$crate::Sent, path: &$crate::Path) {
            if self.$follows() {
                self.cubic.on_sent(event, path);
            }
        }

        fn on_sent_run(&mut self, event: &$crate::Sent, count: u64, path: &$crate::Path) {
            if self.$follows() {
                self.cubic.on_sent_run(event, count, path);
            }
        }

        fn on_tick(&mut self, now: $crate::internal::Time, path: &$crate::Path) {
            if self.is_composed() {
                self.cubic.on_tick(now, path);
            }
        }

        fn next_tick(&self) -> Option<$crate::internal::Time> {
            if self.is_composed() { self.cubic.next_tick() } else { None }
        }
    };
}
