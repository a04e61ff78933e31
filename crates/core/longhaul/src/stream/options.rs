//! Settings of an existing connection.

use std::io;
use std::time::Duration;

use longhaul_tcp::Config;
use longhaul_units::Span;

use super::TcpStream;
use crate::config::{KeepAlive, to_rate};

impl TcpStream {
    /// Returns whether the Nagle algorithm is disabled.
    #[doc = errors!(gone)]
    pub fn nodelay(&self) -> io::Result<bool> {
        self.handle.read_setting(|connection| connection.status().nodelay())
    }

    /// Disables the Nagle algorithm: small writes are sent at once instead of being gathered while another one is in
    /// flight.
    #[doc = errors!(gone)]
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.handle.drive(|connection| connection.writer().set_nodelay(nodelay))
    }

    /// Returns whether delayed acknowledgments are disabled.
    #[doc = errors!(gone)]
    pub fn quickack(&self) -> io::Result<bool> {
        self.handle.read_setting(|connection| connection.status().config().ack_delay.is_zero())
    }

    /// Disables delayed acknowledgments: every receive batch is acknowledged at once, instead of waiting briefly for
    /// data that can carry the ACK. Unlike Linux's `TCP_QUICKACK`, the setting is permanent. Switching it off
    /// restores the default delay.
    #[doc = errors!(gone)]
    pub fn set_quickack(&self, quickack: bool) -> io::Result<()> {
        let delay = if quickack { Span::ZERO } else { Config::default().ack_delay };
        self.handle.set(|config| config.ack_delay = delay)
    }

    /// Returns the value set by [`set_linger`](Self::set_linger).
    #[doc = errors!(never)]
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(*self.handle.linger.lock())
    }

    /// Sets the linger option. `Some` with a duration of zero makes dropping the stream abort the connection, as
    /// [`abort`](Self::abort) does. Any other duration is stored without effect: dropping a stream never waits, and
    /// the data written is sent in the background. To wait for it, use [`close`](Self::close).
    #[doc = errors!(never)]
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        *self.handle.linger.lock() = linger;
        Ok(())
    }

    /// Makes dropping the stream abort the connection.
    #[doc = errors!(never)]
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.set_linger(Some(Duration::ZERO))
    }

    /// Returns the TTL or hop limit of sent packets.
    #[doc = errors!(system)]
    pub fn ttl(&self) -> io::Result<u32> {
        self.handle.shared.ttl()
    }

    /// Sets the TTL or hop limit of sent packets. It is a setting of the UDP socket, which the connections of a
    /// listener or connector share.
    #[doc = errors!(system)]
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.handle.shared.set_ttl(ttl)
    }

    /// Returns the name of the congestion controller in use. It is chosen before the connection is made, with
    /// [`Config::congestion`](crate::Config::congestion).
    #[doc = errors!(gone)]
    pub fn congestion(&self) -> io::Result<String> {
        self.handle.read_setting(|connection| connection.status().config().congestion.name())
    }

    /// Sets the user timeout (RFC 5482): the connection is aborted when data has remained unacknowledged for this long.
    /// `None` means about 15 minutes. The timeout is announced to the peer if
    /// [`set_user_timeout_option`](Self::set_user_timeout_option) is on.
    #[doc = errors!(gone)]
    pub fn set_user_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.handle.set(|config| config.user_timeout = timeout.map(Span::from))
    }

    /// Enables the user timeout option , as [`Config::user_timeout_option`](crate::Config::user_timeout_option) does
    /// from the start: the user timeout is announced to the peer, and the peer's is taken into account.
    #[doc = errors!(gone)]
    pub fn set_user_timeout_option(&self, enabled: bool) -> io::Result<()> {
        self.handle.set(|config| config.user_timeout_option = enabled)
    }

    /// Sends keep-alive probes while the connection is idle, from now on; `None` disables them. See
    /// [`Config::keep_alive`](crate::Config::keep_alive).
    #[doc = errors!(gone)]
    pub fn set_keep_alive(&self, keep_alive: Option<KeepAlive>) -> io::Result<()> {
        self.handle.set(|config| config.keep_alive = keep_alive.map(KeepAlive::to_engine))
    }

    /// Limits unsent data to this many bytes: further writes wait, so the data remains with the application until it
    /// can be sent (`TCP_NOTSENT_LOWAT`). With `None`, the default, the limit is 256 KiB while congestion control
    /// limits the sender, or 64 KiB where many connections of a socket are busy, and 4 MiB while the peer's window is
    /// the limit.
    #[doc = errors!(gone)]
    pub fn set_notsent_lowat(&self, bytes: Option<u32>) -> io::Result<()> {
        self.handle.set(|config| config.notsent_lowat = bytes.map(|bytes| bytes as usize))
    }

    /// Sets an upper limit for the pacing rate in bytes per second; `None` means no limit.
    #[doc = errors!(gone)]
    pub fn set_max_pacing_rate(&self, bytes_per_second: Option<u64>) -> io::Result<()> {
        self.handle.set(|config| config.max_pacing_rate = to_rate(bytes_per_second))
    }
}
