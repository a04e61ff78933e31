//! Router-assisted congestion control at the output of a link: Quick-Start (RFC 4782), RCP and XCP.
//!
//! A router reads and edits the request in the network-feedback option of passing segments
//! ([`longhaul_wire::network`]), and increments the option's stamps. It answers only requests of its own kind. Requests
//! of another kind pass without a stamp, so that their receivers treat them as denied. Reports of approved rates, and
//! requests denied upstream, pass unchanged. A link without a rate grants every request in full.

use longhaul_units::{Span, Time};
use longhaul_wire::network::{Forward, Request, edit_forward};

use crate::hook::View;
use crate::packet::{Packet, Payload};
use crate::random::Random;
use crate::validate::ConfigError;

mod quick_start;
mod rcp;
mod xcp;

use quick_start::QuickStart;
pub use quick_start::QuickStartConfig;
use rcp::Rcp;
pub use rcp::RcpConfig;
use xcp::Xcp;
pub use xcp::XcpConfig;

/// The kind of router at the output of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum RouterConfig {
    /// Grants Quick-Start rate requests.
    QuickStart(QuickStartConfig),
    /// Advertises the fair rate of RCP.
    Rcp(RcpConfig),
    /// Distributes XCP's aggregate feedback among senders.
    Xcp(XcpConfig),
}

impl RouterConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::QuickStart(config) => config.validate(),
            Self::Rcp(config) => config.validate(),
            Self::Xcp(config) => config.validate(),
        }
    }
}

/// Counters of a router's answers to the requests it saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouterStats {
    /// Number of requests of the router's kind that passed with a stamp, reduced or not.
    pub answered: u64,
    /// Number of requests for more than the router granted.
    pub lowered: u64,
    /// Quick-Start requests denied.
    pub denied: u64,
    /// Number of requests of another kind, of requests denied upstream, and of reports, all of which pass unchanged.
    pub passed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Granted,
    Lowered,
    Denied,
    Passed,
}

/// Router at the output of a link. Before a packet enters or leaves the queue, [`turn`](Self::turn) must be called
/// with the current time.
#[derive(Debug)]
pub(crate) struct OutputRouter {
    kind: Kind,
    stats: RouterStats,
}

#[derive(Debug)]
enum Kind {
    QuickStart(QuickStart),
    Rcp(Rcp),
    Xcp(Xcp),
}

impl OutputRouter {
    pub(crate) fn new(config: &RouterConfig, random: Random) -> Self {
        let kind = match config {
            RouterConfig::QuickStart(config) => Kind::QuickStart(QuickStart::new(*config, random)),
            RouterConfig::Rcp(config) => Kind::Rcp(Rcp::new(*config)),
            RouterConfig::Xcp(config) => Kind::Xcp(Xcp::new(*config)),
        };
        Self { kind, stats: RouterStats::default() }
    }

    pub(crate) fn stats(&self) -> &RouterStats {
        &self.stats
    }

    /// Ends the intervals that end by `now`; `view` is the state of the link since the last packet.
    pub(crate) fn turn(&mut self, now: Time, view: &View) {
        match &mut self.kind {
            Kind::QuickStart(_) => {}
            Kind::Rcp(rcp) => rcp.turn(now, view),
            Kind::Xcp(xcp) => xcp.turn(now, view),
        }
    }

    /// Accounts for a packet that arrives at the queue and takes `bytes` on the link.
    pub(crate) fn arrives<T: Payload>(&mut self, now: Time, view: &View, bytes: u64, packet: &mut Packet<T>) {
        match &mut self.kind {
            Kind::QuickStart(_) => {}
            Kind::Rcp(rcp) => rcp.arrives(now, view, bytes, request(packet)),
            Kind::Xcp(xcp) => xcp.arrives(bytes, request(packet)),
        }
    }

    /// Answers the request of a packet that takes `bytes` on the link and is transmitted from `now` until `ends`.
    pub(crate) fn departs<T: Payload>(
        &mut self,
        (now, ends): (Time, Time),
        view: &View,
        bytes: u64,
        packet: &mut Packet<T>,
    ) {
        let Self { kind, stats } = self;
        if let Kind::QuickStart(quick_start) = kind {
            quick_start.sends(now, ends, bytes);
        }
        packet.payload.edit_datagram(&mut |datagram| {
            let mut answer = Answer::Passed;
            let edited = edit_forward(datagram, |forward| {
                answer = match kind {
                    Kind::QuickStart(quick_start) => quick_start.answer(now, view, forward),
                    Kind::Rcp(rcp) => rcp.answer(view, forward),
                    Kind::Xcp(xcp) => xcp.answer(view, bytes, forward),
                };
                if matches!(answer, Answer::Granted | Answer::Lowered) {
                    forward.stamps = forward.stamps.saturating_add(1);
                }
            });
            if edited {
                stats.count(answer);
            }
            edited && answer != Answer::Passed
        });
    }
}

impl RouterStats {
    fn count(&mut self, answer: Answer) {
        match answer {
            Answer::Granted => self.answered += 1,
            Answer::Lowered => {
                self.answered += 1;
                self.lowered += 1;
            }
            Answer::Denied => self.denied += 1,
            Answer::Passed => self.passed += 1,
        }
    }
}

fn request<T: Payload>(packet: &mut Packet<T>) -> Option<Request> {
    let mut request = None;
    packet.payload.edit_datagram(&mut |datagram| {
        edit_forward(datagram, |forward: &mut Forward| request = Some(forward.request));
        false
    });
    request
}

/// Converts the RTT in a request to seconds, at most `most`; `None` if the sender has no estimate.
fn rtt(micros: u32, most: Span) -> Option<f64> {
    (micros > 0).then(|| (f64::from(micros) / 1e6).min(most.as_secs_f64()))
}
