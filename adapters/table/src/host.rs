//! Endpoints of noq-proto and quinn-proto, whose interfaces hardly differ.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;

use crate::stack::{Datagram, End};

/// Maximum number of datagrams per call with segmentation offload.
const BATCH: usize = 10;
/// Number of bytes that the application writes at once.
const WRITE: usize = 64 << 10;
/// Flow-control windows, which must not limit any flow of the table.
const ROOM: u32 = 64 << 20;
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 4433);
const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 4434);

/// A self-signed certificate of the server.
pub(crate) struct Identity {
    certificate: rustls::pki_types::CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
        let params = rcgen::CertificateParams::new(vec!["server".to_owned()])?;
        Ok(Self { certificate: params.self_signed(&key)?.der().clone(), key: key.serialize_der() })
    }

    fn roots(&self) -> anyhow::Result<Arc<rustls::RootCertStore>> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        Ok(Arc::new(roots))
    }

    fn key(&self) -> rustls::pki_types::PrivateKeyDer<'static> {
        rustls::pki_types::PrivatePkcs8KeyDer::from(self.key.clone()).into()
    }
}

macro_rules! hosts {
    (
        $module:ident of $proto:ident, endpoint $endpoint:expr, handle $handle:expr, batch $batch:expr
    ) => {
        pub(crate) mod $module {
            use $proto::{
                ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
                ServerConfig, StreamId, TransportConfig, VarInt,
            };

            use super::*;

            /// Endpoint with one end of the only connection.
            pub(crate) struct Host {
                endpoint: Endpoint,
                connection: Option<(ConnectionHandle, Connection)>,
                /// Present if this end sends: its stream, once it is open.
                pub(crate) sends: Option<Option<StreamId>>,
                peer: SocketAddr,
                /// Time from which the peer's datagrams arrive from another port, as after a NAT rebinding.
                pub(crate) moves_at: Option<Instant>,
                accepted: Vec<StreamId>,
                buffer: Vec<u8>,
                data: Vec<u8>,
                read: u64,
                ordered: bool,
                failure: Option<String>,
                pending: Vec<Datagram>,
            }

            /// Returns a client that sends with the controllers of `choice`, and a server.
            pub(crate) fn pair(
                identity: &Identity,
                now: Instant,
                seed: u8,
                ordered: bool,
                choice: &dyn Fn(&mut TransportConfig),
            ) -> anyhow::Result<(Host, Host)> {
                let mut transport = TransportConfig::default();
                transport.stream_receive_window(VarInt::from_u32(ROOM)).receive_window(VarInt::from_u32(ROOM));
                transport.send_window(u64::from(ROOM));
                choice(&mut transport);
                let transport = Arc::new(transport);
                let mut client = ClientConfig::with_root_certificates(identity.roots()?)?;
                client.transport_config(Arc::clone(&transport));
                let mut server = ServerConfig::with_single_cert(vec![identity.certificate.clone()], identity.key())?;
                server.transport_config(transport);
                let host = |server: Option<ServerConfig>, seed| {
                    let mut config = EndpointConfig::default();
                    let is_client = server.is_none();
                    config.rng_seed(Some([seed; 32]));
                    Host {
                        endpoint: $endpoint(Arc::new(config), server.map(Arc::new)),
                        connection: None,
                        sends: None,
                        peer: if is_client { SERVER } else { CLIENT },
                        moves_at: None,
                        accepted: Vec::new(),
                        buffer: Vec::new(),
                        data: vec![7; WRITE],
                        read: 0,
                        ordered,
                        failure: None,
                        pending: Vec::new(),
                    }
                };
                let mut from = host(None, seed);
                from.connection = Some(from.endpoint.connect(now, client, SERVER, "server")?);
                from.sends = Some(None);
                Ok((from, host(Some(server), seed.wrapping_add(100))))
            }

            impl Host {
                /// Lets the application write and read.
                fn serve(&mut self) {
                    let Some((_, connection)) = &mut self.connection else { return };
                    if let Some(stream) = &mut self.sends
                        && !connection.is_handshaking()
                    {
                        let id = stream.or_else(|| connection.streams().open(Dir::Uni));
                        *stream = id;
                        while id.is_some_and(|id| connection.send_stream(id).write(&self.data).is_ok()) {}
                    }
                    while let Some(id) = connection.streams().accept(Dir::Uni) {
                        self.accepted.push(id);
                    }
                    for id in &self.accepted {
                        let mut stream = connection.recv_stream(*id);
                        let Ok(mut chunks) = stream.read(self.ordered) else { continue };
                        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                            self.read += chunk.bytes.len() as u64;
                        }
                        let _ = chunks.finalize();
                    }
                }

                fn exchange_events(&mut self) {
                    let Some((handle, connection)) = &mut self.connection else { return };
                    while let Some(event) = connection.poll_endpoint_events() {
                        if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                            connection.handle_event(answer);
                        }
                    }
                    while let Some(event) = connection.poll() {
                        if let Event::ConnectionLost { reason } = event {
                            self.failure = Some(reason.to_string());
                        }
                    }
                }
            }

            impl End for Host {
                fn due(&mut self) -> Option<Instant> {
                    self.connection.as_mut()?.1.poll_timeout()
                }

                fn receive(&mut self, now: Instant, datagram: Datagram) {
                    let mut from = self.peer;
                    if self.moves_at.is_some_and(|at| at <= now) {
                        from.set_port(from.port() + 1);
                    }
                    let ecn = $proto::EcnCodepoint::from_bits(datagram.ecn);
                    let data = BytesMut::from(&datagram.bytes[..]);
                    self.buffer.clear();
                    match $handle(&mut self.endpoint, now, from, ecn, data, &mut self.buffer) {
                        Some(DatagramEvent::ConnectionEvent(_, event)) => {
                            if let Some((_, connection)) = &mut self.connection {
                                connection.handle_event(event);
                            }
                        }
                        Some(DatagramEvent::NewConnection(incoming)) => {
                            let accepted = self.endpoint.accept(incoming, now, &mut self.buffer, None);
                            self.connection = accepted.ok();
                        }
                        Some(DatagramEvent::Response(transmit)) => {
                            let bytes = self.buffer[..transmit.size].to_vec();
                            self.pending.push(Datagram { bytes, ecn: 0 });
                        }
                        None => {}
                    }
                }

                fn drive(&mut self, now: Instant, out: &mut Vec<Datagram>) {
                    out.append(&mut self.pending);
                    if let Some((_, connection)) = &mut self.connection
                        && connection.poll_timeout().is_some_and(|due| due <= now)
                    {
                        connection.handle_timeout(now);
                    }
                    self.exchange_events();
                    self.serve();
                    let Some((_, connection)) = &mut self.connection else { return };
                    loop {
                        self.buffer.clear();
                        let Some(transmit) = connection.poll_transmit(now, $batch, &mut self.buffer) else { break };
                        let ecn = transmit.ecn.map_or(0, |ecn| ecn as u8);
                        let segment = transmit.segment_size.unwrap_or(transmit.size);
                        let datagrams = self.buffer[..transmit.size].chunks(segment);
                        out.extend(datagrams.map(|bytes| Datagram { bytes: bytes.to_vec(), ecn }));
                    }
                    self.exchange_events();
                }

                fn read(&self) -> Result<u64, &str> {
                    self.failure.as_deref().map_or(Ok(self.read), Err)
                }
            }
        }
    };
}

hosts!(
    noq of noq_proto,
    endpoint |config, server| Endpoint::new(config, server, true),
    handle |endpoint: &mut Endpoint, now, from: SocketAddr, ecn, data, out: &mut Vec<u8>| {
        endpoint.handle(now, from.into(), ecn, data, out)
    },
    batch std::num::NonZeroUsize::new(BATCH).unwrap_or(std::num::NonZeroUsize::MIN)
);
hosts!(
    quinn of quinn_proto,
    endpoint |config, server| Endpoint::new(config, server, true, None),
    handle |endpoint: &mut Endpoint, now, from, ecn, data, out: &mut Vec<u8>| {
        endpoint.handle(now, from, None, ecn, data, out)
    },
    batch BATCH
);
