//! Sources of TCPW-BBE's capacity estimate.

use longhaul_cc::internal::TcpProbe;
use longhaul_cc::{Ack, Demands, Needs, Path, update};
use longhaul_units::Span;

use crate::estimate::{Bandwidth, BandwidthStart, FusedCapacity};

longhaul_cc::options! {
    /// Source of the capacity in the eligible rate.
    pub(crate) enum CapacitySource {
        /// BE, which needs only ACKs.
        Be = "be",
        /// TCPProbe's pairs, with BE until the first pair.
        Pairs = "pairs",
        /// Both, combined by [`FusedCapacity`].
        Fused = "fused",
    }
}

impl CapacitySource {
    /// Returns the request for flipped pairs, and for arrival times, which make the pairs accurate.
    pub(super) fn needs(self) -> Needs {
        let wanted = self != Self::Be;
        update!(Needs {
            preferred: update!(Demands { pairs: wanted, arrival_times: wanted, ..Demands::default() }),
            ..Needs::default()
        })
    }
}

/// Capacity estimate of one flow: BE, which TCPProbe's pairs replace from the first one on, or both fused.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    be: Bandwidth,
    pairs: Option<Box<TcpProbe>>,
    fused: Option<Box<FusedCapacity>>,
    /// Payload of a full packet as a fraction of its IP length.
    payload: f64,
}

impl Capacity {
    pub(super) fn new(source: CapacitySource, tau: Span) -> Self {
        Self {
            be: Bandwidth::new(tau, BandwidthStart::Rise),
            pairs: (source == CapacitySource::Pairs).then(Box::default),
            fused: (source == CapacitySource::Fused).then(|| Box::new(FusedCapacity::new(tau))),
            payload: 1.0,
        }
    }

    pub(super) fn observe(&mut self, ack: &Ack<'_>, path: &Path) {
        if let Some(fused) = &mut self.fused {
            return fused.observe(ack, path); // it has a BE of its own
        }
        self.be.observe(ack, path.latest_rtt);
        if let (Some(probe), Some(pair)) = (&mut self.pairs, ack.pair.filter(|pair| pair.bytes >= path.mss)) {
            probe.on_pair(&pair, ack.rx_time.unwrap_or(ack.now));
            self.payload = path.mss.as_f64() / pair.bytes.as_f64().max(1.0);
        }
    }

    /// Ends the start-up of BE at the first congestion event.
    pub(super) const fn settle(&mut self) {
        self.be.settle();
    }

    /// Returns the capacity in payload bytes per second, or zero before the first estimate.
    pub(super) fn rate(&self) -> f64 {
        let pairs = || self.pairs.as_ref()?.capacity().map(|rate| rate.as_bytes_per_sec() as f64 * self.payload);
        match &self.fused {
            Some(fused) => fused.payload_rate(),
            None => pairs().unwrap_or(self.be.rate()),
        }
    }

    /// Returns how often pairs showed that the capacity has risen.
    pub(super) fn rises(&self) -> u32 {
        self.pairs.as_ref().map_or(0, |probe| probe.rises())
    }

    /// Returns whether a peer could inflate the estimate without bound by false arrival times.
    pub(super) const fn is_hearsay(&self) -> bool {
        self.pairs.is_some() || self.fused.is_some()
    }
}
