//! Connections that the packet filter diverts to a local port, with their original destinations (Linux).
//!
//! With REDIRECT, the packet filter rewrites the destination of packets, and connection tracking knows the original one
//! (`SO_ORIGINAL_DST`). With TPROXY, packets reach the socket unchanged, so that the local address of the accepted
//! connection is the original destination; the listener needs `IP_TRANSPARENT`.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use crate::tunnel::Target;

const BACKLOG: i32 = 1024;
/// Packet mark for TPROXY, and number of the routing table that delivers marked packets.
const MARK: &str = "0x6c68";
const TABLE: &str = "27752";

/// Listens for diverted connections. Also returns the error that rules out TPROXY, if there is one, because TPROXY
/// needs `CAP_NET_ADMIN`.
pub(super) fn listen(address: SocketAddr) -> io::Result<(TcpListener, Option<io::Error>)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    let transparent = if address.is_ipv4() {
        socket.set_ip_transparent_v4(true)
    } else {
        socket.set_only_v6(true)?;
        socket.set_ip_transparent_v6(true)
    };
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok((TcpListener::from_std(socket.into())?, transparent.err()))
}

/// Returns the original destination of a diverted connection, or `None` if the client connected to the listener itself.
pub(super) fn destination(client: &TcpStream, listener: SocketAddr) -> io::Result<Option<Target>> {
    let (socket, local) = (SockRef::from(client), client.local_addr()?);
    let redirected = if local.is_ipv4() { socket.original_dst_v4() } else { socket.original_dst_v6() };
    // The destination was not rewritten if there is no connection tracking, or if it does not know the connection.
    let original = redirected.ok().and_then(|address| address.as_socket()).unwrap_or(local);
    if original == local && original.port() == listener.port() {
        return Ok(None);
    }
    Ok(Target::new(&original.ip().to_canonical().to_string(), original.port()).ok())
}

/// Returns rules for nftables that divert connections to `port`.
pub(crate) fn rules(port: u16) -> String {
    format!(
        "\
# Load these rules with `nft -f FILE`, and remove them with `nft delete table inet longhaul`.
table inet longhaul {{
    # Networks that are reached directly. Add your own.
    set direct4 {{
        type ipv4_addr; flags interval
        elements = {{ 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3 }}
    }}
    set direct6 {{
        type ipv6_addr; flags interval
        elements = {{ ::/96, fe80::/10, ff00::/8 }}
    }}

    # Programs on this machine: REDIRECT.
    chain output {{
        type nat hook output priority -100; policy accept;
        fib daddr type local return
        ip daddr @direct4 return
        ip6 daddr @direct6 return
        meta l4proto tcp redirect to :{port}
    }}

    # Machines whose packets this one routes: TPROXY, which needs CAP_NET_ADMIN, and the routes below.
    chain prerouting {{
        type filter hook prerouting priority mangle; policy accept;
        fib daddr type local return
        ip daddr @direct4 return
        ip6 daddr @direct6 return
        meta nfproto ipv4 meta l4proto tcp tproxy ip to 127.0.0.1:{port} meta mark set {MARK} accept
        meta nfproto ipv6 meta l4proto tcp tproxy ip6 to [::1]:{port} meta mark set {MARK} accept
    }}
}}
# ip rule add fwmark {MARK} lookup {TABLE}
# ip route add local default dev lo table {TABLE}
# ip -6 rule add fwmark {MARK} lookup {TABLE}
# ip -6 route add local default dev lo table {TABLE}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that was made to the port itself is not forwarded to it again.
    #[tokio::test]
    async fn connections_to_the_listener_itself_have_no_destination() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok((listener, _)) = listen(address.parse().unwrap()) else {
                assert!(address.contains("::"), "{address}");
                continue;
            };
            let address = listener.local_addr().unwrap();
            let _client = TcpStream::connect(address).await.unwrap();
            let (accepted, _) = listener.accept().await.unwrap();
            assert_eq!(destination(&accepted, address).unwrap(), None);
            // With another port for the listener, the connection looks like a diverted one.
            let other = SocketAddr::new(address.ip(), address.port() ^ 1);
            let target = destination(&accepted, other).unwrap().unwrap();
            assert_eq!((target.address(), target.port()), (Some(address.ip()), address.port()));
        }
    }
}
