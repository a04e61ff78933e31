//! A transfer over noq with one of longhaul's controllers: `cargo run --example transfer [CONTROLLER] [MEGABYTES]`.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context;
use noq::{ClientConfig, Endpoint, ServerConfig, TransportConfig};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let controller = arguments.next().unwrap_or_else(|| "copa-cubic".to_owned());
    let megabytes: usize = arguments.next().map_or(Ok(10), |text| text.parse())?;

    // Only this line is specific to longhaul. An unknown name is an error here.
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(longhaul_noq::congestion(&controller)?);
    let transport = Arc::new(transport);

    let (server, certificate) = server(&transport)?;
    let address = server.local_addr()?;
    let received = tokio::spawn(async move {
        let connection = server.accept().await.context("the endpoint is closed")?.await?;
        let bytes = connection.accept_uni().await?.read_to_end(usize::MAX).await?.len();
        connection.close(0_u32.into(), b"done");
        server.wait_idle().await;
        anyhow::Ok(bytes)
    });

    let client = client(&transport, certificate)?;
    let connection = client.connect(address, "localhost")?.await?;
    let mut stream = connection.open_uni().await?;
    stream.write_all(&vec![7; megabytes * 1_000_000]).await?;
    stream.finish()?;
    connection.closed().await;
    println!("{controller}: {} bytes received", received.await??);
    Ok(())
}

fn server(transport: &Arc<TransportConfig>) -> anyhow::Result<(Endpoint, CertificateDer<'static>)> {
    let key = rcgen::KeyPair::generate()?;
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])?.self_signed(&key)?.der().clone();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let mut config = ServerConfig::with_single_cert(vec![certificate.clone()], key)?;
    config.transport_config(Arc::clone(transport));
    Ok((Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into())?, certificate))
}

fn client(transport: &Arc<TransportConfig>, certificate: CertificateDer<'static>) -> anyhow::Result<Endpoint> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate)?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(Arc::clone(transport));
    let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
    endpoint.set_default_client_config(config);
    Ok(endpoint)
}
