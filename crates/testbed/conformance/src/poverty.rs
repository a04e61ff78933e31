//! Information that the control loops of other stacks do not provide to a controller.

use longhaul_cc::{ControllerFactory, Granted};
use longhaul_units::{Bytes, Rate, Span};

use crate::{Expect, Pipe, fill};

/// Information or service that the transport of a [`Pipe`] lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Poverty {
    /// Nothing is lacking.
    #[default]
    Nothing,
    /// Segments are not reported individually.
    Segments,
    /// The pace is ignored, and the window is sent in bursts.
    Pace,
    /// Ticks are a round trip late.
    Ticks,
    /// Losses follow the ACK that revealed them, in an ACK event that delivers nothing.
    Losses,
    /// RTT samples contain up to 25 ms of ACK delay at the peer.
    AckDelay,
    /// Timeouts are not reported: the loss of everything in flight is an ACK event that delivers nothing.
    Timeouts,
    /// Retransmissions are reported as new data.
    Kinds,
    /// All limitations except the missing pace.
    AllButPace,
    /// All limitations.
    All,
}

impl Poverty {
    const EACH: [Self; 9] = [
        Self::Segments,
        Self::Pace,
        Self::Ticks,
        Self::Losses,
        Self::AckDelay,
        Self::Timeouts,
        Self::Kinds,
        Self::AllButPace,
        Self::All,
    ];

    /// Returns whether the limitations include `one`.
    pub(crate) fn lacks(self, one: Self) -> bool {
        self == one || self == Self::All || self == Self::AllButPace && one != Self::Pace
    }

    pub(crate) fn granted(self) -> Granted {
        let mut granted = Granted::basic();
        granted.segments = !self.lacks(Self::Segments);
        granted.ack_delay_in_rtt = self.lacks(Self::AckDelay);
        (granted.pacing, granted.spreads) = (!self.lacks(Self::Pace), !self.lacks(Self::Pace));
        granted
    }
}

/// Lets controllers of `factory` fill a path of 20 Mb/s and 40 ms for 10 s with each [`Poverty`].
///
/// # Panics
/// Panics if a rule is broken, or if a controller that accepts a poverty delivers less than half of what it delivers
/// without it.
pub(crate) fn endure(factory: &dyn ControllerFactory, expect: Expect) {
    let (rate, time) = (Rate::from_bits_per_sec(20_000_000), Span::from_secs(10));
    let mut pipe = Pipe::new(rate, Span::from_millis(40), Bytes(1448));
    let Some(rich) = fill(factory, &pipe, time, expect) else { return };
    for poverty in Poverty::EACH {
        pipe.poverty = poverty;
        let Some(poor) = fill(factory, &pipe, time, expect) else { continue };
        let (had, has) = (rich.delivered, poor.delivered);
        assert!(has * 2 >= had, "{}: without {poverty:?} {has} of {had} B are delivered", factory.name());
    }
}
