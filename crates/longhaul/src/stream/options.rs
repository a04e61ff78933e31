//! Settings of a connection that exists.

use std::io;
use std::time::Duration;

use longhaul_tcp::Config;
use longhaul_units::{Rate, Span};

use super::TcpStream;
use crate::handle::to_span;

impl TcpStream {
    /// Whether small writes are sent at once.
    ///
    /// # Errors
    /// `NotConnected` if there is no connection left.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.handle.read_setting(|connection| connection.nodelay())
    }

    /// Sends small writes at once instead of gathering them while data is in flight (the Nagle algorithm).
    ///
    /// # Errors
    /// `NotConnected` if there is no connection left.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.handle.set_nodelay(nodelay)
    }

    /// Whether acknowledgments are never delayed.
    ///
    /// # Errors
    /// `NotConnected` if there is no connection left.
    pub fn quickack(&self) -> io::Result<bool> {
        self.handle.read_setting(|connection| connection.config().ack_delay.is_zero())
    }

    /// Acknowledges every receive batch at once instead of waiting a moment for data to ride on. Unlike Linux's it
    /// stays so until it is switched off, which restores the default delay.
    ///
    /// # Errors
    /// `NotConnected` if there is no connection left.
    pub fn set_quickack(&self, quickack: bool) -> io::Result<()> {
        let delay = if quickack { Span::ZERO } else { Config::default().ack_delay };
        self.handle.set(|config| config.ack_delay = delay)
    }

    /// What was set by [`set_linger`](Self::set_linger).
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(self.handle.linger())
    }

    /// `Some(0)` makes dropping the stream abort the connection, as [`abort`](Self::abort) does. Any other time is
    /// remembered and changes nothing: a drop never waits, what was written is sent in the background, and to wait for
    /// that there is [`close`](Self::close).
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        self.handle.set_linger(linger);
        Ok(())
    }

    /// Makes dropping the stream abort the connection.
    ///
    /// # Errors
    /// None; a `Result` as tokio has it.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.set_linger(Some(Duration::ZERO))
    }

    /// The TTL or hop limit of packets sent.
    ///
    /// # Errors
    /// The system's.
    pub fn ttl(&self) -> io::Result<u32> {
        self.handle.shared.ttl()
    }

    /// Sets the TTL or hop limit of packets sent. It is the UDP socket's, which the connections of a
    /// listener or connector share.
    ///
    /// # Errors
    /// The system's.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.handle.shared.set_ttl(ttl)
    }

    /// The name of the congestion control in force. It is chosen before the connection is made:
    /// [`TcpSocket::set_congestion`](crate::TcpSocket::set_congestion).
    ///
    /// # Errors
    /// `NotConnected` if there is no connection left.
    pub fn congestion(&self) -> io::Result<String> {
        self.handle.read_setting(|connection| connection.config().congestion.name())
    }

    /// Gives the connection up when data stays unacknowledged for so long (RFC 5482); `None` is some 15 minutes. The peer
    /// is told if [`set_user_timeout_option`](Self::set_user_timeout_option) is on.
    ///
    /// # Errors
    /// `NotConnected` if there is no connection left.
    pub fn set_user_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.handle.set(|config| config.user_timeout = timeout.map(to_span))
    }

    /// Tells the peer of the user timeout, and heeds what it tells of its own, as
    /// [`TcpSocket::set_user_timeout_option`](crate::TcpSocket::set_user_timeout_option) does from the beginning.
    ///
    /// # Errors
    /// `NotConnected` if there is no connection left.
    pub fn set_user_timeout_option(&self, enabled: bool) -> io::Result<()> {
        self.handle.set(|config| config.user_timeout_option = enabled)
    }

    /// Lets writes wait while as many bytes were never sent, so that they stay with the application until they can
    /// leave (`TCP_NOTSENT_LOWAT`). With `None`, the default, it is 256 KiB while congestion control keeps data back, and
    /// 4 MiB while the peer's window does.
    ///
    /// # Errors
    /// `NotConnected` if there is no connection left.
    pub fn set_notsent_lowat(&self, bytes: Option<u32>) -> io::Result<()> {
        self.handle.set(|config| config.notsent_lowat = bytes.map(|bytes| bytes as usize))
    }

    /// A ceiling for the pacing rate in bytes per second; `None` is none.
    ///
    /// # Errors
    /// `NotConnected` if there is no connection left.
    pub fn set_max_pacing_rate(&self, bytes_per_second: Option<u64>) -> io::Result<()> {
        let rate = bytes_per_second.map_or(Rate::MAX, Rate::from_bytes_per_sec);
        self.handle.set(|config| config.max_pacing_rate = rate)
    }
}
