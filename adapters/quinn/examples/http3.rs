//! An HTTP/3 server and a client over quinn, with one of longhaul's controllers or quinn's own:
//! `http3 CONTROLLER|own [MEGABYTES [LISTEN [VIA]]]`. The client connects to the address VIA, which an emulated link
//! passes on to LISTEN:
//!
//! ```text
//! longhaul link relay --rate 20mbit --rtt 500ms --queue 1bdp --loss 0.1% --listen 127.0.0.1:4434 --to 127.0.0.1:4433 &
//! cargo run --release -p longhaul-quinn --example http3 -- copa-cubic 50 127.0.0.1:4433 127.0.0.1:4434
//! ```

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use bytes::{Buf, Bytes};
use h3_quinn::quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use http::{Request, Response};
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig, VarInt};
use rustls::pki_types::PrivatePkcs8KeyDer;

#[tokio::main]
#[expect(clippy::disallowed_methods, reason = "a program measures real time")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let controller = arguments.first().map_or("copa-cubic", String::as_str);
    let megabytes = arguments.get(1).map_or(Ok(50), |text| text.parse::<usize>())?;
    let listen: SocketAddr = arguments.get(2).map_or("127.0.0.1:0", String::as_str).parse()?;
    let transport = Arc::new(transport(controller)?);

    let key = rcgen::KeyPair::generate()?;
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])?.self_signed(&key)?.der().clone();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let mut tls =
        rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate.clone()], key)?;
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(Arc::clone(&transport));
    let server = Endpoint::server(config, listen)?;
    let via = arguments.get(3).map_or(server.local_addr(), |text| Ok(text.parse().expect("VIA is an address")))?;
    tokio::spawn(serve(server, megabytes));

    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate)?;
    let mut tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport);
    let mut client = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
    client.set_default_client_config(config);

    let begun = Instant::now();
    let connection = client.connect(via, "localhost")?.await?;
    let (mut driver, mut requests) = h3::client::new(h3_quinn::Connection::new(connection)).await?;
    tokio::spawn(async move { driver.wait_idle().await });
    let mut stream = requests.send_request(Request::get("https://localhost/").body(())?).await?;
    stream.finish().await?;
    let status = stream.recv_response().await?.status();
    let mut bytes = 0;
    while let Some(part) = stream.recv_data().await? {
        bytes += part.remaining();
    }
    println!("{controller}: {status}, {bytes} bytes in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}

fn transport(controller: &str) -> Result<TransportConfig> {
    let mut transport = TransportConfig::default();
    let room = VarInt::from_u32(16 << 20);
    transport.stream_receive_window(room).receive_window(room).send_window(16 << 20);
    // Only these lines are specific to longhaul. An unknown name is an error here.
    if controller != "own" {
        transport.congestion_controller_factory(longhaul_quinn::congestion(controller)?);
    }
    Ok(transport)
}

async fn serve(server: Endpoint, megabytes: usize) -> Result<()> {
    let connection = server.accept().await.context("the endpoint is closed")?.await?;
    let mut connection = h3::server::Connection::new(h3_quinn::Connection::new(connection)).await?;
    while let Some(request) = connection.accept().await? {
        let (_, mut stream) = request.resolve_request().await?;
        stream.send_response(Response::new(())).await?;
        stream.send_data(Bytes::from(vec![7; megabytes * 1_000_000])).await?;
        stream.finish().await?;
    }
    Ok(())
}
