//! Checks against arbitrary peers, shared by the fuzz targets and the replay of their corpora.
//!
//! Each check interprets arbitrary bytes as a script of datagrams and times, and panics if an invariant is violated.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use longhaul_tcp::{Batch, Config, ConnId, DatagramMeta, Endpoint, EndpointConfig, Mobility, MoveTags, Tuple};
use longhaul_units::{Span, Time};
use longhaul_wire::{CheshireCodec, Codec, Flags, Header, MoveOption, MoveStep, Timestamps};

#[path = "script.rs"]
mod script;

use script::Script;

fn tuple(host: u8) -> Tuple {
    Tuple { remote: SocketAddr::from(([192, 0, 2, host], 4000)), local: IpAddr::from([0, 0, 0, 0]) }
}

fn listening(always_cookies: bool, secret: u8) -> Endpoint {
    let mut settings = EndpointConfig::new([secret; 32]);
    settings.always_cookies = always_cookies;
    settings.backlog = 8;
    let mut endpoint = Endpoint::new(settings, Time::ZERO);
    endpoint.listen(Arc::new(Config::default()));
    endpoint
}

fn deliver(endpoint: &mut Endpoint, now: Time, from: u8, datagram: &[u8]) {
    let mut meta = DatagramMeta::new(tuple(from).remote, datagram.len());
    meta.tuple = tuple(from);
    endpoint.handle_datagram(now, &meta, datagram, None);
}

/// Takes everything that the endpoint sends: destination, header, and length of the datagram.
fn drain(endpoint: &mut Endpoint, now: Time) -> Vec<(Tuple, Header, usize)> {
    let mut batch = Batch::default();
    let mut sent = Vec::new();
    while let Some(to) = endpoint.poll_transmit(now, &mut batch, 64) {
        for (segment, header) in batch.parts() {
            let (header, _) = CheshireCodec::parse(header).expect("our own headers parse");
            sent.push((to.tuple, header, usize::from(segment.header_len) + usize::from(segment.payload_len)));
        }
        assert!(sent.len() < 100_000, "endless transmission");
    }
    sent
}

/// Fires the timers up to `now` in order, and takes what is sent; panics if a timer does not make progress.
fn run_to(endpoint: &mut Endpoint, now: Time) -> Vec<(Tuple, Header, usize)> {
    let (mut fired, mut sent) = (0, Vec::new());
    while let Some(at) = endpoint.poll_timeout().filter(|at| *at <= now) {
        endpoint.handle_timeout(at);
        sent.extend(drain(endpoint, at));
        fired += 1;
        assert!(fired < 10_000, "a timer that does not advance");
    }
    sent
}

/// Arbitrary datagrams from arbitrary addresses: the endpoint sends at most three times the bytes received, and
/// memory is bounded.
pub fn listener(script: &[u8]) {
    let mut script = Script(script);
    let mut endpoint = listening(false, 9);
    let mut now = Time::ZERO;
    let (mut received, mut sent) = (BTreeMap::<u8, usize>::new(), BTreeMap::<Tuple, usize>::new());
    while !script.is_over() {
        now += Span::from_millis(u64::from(script.byte()));
        let host = script.byte() % 4;
        let len = usize::from(script.byte());
        let datagram = script.take(len);
        *received.entry(host).or_default() += datagram.len();
        deliver(&mut endpoint, now, host, &datagram);
        for (to, _, len) in drain(&mut endpoint, now) {
            *sent.entry(to).or_default() += len;
        }
        while let Some(id) = endpoint.accept() {
            endpoint.release(now, id);
        }
    }
    for (host, came) in received {
        let went = sent.get(&tuple(host)).copied().unwrap_or(0);
        assert!(went <= 3 * came, "{went} bytes for {came}");
    }
    assert!(endpoint.len() <= 8 + 4, "{} connections", endpoint.len());
    run_to(&mut endpoint, now + Span::from_secs(1000));
}

/// Established server connection and the state of its peer.
struct Victim {
    endpoint: Endpoint,
    id: ConnId,
    now: Time,
    /// Next sequence number of the peer, and ours.
    seq: u32,
    ack: u32,
    /// Our newest TSval.
    stamp: u32,
}

fn victim() -> Victim {
    let mut endpoint = listening(false, 9);
    let now = Time::ZERO + Span::from_secs(1);
    let mut syn = Header { flags: Flags::SYN, seq: u32::MAX - 10, window: 65_535, ..Header::default() };
    syn.options.mss = Some(1460);
    syn.options.sack_permitted = true;
    syn.options.window_scale = Some(7);
    syn.options.timestamps = Some(Timestamps { value: 1, echo: 0 });
    deliver(&mut endpoint, now, 1, &emit(&syn, &[]));
    let (_, answer, _) = drain(&mut endpoint, now).pop().expect("a SYN-ACK");
    let mut victim = Victim {
        endpoint,
        id: ConnId::default(),
        now,
        seq: syn.seq.wrapping_add(1),
        ack: answer.seq.wrapping_add(1),
        stamp: answer.options.timestamps.expect("timestamps").value,
    };
    let ack = victim.header(Flags::ACK, 0, 0);
    deliver(&mut victim.endpoint, now, 1, &emit(&ack, &[]));
    victim.id = victim.endpoint.accept().expect("a connection");
    victim
}

impl Victim {
    /// Returns a header as the peer would send it, with sequence and acknowledgment number moved by the given
    /// offsets.
    fn header(&self, flags: Flags, seq: i32, ack: i32) -> Header {
        let mut header = Header {
            flags,
            window: 1000,
            seq: self.seq.wrapping_add_signed(seq),
            ack: self.ack.wrapping_add_signed(ack),
            ..Header::default()
        };
        let ticks = (self.now.as_nanos() / 1_000_000) as u32;
        header.options.timestamps = Some(Timestamps { value: ticks, echo: self.stamp });
        header
    }
}

fn emit(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; 60];
    let len = CheshireCodec::emit(header, &mut datagram).expect("60 bytes hold any header");
    datagram.truncate(len);
    datagram.extend_from_slice(payload);
    datagram
}

/// Segments near those that an established connection expects, with arbitrary flags, SACK blocks and data, while the
/// endpoint sends data, too.
pub fn established(script: &[u8]) {
    let mut script = Script(script);
    let mut victim = victim();
    let id = victim.id;
    victim.endpoint.drive(victim.now, id, |c| c.write(&[7; 100_000]).ok());
    let mut read = 0;
    while !script.is_over() {
        // Decode one segment of the script.
        victim.now += Span::from_micros(u64::from(script.word()) * 16);
        let kind = script.byte();
        let flags = Flags::from_bits_truncate(u16::from(script.byte()) | u16::from(kind & 1) << 8);
        let seq = i32::from(script.word() as i16);
        let ack = i32::from(script.word() as i16);
        let mut header = victim.header(flags, seq, ack);
        header.window = script.word();
        for _ in 0..kind >> 6 {
            let left = header.ack.wrapping_add(u32::from(script.word()));
            let right = left.wrapping_add(u32::from(script.word()));
            header.options.sack.push(longhaul_wire::SackBlock { left, right });
        }
        if kind & 2 != 0 {
            header.options.timestamps = Some(Timestamps { value: u32::from(script.word()) << 16, echo: victim.stamp });
        }
        let payload = vec![kind; usize::from(script.byte()) * 6];
        header.fit();
        // Deliver it, take the answers and read.
        deliver(&mut victim.endpoint, victim.now, 1, &emit(&header, &payload));
        let now = victim.now;
        run_to(&mut victim.endpoint, now);
        let sent = drain(&mut victim.endpoint, now);
        assert!(sent.len() <= 4096, "{} segments for one", sent.len());
        victim.endpoint.drive(now, id, |c| {
            while let Ok(part) = c.read(4096) {
                if part.is_empty() {
                    break;
                }
                read += part.len();
            }
        });
        if let Some(connection) = victim.endpoint.connection(id) {
            assert!(connection.status().memory() < 256 << 20);
            let info = connection.info(now);
            assert!(info.cwnd.0 >= 1 && info.bytes_acked <= 100_002);
        }
    }
    let end = victim.now + Span::from_secs(100_000);
    run_to(&mut victim.endpoint, end);
}

/// Parts of a known stream in any order and overlap: the bytes read are the contiguous prefix of a naive model.
pub fn reassembly(script: &[u8]) {
    let mut script = Script(script);
    let mut victim = victim();
    let id = victim.id;
    let pattern = |at: usize| (at ^ (at >> 8)) as u8;
    let mut have = BTreeMap::new();
    let mut read = Vec::new();
    while !script.is_over() {
        victim.now += Span::from_micros(50);
        let start = usize::from(script.word()) % 60_000;
        let len = usize::from(script.word()) % 1400 + 1;
        let payload: Vec<u8> = (start..start + len).map(pattern).collect();
        let header = victim.header(Flags::ACK, start as i32, 0);
        deliver(&mut victim.endpoint, victim.now, 1, &emit(&header, &payload));
        have.extend((start..start + len).map(|at| (at, pattern(at))));
        drain(&mut victim.endpoint, victim.now);
        if script.byte() & 3 == 0 {
            victim.endpoint.drive(victim.now, id, |c| {
                while let Ok(part) = c.read(100_000) {
                    read.extend_from_slice(&part);
                }
            });
        }
    }
    victim.endpoint.drive(victim.now, id, |c| {
        while let Ok(part) = c.read(100_000) {
            read.extend_from_slice(&part);
        }
    });
    let whole: Vec<u8> = have.iter().enumerate().take_while(|(i, (at, _))| i == *at).map(|(_, (_, b))| *b).collect();
    assert!(read == whole, "{} bytes read, {} are whole", read.len(), whole.len());
}

/// Merged datagrams have the same effect as single ones, whatever their contents: the application reads the same
/// bytes, and the last acknowledgment number is the same, once delayed ACKs have been sent. Only the number of
/// acknowledgments may differ.
pub fn merged(script: &[u8]) {
    let mut script = Script(script);
    let mut datagrams = Vec::new();
    // Build equally long segments near the expected ones.
    let stride = 24 + usize::from(script.byte());
    let (mut together, mut apart) = (victim(), victim());
    while !script.is_over() && datagrams.len() < 64 {
        let (flags, seq) = (script.byte(), i32::from(script.word() as i16) / 16);
        let mut header = together.header(Flags::ACK | Flags::from_bits_truncate(u16::from(flags & 0xc9)), seq, 0);
        header.window = script.word();
        let payload = vec![flags; stride.saturating_sub(24)];
        datagrams.push(emit(&header, &payload));
    }
    let same = datagrams.iter().all(|datagram| datagram.len() == stride);
    assert!(same, "all headers have timestamps and nothing else");
    // Deliver them merged to one connection, and one by one to the other.
    let now = together.now;
    let mut meta = DatagramMeta::new(tuple(1).remote, stride);
    meta.tuple = tuple(1);
    together.endpoint.handle_datagram(now, &meta, &datagrams.concat(), None);
    let mut sent_together = drain(&mut together.endpoint, now);
    let mut sent_apart = Vec::new();
    for datagram in &datagrams {
        deliver(&mut apart.endpoint, now, 1, datagram);
        sent_apart.extend(drain(&mut apart.endpoint, now));
    }
    // An ACK of merged datagrams may cover the last one, whose own ACK would be delayed.
    let later = now + Span::from_secs(1);
    sent_together.extend(run_to(&mut together.endpoint, later));
    sent_apart.extend(run_to(&mut apart.endpoint, later));
    // Compare the last acknowledgments and what the applications see.
    let end = |victim: &mut Victim| {
        let id = victim.id;
        let read = victim.endpoint.drive(later, id, |c| {
            let mut all = Vec::new();
            while let Ok(part) = c.read(100_000) {
                if part.is_empty() {
                    break;
                }
                all.extend_from_slice(&part);
            }
            (all, c.state(), c.status().error(), c.info(later).peer_window)
        });
        (read, drain(&mut victim.endpoint, later).len())
    };
    let numbers = |sent: &[(Tuple, Header, usize)]| sent.iter().map(|(_, header, _)| header.ack).next_back();
    assert_eq!(numbers(&sent_together), numbers(&sent_apart), "the last acknowledgment");
    assert_eq!(end(&mut together).0, end(&mut apart).0, "what the application sees");
}

/// A SYN cookie that was changed opens no connection. Without timestamps, a cookie has 28 bits of MAC, so that a
/// random change can succeed; it does not do so under three secrets.
pub fn cookie(script: &[u8]) {
    let came = [9, 10, 11].map(|secret| returning(script, secret));
    let [Some((opens, unchanged)), others @ ..] = came else { return };
    let all = opens && others.into_iter().flatten().all(|(opens, _)| opens);
    assert_eq!(all, unchanged, "{came:?}");
}

/// Returns whether a returned cookie opens a connection and whether it is unchanged; `None` if no cookie was sent.
fn returning(script: &[u8], secret: u8) -> Option<(bool, bool)> {
    let mut script = Script(script);
    let mut endpoint = listening(true, secret);
    let now = Time::ZERO + Span::from_secs(u64::from(script.byte()));
    // The SYN: no state is kept, and the answer is no longer than the SYN.
    let mut syn = Header { flags: Flags::SYN, seq: u32::from(script.word()) << 8, window: 65_535, ..Header::default() };
    let options = script.byte();
    syn.options.mss = (options & 1 != 0).then(|| script.word());
    syn.options.sack_permitted = options & 2 != 0;
    syn.options.window_scale = (options & 4 != 0).then_some(options >> 4);
    syn.options.timestamps = (options & 8 != 0).then_some(Timestamps { value: 5, echo: 0 });
    let came = emit(&syn, &[]);
    deliver(&mut endpoint, now, 1, &came);
    assert_eq!((endpoint.len(), endpoint.memory()), (0, 0), "a SYN allocates no state");
    let (_, answer, len) = drain(&mut endpoint, now).pop()?;
    assert!(len <= came.len(), "{len} bytes for {}", came.len());
    // The ACK that returns the cookie, with bits flipped by the script.
    let mut ack = Header { flags: Flags::ACK, seq: syn.seq.wrapping_add(1), window: 100, ..Header::default() };
    ack.ack = answer.seq.wrapping_add(1);
    let echo = answer.options.timestamps.map(|t| t.value);
    ack.options.timestamps = echo.map(|echo| Timestamps { value: 6, echo });
    let (flip_ack, flip_seq) = (u32::from(script.word()), u32::from(script.word()));
    let flip_echo = u32::from(script.word());
    let host = if script.byte() & 1 == 0 { 1 } else { 2 };
    ack.ack ^= flip_ack << (script.byte() & 16);
    ack.seq ^= flip_seq;
    if let Some(stamp) = &mut ack.options.timestamps {
        stamp.echo ^= flip_echo;
    }
    let unchanged =
        ack.ack == answer.seq.wrapping_add(1) && flip_seq == 0 && host == 1 && (flip_echo == 0 || echo.is_none());
    deliver(&mut endpoint, now, host, &emit(&ack, &[]));
    drain(&mut endpoint, now);
    Some((endpoint.accept().is_some(), unchanged))
}

/// Tags that differ in each bit of a message, under one key per direction.
#[derive(Debug)]
struct Tags;

impl MoveTags for Tags {
    fn client(&self, message: &[u8]) -> [u8; 8] {
        let fold = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        message.iter().fold(0xcbf2_9ce4_8422_2325, fold).to_be_bytes()
    }

    fn server(&self, message: &[u8]) -> [u8; 8] {
        self.client(message).map(|byte| !byte)
    }
}

/// True and false claims and answers from four addresses. Only an answer that is right for the address from which it comes
/// moves the connection, each counter moves it once, and no address gets more bytes than came from there.
pub fn moves(script: &[u8]) {
    let mut script = Script(script);
    let mut victim = victim();
    let (id, number) = (victim.id, [5; 8]);
    let mobility = Mobility { number, is_client: false, tags: Arc::new(Tags) };
    assert!(victim.endpoint.set_mobility(id, mobility));
    let (mut at, mut last, mut moved_at) = (1, 0, None);
    let mut challenges = BTreeMap::new();
    while !script.is_over() {
        victim.now += Span::from_millis(u64::from(script.byte()));
        let (host, other, kind, counter) =
            (script.byte() % 4, script.byte() % 4, script.byte(), u32::from(script.byte()));
        let now = victim.now;
        let mut header = victim.header(Flags::ACK, 0, 0);
        let step = if kind & 1 == 0 { MoveStep::Claim } else { MoveStep::Answer };
        let value = if kind & 2 == 0 { number } else { [6; 8] };
        let mut moving = MoveOption { step, value, counter, tag: [0; 8] };
        let challenge = challenges.get(&(other, counter)).copied().unwrap_or([0; 8]);
        let covered = if step == MoveStep::Claim { header.seq.to_be_bytes().to_vec() } else { challenge.to_vec() };
        moving.tag = Tags.client(&[&moving.tagged()[..], &covered].concat());
        moving.tag[7] ^= u8::from(kind & 12 == 12);
        header.options.moving = Some(moving);
        let datagram = emit(&header, &[]);
        deliver(&mut victim.endpoint, now, host, &datagram);
        let is_right = step == MoveStep::Answer && value == number && kind & 12 != 12 && host == other;
        let is_late = moved_at.is_none_or(|at| now - at >= Span::from_millis(50));
        if is_right && is_late && counter > last && host != at && challenges.contains_key(&(host, counter)) {
            (at, last, moved_at) = (host, counter, Some(now));
        }
        assert_eq!(victim.endpoint.tuple(id), Some(tuple(at)));
        let mut bytes = 0;
        for (to, header, len) in drain(&mut victim.endpoint, now) {
            if to == tuple(at) {
                continue;
            }
            assert_eq!(to, tuple(host), "another address than that of the segment");
            bytes += len;
            if let Some(challenge) = header.options.moving {
                assert_eq!(challenge.step, MoveStep::Challenge);
                challenges.insert((host, challenge.counter), challenge.value);
            }
        }
        assert!(bytes <= datagram.len(), "{bytes} bytes for {}", datagram.len());
    }
}
