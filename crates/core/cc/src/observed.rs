//! A controller that a function of the application observes.

use core::fmt;
use std::sync::Arc;

use crate::describe::Safety;
use crate::{Ack, BuildParams, Congestion, Controller, ControllerFactory, Demands, Needs, Path};

/// Function that is called after the controller has processed an ACK.
type OnAck = dyn Fn(&Ack<'_>, &Path, &dyn Controller) + Send + Sync;

/// Returns `congestion` with `on_ack`, which is called after the controller has processed an ACK and can read its
/// decisions. `wants` is requested in addition to the controller's own preferences, because an estimator that only
/// observes may need more of the transport than the congestion-avoidance algorithm.
///
/// The name and the [`Safety`] are those of `congestion`. All controllers that are built share `on_ack`, so its state
/// needs a lock or an atomic.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use longhaul_cc::{Congestion, Demands, observed};
///
/// let most = Arc::new(AtomicU64::new(0));
/// let seen = Arc::clone(&most);
/// let cubic: Congestion = "cubic".parse()?;
/// let cubic = observed(cubic, Demands::default(), move |_, _, controller| {
///     seen.fetch_max(controller.control().cwnd.0, Ordering::Relaxed);
/// });
/// assert_eq!(cubic.name(), "cubic");
/// # Ok::<(), longhaul_cc::registry::SpecError>(())
/// ```
#[must_use]
pub fn observed(
    congestion: Congestion,
    wants: Demands,
    on_ack: impl Fn(&Ack<'_>, &Path, &dyn Controller) + Send + Sync + 'static,
) -> Congestion {
    Congestion::new(Observed { inner: congestion, wants, on_ack: Arc::new(on_ack) })
}

/// A controller, or a choice of one, and what observes it.
#[derive(Clone)]
struct Observed<T> {
    inner: T,
    wants: Demands,
    on_ack: Arc<OnAck>,
}

impl<T: fmt::Debug> fmt::Debug for Observed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observed").field(&self.inner).finish()
    }
}

impl ControllerFactory for Observed<Congestion> {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        Box::new(Observed { inner: self.inner.build(params), wants: self.wants, on_ack: Arc::clone(&self.on_ack) })
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn safety(&self) -> Safety {
        self.inner.safety()
    }
}

impl Controller for Observed<Box<dyn Controller>> {
    crate::forward_controller!(
        inner: name, on_granted, on_sent, on_timeout, on_event, on_tick, next_tick, is_dispensable, control,
        saved_path_use, snapshot
    );

    fn needs(&self) -> Needs {
        let needs = self.inner.needs();
        Needs { preferred: needs.preferred.union(self.wants), ..needs }
    }

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path) {
        self.inner.on_ack(event, path);
        (self.on_ack)(event, path, &*self.inner);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use longhaul_units::{Bytes, Rate, Span, Time};

    use super::*;
    use crate::{Granted, PathEvent, SavedPath, SavedPathUse};

    /// An observed controller makes the same decisions as another, and the observer sees them.
    #[test]
    fn it_is_the_controller_and_shows_it() {
        let seen = Arc::new(AtomicU64::new(0));
        let into = Arc::clone(&seen);
        let plain: Congestion = "new-reno".parse().unwrap();
        let observed =
            observed(plain.clone(), Demands { pairs: true, ..Demands::default() }, move |_, _, controller| {
                into.store(controller.control().cwnd.0, Ordering::Relaxed);
            });
        assert_eq!((observed.name(), observed.safety()), (plain.name(), plain.safety()));
        let mut both = [&plain, &observed].map(|congestion| congestion.build(&BuildParams::default()));
        assert!(both[1].needs().preferred.pairs && !both[0].needs().preferred.pairs);
        let (path, granted) = (Path::new(Bytes(1448)), Granted::basic());
        for controller in &mut both {
            controller.on_granted(&granted, &path).unwrap();
            controller.on_event(&PathEvent::Established { now: Time::ZERO, granted }, &path);
        }
        for k in 1..50 {
            let mut ack = Ack::new(Time::ZERO + Span::from_millis(10 * k));
            (ack.cumulative, ack.delivered, ack.cwnd_limited) = (Bytes(1448), Bytes(1448), true);
            both.iter_mut().for_each(|controller| controller.on_ack(&ack, &path));
            assert_eq!(both[0].control(), both[1].control());
            assert_eq!(seen.load(Ordering::Relaxed), both[0].control().cwnd.0);
        }
    }

    /// The transport learns how an observed start-up scheme used the saved path.
    #[test]
    fn the_use_of_a_saved_path_is_reported() {
        let (rtt, window) = (Span::from_millis(100), Bytes(200_000));
        let saved = SavedPath { window, rate: Rate::from_bytes_over(window, rtt), rtt };
        let start = observed("cached-start+new-reno".parse().unwrap(), Demands::default(), |_, _, _| {});
        for (handshake, made) in [(rtt, SavedPathUse::Used), (rtt * 11, SavedPathUse::OtherPath)] {
            let mut controller = start.build(&BuildParams { saved_path: Some(saved), ..BuildParams::default() });
            let path = Path { handshake_rtt: Some(handshake), peer_window: Bytes::MAX, ..Path::new(Bytes(1448)) };
            let granted = Granted::basic();
            assert_eq!(controller.saved_path_use(), SavedPathUse::Unused);
            controller.on_granted(&granted, &path).unwrap();
            controller.on_event(&PathEvent::Established { now: Time::ZERO, granted }, &path);
            assert_eq!(controller.saved_path_use(), made);
        }
    }
}
