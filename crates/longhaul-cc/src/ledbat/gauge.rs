//! Which delay counts: the round trip, or one way by the receiver's arrival times.

use longhaul_units::Span;

use super::{Delays, OneWay};
use crate::describe::{OptionSpec, Rule};
use crate::{Ack, Demands, Needs};

crate::options! {
    /// The delay that LEDBAT++ measures.
    #[derive(Default)]
    pub enum DelaySource {
        /// The round trip, as in LEDBAT++: it needs nothing of the peer, and counts queues on the reverse path.
        #[default]
        RoundTrip = "rtt",
        /// The one-way delay, as in LEDBAT; a connection whose peer reports no arrival times fails.
        OneWay = "one-way",
        /// The one-way delay if the peer reports arrival times, else the round trip.
        Auto = "auto",
    }
}

/// The option that chooses the delay; the default is the draft's.
pub(super) const DELAY: OptionSpec =
    OptionSpec::choice("delay", DelaySource::NAMES, "what is measured; auto is one-way if the peer tells of it")
        .ruled(&[Rule::Shared]);

impl DelaySource {
    /// What it takes of the transport.
    pub(super) fn needs(self) -> Needs {
        let demands = Demands { arrival_times: true, segments: true, ..Demands::default() };
        match self {
            Self::RoundTrip => Needs::default(),
            Self::OneWay => Needs { required: demands, ..Needs::default() },
            Self::Auto => Needs { preferred: demands, ..Needs::default() },
        }
    }
}

/// The queueing delay by whichever delay counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Gauge {
    source: DelaySource,
    round_trips: Delays,
    one_way: Option<Box<OneWay>>,
}

impl Gauge {
    pub(super) const fn new() -> Self {
        Self { source: DelaySource::RoundTrip, round_trips: Delays::new(), one_way: None }
    }

    pub(super) fn of(source: DelaySource) -> Self {
        let one_way = (source != DelaySource::RoundTrip).then(Box::default);
        Self { source, one_way, ..Self::new() }
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

    /// The queueing delay now, in seconds. What waits on one way waits on both: more than the round trip has grown by is
    /// the clocks' doing. Where reports have ceased, and before they come, the round trip's.
    pub(super) fn queueing(&self) -> f64 {
        let both = self.round_trips.queueing();
        let Some(((now, _), one_way)) = self.round_trips.newest().zip(self.one_way.as_ref()) else { return both };
        one_way.queueing(now).map_or(both, |there| there.as_secs_f64().min(both))
    }

    /// What the gain follows from.
    pub(super) fn base(&self) -> Option<Span> {
        self.round_trips.base()
    }

    /// As [`Delays::gain`]: by the round trip whatever counts, as what it stands for is how many of them there are.
    pub(super) fn gain(&self, target: Span) -> f64 {
        self.round_trips.gain(target)
    }
}
