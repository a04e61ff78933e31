//! Transfers over s2n-quic.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use s2n_quic::client::Connect;
use s2n_quic::provider::congestion_controller::{Bbr, Cubic, Endpoint};
use s2n_quic::provider::limits::Limits;
use s2n_quic::{Client, Server};
use tokio::io::AsyncWriteExt;

use crate::{Identity, OWN, ROOM, WRITE};

fn limits() -> Result<Limits> {
    let room = u64::from(ROOM);
    let limits = Limits::new().with_data_window(room)?.with_unidirectional_data_window(room)?;
    Ok(limits.with_max_send_buffer_size(ROOM)?)
}

pub(crate) fn listen(identity: &Identity, read: &Arc<AtomicU64>) -> Result<SocketAddr> {
    let [certificate, key] = &identity.pem;
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::builder().with_tls((certificate.as_str(), key.as_str()))?.with_io(any)?;
    let mut server = server.with_limits(limits()?)?.start()?;
    let (address, read) = (server.local_addr()?, Arc::clone(read));
    tokio::spawn(async move {
        let mut connection = server.accept().await.context("the endpoint is closed")?;
        let mut stream = connection.accept_receive_stream().await?.context("the connection is closed")?;
        while let Some(chunk) = stream.receive().await? {
            read.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        }
        anyhow::Ok(())
    });
    Ok(address)
}

pub(crate) async fn send(identity: &Identity, to: SocketAddr, controller: &str) -> Result<()> {
    match controller.strip_prefix(OWN) {
        None => send_with(identity, to, longhaul_s2n::congestion(controller)?).await,
        Some("cubic") => send_with(identity, to, Cubic::default()).await,
        Some("bbr") => send_with(identity, to, Bbr::default()).await,
        Some(own) => bail!("s2n-quic has no controller {own:?}"),
    }
}

async fn send_with(identity: &Identity, to: SocketAddr, controllers: impl Endpoint) -> Result<()> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let client = Client::builder().with_tls(identity.pem[0].as_str())?.with_io(any)?.with_limits(limits()?)?;
    let client = client.with_congestion_controller(controllers)?.start()?;
    let mut connection = client.connect(Connect::new(to).with_server_name("localhost")).await?;
    let mut stream = connection.open_send_stream().await?;
    let data = vec![7; WRITE];
    loop {
        stream.write_all(&data).await?;
    }
}
