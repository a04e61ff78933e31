//! Targets of forwarded connections.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::address;

/// Maximum length of a host in bytes (RFC 1928 uses one byte for the length of a name).
pub(super) const MAX_HOST: usize = 255;

/// A host and a TCP port, displayed as `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    host: String,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a host and a port, HOST:PORT")]
pub struct ParseTargetError;

impl Target {
    /// Creates a target from a name or an address without brackets.
    /// Fails if the port is 0, or if the host is empty, longer than 255 bytes, or contains characters that no host name
    /// or address has.
    pub fn new(host: &str, port: u16) -> Result<Self, ParseTargetError> {
        let allowed = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
        let valid = address::is_ipv6(host) || host.chars().all(allowed);
        if port == 0 || host.is_empty() || host.len() > MAX_HOST || !valid {
            return Err(ParseTargetError);
        }
        // Names of interfaces are case-sensitive.
        let (name, zone) = address::without_zone(host);
        let name = name.to_lowercase();
        Ok(Self { host: zone.map_or(name.clone(), |zone| format!("{name}%{zone}")), port })
    }

    /// Returns the name or address, without brackets and in lower case, except for a zone.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port, which is not 0.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address, without its zone, if the host is not a name.
    pub fn address(&self) -> Option<IpAddr> {
        address::without_zone(&self.host).0.parse().ok()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&address::join(&self.host, self.port))
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
            ("[FE80::1%Eth0]:443", "fe80::1%Eth0", 443),
            ("b\u{fc}cher.example:443", "b\u{fc}cher.example", 443),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!((target.host(), target.port()), (host, port));
            assert_eq!(target.to_string().parse(), Ok(target));
        }
        let long = format!("{}:1", "x".repeat(256));
        for bad in [
            "",
            ":1",
            "a",
            "a:",
            "a:0",
            "a:65536",
            "::1:80",
            "[a]:1",
            "[::1:1",
            "a b:1",
            "a\n:1",
            "a/b:1",
            "[fe80::1%]:1",
            "a%b:1",
            &long,
        ] {
            assert_eq!(bad.parse::<Target>(), Err(ParseTargetError), "{bad}");
        }
    }
}
