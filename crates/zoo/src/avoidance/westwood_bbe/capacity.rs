//! Sources of TCPW-BBE's capacity estimate.

use longhaul_cc::internal::TcpProbe;
use longhaul_cc::{Ack, Demands, Needs, Path, update};
use longhaul_units::{Rate, Span};

use crate::estimate::{Bandwidth, BandwidthStart, FusedCapacity};

longhaul_cc::options! {
    /// Source of the capacity in the eligible rate.
    pub(crate) enum CapacitySource {
        /// BE, from ACKs alone.
        Be = "be",
        /// TCPProbe's pairs, with BE until the first pair.
        Pairs = "pairs",
        /// Both, combined by [`FusedCapacity`].
        Fused = "fused",
    }
}

impl CapacitySource {
    /// Returns the demand for flipped pairs, and for arrival times, which make them accurate.
    pub(super) fn needs(self) -> Needs {
        let wanted = self != Self::Be;
        update!(Needs {
            preferred: update!(Demands { pairs: wanted, arrival_times: wanted, ..Demands::default() }),
            ..Needs::default()
        })
    }
}

/// Capacity estimate of one flow.
#[derive(Clone, Debug)]
pub(super) enum Capacity {
    Be(Bandwidth),
    Pairs {
        be: Bandwidth,
        probe: Box<TcpProbe>,
        /// Payload of a full packet as a fraction of its IP length.
        payload: f64,
    },
    Fused(Box<FusedCapacity>),
}

impl Capacity {
    /// Creates the estimate; BE has the time constant `tau`.
    pub(super) fn new(source: CapacitySource, tau: Span) -> Self {
        let be = Bandwidth::new(tau, BandwidthStart::Rise);
        match source {
            CapacitySource::Be => Self::Be(be),
            CapacitySource::Pairs => Self::Pairs { be, probe: Box::default(), payload: 1.0 },
            CapacitySource::Fused => Self::Fused(Box::new(FusedCapacity::new(tau))),
        }
    }

    pub(super) fn observe(&mut self, ack: &Ack<'_>, path: &Path) {
        match self {
            Self::Be(be) => be.observe(ack, path.latest_rtt),
            Self::Fused(fused) => fused.observe(ack, path),
            Self::Pairs { be, probe, payload } => {
                be.observe(ack, path.latest_rtt);
                if let Some(pair) = ack.pair.filter(|pair| pair.bytes >= path.mss) {
                    probe.on_pair(&pair, ack.rx_time.unwrap_or(ack.now));
                    *payload = path.mss.as_f64() / pair.bytes.as_f64().max(1.0);
                }
            }
        }
    }

    /// Ends the start-up of BE at the first congestion event.
    pub(super) const fn settle(&mut self) {
        match self {
            Self::Be(be) | Self::Pairs { be, .. } => be.settle(),
            Self::Fused(_) => {}
        }
    }

    /// Returns the capacity in payload bytes per second, or zero before the first estimate.
    pub(super) fn rate(&self) -> f64 {
        match self {
            Self::Be(be) => be.rate(),
            Self::Fused(fused) => fused.payload_rate(),
            Self::Pairs { be, probe, payload } => {
                let pairs = |rate: Rate| rate.as_bytes_per_sec() as f64 * payload;
                probe.capacity().map_or(be.rate(), pairs)
            }
        }
    }

    /// Returns how often pairs showed that the capacity has risen.
    pub(super) const fn rises(&self) -> u32 {
        match self {
            Self::Pairs { probe, .. } => probe.rises(),
            Self::Be(_) | Self::Fused(_) => 0,
        }
    }

    /// Returns whether a peer that reports false arrival times can inflate the estimate without bound.
    pub(super) const fn is_hearsay(&self) -> bool {
        !matches!(self, Self::Be(_))
    }
}
