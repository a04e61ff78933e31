//! Controllers as on older hosts, to reproduce measurements on them.

use core::fmt;

use longhaul_cc::registry::Safety;
use longhaul_cc::{
    BuildParams, Congestion, Control, Controller, ControllerFactory, Granted, NeedError, Pace, Path, SavedPath, update,
};
use longhaul_units::{Bytes, Rate};

/// A quantum above every window. With a smaller one, a sender with more data than a quantum per round trip waits for a
/// nanosecond, during which ACKs open the window without being answered.
const AT_ONCE: Bytes = SavedPath::MAX_WINDOW;

/// Returns `congestion` as on a host without pacing: data is sent as soon as the window has room, unless the
/// controller itself sets a pace, as Swift Start does. It serves to reproduce measurements on such hosts; on a shared
/// network, the bursts harm other flows.
///
/// The name is that of `congestion`; the [`Safety`] is [`Safety::Controlled`], controlled environments only.
///
/// ```
/// use longhaul_cc::{BuildParams, Congestion};
/// use longhaul_zoo::unpaced;
///
/// let reno: Congestion = "new-reno".parse()?;
/// let pace = unpaced(reno).build(&BuildParams::default()).control().pace;
/// assert_eq!(pace.map(|pace| pace.rate), Some(longhaul_units::Rate::MAX));
/// # Ok::<(), longhaul_cc::registry::SpecError>(())
/// ```
#[must_use]
pub fn unpaced(congestion: Congestion) -> Congestion {
    altered(congestion, |inner, params| Box::new(Unpaced(inner.build(params))))
}

/// Returns `congestion`, built with the transport's parameters as changed by `change`. It serves to reproduce
/// measurements on older hosts: a window that [grows per ACK](BuildParams::byte_counting), or a threshold that [was
/// cached](BuildParams::initial_ssthresh).
///
/// The name is that of `congestion`; the [`Safety`] is [`Safety::Controlled`], controlled environments only, since the
/// algorithm has been assessed only with its usual parameters.
///
/// ```
/// use longhaul_cc::Congestion;
/// use longhaul_units::Bytes;
/// use longhaul_zoo::with_params;
///
/// let reno: Congestion = "new-reno".parse()?;
/// let cached = with_params(reno, |params| params.initial_ssthresh = Some(Bytes(29_000)));
/// assert_eq!(cached.name(), "new-reno");
/// # Ok::<(), longhaul_cc::registry::SpecError>(())
/// ```
#[must_use]
pub fn with_params(congestion: Congestion, change: impl Fn(&mut BuildParams) + Send + Sync + 'static) -> Congestion {
    altered(congestion, move |inner, params| {
        let mut params = *params;
        change(&mut params);
        inner.build(&params)
    })
}

fn altered(
    inner: Congestion,
    build: impl Fn(&Congestion, &BuildParams) -> Box<dyn Controller> + Send + Sync + 'static,
) -> Congestion {
    Congestion::new(Altered { inner, build })
}

struct Altered<F> {
    inner: Congestion,
    build: F,
}

impl<F> fmt::Debug for Altered<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Altered").field(&self.inner).finish()
    }
}

impl<F: Fn(&Congestion, &BuildParams) -> Box<dyn Controller> + Send + Sync> ControllerFactory for Altered<F> {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        (self.build)(&self.inner, params)
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn safety(&self) -> Safety {
        Safety::Controlled
    }
}

#[derive(Clone, Debug)]
struct Unpaced(Box<dyn Controller>);

impl Controller for Unpaced {
    longhaul_cc::forward_controller!(
        0: name, needs, on_sent, on_ack, on_timeout, on_event, on_tick, next_tick, is_dispensable, saved_path_use,
        snapshot
    );

    fn on_granted(&mut self, granted: &Granted, path: &Path) -> Result<(), NeedError> {
        self.0.on_granted(&update!(Granted { spreads: false, ..*granted }), path)
    }

    fn control(&self) -> Control {
        let control = self.0.control();
        let at_once = update!(Pace { quantum: Some(AT_ONCE), ..Pace::new(Rate::MAX) });
        update!(Control { pace: control.pace.or(Some(at_once)), ..control })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use longhaul_cc::{Ack, SavedPathUse, Snapshot, Timeout};

    use super::*;

    /// Records what it is granted, and reports that it has refused a saved path.
    #[derive(Clone, Debug)]
    struct Ear(Arc<Mutex<Option<Granted>>>);

    impl Controller for Ear {
        fn name(&self) -> String {
            "ear".to_owned()
        }

        fn on_granted(&mut self, granted: &Granted, _: &Path) -> Result<(), NeedError> {
            *self.0.lock().unwrap() = Some(*granted);
            Ok(())
        }

        fn on_ack(&mut self, _: &Ack<'_>, _: &Path) {}

        fn on_timeout(&mut self, _: &Timeout, _: &Path) {}

        fn control(&self) -> Control {
            Control::window(Bytes(1))
        }

        fn saved_path_use(&self) -> SavedPathUse {
            SavedPathUse::OtherPath
        }

        fn snapshot(&self) -> Snapshot {
            Snapshot::new("ear")
        }
    }

    /// Half a gigabyte leaves within the nanosecond, as it may over a path without a rate.
    #[test]
    fn a_window_of_any_size_leaves_at_once() {
        let (now, mss) = (longhaul_units::Time::ZERO, Bytes(1448));
        let pace = unpaced("new-reno".parse().unwrap()).build(&BuildParams::default()).control().pace;
        let mut pacer = longhaul_cc::Pacer::new(now);
        pacer.set(now, pace, mss);
        pacer.sent(now, Bytes(1 << 29));
        assert_eq!(pacer.ready(now, mss), Ok(mss));
    }

    #[test]
    fn it_is_told_that_nothing_spreads_its_window() {
        let heard = Arc::default();
        let mut controller = Unpaced(Box::new(Ear(Arc::clone(&heard))));
        controller.on_granted(&Granted::basic(), &Path::new(Bytes(1000))).unwrap();
        assert_eq!(*heard.lock().unwrap(), Some(update!(Granted { spreads: false, ..Granted::basic() })));
        assert_eq!(controller.saved_path_use(), SavedPathUse::OtherPath);
        assert_eq!(controller.snapshot().phase, "ear");
    }
}
