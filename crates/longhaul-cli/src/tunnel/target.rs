//! Targets of forwarded connections.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// Maximum length of a host in bytes (RFC 1928 has one byte for the length of a name).
pub(super) const MAX_HOST: usize = 255;

/// A host and a TCP port, displayed as `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    host: String,
    port: u16,
}

/// Reason why a text is not a [`Target`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a host and a port, HOST:PORT")]
#[non_exhaustive]
pub struct ParseTargetError;

impl Target {
    /// Creates a target from a name or an address without brackets.
    ///
    /// # Errors
    /// Fails if the port is 0, or if the host is empty, longer than 255 bytes, or contains characters that no host name
    /// or address has.
    pub fn new(host: &str, port: u16) -> Result<Self, ParseTargetError> {
        let allowed = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
        let valid = host.parse::<Ipv6Addr>().is_ok() || host.chars().all(allowed);
        if port == 0 || host.is_empty() || host.len() > MAX_HOST || !valid {
            return Err(ParseTargetError);
        }
        Ok(Self { host: host.to_lowercase(), port })
    }

    /// Returns the name or address, in lower case and without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port, which is not 0.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address if the host is not a name.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<Self, ParseTargetError> {
        let (host, port) = text.rsplit_once(':').ok_or(ParseTargetError)?;
        let port = port.parse().map_err(|_| ParseTargetError)?;
        match host.strip_prefix('[').map(|host| host.strip_suffix(']')) {
            Some(Some(host)) if host.contains(':') => Self::new(host, port),
            None if !host.contains(':') => Self::new(host, port),
            _ => Err(ParseTargetError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_come_back_and_others_are_refused() {
        for (text, host, port) in [
            ("relay.example:80", "relay.example", 80),
            ("Relay_1.Example.:65535", "relay_1.example.", 65535),
            ("192.0.2.1:1", "192.0.2.1", 1),
            ("[2001:DB8::1]:443", "2001:db8::1", 443),
            ("b\u{fc}cher.example:443", "b\u{fc}cher.example", 443),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!((target.host(), target.port()), (host, port));
            assert_eq!(target.to_string().parse(), Ok(target));
        }
        let long = format!("{}:1", "x".repeat(256));
        for bad in
            ["", ":1", "a", "a:", "a:0", "a:65536", "::1:80", "[a]:1", "[::1:1", "a b:1", "a\n:1", "a/b:1", &long]
        {
            assert_eq!(bad.parse::<Target>(), Err(ParseTargetError), "{bad}");
        }
    }
}
