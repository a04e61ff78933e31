//! Settings of experiments. Semantic versioning does not cover them.

use std::io;
use std::time::Duration;

use longhaul_units::Bytes;

use crate::config::{Config, setters};
use crate::info::TcpInfo;
use crate::info::experiments::TcpExperiments;
use crate::io::Io;
use crate::socket::TcpSocket;
use crate::stream::TcpStream;

setters! {
    /// Experiments.
    impl Config;

    /// Limits the congestion window. Default: 4 GiB.
    max_cwnd(bytes: u64) |config| config.engine.max_cwnd = bytes;

    /// Sets the minimum margin of the retransmission timeout above the RTT. RFC 6298 requires a timeout of at least 1
    /// s; deployed stacks use 200 ms above the RTT, which is safe with timestamps, F-RTO and Eifel detection. Default:
    /// 200 ms.
    min_rto(margin: Duration) |config| config.engine.min_rto = margin.into();

    /// States that the routers of the path answer network feedback requests. Otherwise Quick-Start, RCP and XCP send no
    /// requests. Routers on the Internet do not answer. Default: off.
    routers_answer(answer: bool) |config| config.engine.routers_answer = answer;

    /// States the TTL or hop limit of sent packets, if it was changed on the socket. Receivers use it to count the
    /// routers that did not process a request. Default: 64.
    ttl(hops: u8) |config| config.engine.ttl = hops;

    /// Asks the peer to report the arrival times of segments even if the congestion controller does not use them. The
    /// request is part of the SYN, so an accepted connection receives reports only if the peer also asked for them.
    /// Default: off.
    arrival_times(enabled: bool) |config| config.engine.arrival_times = enabled;

    /// Measures the capacity of the narrow link with flipped pairs of segments (TCPProbe) even if the congestion
    /// controller does not use it. At most one pair is sent per round trip. This requires a peer that supports SACK;
    /// [`arrival_times`](Self::arrival_times) makes it more accurate. Default: off.
    probe_pairs(enabled: bool) |config| config.engine.probe_pairs = enabled;

    /// Sets whether to offer longhaul's experimental options. Without them, nothing reveals that this end is longhaul.
    /// Default: on.
    extensions(enabled: bool) |config| config.engine.extensions = enabled;
}

/// Experiments.
impl TcpSocket {
    /// Sets whether a listener answers path probes, such as those of `longhaul probe`, with their arrival times.
    /// Anybody can send a probe, and the answer states its arrival time and TTL. An answer is never longer than the
    /// probe. Off by default. Client sockets do not answer probes.
    pub fn set_reflect(&self, reflect: bool) {
        self.setup().reflect = reflect;
    }
}

/// Experiments.
impl TcpStream {
    /// Shares the congestion windows of other connections to the same host with this connection, which receives `bytes`
    /// of them (ensemble sharing; RFC 9040, section 7). With the controller `bbr`, the share replaces the initial
    /// window if it is larger and the connection is still in its first start-up. Other controllers, and connections
    /// with data in flight, ignore it.
    ///
    /// The window is sent at once, so the sum of the windows that an application shares must not exceed the measured
    /// capacity of the path.
    #[doc = errors!(gone)]
    pub fn share_window(&self, bytes: u64) -> io::Result<()> {
        self.handle.drive(|connection| connection.share_window(Io::now(), Bytes(bytes)))
    }
}

/// Experiments.
impl TcpInfo {
    /// Returns the state of the experiments that the connection takes part in.
    #[must_use]
    pub const fn experiments(&self) -> &TcpExperiments {
        &self.experiments
    }
}
