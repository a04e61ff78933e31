//! XCP (D. Katabi, M. Handley, C. Rohrs, Congestion control for high bandwidth-delay product networks, SIGCOMM 2002) in
//! the form of its ns-2 code: senders state their throughput, and routers respond with a change to it.

use longhaul_cc::registry::{Entry, OptionSpec, Values};
use longhaul_cc::{
    Ack, BuildParams, Control, Episode, NetworkFeedback, NetworkHeader, NetworkHeaderKind, Path, PathEvent, Snapshot,
    Timeout, initial_window, update,
};
use longhaul_units::{Bytes, Rate, Span};

use crate::router_assisted::{FollowRouters, HEADERS, RouterAssisted, pace};

/// Size of the option on each data segment, padded, in bytes.
const OPTION: f64 = 20.0;
/// Fraction of the window kept after a loss (RFC 5681), and the lower bound of the window in segments.
const KEEP: f64 = 0.5;
const LEAST_SEGMENTS: f64 = 2.0;
/// Minimum window in segments that is paced. With a smaller one, pacing would separate the segments, the receiver would
/// delay their ACKs, and the segments that these release would be sent even later.
const PACED_SEGMENTS: u64 = 8;

pub(crate) static ENTRY: Entry = Entry::monolithic("xcp", |name, values, params| {
    Box::new(RouterAssisted::new(name, Xcp::new(values, params), params))
})
.described(
    "changes the window as the path's routers say; plain TCP if they do not answer",
    "Katabi, Handley, Rohrs, SIGCOMM 2002",
)
.with_options(Xcp::OPTIONS)
.tested_in(&["xcp", "xcp(iw=1)"]);

longhaul_cc::options! {
    pub(crate) struct Xcp {
        initial_segments: u32 =
            OptionSpec::int("iw", 1, 10, initial_window::DEFAULT_SEGMENTS as u64, "initial window in segments"),
        mss: Bytes => Bytes::ZERO,
        cap: Bytes => Bytes::MAX,
        peer_window: Bytes => Bytes::MAX,
        rtt: Option<Span> => None,
        /// Window in payload bytes; at least one segment between calls.
        cwnd: f64 => 1.0,
        /// Whether a timeout caused the last decrease, and the window before it.
        undo: Option<(bool, f64)> => None,
        /// Whether the window limits the sender, which otherwise has no use for a larger one.
        limited: bool => true,
    }
}

impl Xcp {
    /// Creates XCP before its handshake.
    fn new(values: &mut Values<'_>, params: &BuildParams) -> Self {
        let cwnd = params.mss.as_f64().max(1.0);
        Self { mss: params.mss, cap: params.max_cwnd, cwnd, ..Self::from_values(values) }
    }

    fn look(&mut self, path: &Path) {
        (self.mss, self.rtt, self.peer_window) = (path.mss, path.srtt.or(path.handshake_rtt), path.peer_window);
    }

    /// Returns the part of a packet that is payload, because routers count complete packets.
    fn payload_share(&self) -> f64 {
        let mss = self.mss.as_f64();
        mss / (mss + HEADERS + OPTION)
    }

    fn most(&self) -> f64 {
        self.peer_window.min(self.cap).max(self.mss).as_f64().max(1.0)
    }

    fn bound(&mut self) {
        self.cwnd = self.cwnd.min(self.cap.as_f64()).max(self.mss.as_f64()).max(1.0);
    }

    fn throughput(&self, window: f64, rtt: Span) -> Rate {
        Rate::from_bytes_over(Bytes::from_f64(window / self.payload_share()), rtt)
    }

    /// Applies the change stated by the routers in bytes/s: `cwnd += delta x srtt`.
    fn take(&mut self, delta: i64, event: &Ack<'_>) {
        let Some(rtt) = self.rtt else { return };
        let in_recovery = !matches!(event.episode, Episode::None | Episode::Rto);
        if delta <= 0 || self.limited && !in_recovery {
            let moved = self.cwnd + delta as f64 * rtt.as_secs_f64() * self.payload_share();
            // A temporarily closed peer window does not reduce the congestion window.
            self.cwnd = moved.min(self.most().max(self.cwnd));
        }
    }

    fn halve(&mut self, event: &Ack<'_>) {
        let flight = event.flight_size.as_f64().min(self.cwnd);
        let least = (LEAST_SEGMENTS * self.mss.as_f64()).min(self.cwnd);
        self.cwnd = (KEEP * flight).max(least);
    }

    fn on_loss(&mut self, event: &Ack<'_>) {
        match event.episode {
            Episode::Enter => {
                self.undo = Some((false, self.cwnd));
                self.halve(event);
            }
            Episode::Again => self.halve(event),
            _ => {}
        }
    }

    /// Returns the change to request: the throughput that fills the peer's window, minus the current one.
    fn demand(&self, rtt: Span, throughput: Rate) -> i64 {
        if !self.limited {
            return 0;
        }
        let most = self.throughput(self.most(), rtt).as_bytes_per_sec();
        i64::try_from(most.saturating_sub(throughput.as_bytes_per_sec())).unwrap_or(i64::MAX)
    }
}

impl FollowRouters for Xcp {
    const HEADER: NetworkHeaderKind = NetworkHeaderKind::Xcp;

    fn on_ack(&mut self, event: &Ack<'_>, path: &Path, denied: bool) -> Option<Bytes> {
        self.look(path);
        self.limited = event.cwnd_limited || event.delivered == Bytes::ZERO && self.limited;
        if denied {
            return Some(Bytes::from_f64(self.cwnd));
        }
        if let Some(NetworkFeedback::Xcp(delta)) = event.network {
            self.take(delta, event);
        }
        self.on_loss(event);
        self.bound();
        None
    }

    fn on_timeout(&mut self, event: &Timeout, path: &Path) {
        self.look(path);
        if event.nth <= 1 {
            self.undo = Some((true, self.cwnd));
        }
        self.cwnd = 0.0;
        self.bound();
    }

    fn on_event(&mut self, event: &PathEvent, path: &Path) {
        self.look(path);
        let initial = initial_window::of_connection(path, self.initial_segments).as_f64();
        match *event {
            PathEvent::Established { .. } => self.cwnd = initial,
            PathEvent::IdleRestart { .. } => self.cwnd = self.cwnd.min(initial),
            PathEvent::Spurious { timeout, .. } => {
                let undone = self.undo.take_if(|(was_timeout, _)| *was_timeout == timeout);
                self.cwnd = undone.map_or(self.cwnd, |(_, before)| before.max(self.cwnd));
            }
            _ => {}
        }
        self.bound();
    }

    fn control(&self) -> Control {
        let cwnd = Bytes::from_f64(self.cwnd).max(self.mss);
        let Some(rtt) = self.rtt else {
            let header = NetworkHeader::Xcp { throughput: Rate::ZERO, rtt: Span::ZERO, delta: 0 };
            return update!(Control { header: Some(header), ..Control::window(cwnd) });
        };
        let throughput = self.throughput(self.cwnd, rtt);
        let header = NetworkHeader::Xcp { throughput, rtt, delta: self.demand(rtt, throughput) };
        let paced = cwnd >= self.mss * PACED_SEGMENTS;
        let pace = paced.then(|| pace(Rate::from_bytes_over(cwnd, rtt), self.mss));
        update!(Control { header: Some(header), pace, ..Control::window(cwnd) })
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new("router-assisted")
    }
}

#[cfg(test)]
mod tests;
