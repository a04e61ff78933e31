//! The end of an endpoint.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::runtime::Runtime;

use crate::{TcpConnector, TcpListener};

/// A runtime that ends while its listener has many connections sends a reset to each peer, which otherwise would wait for its
/// timeouts. The system may lose resets here, so that those sent are counted.
#[test]
fn the_end_of_a_runtime_resets_each_of_thousands_of_peers() {
    const COUNT: u16 = 3000;
    let (server, client) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let listener = server.block_on(TcpListener::bind("0.0.0.0:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    let shared = Arc::clone(listener.first());
    let connector = client.block_on(TcpConnector::bind("127.0.0.1:0")).unwrap();
    let mut streams = Vec::new();
    for host in 1..=COUNT {
        // Each connection of a connector has another address.
        let [high, low] = host.to_be_bytes();
        let address = SocketAddr::from((Ipv4Addr::new(127, 1, high, low), port));
        let stream = client.block_on(connector.connect(address)).unwrap();
        let (accepted, _) = server.block_on(listener.accept()).unwrap();
        streams.push((stream, accepted));
    }
    let before = shared.lock().batches;
    // The kernel has no memory (ENOBUFS of Linux), then the socket's buffer is full (EAGAIN).
    #[cfg(target_os = "linux")]
    shared.lock().faults.extend([std::io::Error::from_raw_os_error(11), std::io::Error::from_raw_os_error(105)]);
    drop(server);
    let state = shared.lock();
    assert!(state.batches - before >= COUNT.into(), "{} batches", state.batches - before);
    assert!(state.fatal.is_some() && state.faults.is_empty());
}
