//! Requests of clients that name their targets: SOCKS version 5 (RFC 1928) and HTTP CONNECT (RFC 9110, section 9.3.6),
//! told apart by their first byte.
//!
//! A request is granted before the target is connected, so that the client's first data does not wait for a round trip.
//! If the target refuses, the connection is reset.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::tunnel::Target;

/// Maximum length of the head of an HTTP request in bytes.
const MAX_HEAD: usize = 8 << 10;
/// End of the head of an HTTP request.
const HEAD_END: &[u8] = b"\r\n\r\n";

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_ACCEPTABLE_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Replies of SOCKS (RFC 1928, section 6).
const SUCCEEDED: u8 = 0;
const GENERAL_FAILURE: u8 = 1;
const COMMAND_NOT_SUPPORTED: u8 = 7;
const ADDRESS_TYPE_NOT_SUPPORTED: u8 = 8;

/// Reason why a client's request is not granted.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProxyError {
    #[error(transparent)]
    Connection(#[from] io::Error),
    #[error("the client uses neither SOCKS5 nor HTTP CONNECT")]
    Unknown,
    #[error("the client's request is not valid")]
    Invalid,
    #[error("the client requests something other than a connection")]
    NotSupported,
    #[error("the client requires authentication")]
    Authentication,
    #[cfg(target_os = "linux")]
    #[error("the connection was not diverted, but made to the port itself")]
    NotDiverted,
}

/// Reads and grants the request of a client. Nothing after the request is read.
pub(super) async fn negotiate(client: &mut TcpStream) -> Result<Target, ProxyError> {
    let mut first = [0];
    client.peek(&mut first).await?;
    match first {
        [VERSION] => socks(client).await,
        [letter] if letter.is_ascii_uppercase() => http(client).await,
        _ => Err(ProxyError::Unknown),
    }
}

async fn socks(client: &mut TcpStream) -> Result<Target, ProxyError> {
    // Negotiation of the method: version, number of methods, methods.
    let [_, count] = read(client).await?;
    let mut methods = vec![0; count.into()];
    client.read_exact(&mut methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        client.write_all(&[VERSION, NO_ACCEPTABLE_METHOD]).await?;
        return Err(ProxyError::Authentication);
    }
    client.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    // Request: version, command, reserved, type of the address, address, port.
    let [version, command, _, kind] = read(client).await?;
    if version != VERSION {
        return Err(ProxyError::Invalid);
    }
    let host = match kind {
        IPV4 => Ipv4Addr::from(read::<4>(client).await?).to_string(),
        IPV6 => Ipv6Addr::from(read::<16>(client).await?).to_string(),
        NAME => {
            let [length] = read(client).await?;
            let mut name = vec![0; length.into()];
            client.read_exact(&mut name).await?;
            String::from_utf8(name).unwrap_or_default()
        }
        _ => return refuse(client, ADDRESS_TYPE_NOT_SUPPORTED, ProxyError::Invalid).await,
    };
    let port = u16::from_be_bytes(read(client).await?);
    if command != CONNECT {
        return refuse(client, COMMAND_NOT_SUPPORTED, ProxyError::NotSupported).await;
    }
    let Ok(target) = Target::new(&host, port) else {
        return refuse(client, GENERAL_FAILURE, ProxyError::Invalid).await;
    };
    client.write_all(&reply(SUCCEEDED)).await?;
    Ok(target)
}

async fn read<const N: usize>(client: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn refuse(client: &mut TcpStream, code: u8, error: ProxyError) -> Result<Target, ProxyError> {
    client.write_all(&reply(code)).await?;
    Err(error)
}

/// Returns a reply of SOCKS. The address of the gateway's connection is not known; 0.0.0.0:0 takes its place.
fn reply(code: u8) -> [u8; 10] {
    [VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0]
}

async fn http(client: &mut TcpStream) -> Result<Target, ProxyError> {
    let head = read_head(client).await?;
    let line = head.lines().next().unwrap_or_default();
    let mut words = line.split(' ');
    let (method, authority, version) = (words.next(), words.next(), words.next());
    let status = if method != Some("CONNECT") {
        "405 Method Not Allowed\r\nAllow: CONNECT"
    } else if let (Some(authority), Some("HTTP/1.1" | "HTTP/1.0"), None) = (authority, version, words.next())
        && let Ok(target) = authority.parse()
    {
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
        return Ok(target);
    } else {
        "400 Bad Request"
    };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    client.write_all(answer.as_bytes()).await?;
    Err(if method == Some("CONNECT") { ProxyError::Invalid } else { ProxyError::NotSupported })
}

/// Reads the head of a request, and nothing after it.
async fn read_head(client: &mut TcpStream) -> Result<String, ProxyError> {
    let (mut head, mut part) = (Vec::new(), vec![0; 1024]);
    loop {
        let peeked = client.peek(&mut part).await?;
        let before = head.len();
        head.extend(part.iter().take(peeked));
        let end = head.windows(HEAD_END.len()).position(|bytes| bytes == HEAD_END).map(|at| at + HEAD_END.len());
        let consumed = end.map_or(peeked, |end| end - before);
        client.read_exact(part.get_mut(..consumed).unwrap_or_default()).await?;
        match end {
            Some(end) => {
                head.truncate(end);
                return String::from_utf8(head).map_err(|_| ProxyError::Invalid);
            }
            None if peeked == 0 || head.len() > MAX_HEAD => return Err(ProxyError::Invalid),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpListener;

    use super::*;

    /// Returns the target of a client that sends `request` in pieces, what it is answered, and what remains unread.
    async fn negotiated(request: &[u8], piece: usize) -> (Result<String, String>, Vec<u8>, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let pieces: Vec<Vec<u8>> = request.chunks(piece).map(<[u8]>::to_vec).collect();
        let feeding = tokio::spawn(async move {
            client.set_nodelay(true).unwrap();
            for piece in pieces {
                client.write_all(&piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            client.shutdown().await.unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            answer
        });
        let negotiating = tokio::time::timeout(Duration::from_secs(60), negotiate(&mut server));
        let target = negotiating.await.unwrap().map(|target| target.to_string()).map_err(|error| error.to_string());
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).await.unwrap();
        drop(server);
        (target, feeding.await.unwrap(), rest)
    }

    #[tokio::test]
    async fn targets_of_socks_are_names_and_addresses() {
        let greeting = [5, 2, 1, 0];
        for (address, target) in [
            (&[1, 192, 0, 2, 1, 0, 80][..], "192.0.2.1:80"),
            (&[3, 9, b'a', b'.', b'e', b'x', b'a', b'm', b'p', b'l', b'e', 1, 0], "a.example:256"),
            (&[4, 0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 187], "[2001:db8::1]:443"),
        ] {
            let request = [&greeting[..], &[5, 1, 0], address, b"first data"].concat();
            for piece in [1, request.len()] {
                let (got, answer, rest) = negotiated(&request, piece).await;
                assert_eq!(got, Ok(target.to_owned()));
                assert_eq!((&answer[..], &rest[..]), (&[5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &b"first data"[..]));
            }
        }
    }

    #[tokio::test]
    async fn targets_of_connect_are_authorities() {
        for (authority, target) in [("a.example:443", "a.example:443"), ("[2001:db8::1]:80", "[2001:db8::1]:80")] {
            let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\nfirst data");
            for piece in [1, 7, request.len()] {
                let (got, answer, rest) = negotiated(request.as_bytes(), piece).await;
                assert_eq!(got, Ok(target.to_owned()));
                assert!(answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"\r\n\r\n"));
                assert_eq!(rest, b"first data");
            }
        }
    }

    #[tokio::test]
    async fn other_requests_are_refused_with_a_reply() {
        let long = [b"CONNECT a:1 HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; 9000]].concat();
        for (request, answer) in [
            (&b""[..], &b""[..]),
            (b"\x04\x01", b""),
            (b"\x16\x03\x01", b""),
            // Only authentication by name and password is offered.
            (b"\x05\x01\x02", b"\x05\xff"),
            // BIND, an unknown type of address, port 0, and a name that is none.
            (b"\x05\x01\x00\x05\x02\x00\x01\xc0\x00\x02\x01\x00\x50", b"\x05\x00\x05\x07"),
            (b"\x05\x01\x00\x05\x01\x00\x02", b"\x05\x00\x05\x08"),
            (b"\x05\x01\x00\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x00", b"\x05\x00\x05\x01"),
            (b"\x05\x01\x00\x05\x01\x00\x03\x01 \x00\x50", b"\x05\x00\x05\x01"),
            (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 "),
            (b"CONNECT a HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 "),
            (b"CONNECT a:1 HTTP/2\r\n\r\n", b"HTTP/1.1 400 "),
            (b"CONNECT a:1\r\n\r\n", b"HTTP/1.1 400 "),
            (b"CONNECT a:1 HTTP/1.1\r\n", b""),
            (&long, b""),
        ] {
            let (got, answered, _) = negotiated(request, request.len().max(1)).await;
            assert!(got.is_err() && answered.starts_with(answer), "{request:?}: {got:?} {answered:?}");
            assert_eq!(answer.is_empty(), answered.is_empty(), "{request:?}: {answered:?}");
        }
    }
}
