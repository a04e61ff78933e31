//! Streams of s2n-quic.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result};
use longhaul_benches::transport::Stream;
use longhaul_benches::worker;
use s2n_quic::client::Connect;
use s2n_quic::provider::limits::Limits;
use s2n_quic::{Client, Server};

use crate::Address;

const SERVER_NAME: &str = "localhost";
/// Flow-control windows in bytes, like those of quinn in these benches.
const WINDOW: u64 = 32 << 20;
const SEND_BUFFER: u32 = 8 << 20;

fn limits() -> Result<Limits> {
    Ok(Limits::new()
        .with_data_window(WINDOW)?
        .with_bidirectional_local_data_window(WINDOW)?
        .with_bidirectional_remote_data_window(WINDOW)?
        .with_max_send_buffer_size(SEND_BUFFER)?)
}

/// Reports an address to the bench, and accepts a connection with one stream at this address.
pub(crate) async fn accept(ip: IpAddr) -> Result<Stream> {
    let made = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])?;
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let mut server = Server::builder()
        .with_tls((certificate.as_str(), key.as_str()))?
        .with_io(SocketAddr::new(ip, 0))?
        .with_limits(limits()?)?
        .start()?;
    worker::say(&Address { addr: server.local_addr()?, identity: certificate })?;
    let mut connection = server.accept().await.context("the server has ended")?;
    let stream = connection.accept_bidirectional_stream().await?.context("the connection has ended")?;
    // A connection ends when its handle and those of its streams are dropped.
    Ok(Box::new(stream))
}

pub(crate) async fn connect(to: SocketAddr, certificate: &str) -> Result<Stream> {
    let client = Client::builder()
        .with_tls(certificate)?
        .with_io(SocketAddr::new(to.ip(), 0))?
        .with_limits(limits()?)?
        .start()?;
    let mut connection = client.connect(Connect::new(to).with_server_name(SERVER_NAME)).await?;
    Ok(Box::new(connection.open_bidirectional_stream().await?))
}
