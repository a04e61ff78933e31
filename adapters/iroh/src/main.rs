//! A transfer of a blob with iroh-blobs, under longhaul's congestion controllers or iroh's own:
//! `iroh-transfer CONTROLLER|own,... [MEGABYTES [LISTEN [VIA]]]`. One transfer follows the other. The receiver connects to
//! the address VIA, which an emulated link passes on to LISTEN:
//!
//! ```text
//! longhaul link relay --rate 20mbit --rtt 500ms --queue 1bdp --loss 0.1% --listen 127.0.0.1:4434 --to [::1]:4433 &
//! cargo run --release -- own,copa-cubic,copa 25 [::1]:4433 127.0.0.1:4434
//! ```
//!
//! iroh exchanges the addresses of both ends and would avoid the emulated link. It cannot if the sender has an IPv6
//! address only, and the receiver an IPv4 address only.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use anyhow::{Context, Result};
use iroh::endpoint::{Endpoint, QuicTransportConfig, VarInt, presets};
use iroh::protocol::Router;
use iroh::{EndpointAddr, RelayMode, TransportAddr};
use iroh_blobs::BlobsProtocol;
use iroh_blobs::store::mem::MemStore;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let controllers = arguments.first().map_or("own,copa-cubic", String::as_str);
    let megabytes = arguments.get(1).map_or(Ok(25), |text| text.parse::<usize>())?;
    let listen: SocketAddr = arguments.get(2).map_or("127.0.0.1:0", String::as_str).parse()?;
    let via = arguments.get(3).map(|text| text.parse()).transpose()?;
    for controller in controllers.split(',') {
        // noq closes a connection whose receiver has 1,025 gaps, which slow start may leave.
        match transfer(controller, megabytes, listen, via).await {
            Ok(seconds) => println!("{controller}: {megabytes} MB in {seconds:.1} s"),
            Err(error) => println!("{controller}: {error:#}"),
        }
    }
    Ok(())
}

/// Returns the seconds that a transfer takes.
#[expect(clippy::disallowed_methods, reason = "a program measures real time")]
async fn transfer(controller: &str, megabytes: usize, listen: SocketAddr, via: Option<SocketAddr>) -> Result<f64> {
    let (sent, received) = (MemStore::new(), MemStore::new());
    let blob = sent.blobs().add_bytes(vec![7; megabytes * 1_000_000]).await?;
    let sender = endpoint(controller, listen).await?;
    let address = via.or_else(|| sender.bound_sockets().first().copied()).context("the sender has no address")?;
    let address = EndpointAddr::from_parts(sender.id(), [TransportAddr::Ip(address)]);
    let router = Router::builder(sender).accept(iroh_blobs::ALPN, BlobsProtocol::new(&sent, None)).spawn();

    let receiver = endpoint(controller, (Ipv4Addr::LOCALHOST, 0).into()).await?;
    let begun = Instant::now();
    let connection = receiver.connect(address, iroh_blobs::ALPN).await?;
    let fetched = received.remote().fetch(connection, blob.hash).await;
    let seconds = begun.elapsed().as_secs_f64();
    receiver.close().await;
    router.shutdown().await?;
    fetched?;
    anyhow::ensure!(
        received.blobs().get_bytes(blob.hash).await?.len() == megabytes * 1_000_000,
        "the blob is too short"
    );
    Ok(seconds)
}

async fn endpoint(controller: &str, address: SocketAddr) -> Result<Endpoint> {
    let room = VarInt::from_u32(16 << 20);
    let mut transport = QuicTransportConfig::builder();
    transport = transport.stream_receive_window(room).receive_window(room).send_window(16 << 20);
    // Only these lines are specific to longhaul. An unknown name is an error here.
    if controller != "own" {
        transport = transport.congestion_controller_factory(longhaul_noq::congestion(controller)?);
    }
    let builder = Endpoint::builder(presets::Minimal).relay_mode(RelayMode::Disabled).clear_ip_transports();
    Ok(builder.bind_addr(address)?.transport_config(transport.build()).bind().await?)
}
