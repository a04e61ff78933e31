//! Measured delay: the RTT, or the one-way delay by the receiver's arrival times.

use longhaul_units::Span;

use super::{Delays, OneWay};
use crate::describe::{OptionSpec, Rule};
use crate::{Ack, Demands, Needs};

crate::options! {
    /// Delay that LEDBAT++ measures.
    #[derive(Default)]
    pub(crate) enum DelaySource {
        /// The RTT, as in LEDBAT++: it needs no support by the peer, and includes queues on the reverse path.
        #[default]
        RoundTrip = "rtt",
        /// The one-way delay, as in LEDBAT. A connection whose peer reports no arrival times fails.
        OneWay = "one-way",
        /// The one-way delay if the peer reports arrival times, else the RTT.
        Auto = "auto",
    }
}

/// Option for the delay; the default is that of the draft.
pub(super) const DELAY: OptionSpec =
    OptionSpec::choice("delay", DelaySource::NAMES, "delay used; auto: one-way if the peer reports arrival times")
        .ruled(&[Rule::Shared]);

impl DelaySource {
    pub(super) fn needs(self) -> Needs {
        let demands = Demands { arrival_times: true, segments: true, ..Demands::default() };
        match self {
            Self::RoundTrip => Needs::default(),
            Self::OneWay => Needs { required: demands, ..Needs::default() },
            Self::Auto => Needs { preferred: demands, ..Needs::default() },
        }
    }
}

/// Queueing delay by the chosen source.
#[derive(Clone, Debug, Default)]
pub(super) struct Gauge {
    source: DelaySource,
    round_trips: Delays,
    one_way: Option<Box<OneWay>>,
}

impl Gauge {
    pub(super) fn of(source: DelaySource) -> Self {
        let one_way = (source != DelaySource::RoundTrip).then(Box::default);
        Self { source, round_trips: Delays::default(), one_way }
    }

    pub(super) fn needs(&self) -> Needs {
        self.source.needs()
    }

    pub(super) fn observe(&mut self, ack: &Ack<'_>) {
        let Some(sample) = ack.rtt else { return };
        self.round_trips.sample(ack.now, sample.rtt);
        if let Some(one_way) = &mut self.one_way {
            one_way.observe(ack, sample.rtt);
        }
    }

    /// Returns the current queueing delay in seconds. Queueing in one direction is included in the RTT, so any excess
    /// of the one-way queueing delay over that of the RTT is a clock error. Before the first report, and after reports
    /// have ceased, the queueing delay of the RTT is used.
    pub(super) fn queueing(&self) -> f64 {
        let both = self.round_trips.queueing();
        let Some(((now, _), one_way)) = self.round_trips.newest().zip(self.one_way.as_ref()) else { return both };
        one_way.queueing(now).map_or(both, |there| there.as_secs_f64().min(both))
    }

    /// Returns the base RTT, which determines the gain.
    pub(super) fn base(&self) -> Option<Span> {
        self.round_trips.base()
    }

    /// Returns [`Delays::gain`] by the RTT for any source, because the gain compensates for the number of round trips
    /// per second.
    pub(super) fn gain(&self, target: Span) -> f64 {
        self.round_trips.gain(target)
    }
}
