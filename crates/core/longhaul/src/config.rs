//! Settings of connections.

use std::fmt;
use std::time::Duration;

use longhaul_units::{Rate, Span};

use crate::congestion::Congestion;
use crate::path_cache::PathCache;

/// Settings of a connection; a listener's apply to the connections that it accepts. The default suits an unknown path.
///
/// ```
/// use std::time::Duration;
/// use longhaul::{Config, Congestion, KeepAlive};
///
/// let mut config = Config::default();
/// config.congestion(Congestion::bbr()).recv_buffer_max(256 << 20);
/// config.keep_alive(Some(KeepAlive::default().with_idle(Duration::from_secs(20))));
/// ```
#[derive(Clone)]
pub struct Config {
    pub(crate) engine: longhaul_tcp::Config,
    pub(crate) allow_unsafe: bool,
}

impl Default for Config {
    fn default() -> Self {
        let mut engine = longhaul_tcp::Config::default();
        engine.congestion = Congestion::default().0;
        engine.moderation = true;
        Self { engine, allow_unsafe: false }
    }
}

/// Implements setters of [`Config`] from the documentation of the group, and the documentation, name, argument and
/// effect of each setter.
macro_rules! setters {
    ($(#[$about:meta])* impl Config; $($(#[$doc:meta])* $name:ident($value:ident: $type:ty) |$config:ident| $change:expr;)*) => {
        $(#[$about])*
        impl Config {
            $(
                $(#[$doc])*
                pub fn $name(&mut self, $value: $type) -> &mut Self {
                    let $config = &mut *self;
                    $change;
                    self
                }
            )*
        }
    };
}

setters! {
    /// Congestion control and path.
    impl Config;

    /// Chooses the congestion controller, which cannot be changed once the connection exists. Connecting and listening
    /// fail if it is not safe on a shared network and has not been [allowed](Self::allow_unsafe_congestion). Default:
    /// [`Congestion::copa_cubic`].
    congestion(congestion: Congestion) |config| config.engine.congestion = congestion.0;

    /// Allows congestion controllers for controlled environments only: those that take more than a fair share of the
    /// capacity, or that rely on answers that routers in the Internet do not give. Use them only on a network of your
    /// own. Default: off.
    allow_unsafe_congestion(allow: bool) |config| config.allow_unsafe = allow;

    /// Uses this metrics cache (RFC 9040), which seeds new connections from earlier ones to the same host. Default:
    /// `None`, each connection starts without any history.
    path_cache(cache: Option<PathCache>) |config| config.engine.path_cache = cache.map(|cache| cache.0);

    /// Limits the pacing rate; `None` means no limit. Default: `None`.
    max_pacing_rate(bytes_per_second: Option<u64>) |config| config.engine.max_pacing_rate = to_rate(bytes_per_second);

    /// Sets whether to negotiate ECN (RFC 3168). Default: on.
    ecn(enabled: bool) |config| config.engine.ecn = enabled;

    /// Sets the UDP payload size that is assumed to pass every path: path MTU discovery starts from it and falls back
    /// to it (BASE_PLPMTU; RFC 8899, section 5.1.2). At most [`max_plpmtu`](Self::max_plpmtu). Default: 1232 bytes.
    base_plpmtu(bytes: u16) |config| config.engine.base_plpmtu = bytes;

    /// Sets the largest UDP payload that path MTU discovery probes for, and lowers [`base_plpmtu`](Self::base_plpmtu)
    /// to it. If both are equal, discovery is disabled. Default: 1472 bytes, which fill an Ethernet frame.
    max_plpmtu(bytes: u16) |config| {
        config.engine.max_plpmtu = bytes;
        config.engine.base_plpmtu = config.engine.base_plpmtu.min(bytes);
    };
}

setters! {
    /// Buffers and writes.
    impl Config;

    /// Sets the capacity of the send buffer, which holds unsent and unacknowledged data. Default: 64 MiB.
    send_buffer(bytes: usize) |config| config.engine.send_buffer = bytes;

    /// Limits unsent data: further writes wait, so the data remains with the application until it can be sent. Default:
    /// `None`, which means 256 KiB while congestion control limits the sender, or 64 KiB where many connections of a
    /// socket are busy, and 4 MiB while the peer's window is the limit.
    notsent_lowat(bytes: Option<usize>) |config| config.engine.notsent_lowat = bytes;

    /// Sets the initial size of the receive window. The default of 4 MiB covers 100 Mb/s with an RTT of 335 ms, so a
    /// sender that already knows the rate of the path can use it in the first round trip.
    recv_buffer(bytes: usize) |config| config.engine.recv_buffer = bytes;

    /// Sets the size up to which auto-tuning grows the receive window, at most 1 GiB (RFC 7323, section 2.2). Default:
    /// 64 MiB.
    recv_buffer_max(bytes: usize) |config| config.engine.recv_buffer_max = bytes;

    /// Disables the Nagle algorithm (RFC 9293, section 3.7.4): small writes are sent at once instead of being gathered
    /// while another one is in flight. Default: off.
    nodelay(nodelay: bool) |config| config.engine.nagle = !nodelay;
}

setters! {
    /// Acknowledgments and options of TCP.
    impl Config;

    /// Limits the delay of an ACK (RFC 9293, section 3.8.6.3: less than 500 ms); zero disables delayed ACKs. Default:
    /// 40 ms.
    ack_delay(delay: Duration) |config| config.engine.ack_delay = delay.into();

    /// Sends an ACK after this many full-sized segments without waiting for [`ack_delay`](Self::ack_delay), or after
    /// one receive batch if that is larger. 0 and 1 acknowledge every segment. RFC 5681, section 4.2, recommends at
    /// most 2. Default: 2.
    ack_every(segments: u8) |config| config.engine.ack_every = segments;

    /// Sets whether to offer SACK (RFC 2018). Default: on.
    sack(enabled: bool) |config| config.engine.sack = enabled;

    /// Sets whether to offer timestamps (RFC 7323). Default: on.
    timestamps(enabled: bool) |config| config.engine.timestamps = enabled;

    /// Sets whether to offer window scaling (RFC 7323). Default: on.
    window_scaling(enabled: bool) |config| config.engine.window_scaling = enabled;
}

setters! {
    /// Timeouts.
    impl Config;

    /// Sends keep-alive probes on an idle connection (RFC 9293, section 3.8.4); `None` disables them. Default: `None`.
    keep_alive(keep_alive: Option<KeepAlive>) |config| config.engine.keep_alive = keep_alive.map(KeepAlive::to_engine);

    /// Sets the user timeout (RFC 5482): the connection is aborted when data has remained unacknowledged for this long.
    /// Default: `None`, about 15 minutes.
    user_timeout(timeout: Option<Duration>) |config| config.engine.user_timeout = timeout.map(Span::from);

    /// Announces the user timeout to the peer and takes the peer's timeout into account (ENABLED in RFC 5482). If
    /// [`user_timeout`](Self::user_timeout) is not set, the connection adopts the longer of the peer's timeout and 15
    /// minutes, but at most 1 hour. Default: off.
    user_timeout_option(enabled: bool) |config| config.engine.user_timeout_option = enabled;

    /// Adopts the peer's user timeout even if [`user_timeout`](Self::user_timeout) is set (CHANGEABLE in RFC 5482). The
    /// connection then uses the longer of the two, at least 100 s and at most 1 hour. Default: off.
    user_timeout_changeable(changeable: bool) |config| config.engine.user_timeout_changeable = changeable;

    /// Sets the number of SYN retransmissions before the attempt fails. RFC 9293, section 3.8.3, requires a default of
    /// at least 3 minutes. Default: 7.
    syn_retries(retries: u32) |config| config.engine.syn_retries = retries;

    /// Sets the duration of TIME-WAIT, twice the maximum segment lifetime. Default: 60 s.
    time_wait(duration: Duration) |config| config.engine.time_wait = duration.into();

    /// Limits the time that a closed connection waits in FIN-WAIT-2 for the peer's FIN. Default: 60 s.
    fin_wait2_timeout(timeout: Duration) |config| config.engine.fin_wait2_timeout = timeout.into();
}

impl Config {
    /// Creates the settings from those of the engine, for the tools of this repository.
    #[cfg(feature = "_internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn from_engine(engine: longhaul_tcp::Config) -> Self {
        Self { engine, allow_unsafe: false }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.engine.fmt(f)
    }
}

/// Keep-alive probes on an idle connection: the time before the first probe, the interval, and the number of probes.
///
/// Times below one second are raised to one second: receivers limit how often they answer such segments (RFC 5961,
/// section 7), so faster probes could treat a live peer as dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    idle: Duration,
    interval: Duration,
    probes: u32,
}

impl KeepAlive {
    /// Sets the idle time before the first probe. Default: 2 hours.
    #[must_use]
    pub const fn with_idle(self, idle: Duration) -> Self {
        Self { idle, ..self }
    }

    /// Sets the time between probes. Default: 75 s.
    #[must_use]
    pub const fn with_interval(self, interval: Duration) -> Self {
        Self { interval, ..self }
    }

    /// Sets the number of unanswered probes after which the connection is aborted. Default: 9.
    #[must_use]
    pub const fn with_probes(self, probes: u32) -> Self {
        Self { probes, ..self }
    }

    pub(crate) fn to_engine(self) -> longhaul_tcp::KeepAlive {
        let Self { idle, interval, probes } = self;
        longhaul_tcp::KeepAlive { idle: idle.into(), interval: interval.into(), probes }
    }
}

/// Two hours, 75 s and 9 probes, as in kernel TCP.
impl Default for KeepAlive {
    fn default() -> Self {
        let longhaul_tcp::KeepAlive { idle, interval, probes } = longhaul_tcp::KeepAlive::default();
        Self { idle: idle.into(), interval: interval.into(), probes }
    }
}

#[cfg(feature = "unstable-experiments")]
pub(crate) use setters;

/// Converts a rate in bytes per second, where `None` means unlimited.
pub(crate) fn to_rate(bytes_per_second: Option<u64>) -> Rate {
    bytes_per_second.map_or(Rate::MAX, Rate::from_bytes_per_sec)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets each setting to a value of its own and compares the engine's settings, which are printed by name.
    #[test]
    fn each_setter_changes_the_setting_of_its_name() {
        let seconds = Duration::from_secs;
        let mut config = Config::default();
        config.congestion(Congestion::new_reno()).path_cache(Some(PathCache::default()));
        config.max_pacing_rate(Some(1_000_000)).max_cwnd(101).ecn(false).base_plpmtu(102).max_plpmtu(103);
        config.routers_answer(true).ttl(104).arrival_times(true).probe_pairs(true);
        config.send_buffer(105).notsent_lowat(Some(106)).recv_buffer(107).recv_buffer_max(108).nodelay(true);
        config.ack_delay(seconds(109)).ack_every(110).sack(false).timestamps(false).window_scaling(false);
        config.extensions(false).user_timeout(Some(seconds(111))).user_timeout_option(true);
        let keep_alive = KeepAlive::default().with_idle(seconds(112)).with_interval(seconds(113)).with_probes(114);
        config.keep_alive(Some(keep_alive)).user_timeout_changeable(true).syn_retries(115).min_rto(seconds(116));
        config.time_wait(seconds(117)).fin_wait2_timeout(seconds(118));
        let text = format!("{config:#?}").split_whitespace().collect::<Vec<_>>().join(" ");
        for setting in [
            "path_cache: Some(",
            "max_pacing_rate: 8.000 Mbit/s",
            "max_cwnd: 101,",
            "ecn: false",
            "base_plpmtu: 102",
            "max_plpmtu: 103",
            "routers_answer: true",
            "ttl: 104",
            "arrival_times: true",
            "probe_pairs: true",
            "send_buffer: 105",
            "notsent_lowat: Some( 106, )",
            "recv_buffer: 107",
            "recv_buffer_max: 108",
            "nagle: false",
            "ack_delay: 109s",
            "ack_every: 110",
            " sack: false",
            "timestamps: false",
            "window_scaling: false",
            "extensions: false",
            "user_timeout: Some( 111s, )",
            "user_timeout_option: true",
            "KeepAlive { idle: 112s, interval: 113s, probes: 114, }",
            "user_timeout_changeable: true",
            "syn_retries: 115",
            "min_rto: 116s",
            "time_wait: 117s",
            "fin_wait2_timeout: 118s",
        ] {
            assert!(text.contains(setting), "{setting} in {text}");
        }
        assert_eq!(config.engine.congestion.name(), "new-reno");
        assert_eq!(Config::default().max_plpmtu(1000).engine.base_plpmtu, 1000);
    }
}
