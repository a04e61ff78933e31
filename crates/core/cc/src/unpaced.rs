//! A controller whose window is sent without pacing.

use longhaul_units::{Bytes, Rate};

use crate::describe::Safety;
use crate::{Congestion, Control, Controller, Granted, NeedError, Pace, Path, SavedPath};

/// A quantum above every window. With a smaller one, a sender waits for a nanosecond in a round trip of more data, in which
/// ACKs open the window without being answered.
const AT_ONCE: Bytes = SavedPath::MAX_WINDOW;

/// Returns `congestion` as on a host without pacing: data is sent as soon as the window has room, unless the
/// controller itself sets a pace, as Swift Start does. It serves to reproduce measurements on such hosts; on a shared
/// network, the bursts harm other flows.
///
/// The name is that of `congestion`; the [`Safety`] is [`Safety::Controlled`], controlled environments only.
///
/// ```
/// use longhaul_cc::{BuildParams, Congestion, unpaced};
///
/// let reno: Congestion = "new-reno".parse()?;
/// let pace = unpaced(reno).build(&BuildParams::default()).control().pace;
/// assert_eq!(pace.map(|pace| pace.rate), Some(longhaul_units::Rate::MAX));
/// # Ok::<(), longhaul_cc::registry::SpecError>(())
/// ```
#[must_use]
pub fn unpaced(congestion: Congestion) -> Congestion {
    congestion.wrapped(Safety::Controlled, |inner, params| Box::new(Unpaced(inner.build(params))))
}

#[derive(Clone, Debug)]
struct Unpaced(Box<dyn Controller>);

impl Controller for Unpaced {
    crate::forward_controller!(
        0: name, needs, on_sent, on_ack, on_timeout, on_event, on_tick, next_tick, is_dispensable, saved_path_use,
        snapshot
    );

    fn on_granted(&mut self, granted: &Granted, path: &Path) -> Result<(), NeedError> {
        self.0.on_granted(&Granted { spreads: false, ..*granted }, path)
    }

    fn control(&self) -> Control {
        let control = self.0.control();
        let at_once = Pace { rate: Rate::MAX, quantum: Some(AT_ONCE) };
        Control { pace: control.pace.or(Some(at_once)), ..control }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::{Ack, SavedPathUse, Snapshot, Timeout};

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
        let pace = unpaced("new-reno".parse().unwrap()).build(&crate::BuildParams::default()).control().pace;
        let mut pacer = crate::Pacer::new(now);
        pacer.set(now, pace, mss);
        pacer.sent(now, Bytes(1 << 29));
        assert_eq!(pacer.ready(now, mss), Ok(mss));
    }

    #[test]
    fn it_is_told_that_nothing_spreads_its_window() {
        let heard = Arc::default();
        let mut controller = Unpaced(Box::new(Ear(Arc::clone(&heard))));
        controller.on_granted(&Granted::basic(), &Path::new(Bytes(1000))).unwrap();
        assert_eq!(*heard.lock().unwrap(), Some(Granted { spreads: false, ..Granted::basic() }));
        assert_eq!(controller.saved_path_use(), SavedPathUse::OtherPath);
    }
}
