//! Types of `longhaul-tcp`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use longhaul_cc::Congestion;
use longhaul_tcp::*;
use longhaul_units::{Bytes, Rate, Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Header};

use super::{Checked, DATA, KEY, copied, values};

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 7000))
}

fn tuple(remote: u8) -> Tuple {
    Tuple { remote: address(remote), local: IpAddr::V4(Ipv4Addr::UNSPECIFIED) }
}

/// Tags by a key that must not be shown.
#[derive(Debug)]
struct Keyless;

impl MoveTags for Keyless {
    fn client(&self, _: &[u8]) -> [u8; 8] {
        [0; 8]
    }

    fn server(&self, _: &[u8]) -> [u8; 8] {
        [0; 8]
    }
}

/// Delivers the datagrams that `from` has to send. `source` is the last byte of the address of `from`.
fn deliver(now: Time, from: &mut Endpoint, source: u8, to: &mut Endpoint) -> bool {
    let (mut batch, mut any) = (Batch::default(), false);
    while let Some(destination) = from.poll_transmit(now, &mut batch, 1) {
        let mut parts = Vec::new();
        match destination.connection {
            Some(id) => _ = from.frames(id, &batch, &mut parts),
            None => parts.push(batch.headers.as_slice()),
        }
        let datagram = parts.concat();
        let mut meta = DatagramMeta::new(address(source), datagram.len());
        meta.tuple = tuple(source);
        to.handle_datagram(now, &meta, &datagram, None);
        any = true;
    }
    any
}

/// Returns an endpoint with 100 connections, which have received data and have data to send; one of the connections;
/// and a batch.
fn endpoint() -> (Endpoint, ConnId, Batch) {
    let now = Time::from_nanos(1);
    let new = || Endpoint::new(EndpointConfig::new(KEY), now);
    let (mut server, mut last) = (new(), ConnId::default());
    server.listen(Arc::new(Config::default()));
    for host in 2..102 {
        let mut client = new();
        let id = client.connect(now, tuple(1), Arc::new(Config::default())).unwrap();
        client.drive(now, id, |connection| connection.write(DATA).unwrap()).unwrap();
        while deliver(now, &mut client, host, &mut server) | deliver(now, &mut server, 1, &mut client) {}
        last = server.accept().unwrap();
        server.drive(now, last, |connection| connection.write(&DATA.repeat(1000)).unwrap()).unwrap();
    }
    let mut batch = Batch::default();
    assert!(server.poll_transmit(now, &mut batch, 64).is_some());
    (server, last, batch)
}

fn header() -> Header {
    let mut header = Header { window: u16::MAX, seq: u32::MAX, ack: u32::MAX, ..Header::default() };
    header.options.mss = Some(u16::MAX);
    header.options.timestamps = Some(longhaul_wire::Timestamps { value: u32::MAX, echo: u32::MAX });
    header
}

#[test]
fn debug_output_of_the_engine_has_neither_data_nor_keys() {
    let (mut server, id, batch) = endpoint();
    let mut chunks = Chunks::default();
    let connection = server.connection(id).unwrap();
    let info = connection.info(Time::from_nanos(u64::MAX / 2));
    let parameters = Parameters {
        congestion: Congestion::copa_cubic().name(),
        mss: 1448,
        options: NegotiatedOptions::default(),
        initial_sequence: InitialSequence::default(),
    };
    let mut datagram = [0; 60];
    let header = header();
    let header_len = CheshireCodec::emit(&header, &mut datagram).unwrap();
    let segment = SegmentRecord { header: &header, header_len, payload_len: 1448, ecn: Ecn::Ce };
    let cache = PathCache::default();
    for host in 1..=255 {
        cache.seed(Time::ZERO, address(host).ip(), "cubic", &PathMetrics::default());
    }
    let mut config = Config::default();
    (config.congestion, config.path_cache) = (Congestion::copa_cubic(), Some(cache.clone()));
    (config.keep_alive, config.user_timeout) = (Some(KeepAlive::default()), Some(Span::from_secs(9)));
    (config.max_pacing_rate, config.max_cwnd) = (Rate::from_bytes_per_sec(u64::MAX / 9), Bytes(u64::MAX).0);
    let faulty = "no cache".to_owned() + str::from_utf8(DATA).unwrap();

    let mut checked = Checked::new("longhaul-tcp");
    values!(checked,
        Batch: batch,
        Config: config,
        Connection: connection,
        ConnectionEvent: ConnectionEvent::SegmentSent { segment, retransmission: true },
        EndpointConfig: EndpointConfig::new(KEY),
        EndpointGroup: EndpointGroup::new(&KEY),
        Info: info,
        LoadError: cache.load(Time::ZERO, Span::ZERO, &faulty).unwrap_err(),
        Parameters: parameters,
        PathCache: cache,
        Payload: Payload::copied(DATA),
        SegmentRecord: segment,
        Status: connection.status(),
    );
    assert!(format!("{:?}", connection.contents()).contains("97, 32, 115"), "the data is there to be shown");
    server.drive(Time::from_nanos(2), id, |connection| {
        values!(checked, Reader: connection.reader(), Writer: connection.writer(),);
        connection.reader().read_chunks(&mut chunks, 9).unwrap();
    });
    let mobility = Mobility { number: [1; 8], is_client: true, tags: Arc::new(Keyless) };
    values!(checked, Chunks: chunks, Endpoint: server, Mobility: mobility,);
    copied!(checked, SegmentRef KeepAlive Blocked SegmentMeta Event Due ConnId EndpointEvent Destination DatagramMeta
        EndpointStats ConnectionError HostError InitialSequence NegotiatedOptions PairInfo ProbeInfo AckRateInfo
        NetworkInfo SavedPathInfo Detail Rejection LossTrigger TimerKind RecoveryState EcnState Metrics PathCacheConfig
        PathMetrics LoadReason State Tuple);
    // `Window` belongs to the benchmarks.
    checked.are_all(&["Window"]);
}
