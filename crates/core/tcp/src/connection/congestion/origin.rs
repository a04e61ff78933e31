//! What controls sending, which an idle connection does without.

use std::cell::OnceCell;
use std::sync::Arc;

use longhaul_cc::{Granted, Path, PathEvent};
use longhaul_units::{Bytes, Span, Time};

use super::{Pacing, SendControl};
use crate::Config;

/// What controls sending, or what it is made of once it is needed again.
#[derive(Debug)]
pub(super) struct Origin {
    config: Arc<Config>,
    created_at: Time,
    /// The segment size assumed before the handshake.
    mss: Bytes,
    /// Whether the controller has other parameters than those for an unknown path.
    is_altered: bool,
    /// When the connection was established, and what was granted to the controller.
    established: Option<(Time, Granted)>,
    /// The path when `sending` was dropped.
    path: Option<Box<Path>>,
    sending: OnceCell<Box<SendControl>>,
}

impl Origin {
    pub(super) fn new(config: &Arc<Config>, mss: Bytes, now: Time) -> Self {
        Self {
            config: Arc::clone(config),
            created_at: now,
            mss,
            is_altered: false,
            established: None,
            path: None,
            sending: OnceCell::new(),
        }
    }

    pub(super) fn sending(&self) -> Option<&SendControl> {
        self.sending.get().map(|sending| &**sending)
    }

    pub(super) fn sending_mut(&mut self) -> Option<&mut SendControl> {
        self.sending.get_mut().map(|sending| &mut **sending)
    }

    /// Returns what controls sending. It is made now if there is none.
    pub(super) fn get(&self) -> &SendControl {
        self.sending.get_or_init(|| Box::new(self.build()))
    }

    pub(super) fn get_mut(&mut self) -> &mut SendControl {
        self.get();
        match self.sending.get_mut() {
            Some(sending) => sending,
            None => unreachable!("it was made before"),
        }
    }

    /// Makes what controls sending anew.
    pub(super) fn build(&self) -> SendControl {
        let mut sending = SendControl::new(&self.config, self.mss, self.created_at);
        if let (Some((now, granted)), Some(path)) = (self.established, &self.path) {
            // Another controller of this choice was content with what was granted.
            let _ = sending.start(&granted, path);
            sending.controller.on_event(&PathEvent::Established { now, granted }, path);
            let (mss, srtt, min_rtt) = (path.mss, path.srtt, path.min_rtt);
            sending.refresh(now, &self.config, Pacing { mss, srtt, min_rtt, recovering: false, patience: Span::ZERO });
        }
        sending
    }

    pub(super) fn establish(&mut self, now: Time, granted: Granted) {
        self.established = Some((now, granted));
    }

    /// Keeps the controller, because it was built for a known path.
    pub(super) fn keep(&mut self) {
        self.is_altered = true;
    }

    pub(super) fn configure(&mut self, config: &Arc<Config>) {
        self.config = Arc::clone(config);
    }

    /// Drops what controls sending over `path` if that is dispensable after an idle period of `idle`.
    pub(super) fn drop_if_dispensable(&mut self, config: &Arc<Config>, path: &Path, idle: Span) {
        let is_dispensable =
            !self.is_altered && self.sending().is_some_and(|sending| sending.controller.is_dispensable(idle));
        if is_dispensable {
            self.configure(config);
            self.path = Some(Box::new(*path));
            self.sending.take();
        }
    }
}
