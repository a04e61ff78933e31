//! Addresses on which connections are accepted, in the syntax of ssh.

use std::str::FromStr;

use crate::tunnel::Target;

/// A forward from a local port to a target: `[BIND:]PORT:HOST:HOSTPORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalForward {
    /// Name or address to listen on, without brackets; `None` is the loopback address.
    pub bind: Option<String>,
    /// Port to listen on; 0 is any free port.
    pub port: u16,
    /// Target of the connections.
    pub target: Target,
}

/// Reason why a text is not a forward.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a forward, [BIND:]PORT:HOST:HOSTPORT; IPv6 addresses are in brackets")]
#[non_exhaustive]
pub struct ParseForwardError(String);

impl FromStr for LocalForward {
    type Err = ParseForwardError;

    fn from_str(text: &str) -> Result<Self, ParseForwardError> {
        parse(text).ok_or_else(|| ParseForwardError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<LocalForward> {
    let mut words = words(text)?;
    let (target_port, target_host) = (words.pop()?, words.pop()?);
    let target = Target::new(&target_host, target_port.parse().ok()?).ok()?;
    let port = words.pop()?.parse().ok()?;
    let bind = words.pop();
    words.is_empty().then_some(LocalForward { bind, port, target })
}

/// Splits at colons that are not in brackets, and removes the brackets.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        let (word, after) = match rest.strip_prefix('[') {
            Some(bracketed) => {
                let (word, after) = bracketed.split_once(']')?;
                match after.strip_prefix(':') {
                    Some(after) => (word, Some(after)),
                    None if after.is_empty() => (word, None),
                    None => return None,
                }
            }
            None => rest.split_once(':').map_or((rest, None), |(word, after)| (word, Some(after))),
        };
        words.push(word.to_owned());
        match after {
            Some(after) => rest = after,
            None => return Some(words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_have_the_syntax_of_ssh() {
        for (text, bind, port, target) in [
            ("8080:relay.example:80", None, 8080, "relay.example:80"),
            ("0:192.0.2.1:80", None, 0, "192.0.2.1:80"),
            ("127.0.0.2:8080:h:80", Some("127.0.0.2"), 8080, "h:80"),
            ("[::1]:8080:[2001:db8::1]:80", Some("::1"), 8080, "[2001:db8::1]:80"),
            ("8080:[2001:db8::1]:80", None, 8080, "[2001:db8::1]:80"),
        ] {
            let forward: LocalForward = text.parse().unwrap();
            let expected = (bind.map(str::to_owned), port, target.parse().unwrap());
            assert_eq!((forward.bind, forward.port, forward.target), expected);
        }
        for bad in
            ["", "80", "80:h", "80:h:0", "x:h:80", "65536:h:80", "a:b:80:h:80", "80:[h:80", "80:[::1]x:80", ":::"]
        {
            assert!(bad.parse::<LocalForward>().is_err(), "{bad}");
        }
    }
}
