//! Requests of clients that name their targets: SOCKS version 5 (RFC 1928) and HTTP CONNECT (RFC 9110, section 9.3.6),
//! distinguished by their first byte.
//!
//! A request is granted before the target is connected, so that the client's first data does not wait for a round trip.
//! If the target refuses, the connection is reset.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::tunnel::Target;

/// Maximum length of the head of an HTTP request in bytes. Cookies and tokens make some of them long.
const MAX_HEAD: usize = 64 << 10;
/// Maximum time for which, and maximum number of bytes that, a refused client is read.
const LINGER: Duration = Duration::from_secs(2);
const MAX_REST: u64 = 1 << 20;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_ACCEPTABLE_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// SOCKS reply codes (RFC 1928, section 6).
const SUCCEEDED: u8 = 0;
const GENERAL_FAILURE: u8 = 1;
const COMMAND_NOT_SUPPORTED: u8 = 7;
const ADDRESS_TYPE_NOT_SUPPORTED: u8 = 8;

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

/// Reads and grants the request of a client. The first byte may take up to `patience`, and so may the rest. Nothing
/// after the request is read.
pub(super) async fn negotiate(client: &mut TcpStream, patience: Duration) -> Result<Target, ProxyError> {
    let late = |_| ProxyError::from(io::Error::from(io::ErrorKind::TimedOut));
    let mut first = [0];
    timeout(patience, client.peek(&mut first)).await.map_err(late)??;
    match first {
        [VERSION] => timeout(patience, socks(client)).await.map_err(late)?,
        [b'A'..=b'Z' | b'a'..=b'z' | b'\r' | b'\n'] => http(client, patience).await,
        _ => Err(ProxyError::Unknown),
    }
}

async fn socks(client: &mut TcpStream) -> Result<Target, ProxyError> {
    // Negotiation of the method: version, number of methods, methods.
    let [_, count] = read(client).await?;
    let mut methods = vec![0; count.into()];
    client.read_exact(&mut methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        leave(client, &[VERSION, NO_ACCEPTABLE_METHOD]).await?;
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
            let name = String::from_utf8(name).unwrap_or_default();
            // Some clients put brackets around addresses, as in URLs.
            name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).map(str::to_owned).unwrap_or(name)
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
    leave(client, &reply(code)).await?;
    Err(error)
}

/// Returns a SOCKS reply. It contains 0.0.0.0:0, because the address of the gateway's connection to the target is not
/// known.
fn reply(code: u8) -> [u8; 10] {
    [VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0]
}

/// Reads and grants an HTTP/1 request. Other requests are answered with the status that RFC 9110 defines for them.
async fn http(client: &mut TcpStream, patience: Duration) -> Result<Target, ProxyError> {
    let (status, error) = match timeout(patience, read_head(client)).await {
        Err(_) => ("408 Request Timeout", io::Error::from(io::ErrorKind::TimedOut).into()),
        Ok(Err(fault)) => fault,
        Ok(Ok(head)) => match request(&head) {
            Ok(target) => {
                client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
                return Ok(target);
            }
            Err(fault) => fault,
        },
    };
    if !status.is_empty() {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        leave(client, answer.as_bytes()).await?;
    }
    Err(error)
}

/// HTTP status line for the client, empty if no answer is sent, and the reason.
type Fault = (&'static str, ProxyError);

/// Returns the target of a request, whose lines may end in LF only (RFC 9112, section 2.2).
fn request(head: &[u8]) -> Result<Target, Fault> {
    let bad = || ("400 Bad Request", ProxyError::Invalid);
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let line = std::str::from_utf8(lines.next().unwrap_or_default()).map_err(|_| bad())?;
    let [method, authority, version] = line.split(' ').collect::<Vec<_>>()[..] else { return Err(bad()) };
    let minor = match version.split_once('.') {
        Some(("HTTP/1", minor)) => minor.parse::<u8>().map_err(|_| bad())?,
        _ if version.starts_with("HTTP/") => return Err(("505 HTTP Version Not Supported", ProxyError::NotSupported)),
        _ => return Err(bad()),
    };
    match method {
        "CONNECT" => {}
        "GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "OPTIONS" | "TRACE" | "PATCH" => {
            return Err(("405 Method Not Allowed\r\nAllow: CONNECT", ProxyError::NotSupported));
        }
        _ => return Err(("501 Not Implemented", ProxyError::NotSupported)),
    }
    // Checks the header fields (RFC 9112, sections 3.2 and 5.1). Values may have bytes outside ASCII (RFC 9110, section
    // 5.5).
    let mut hosts = 0;
    for field in lines.filter(|line| !line.is_empty()) {
        let name = field.iter().position(|byte| *byte == b':').and_then(|colon| field.get(..colon));
        let name = name.filter(|name| !name.is_empty() && name.iter().all(u8::is_ascii_graphic)).ok_or_else(bad)?;
        hosts += usize::from(name.eq_ignore_ascii_case(b"host"));
    }
    if hosts > 1 || hosts == 0 && minor >= 1 {
        return Err(bad());
    }
    // In an authority, the `%` before a zone is itself encoded (RFC 6874, section 2).
    authority.replacen("%25", "%", 1).parse().map_err(|_| bad())
}

/// Reads the head of a request, and nothing after it. Empty lines before it are skipped (RFC 9112, section 2.2).
async fn read_head(client: &mut TcpStream) -> Result<Vec<u8>, Fault> {
    let (mut head, mut part) = (Vec::new(), vec![0; 4096]);
    let failed = |error: io::Error| ("", error.into());
    loop {
        let peeked = client.peek(&mut part).await.map_err(failed)?;
        let before = head.len();
        head.extend(part.iter().take(peeked));
        // The empty line at the end may begin in bytes that were read earlier.
        let from = before.saturating_sub(2);
        let end = head.get(from..).and_then(head_end).map(|end| from + end);
        let consumed = end.map_or(peeked, |end| end - before);
        client.read_exact(part.get_mut(..consumed).unwrap_or_default()).await.map_err(failed)?;
        head.truncate(before + consumed);
        let empty = head.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        head.drain(..empty);
        match end {
            Some(_) if !head.is_empty() => return Ok(head),
            None if peeked == 0 => return Err(("", ProxyError::Invalid)),
            _ if head.len() > MAX_HEAD => {
                let line_ends = head.contains(&b'\n');
                let status = if line_ends { "431 Request Header Fields Too Large" } else { "414 URI Too Long" };
                return Err((status, ProxyError::Invalid));
            }
            _ => {}
        }
    }
}

/// Returns the length of the head of a request, which ends with an empty line.
fn head_end(bytes: &[u8]) -> Option<usize> {
    (0..bytes.len()).find_map(|at| {
        let rest = bytes.get(at..)?;
        [&b"\n\r\n"[..], b"\n\n"].into_iter().find(|end| rest.starts_with(end)).map(|end| at + end.len())
    })
}

/// Sends a refusal and ends the connection. Further data from the client is read for a while: unread data would make
/// the system reset the connection, and the client might not see the refusal (RFC 9112, section 9.6).
async fn leave(client: &mut TcpStream, answer: &[u8]) -> io::Result<()> {
    client.write_all(answer).await?;
    client.shutdown().await?;
    let mut rest = client.take(MAX_REST);
    let _ = timeout(LINGER, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Returns the target that a client requests, the answer to it, and the bytes that remain unread. The client sends
    /// `request` in pieces of `piece` bytes.
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
        let target = negotiate(&mut server, Duration::from_secs(60))
            .await
            .map(|target| target.to_string())
            .map_err(|error| error.to_string());
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
        let long = format!("Cookie: {}\r\n", "x".repeat(60_000));
        for (authority, version, fields, target) in [
            ("a.example:443", "1.1", "Host: a.example:443\r\n", "a.example:443"),
            ("a.example:443", "1.0", "", "a.example:443"),
            ("[2001:db8::1]:80", "1.1", "hOST:x\r\n", "[2001:db8::1]:80"),
            ("[fe80::1%25Eth0]:80", "1.1", "Host: x\r\n", "[fe80::1%Eth0]:80"),
            ("[fe80::1%eth0]:80", "1.9", "Host: x\r\n", "[fe80::1%eth0]:80"),
            ("a.example:443", "1.1", "X-Name: M\u{fc}ller\r\nHost: a\r\n", "a.example:443"),
            ("a.example:443", "1.0", &long, "a.example:443"),
        ] {
            // Each of these characters is one byte in Latin-1.
            let head = format!("CONNECT {authority} HTTP/{version}\r\n{fields}\r\n");
            let head: Vec<u8> = head.chars().map(|c| c as u8).collect();
            let lines: Vec<u8> = head.iter().copied().filter(|byte| *byte != b'\r').collect();
            for (head, piece) in [(&head, 7), (&head, 4095), (&head, usize::MAX), (&lines, 500)] {
                let request = [b"\r\n", &head[..], b"first data"].concat();
                let piece = if request.len() < 1000 { piece.min(7).min(request.len()) } else { piece };
                let (got, answer, rest) = negotiated(&request, piece).await;
                assert_eq!(got, Ok(target.to_owned()));
                assert!(answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"\r\n\r\n"));
                assert_eq!(rest, b"first data");
            }
        }
    }

    #[tokio::test]
    async fn other_requests_are_refused_with_a_reply() {
        let long = [b"CONNECT a:1 HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; 900_000]].concat();
        let longer = [b"CONNECT ".to_vec(), vec![b'x'; 900_000]].concat();
        let host = |line: &str| format!("{line}\r\nHost: a\r\n\r\n").into_bytes();
        let [bare, no_port, port_0, zone, version, options, unknown, lower] = [
            "CONNECT 2001:db8::1:80 HTTP/1.1",
            "CONNECT [2001:db8::1] HTTP/1.1",
            "CONNECT [2001:db8::1]:0 HTTP/1.1",
            "CONNECT [2001:db8::1%25]:80 HTTP/1.1",
            "CONNECT a:1 HTTP/2.0",
            "OPTIONS * HTTP/1.1",
            "BREW /pot-1 HTTP/1.1",
            "connect a:1 HTTP/1.1",
        ]
        .map(host);
        for (request, answer) in [
            (&b""[..], &b""[..]),
            (b"\x04\x01", b""),
            (b"\x16\x03\x01", b""),
            // The client offers only authentication by name and password.
            (b"\x05\x01\x02", b"\x05\xff"),
            // BIND, an unknown type of address, port 0, and an invalid name.
            (b"\x05\x01\x00\x05\x02\x00\x01\xc0\x00\x02\x01\x00\x50", b"\x05\x00\x05\x07"),
            (b"\x05\x01\x00\x05\x01\x00\x02", b"\x05\x00\x05\x08"),
            (b"\x05\x01\x00\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x00", b"\x05\x00\x05\x01"),
            (b"\x05\x01\x00\x05\x01\x00\x03\x01 \x00\x50", b"\x05\x00\x05\x01"),
            (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 "),
            (b"CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 400 "),
            // No Host field, two of them, a field without a name, and a space before the colon.
            (b"CONNECT a:1 HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 "),
            (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", b"HTTP/1.1 400 "),
            (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", b"HTTP/1.1 400 "),
            (b"CONNECT a:1 HTTP/1.1\r\nHost : a\r\n\r\n", b"HTTP/1.1 400 "),
            (b"CONNECT \xfc:1 HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 400 "),
            (b"CONNECT a:1 HTTP/2\r\n\r\n", b"HTTP/1.1 505 "),
            (&bare, b"HTTP/1.1 400 "),
            (&no_port, b"HTTP/1.1 400 "),
            (&port_0, b"HTTP/1.1 400 "),
            (&zone, b"HTTP/1.1 400 "),
            (&version, b"HTTP/1.1 505 "),
            (&options, b"HTTP/1.1 405 "),
            (&unknown, b"HTTP/1.1 501 "),
            (&lower, b"HTTP/1.1 501 "),
            (b"CONNECT a:1\r\n\r\n", b"HTTP/1.1 400 "),
            (b"CONNECT a:1 HTTP/1.1\r\n", b""),
            (&long, b"HTTP/1.1 431 "),
            (&longer, b"HTTP/1.1 414 "),
        ] {
            let (got, answered, _) = negotiated(request, request.len().max(1)).await;
            assert!(got.is_err() && answered.starts_with(answer), "{request:?}: {got:?} {answered:?}");
            assert_eq!(answer.is_empty(), answered.is_empty(), "{request:?}: {answered:?}");
        }
    }
}
