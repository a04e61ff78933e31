//! Agents of the simulator for connections of noq-proto and quinn-proto, whose interfaces are nearly the same.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use longhaul_sim::{Agent, Packet, Progress};
use longhaul_units::{Span, Time};
use longhaul_wire::Ecn;

use crate::identity::Identity;

/// Maximum number of datagrams per call with segmentation offload.
const BATCH: usize = 10;
/// Maximum number of bytes that the application writes at once.
const WRITE: u64 = 64 << 10;
/// Flow-control windows, which must not limit any flow.
const ROOM: u32 = 64 << 20;
/// Number of calls at the same time after which an end is considered stuck.
const PATIENCE: u32 = 100_000;
static DATA: [u8; WRITE as usize] = [7; WRITE as usize];

/// A transfer in one direction.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Addresses of the sender and the receiver.
    pub addresses: [SocketAddr; 2],
    /// Time at which the connection is opened.
    pub start: Time,
    /// Number of bytes to send; `u64::MAX` never ends.
    pub bytes: u64,
    /// Seed of the endpoints' connection IDs.
    pub seed: u8,
    /// Whether the receiver reads the stream in order.
    pub ordered: bool,
    /// Whether the end that accepts the connection is the sender.
    pub server_sends: bool,
    /// Time from which the datagrams of the end that opens the connection come from another port, as after a NAT
    /// rebinding.
    pub moves_at: Option<Time>,
    /// File for the qlog of the end that opens the connection.
    pub qlog: Option<PathBuf>,
}

impl Plan {
    /// Returns the plan of a transfer that begins at once and never ends.
    #[must_use]
    pub const fn new(addresses: [SocketAddr; 2]) -> Self {
        let (start, bytes, seed) = (Time::ZERO, u64::MAX, 1);
        Self { addresses, start, bytes, seed, ordered: false, server_sends: false, moves_at: None, qlog: None }
    }
}

/// Maps simulated times to `Instant`s, which can be made only from a reading of a real clock.
#[derive(Clone, Copy, Debug)]
struct Clock(Instant);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the origin has no effect: the stacks only compute differences")]
    fn new() -> Self {
        Self(Instant::now())
    }

    fn instant(self, at: Time) -> Instant {
        self.0 + Duration::from_nanos(at.as_nanos())
    }

    fn time(self, at: Instant) -> Time {
        let nanos = at.saturating_duration_since(self.0).as_nanos();
        Time::ZERO + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Output of a qlog.
type Out = Box<dyn Write + Send + Sync>;

/// Output of the qlog of noq's next connection, and the time at which it begins.
struct NextLog(Mutex<Option<(Out, Instant)>>);

impl noq_proto::QlogFactory for NextLog {
    fn for_connection(
        &self,
        _: noq_proto::Side,
        _: SocketAddr,
        _: noq_proto::ConnectionId,
        _: Instant,
    ) -> Option<noq_proto::QlogConfig> {
        let (out, start) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let mut config = noq_proto::QlogConfig::new(out);
        config.start_time(start);
        Some(config)
    }
}

macro_rules! hosts {
    (
        $module:ident of $proto:ident, endpoint $endpoint:expr, handle $handle:expr, batch $batch:expr,
        sent $sent:expr, log $log:expr
    ) => {
        /// Ends of connections of this stack.
        pub mod $module {
            use $proto::{
                ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
                ServerConfig, StreamId, TransportConfig, VarInt,
            };

            use super::*;

            /// Endpoint with one end of the only connection.
            pub struct Host {
                clock: Clock,
                endpoint: Endpoint,
                /// Configuration of a client, until it opens the connection.
                opens: Option<(Time, ClientConfig)>,
                connection: Option<(ConnectionHandle, Connection)>,
                addresses: [SocketAddr; 2],
                moves_at: Option<Time>,
                /// Number of bytes still to write.
                left: u64,
                stream: Option<StreamId>,
                accepted: Vec<StreamId>,
                ordered: bool,
                buffer: Vec<u8>,
                pending: Vec<Packet>,
                progress: Progress,
                /// Time of the last call, and the number of calls at this time.
                calls: (Time, u32),
            }

            impl std::fmt::Debug for Host {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.debug_struct(stringify!($module)).field("progress", &self.progress).finish_non_exhaustive()
                }
            }

            /// Returns the two ends of a connection, first the one that opens it, with the settings of `choose`.
            pub fn pair(identity: &Identity, plan: &Plan, choose: &dyn Fn(&mut TransportConfig)) -> [Host; 2] {
                let clock = Clock::new();
                let configure = |log: Option<Out>| {
                    let mut transport = TransportConfig::default();
                    transport.stream_receive_window(VarInt::from_u32(ROOM)).receive_window(VarInt::from_u32(ROOM));
                    transport.send_window(u64::from(ROOM));
                    choose(&mut transport);
                    if let Some(out) = log {
                        $log(&mut transport, out, clock.0);
                    }
                    Arc::new(transport)
                };
                let log = plan.qlog.as_ref().map(|path| File::create(path).expect("the log can be created"));
                let log = log.map(|file| -> Out { Box::new(BufWriter::new(file)) });
                let roots = identity.roots().expect("the certificate is valid");
                let mut client = ClientConfig::with_root_certificates(roots).expect("the default settings are valid");
                client.transport_config(configure(log));
                let server = ServerConfig::with_single_cert(vec![identity.certificate()], identity.key());
                let mut server = server.expect("the certificate is valid");
                server.transport_config(configure(None));
                let host = |opens: Option<ClientConfig>, server: Option<ServerConfig>, seed| {
                    let mut config = EndpointConfig::default();
                    config.rng_seed(Some([seed; 32]));
                    let [here, there] = plan.addresses;
                    let is_client = opens.is_some();
                    Host {
                        clock,
                        endpoint: $endpoint(Arc::new(config), server.map(Arc::new)),
                        opens: opens.map(|client| (plan.start, client)),
                        connection: None,
                        addresses: if is_client { [here, there] } else { [there, here] },
                        moves_at: plan.moves_at.filter(|_| is_client),
                        left: if is_client != plan.server_sends { plan.bytes } else { 0 },
                        stream: None,
                        accepted: Vec::new(),
                        ordered: plan.ordered,
                        buffer: Vec::new(),
                        pending: Vec::new(),
                        progress: Progress::default(),
                        calls: (Time::ZERO, 0),
                    }
                };
                let (seed, other) = (plan.seed, plan.seed.wrapping_add(100));
                [host(Some(client), None, seed), host(None, Some(server), other)]
            }

            impl Host {
                fn packet(&self, now: Time, payload: Vec<u8>, ecn: u8) -> Packet {
                    let [mut from, to] = self.addresses;
                    if self.moves_at.is_some_and(|at| at <= now) {
                        from.set_port(from.port() + 1);
                    }
                    Packet { from, to, ecn: Ecn::from_bits(ecn), dscp: 0, payload, zeros: 0 }
                }

                /// Opens the connection when its time has come.
                fn open(&mut self, now: Time) {
                    if let Some((_, client)) = self.opens.take_if(|(at, _)| *at <= now) {
                        let [_, to] = self.addresses;
                        let opened = self.endpoint.connect(self.clock.instant(now), client, to, "server");
                        self.connection = Some(opened.expect("the address and the name are valid"));
                    }
                }

                /// Lets the application write and read.
                fn serve(&mut self, now: Time) {
                    let Some((_, connection)) = &mut self.connection else { return };
                    if self.left > 0 && !connection.is_handshaking() {
                        self.stream = self.stream.or_else(|| connection.streams().open(Dir::Uni));
                        let Some(id) = self.stream else { return };
                        while self.left > 0
                            && let Ok(written) =
                                connection.send_stream(id).write(&DATA[..self.left.min(WRITE) as usize])
                        {
                            self.left -= written as u64;
                        }
                        if self.left == 0 {
                            let _ = connection.send_stream(id).finish();
                        }
                    }
                    while let Some(id) = connection.streams().accept(Dir::Uni) {
                        self.accepted.push(id);
                    }
                    for id in &self.accepted {
                        let mut stream = connection.recv_stream(*id);
                        let Ok(mut chunks) = stream.read(self.ordered) else { continue };
                        loop {
                            match chunks.next(usize::MAX) {
                                Ok(Some(chunk)) => self.progress.read += chunk.bytes.len() as u64,
                                Ok(None) => {
                                    self.progress.ended_at.get_or_insert(now);
                                    break;
                                }
                                Err(_) => break,
                            }
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
                            eprintln!("{}: the connection was closed: {reason}", stringify!($module));
                        }
                    }
                }
            }

            impl Agent for Host {
                fn due(&mut self) -> Option<Time> {
                    let opens = self.opens.as_ref().map(|(at, _)| *at);
                    let timer = self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
                    // Timers in the past are due now.
                    let timer = timer.map(|at| self.clock.time(at).max(self.calls.0));
                    opens.into_iter().chain(timer).min().filter(|_| self.calls.1 < PATIENCE)
                }

                fn receive(&mut self, now: Time, packet: &Packet) {
                    let ecn = $proto::EcnCodepoint::from_bits(packet.ecn.bits());
                    let data = BytesMut::from(&packet.payload[..]);
                    let at = self.clock.instant(now);
                    self.buffer.clear();
                    match $handle(&mut self.endpoint, at, packet.from, ecn, data, &mut self.buffer) {
                        Some(DatagramEvent::ConnectionEvent(_, event)) => {
                            if let Some((_, connection)) = &mut self.connection {
                                connection.handle_event(event);
                            }
                        }
                        Some(DatagramEvent::NewConnection(incoming)) => {
                            let accepted = self.endpoint.accept(incoming, at, &mut self.buffer, None);
                            self.connection = accepted.ok();
                        }
                        Some(DatagramEvent::Response(transmit)) => {
                            let bytes = self.buffer[..transmit.size].to_vec();
                            let packet = self.packet(now, bytes, 0);
                            self.pending.push(packet);
                        }
                        None => {}
                    }
                }

                fn transmit(&mut self, now: Time, send: &mut dyn FnMut(Packet)) {
                    self.calls = if self.calls.0 == now { (now, self.calls.1 + 1) } else { (now, 0) };
                    assert!(self.calls.1 < PATIENCE, "an endpoint asks again and again for the same time");
                    self.pending.drain(..).for_each(&mut *send);
                    self.open(now);
                    let at = self.clock.instant(now);
                    if let Some((_, connection)) = &mut self.connection
                        && connection.poll_timeout().is_some_and(|due| due <= at)
                    {
                        connection.handle_timeout(at);
                    }
                    self.exchange_events();
                    self.serve(now);
                    loop {
                        self.buffer.clear();
                        let Some((_, connection)) = &mut self.connection else { return };
                        let Some(transmit) = connection.poll_transmit(at, $batch, &mut self.buffer) else { break };
                        let ecn = transmit.ecn.map_or(0, |ecn| ecn as u8);
                        let segment = transmit.segment_size.unwrap_or(transmit.size);
                        for bytes in self.buffer[..transmit.size].chunks(segment) {
                            send(self.packet(now, bytes.to_vec(), ecn));
                        }
                    }
                    self.exchange_events();
                    if let Some((_, connection)) = &mut self.connection {
                        (self.progress.packets, self.progress.lost) = $sent(connection);
                    }
                }

                fn progress(&self) -> Progress {
                    self.progress
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
    batch std::num::NonZeroUsize::new(BATCH).unwrap_or(std::num::NonZeroUsize::MIN),
    sent |connection: &mut Connection| {
        let stats = connection.stats();
        (stats.udp_tx.datagrams, stats.lost_packets)
    },
    log |transport: &mut TransportConfig, out, start| {
        transport.qlog_factory(Arc::new(NextLog(Mutex::new(Some((out, start))))));
    }
);
hosts!(
    quinn of quinn_proto,
    endpoint |config, server| Endpoint::new(config, server, true, None),
    handle |endpoint: &mut Endpoint, now, from, ecn, data, out: &mut Vec<u8>| {
        endpoint.handle(now, from, None, ecn, data, out)
    },
    batch BATCH,
    sent |connection: &mut Connection| {
        let path = connection.stats().path;
        (path.sent_packets, path.lost_packets)
    },
    log |transport: &mut TransportConfig, out, start| {
        let mut config = quinn_proto::QlogConfig::default();
        config.writer(out).start_time(start);
        transport.qlog_stream(config.into_stream());
    }
);
