//! Errors of measurements over sockets.

use std::io;
use std::net::SocketAddr;

use crate::InvalidOption;

/// The reason why a measurement over sockets failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The UDP socket cannot be created or connected.
    #[error("cannot send to {address}")]
    Socket {
        /// Address of the host.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The host has no program with that UDP port.
    #[error("{0} refuses: no program has that UDP port (start `longhaul receive --reflect --listen {0}` there)")]
    Refused(SocketAddr),
    /// The host runs longhaul, but does not reflect probes.
    #[error("{0} speaks longhaul, but does not answer probes: it has to be started as `longhaul receive --reflect`")]
    NoReflector(SocketAddr),
    /// The host answers neither probes nor segments.
    #[error(
        "{0} does not answer: is `longhaul receive --reflect` running there, and does the path let UDP through both ways?"
    )]
    Silent(SocketAddr),
    /// The host refused a probe in the middle of the measurement.
    #[error("the reflector has gone away")]
    ReflectorGone,
    /// The thread that receives answers has ended.
    #[error("answers can no longer be received")]
    ReceiverGone,
    /// The system does not deliver ICMP errors to this socket.
    #[error("the system does not pass on what routers say")]
    RouterReports(#[source] io::Error),
    /// ICMP errors are available on Linux only.
    #[error("hops can be told apart on Linux only: elsewhere a program does not hear what routers say")]
    Unsupported,
    /// No hop answers packets whose TTL expired.
    #[error("neither {0} nor a router on the way there says anything of packets that it does not pass on")]
    NoHops(SocketAddr),
    /// The runtime for the transfer cannot be started.
    #[error("cannot start")]
    Runtime(#[source] io::Error),
    /// The host refuses connections.
    #[error("{0} refuses: nothing there takes a transfer (start `longhaul receive --plaintext --listen {0}` there)")]
    TransferRefused(SocketAddr),
    /// The host does not answer the handshake.
    #[error(
        "{0} does not answer: is `longhaul receive --plaintext` running there, and does the path let UDP through both ways?"
    )]
    TransferSilent(SocketAddr),
    /// The connection for the transfer cannot be established.
    #[error("cannot connect to {address}")]
    Connect {
        /// Address of the receiver.
        address: SocketAddr,
        /// Error of the connection.
        source: io::Error,
    },
    /// The peer grants no selective acknowledgments, on which packet pairs depend.
    #[error("{0} grants no selective acknowledgments, without which there are no pairs")]
    NoPairs(SocketAddr),
    /// The path drops even small packets of the transfer.
    #[error("{address} takes a transfer, but the path drops packets of {size} bytes")]
    Dropped {
        /// Address of the receiver.
        address: SocketAddr,
        /// Size of the packets (IP) that were dropped.
        size: u32,
    },
    /// The connection of the transfer failed.
    #[error("the transfer to {address} failed")]
    Transfer {
        /// Address of the receiver.
        address: SocketAddr,
        /// Error of the connection.
        source: io::Error,
    },
    /// The receiver refuses the transfer and gives a reason.
    #[error("{address} refuses the transfer: {reason}")]
    Declined {
        /// Address of the receiver.
        address: SocketAddr,
        /// The reason it gives.
        reason: String,
    },
    /// The receiver ends the transfer without a reason.
    #[error("{0} ends the transfer: what runs there is not `longhaul receive --plaintext`, or of another version")]
    Ended(SocketAddr),
    /// The measurement consists of nothing.
    #[error("nothing was measured")]
    Nothing,
    /// No random number is available.
    #[error("no random number")]
    Random(#[source] io::Error),
    /// The path carries no packets of a size that a method needs.
    #[error(transparent)]
    Option(#[from] InvalidOption),
    /// Any other error of the operating system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// The error and its causes, separated by colons.
    pub(super) fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text += &format!(": {error}");
            cause = error.source();
        }
        text
    }
}

/// Fills `bytes` with random numbers of the system.
pub(super) fn fill_random(bytes: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(bytes).map_err(|error| Error::Random(io::Error::other(error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_names_every_cause_once() {
        let cause = || io::Error::other("no route");
        let error = Error::Socket { address: ([192, 0, 2, 1], 7).into(), source: cause() };
        assert_eq!(error.chain(), "cannot send to 192.0.2.1:7: no route");
        assert_eq!(Error::from(cause()).chain(), "no route");
    }
}
