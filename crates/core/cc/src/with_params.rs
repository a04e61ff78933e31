//! Controllers that are built with other parameters than the transport's.

use core::fmt;
use std::sync::Arc;

use crate::describe::Safety;
use crate::{BuildParams, Congestion, Controller, ControllerFactory};

/// Returns `congestion`, built with the transport's parameters as changed by `change`. It serves to reproduce
/// measurements on older hosts: a window that [grows per ACK](BuildParams::byte_counting), or a threshold that [was
/// cached](BuildParams::initial_ssthresh).
///
/// The name is that of `congestion`; the [`Safety`] is [`Safety::Controlled`], controlled environments only, since the
/// algorithm has been assessed only with its usual parameters.
///
/// ```
/// use longhaul_cc::{Congestion, with_params};
/// use longhaul_units::Bytes;
///
/// let reno: Congestion = "new-reno".parse()?;
/// let cached = with_params(reno, |params| params.initial_ssthresh = Some(Bytes(29_000)));
/// assert_eq!(cached.name(), "new-reno");
/// # Ok::<(), longhaul_cc::registry::SpecError>(())
/// ```
#[must_use]
pub fn with_params(congestion: Congestion, change: impl Fn(&mut BuildParams) + Send + Sync + 'static) -> Congestion {
    Congestion::new(Factory { congestion, change: Arc::new(change) })
}

struct Factory {
    congestion: Congestion,
    change: Arc<dyn Fn(&mut BuildParams) + Send + Sync>,
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WithParams").field(&self.congestion).finish()
    }
}

impl ControllerFactory for Factory {
    fn build(&self, params: &BuildParams) -> Box<dyn Controller> {
        let mut params = *params;
        (self.change)(&mut params);
        self.congestion.build(&params)
    }

    fn name(&self) -> String {
        self.congestion.name()
    }

    fn safety(&self) -> Safety {
        Safety::Controlled
    }
}
