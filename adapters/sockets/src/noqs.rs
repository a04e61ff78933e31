//! Transfers over noq.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use noq::{ClientConfig, Endpoint, ServerConfig, TransportConfig, VarInt};
use noq_proto::congestion::{self, ControllerFactory};

use crate::{Identity, OWN, ROOM, WRITE};

fn transport(controller: &str) -> Result<Arc<TransportConfig>> {
    let factory: Arc<dyn ControllerFactory + Send + Sync> = match controller.strip_prefix(OWN) {
        None => longhaul_noq::congestion(controller)?,
        Some("cubic") => Arc::new(congestion::CubicConfig::default()),
        Some("bbr") => Arc::new(congestion::Bbr3Config::default()),
        Some(own) => bail!("noq has no controller {own:?}"),
    };
    let mut transport = TransportConfig::default();
    let room = VarInt::from_u32(ROOM);
    transport.stream_receive_window(room).receive_window(room).send_window(ROOM.into());
    transport.congestion_controller_factory(factory);
    Ok(Arc::new(transport))
}

pub(crate) fn listen(identity: &Identity, read: &Arc<AtomicU64>, controller: &str) -> Result<SocketAddr> {
    let mut config = ServerConfig::with_single_cert(vec![identity.certificate.clone()], identity.key().into())?;
    config.transport_config(transport(controller)?);
    let server = Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into())?;
    let (address, read) = (server.local_addr()?, Arc::clone(read));
    tokio::spawn(async move {
        let connection = server.accept().await.context("the endpoint is closed")?.await?;
        let mut stream = connection.accept_uni().await?.into_unordered();
        // noq closes a connection at the 1025th gap of a stream that is read in order.
        while let Some(chunk) = stream.read_chunk(usize::MAX).await? {
            read.fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed);
        }
        anyhow::Ok(())
    });
    Ok(address)
}

pub(crate) async fn send(identity: &Identity, to: SocketAddr, controller: &str) -> Result<()> {
    let mut config = ClientConfig::with_root_certificates(identity.roots()?)?;
    config.transport_config(transport(controller)?);
    let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
    endpoint.set_default_client_config(config);
    let connection = endpoint.connect(to, "localhost")?.await?;
    let mut stream = connection.open_uni().await?;
    let data = vec![7; WRITE];
    loop {
        stream.write_all(&data).await?;
    }
}
