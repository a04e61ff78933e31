//! Errors of measurements over sockets.

use std::io;
use std::net::SocketAddr;

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
    #[error("{0} refuses: no program has that UDP port (start `longhaul receive --reflect --code --listen {0}` there)")]
    Refused(SocketAddr),
    /// The host runs longhaul, but does not reflect probes.
    #[error("{0} speaks longhaul, but does not answer probes: it has to be started as `longhaul receive --reflect`")]
    NoReflector(SocketAddr),
    /// The host answers neither probes nor segments.
    #[error(
        "{0} does not answer: is `longhaul receive --reflect` running there, and does the path let UDP through both ways?"
    )]
    Silent(SocketAddr),
    /// The measurement could not begin or continue for another reason.
    #[error("{reason}")]
    Failed {
        /// Reason for the failure.
        reason: String,
        /// Error of the operating system or the connection.
        source: Option<io::Error>,
    },
    /// Any other error of the operating system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    pub(super) fn failed(reason: impl Into<String>) -> Self {
        Self::Failed { reason: reason.into(), source: None }
    }

    pub(super) fn caused(reason: impl Into<String>, source: io::Error) -> Self {
        Self::Failed { reason: reason.into(), source: Some(source) }
    }

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

pub(super) fn fill_random(bytes: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(bytes).map_err(|error| Error::caused("no random number", io::Error::other(error.to_string())))
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
