//! An endpoint whose peer is the test, which sends it single segments.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use longhaul_tcp::{Batch, Config, ConnId, Connection, DatagramMeta, Endpoint, EndpointConfig, Info, State, Tuple};
use longhaul_units::{Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Flags, Header, Segment};

/// Window in every segment that the test sends.
pub const WINDOW: u16 = 5_000;
/// Receive buffer of the victim, which is also its initial window.
pub const BUFFER: u32 = 10_000;

/// A segment that the victim sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its header.
    pub header: Header,
    /// Its data.
    pub payload: Vec<u8>,
    /// Its UDP payload's length.
    pub len: usize,
}

/// An endpoint with at most one connection, whose peer is the test.
pub struct Victim {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Its connection, once it has been accepted or opened.
    pub id: Option<ConnId>,
    /// The time.
    pub now: Time,
    /// Initial sequence number of the test.
    pub isn: u32,
    /// Initial sequence number of the victim.
    pub victim_isn: u32,
    /// SND.NXT of the test, which is RCV.NXT of the victim.
    pub next: u32,
    /// RCV.NXT of the test.
    pub acked: u32,
    listens: bool,
}

/// Address of the test.
#[must_use]
pub fn peer() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 4000))
}

/// Settings without TCP options, so that expected values are easy to compute.
#[must_use]
pub fn plain_config() -> Config {
    let mut config = Config::default();
    (config.sack, config.timestamps, config.window_scaling) = (false, false, false);
    (config.ecn, config.extensions) = (false, false);
    (config.recv_buffer, config.recv_buffer_max) = (BUFFER as usize, BUFFER as usize);
    config
}

impl Victim {
    /// Creates an endpoint without a connection.
    #[must_use]
    pub fn new(isn: u32, victim_isn: u32) -> Self {
        let mut config = EndpointConfig::new([5; 32]);
        config.initial_sequence = Some(victim_isn);
        let now = Time::ZERO + Span::from_secs(1);
        let (next, acked) = (isn, victim_isn);
        Self { endpoint: Endpoint::new(config, now), id: None, now, isn, victim_isn, next, acked, listens: false }
    }

    /// Creates a victim in `state`, reached by the transitions of RFC 9293, section 3.3.2.
    ///
    /// # Panics
    /// Panics if it does not reach the state.
    #[must_use]
    pub fn in_state(state: State, isn: u32, victim_isn: u32) -> Self {
        Self::with_config(state, isn, victim_isn, plain_config())
    }

    /// Creates a victim in `state` with other settings.
    ///
    /// # Panics
    /// Panics if it does not reach the state.
    #[must_use]
    pub fn with_config(state: State, isn: u32, victim_isn: u32, config: Config) -> Self {
        use State::{CloseWait, Closed, Closing, FinWait1, FinWait2, LastAck, Listen, SynReceived, SynSent, TimeWait};
        let mut it = Self::new(isn, victim_isn);
        let config = Arc::new(config);
        match state {
            Closed => {}
            SynSent => {
                it.id = it.endpoint.connect(it.now, Self::tuple(), config);
                it.flush();
            }
            _ => {
                it.endpoint.listen(config);
                it.listens = true;
                if state != Listen {
                    it.open(state == SynReceived);
                }
            }
        }
        if matches!(state, CloseWait | LastAck) {
            it.fin();
        }
        if matches!(state, FinWait1 | FinWait2 | Closing | TimeWait | LastAck) {
            it.act(Connection::shutdown);
        }
        match state {
            FinWait2 | TimeWait => {
                it.acked = it.acked.wrapping_add(1);
                it.send(Flags::ACK, &[]);
            }
            _ => {}
        }
        if matches!(state, Closing | TimeWait) {
            it.fin();
        }
        assert_eq!(it.state(), state);
        it
    }

    fn open(&mut self, half: bool) {
        self.send(Flags::SYN, &[]);
        self.acked = self.victim_isn.wrapping_add(1);
        if !half {
            self.send(Flags::ACK, &[]);
            self.id = self.endpoint.accept();
        }
    }

    fn fin(&mut self) {
        self.send(Flags::FIN | Flags::ACK, &[]);
    }

    fn tuple() -> Tuple {
        Tuple { remote: peer(), local: IpAddr::V4(Ipv4Addr::UNSPECIFIED) }
    }

    /// Returns the state of the connection.
    #[must_use]
    pub fn state(&self) -> State {
        match self.id.and_then(|id| self.endpoint.connection(id)) {
            Some(connection) => connection.state(),
            None if !self.endpoint.is_empty() => State::SynReceived,
            None if self.listens => State::Listen,
            None => State::Closed,
        }
    }

    /// Calls `act` as the application, and returns its result and the segments that the victim sends.
    ///
    /// # Panics
    /// Panics if it has no connection.
    pub fn act<R>(&mut self, act: impl FnOnce(&mut Connection) -> R) -> (R, Vec<Reply>) {
        let id = self.id.expect("a connection");
        let result = self.endpoint.drive(self.now, id, act).expect("not released");
        (result, self.flush())
    }

    /// Returns the statistics of the connection.
    #[must_use]
    pub fn info(&self) -> Option<Info> {
        Some(self.endpoint.connection(self.id?)?.info(self.now))
    }

    /// Returns a header with the current sequence numbers of the test.
    #[must_use]
    pub fn header(&self, flags: Flags) -> Header {
        let ack = if flags.contains(Flags::ACK) { self.acked } else { 0 };
        Header { flags, seq: self.next, ack, window: WINDOW, ..Header::default() }
    }

    /// Sends the next segment, and returns the immediate answers.
    pub fn send(&mut self, flags: Flags, payload: &[u8]) -> Vec<Reply> {
        let header = self.header(flags);
        self.next = self.next.wrapping_add(header.sequence_len(payload.len() as u32));
        self.inject(&header, payload)
    }

    /// Delivers any segment to the victim, and returns the immediate answers.
    pub fn inject(&mut self, header: &Header, payload: &[u8]) -> Vec<Reply> {
        self.inject_from(peer(), header, payload)
    }

    /// Delivers a segment from another address.
    pub fn inject_from(&mut self, from: SocketAddr, header: &Header, payload: &[u8]) -> Vec<Reply> {
        let mut bytes = [0; 64];
        let len = CheshireCodec::emit(header, &mut bytes).unwrap_or(0);
        let datagram = [bytes.get(..len).unwrap_or_default(), payload].concat();
        let meta = DatagramMeta::new(from, datagram.len());
        self.endpoint.handle_datagram(self.now, &meta, &datagram, None);
        self.flush()
    }

    /// Returns all segments that the victim sends now.
    pub fn flush(&mut self) -> Vec<Reply> {
        let (mut batch, mut replies) = (Batch::default(), Vec::new());
        while let Some(to) = self.endpoint.poll_transmit(self.now, &mut batch, 1) {
            let mut datagram = batch.headers.clone();
            if let (Some(id), Some(segment)) = (to.connection, batch.segments.first()) {
                self.endpoint.payload(id, segment, |part| datagram.extend_from_slice(part));
            }
            if let Ok(segment) = Segment::parse::<CheshireCodec>(&datagram) {
                let (header, payload) = (segment.header, segment.payload.to_vec());
                replies.push(Reply { header, payload, len: datagram.len() });
            }
        }
        replies
    }

    /// Advances the time by `span`, and returns the segments that the victim sends, with their times.
    pub fn wait(&mut self, span: Span) -> Vec<(Time, Reply)> {
        let end = self.now + span;
        let mut sent = Vec::new();
        while let Some(at) = self.endpoint.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.endpoint.handle_timeout(self.now);
            let now = self.now;
            sent.extend(self.flush().into_iter().map(|reply| (now, reply)));
        }
        self.now = end;
        sent
    }
}
