//! Paced Start (Hu, Steenkiste, ICNP 2003): the windows of slow start are sent as paced trains, and a binary search of
//! the gap between their segments finds the rate that the path carries without a queue.

use longhaul_cc::compose::{LossEvent, Opening, Overlay, Stage, Startup, StartupResponse, Step, Window};
use longhaul_cc::registry::{Entry, OptionSpec};
use longhaul_cc::{
    Ack, AckFrequency, Demands, Granted, NeedError, Needs, Pace, Path, SegmentKind, Sent, Timeout, initial_window,
    update,
};
use longhaul_units::{Bytes, Rate, Span, Time};

mod train;

use train::{Clock, Search, SearchStep, Train};

pub(crate) static ENTRY: Entry = Entry::startup("paced-start", |values| Box::new(PacedStart::from_values(values)))
    .described(
        "searches for the path's gap with paced trains, each twice as long as the previous one",
        "Hu, Steenkiste, ICNP 2003 (reconstructed)",
    )
    .with_options(PacedStart::OPTIONS)
    .tested_in(&["paced-start+new-reno", "paced-start+cubic", "paced-start(train=10)+slow-start+new-reno+rfc6675"])
    .internet_safe();

/// Number of segments for each of which the peer is asked to send an ACK: those of trains of 2 to 128 segments.
const FREQUENT_ACKS: u32 = 254;

longhaul_cc::options! {
    pub(crate) struct PacedStart {
        first_train: u64 = OptionSpec::int("train", 2, 10, 2, "segments of the first train, which is not paced"),
        tolerance: f64 = OptionSpec::float("tolerance", 0.01, 1.0, 0.1, "relative increase of a gap on the path that is tolerated"),
        /// Precision of the search: it ends when the distance between the bounds is at most this fraction of the upper
        /// bound.
        precision: f64 = OptionSpec::float("precision", 0.01, 1.0, 0.2, "relative precision at which the search ends"),
        paced: bool => false,
        clock: Clock => Clock::Acks,
        phase: Phase => Phase::Idle,
        search: Search => Search::new(tolerance, precision),
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Phase {
    Idle,
    /// A train is being sent or acknowledged.
    Searching(Train),
    /// The window has been found, and its first data is sent at this rate.
    Filling(Rate),
}

impl PacedStart {
    fn over(&mut self) -> Step {
        self.phase = Phase::Idle;
        Step::Done
    }

    /// Evaluates a train after the whole train, or all data available for it, has arrived.
    fn judge(&mut self, train: Train, path: &Path, window: &mut Window) -> Step {
        let initial = initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS).as_f64();
        let Some(rtt) = path.min_rtt.or(path.handshake_rtt) else { return self.give_up(train, initial, window) };
        if !train.has_left() {
            return self.give_up(train, initial, window); // there was no more to send
        }
        match self.search.judge(&train) {
            // The segments or their ACKs were merged, so no gap could be measured.
            SearchStep::Blind if train.gap.is_some() || train.size.as_f64() >= initial => {
                self.give_up(train, initial, window)
            }
            SearchStep::Blind => self.next(train.size * 2, None, path, window),
            SearchStep::Found(gap) => self.fill(gap, rtt, path, window),
            SearchStep::Next(gap) if train.size >= fills(path.mss, gap, rtt) => self.fill(gap, rtt, path, window),
            SearchStep::Next(gap) => self.next(train.size * 2, Some(gap), path, window),
        }
    }

    /// Starts the next train, which is at most as long as the path holds at this gap.
    fn next(&mut self, size: Bytes, gap: Option<Span>, path: &Path, window: &mut Window) -> Step {
        let rtt = path.min_rtt.or(path.handshake_rtt).unwrap_or(Span::ZERO);
        let most = gap.map_or(Bytes::MAX, |gap| fills(path.mss, gap, rtt)).min(Bytes::from_f64(window.ssthresh));
        let size = whole(size.min(most), path.mss).max(path.mss * 2);
        window.cwnd = size.as_f64();
        self.phase = Phase::Searching(Train::new(size, path.mss, gap));
        Step::Stay
    }

    /// Ends the search. The window is set to fill the path with segments at this gap, and is sent at this gap.
    fn fill(&mut self, gap: Span, rtt: Span, path: &Path, window: &mut Window) -> Step {
        window.cwnd = fills(path.mss, gap, rtt).as_f64().min(window.ssthresh).max(2.0 * path.mss.as_f64());
        window.ssthresh = window.cwnd;
        self.phase = Phase::Filling(rate(path.mss, gap));
        Step::Stay
    }

    /// Reduces the window to the outstanding bytes after congestion.
    fn void(&self, outstanding: Bytes, path: &Path, window: &mut Window) {
        if self.phase != Phase::Idle {
            window.keep_outstanding(outstanding, initial_window::of_connection(path, initial_window::DEFAULT_SEGMENTS));
        }
    }

    /// Ends the start without a result. The slow-start variant continues from the amount that was sent.
    fn give_up(&mut self, train: Train, initial: f64, window: &mut Window) -> Step {
        window.cwnd = train.sent.as_f64().max(initial);
        self.over()
    }
}

/// Returns the bytes of whole segments of `mss` that fill a round trip if one is sent per `gap`.
fn fills(mss: Bytes, gap: Span, rtt: Span) -> Bytes {
    whole(rate(mss, gap).bytes_in(rtt), mss)
}

fn rate(mss: Bytes, gap: Span) -> Rate {
    Rate::from_bytes_over(mss, gap.max(Span::from_nanos(1))).max(Rate::from_bytes_per_sec(1))
}

fn paced(rate: Rate, quantum: Option<Bytes>) -> Overlay {
    update!(Overlay { pace: Some(update!(Pace { quantum, ..Pace::new(rate) })), ..Overlay::default() })
}

fn whole(bytes: Bytes, mss: Bytes) -> Bytes {
    mss * (bytes.0 / mss.0.max(1))
}

impl Stage for PacedStart {
    fn needs(&self) -> Needs {
        let ack_frequency = AckFrequency::First(FREQUENT_ACKS);
        let preferred =
            update!(Demands { pacing: true, arrival_times: true, segments: true, ack_frequency, ..Demands::default() });
        update!(Needs { preferred, ..Needs::default() })
    }

    /// Without pacing, Paced Start is not used and the slow-start variant begins. Without arrival times, the ACKs'
    /// times of arrival are used.
    fn on_granted(&mut self, granted: &Granted, _path: &Path) -> Result<(), NeedError> {
        self.paced = granted.pacing;
        self.clock = match granted {
            Granted { arrival_times: true, segments: true, .. } => Clock::Arrivals,
            Granted { ack_frequency: true, .. } => Clock::EachAck,
            _ => Clock::Acks,
        };
        Ok(())
    }

    fn on_sent(&mut self, sent: &Sent, _path: &Path) {
        if let Phase::Searching(train) = &mut self.phase
            && sent.kind == SegmentKind::Data
        {
            train.on_sent(sent);
        }
    }

    fn overlay(&self) -> Overlay {
        match self.phase {
            Phase::Idle => Overlay::default(),
            Phase::Searching(Train { gap: None, .. }) => Overlay::at_once(),
            // Segments are sent one at a time, because the effect of the bottleneck on each gap is measured.
            Phase::Searching(Train { gap: Some(gap), mss, .. }) => paced(rate(mss, gap), Some(mss)),
            Phase::Filling(rate) => paced(rate, None),
        }
    }

    fn phase(&self) -> &'static str {
        match self.phase {
            Phase::Idle => "handshake",
            Phase::Searching(_) => "paced-start",
            Phase::Filling(_) => "paced-start-fill",
        }
    }
}

impl Startup for PacedStart {
    fn begin(&mut self, opening: Opening, _now: Time, path: &Path, window: &mut Window) -> Step {
        let wanted = self.paced && !path.handshake_lossy && opening == Opening::Connection;
        if !wanted || path.handshake_rtt.is_none() {
            return self.over();
        }
        self.search = Search::new(self.tolerance, self.precision);
        self.next(path.mss * self.first_train, None, path, window)
    }

    fn on_ack(&mut self, ack: &Ack<'_>, path: &Path, window: &mut Window) -> Step {
        match &mut self.phase {
            Phase::Searching(train) => {
                train.on_ack(ack, self.clock);
                if !train.is_delivered() || (!train.has_left() && path.queued > Bytes::ZERO) {
                    // ACKs of a train must not release further data, because the next train is separate.
                    window.cwnd = (train.size - train.delivered).as_f64().max(path.mss.as_f64());
                    return Step::Stay;
                }
                let train = *train;
                self.judge(train, path, window)
            }
            Phase::Filling(_) if ack.delivered == Bytes::ZERO => Step::Stay,
            Phase::Filling(_) | Phase::Idle => self.over(),
        }
    }

    /// The unsent part of a train, or of the window that was found, is discarded.
    fn on_loss(&mut self, loss: &LossEvent<'_>, path: &Path, window: &mut Window) -> StartupResponse {
        self.void(loss.ack.flight_size, path, window);
        StartupResponse::Delegate
    }

    fn on_timeout(&mut self, timeout: &Timeout, path: &Path, window: &mut Window) -> Option<f64> {
        self.void(timeout.flight_size, path, window);
        None
    }

    fn abort(&mut self) {
        self.phase = Phase::Idle;
    }
}

#[cfg(test)]
mod tests;
