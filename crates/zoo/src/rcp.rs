//! RCP (N. Dukkipati, Rate Control Protocol, PhD thesis, Stanford, 2007): the routers of the path set the sending rate.

use longhaul_cc::registry::{Entry, OptionSpec, Values};
use longhaul_cc::{
    Ack, BuildParams, Control, NetworkFeedback, NetworkHeader, NetworkHeaderKind, Path, PathEvent, Snapshot, Timeout,
    initial_window, update,
};
use longhaul_units::{Bytes, Rate, Span};

use crate::router_assisted::{FollowRouters, HEADERS, RouterAssisted, pace};

/// Size of the option on each data segment, padded, in bytes.
const OPTION: f64 = 16.0;
/// Time in seconds after which a segment is sent regardless of the rate, to request a rate again (the probe timer of
/// the authors' ns-2 code).
const ASK_EVERY: f64 = 0.5;
/// Window in round trips at the current rate, so that the rate rather than the window limits transmission even if the
/// queueing delay equals the base RTT.
const ROUND_TRIPS: f64 = 2.0;

pub(crate) static ENTRY: Entry = Entry::monolithic("rcp", |name, values, params| {
    Box::new(RouterAssisted::new(name, Rcp::new(values, params), params))
})
.described(
    "sends at the rate that the path's routers state; plain TCP if they do not answer",
    "Dukkipati, PhD thesis, Stanford 2007",
)
.with_options(Rcp::OPTIONS)
.tested_in(&["rcp", "rcp(rate=100)"]);

longhaul_cc::options! {
    /// RCP. Losses do not change its rate.
    pub(crate) struct Rcp {
        /// Upper limit of the rate in Mb/s; 0 means none.
        most: u64 = OptionSpec::int(
            "rate", 0, 1_000_000, 0,
            "maximum rate to request and to accept, Mb/s; 0: unlimited",
        ),
        mss: Bytes => Bytes::ZERO,
        cap: Bytes => Bytes::MAX,
        peer_window: Bytes => Bytes::MAX,
        rtt: Option<Span> => None,
        /// Window after an idle period.
        initial: Bytes => Bytes::ZERO,
        /// Rate stated by the routers, including headers.
        rate: Option<Rate> => None,
        /// Whether nothing has arrived since a timeout.
        silent: bool => false,
    }
}

impl Rcp {
    /// Creates RCP before its handshake.
    fn new(values: &mut Values<'_>, params: &BuildParams) -> Self {
        Self { mss: params.mss, cap: params.max_cwnd, initial: params.mss, ..Self::from_values(values) }
    }

    fn wanted(&self) -> Rate {
        match self.most {
            0 => Rate::MAX,
            megabits => Rate::from_bits_per_sec(megabits.saturating_mul(1_000_000)),
        }
    }

    fn look(&mut self, path: &Path) {
        (self.mss, self.rtt, self.peer_window) = (path.mss, path.srtt.or(path.handshake_rtt), path.peer_window);
        self.initial = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS);
    }

    /// Applies a new rate at once. Returns false if the rate exceeds the request and is therefore forged; rounding
    /// differences on the wire are accepted.
    fn take(&mut self, rate: Rate) -> bool {
        let honest = rate <= self.wanted().mul_f64(1.000_001);
        self.rate = Some(rate);
        self.silent = false;
        honest
    }

    /// Converts a rate of the routers to payload bytes per second, at least the rate needed for requests.
    fn payload(&self, rate: Rate) -> Rate {
        let mss = self.mss.as_f64();
        let asking = Rate::from_bytes_per_sec((mss / ASK_EVERY) as u64);
        rate.mul_f64(mss / (mss + HEADERS + OPTION)).max(asking)
    }

    fn window(&self) -> Bytes {
        let Some(rate) = self.rate.filter(|_| !self.silent) else { return self.mss };
        let flight = self.rtt.map_or(Bytes::ZERO, |rtt| self.payload(rate).bytes_in(rtt.mul_f64(ROUND_TRIPS)));
        flight + self.initial
    }
}

impl FollowRouters for Rcp {
    const HEADER: NetworkHeaderKind = NetworkHeaderKind::Rcp;

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path, denied: bool) -> Option<Bytes> {
        self.look(path);
        self.silent &= event.delivered == Bytes::ZERO;
        let honest = match event.network {
            Some(NetworkFeedback::Rcp(rate)) => self.take(rate),
            _ => true,
        };
        // Before the first answer, there is no rate to which the window must be matched.
        let window = || if self.rate.is_some() { self.control().cwnd } else { self.initial };
        (denied || !honest).then(window)
    }

    fn on_timeout(&mut self, _event: &Timeout, path: &Path) {
        self.look(path);
        self.silent = true;
    }

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        self.look(path);
        if let (PathEvent::IdleRestart { .. }, Some(rate), Some(rtt)) = (event, self.rate, self.rtt) {
            // The rate that was granted before the idle period is obsolete.
            self.rate = Some(rate.min(Rate::from_bytes_over(self.initial, rtt)));
        }
    }

    fn control(&self) -> Control {
        let header = NetworkHeader::Rcp { rate: self.wanted(), rtt: self.rtt.unwrap_or(Span::ZERO) };
        let cwnd = self.window().min(self.peer_window).min(self.cap).max(self.mss);
        let pace = self.rate.map(|rate| pace(self.payload(rate), self.mss));
        update!(Control { header: Some(header), pace, ..Control::window(cwnd) })
    }

    fn snapshot(&self) -> Snapshot {
        let phase = if self.rate.is_some() { "router-assisted" } else { "handshake" };
        update!(Snapshot { bandwidth: self.rate, ..Snapshot::new(phase) })
    }
}

#[cfg(test)]
mod tests;
