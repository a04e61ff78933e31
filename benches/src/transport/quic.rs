//! QUIC by quinn: one bidirectional stream per connection, windows of 32 MiB, and a full TLS 1.3 handshake each time.

use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use quinn::congestion::CubicConfig;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{Endpoint, EndpointConfig, TokioRuntime, TransportConfig, VarInt};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{Stream, UDP_PAYLOAD, udp_socket};

/// Flow-control windows in bytes, too large to be a limit on loopback.
const WINDOW: u32 = 32 << 20;
const SERVER_NAME: &str = "localhost";
const CERTIFICATE: &str = "LONGHAUL_BENCH_CERTIFICATE";
const KEY: &str = "LONGHAUL_BENCH_KEY";

/// Self-signed certificate and its key, generated for a run of a bench and passed to its workers.
#[derive(Debug)]
pub struct Identity {
    certificate: String,
    key: String,
}

impl Identity {
    pub(crate) fn generate() -> Result<Self> {
        let made = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])?;
        Ok(Self { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() })
    }

    pub(crate) fn hand_to(&self, worker: &mut Command) {
        worker.env(CERTIFICATE, &self.certificate).env(KEY, &self.key);
    }
}

fn certificate() -> Result<CertificateDer<'static>> {
    Ok(CertificateDer::from_pem_slice(env::var(CERTIFICATE)?.as_bytes())?)
}

pub(super) fn server(addr: SocketAddr) -> Result<Endpoint> {
    let key = PrivateKeyDer::from_pem_slice(env::var(KEY)?.as_bytes())?;
    let tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate()?], key)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport());
    endpoint(addr, Some(config))
}

pub(super) fn client() -> Result<Endpoint> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate()?)?;
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.resumption = Resumption::disabled();
    let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport());
    let mut endpoint = endpoint((Ipv4Addr::UNSPECIFIED, 0).into(), None)?;
    endpoint.set_default_client_config(config);
    Ok(endpoint)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn endpoint(addr: SocketAddr, server: Option<quinn::ServerConfig>) -> Result<Endpoint> {
    Ok(Endpoint::new(EndpointConfig::default(), server, udp_socket(addr)?, Arc::new(TokioRuntime))?)
}

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .initial_mtu(UDP_PAYLOAD)
        .mtu_discovery_config(None)
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(u64::from(WINDOW))
        .congestion_controller_factory(Arc::new(CubicConfig::default()))
        // Idle connections remain open.
        .max_idle_timeout(None);
    Arc::new(config)
}

/// Connects and opens a stream, which keeps its connection open.
pub(super) async fn connect(endpoint: &Endpoint, to: SocketAddr) -> Result<Stream> {
    let connection = endpoint.connect(to, SERVER_NAME)?.await?;
    let (send, receive) = connection.open_bi().await?;
    Ok(Box::new(tokio::io::join(receive, send)))
}

pub(super) async fn accept(endpoint: &Endpoint) -> Result<Stream> {
    let connection = endpoint.accept().await.context("the endpoint is closed")?.await?;
    let (send, receive) = connection.accept_bi().await?;
    Ok(Box::new(tokio::io::join(receive, send)))
}
