//! TLS server over longhaul with an unauthenticated client: a script changes, cuts and repeats the bytes of a real
//! handshake. The fuzz target and the replay of its corpus both call [`tls`].

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};

use longhaul_tcp::{Config, Connection};
use longhaul_units::Span;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

#[path = "../../../../../crates/core/tcp/tests/support/ends.rs"]
#[allow(dead_code, reason = "another check needs the rest of it")]
mod ends;

use ends::script::Script;
use ends::{DELAY, Ends, tuple};

/// Maximum time until both ends are done, whatever the client sends, because the client closes if it does not finish.
const BOUND: Span = Span::from_secs(600);
/// Maximum number of bytes that the server sends to an unauthenticated client: two flights of a handshake with one
/// certificate.
const BEFORE: usize = 16 << 10;
const WORDS: &[u8] = b"hello from afar, in private";

fn configs() -> &'static (Arc<ClientConfig>, Arc<ServerConfig>) {
    static CONFIGS: OnceLock<(Arc<ClientConfig>, Arc<ServerConfig>)> = OnceLock::new();
    CONFIGS.get_or_init(|| {
        let own = rcgen::generate_simple_self_signed(vec!["longhaul.test".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).expect("a key");
        let mut roots = RootCertStore::empty();
        roots.add(own.cert.der().clone()).expect("a root");
        let server = ServerConfig::builder().with_no_client_auth();
        let server = server.with_single_cert(vec![own.cert.into()], key).expect("a server");
        let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        (Arc::new(client), Arc::new(server))
    })
}

/// Manipulation of the client's stream before it enters longhaul.
struct Mangler {
    /// Bits to flip, by offset.
    flips: BTreeMap<u64, u8>,
    /// Bytes to insert, by offset.
    inserts: BTreeMap<u64, Vec<u8>>,
    /// Offset at which the stream ends.
    end: u64,
    /// Maximum number of bytes per write.
    cut: usize,
    passed: u64,
}

impl Mangler {
    fn new(script: &mut Script<'_>) -> Self {
        let cut = match script.byte() {
            0 => 1 << 14,
            byte => usize::from(byte),
        };
        let (mut flips, mut inserts, mut end) = (BTreeMap::new(), BTreeMap::new(), u64::MAX);
        while !script.is_over() {
            let (kind, at) = (script.byte(), u64::from(script.word()) % 2048);
            match kind & 7 {
                0..=4 => {
                    flips.insert(at, script.byte());
                }
                5 | 6 => {
                    let len = usize::from(script.byte());
                    inserts.insert(at, script.take(len));
                }
                _ => end = end.min(at),
            }
        }
        Self { flips, inserts, end, cut, passed: 0 }
    }

    fn is_honest(&self) -> bool {
        self.flips.values().all(|bits| *bits == 0) && self.inserts.values().all(Vec::is_empty) && self.end == u64::MAX
    }

    fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for byte in bytes {
            if self.passed >= self.end {
                break;
            }
            out.extend(self.inserts.remove(&self.passed).unwrap_or_default());
            out.push(byte ^ self.flips.get(&self.passed).copied().unwrap_or(0));
            self.passed += 1;
        }
        out
    }
}

/// TLS session at one end of a longhaul connection.
struct Side<T> {
    tls: T,
    id: Option<longhaul_tcp::ConnId>,
    side: usize,
    /// Data to write to longhaul.
    out: Vec<u8>,
    /// Decrypted data.
    read: Vec<u8>,
    failed: bool,
    shut: bool,
    over: bool,
}

impl<T> Side<T> {
    fn new(tls: T, side: usize) -> Self {
        Self { tls, id: None, side, out: Vec::new(), read: Vec::new(), failed: false, shut: false, over: false }
    }

    fn read_some(&mut self, ends: &mut Ends) -> Option<Vec<u8>> {
        let now = ends.clock(self.side);
        match ends.sides[self.side].drive(now, self.id?, |c| c.read(4096))? {
            Ok(bytes) if bytes.is_empty() => {
                self.over = true;
                None
            }
            Ok(bytes) => Some(bytes.to_vec()),
            Err(longhaul_tcp::Blocked::Failed(_)) => {
                (self.over, self.shut) = (true, true);
                None
            }
            Err(_) => None,
        }
    }

    /// Writes the pending data in pieces of `cut` bytes, and closes when `done`.
    fn write(&mut self, ends: &mut Ends, cut: usize, done: bool) {
        let (Some(id), now) = (self.id, ends.clock(self.side)) else { return };
        while !self.out.is_empty() {
            let part = &self.out[..self.out.len().min(cut)];
            let Some(Ok(taken)) = ends.sides[self.side].drive(now, id, |c| c.write(part)) else { break };
            self.out.drain(..taken);
            if taken == 0 {
                break;
            }
        }
        if done && self.out.is_empty() && !self.shut {
            self.shut = true;
            ends.sides[self.side].drive(now, id, Connection::shutdown);
        }
        if self.shut && self.over && self.id.is_some() {
            ends.sides[self.side].release(now, id);
            self.id = None;
        }
    }
}

/// Runs a handshake, a message and its echo over two endpoints. The server must survive any changes of the client's
/// bytes.
pub fn tls(script: &[u8]) {
    let mut mangler = Mangler::new(&mut Script(script));
    let honest = mangler.is_honest();
    let (client, server) = configs();
    let name = ServerName::try_from("longhaul.test").expect("a name");
    let client = ClientConnection::new(Arc::clone(client), name).expect("a client");
    let server = ServerConnection::new(Arc::clone(server)).expect("a server");
    let (mut client, mut server) = (Side::new(client, 0), Side::new(server, 1));
    let mut ends = Ends::new([None; 2]);
    let (now, config) = (ends.now, Arc::new(Config::default()));
    ends.sides[1].listen(Arc::clone(&config));
    client.id = ends.sides[0].connect(now, tuple(0, 0), config);
    client.tls.writer().write_all(WORDS).expect("room for some words");
    let (end, mut said) = (ends.now + BOUND, 0);
    loop {
        server.id = server.id.or_else(|| ends.sides[1].accept());
        ask(&mut ends, &mut client, &mut mangler);
        said += answer(&mut ends, &mut server);
        assert!(!server.tls.is_handshaking() || said <= BEFORE, "{said} bytes for a stranger");
        for side in 0..2 {
            ends.flush(side, |ends, datagram| ends.send(datagram, DELAY));
        }
        match ends.next() {
            Some(next) if next <= end => ends.happen(next),
            // After a partial message, both wait for each other. Neither has a timeout in this test, so the client
            // gives up.
            None if client.id.is_some() && !client.failed => client.failed = true,
            None => break,
            next => panic!("not over by {end}, next at {next:?}: {:?}", ends.describe()),
        }
    }
    ends.sides[1].unlisten(end);
    ends.assert_idle();
    assert!(!honest || client.read == WORDS, "an honest client got {} bytes back", client.read.len());
}

fn ask(ends: &mut Ends, client: &mut Side<ClientConnection>, mangler: &mut Mangler) {
    while let Some(bytes) = client.read_some(ends) {
        let mut rest = bytes.as_slice();
        while !client.failed && !rest.is_empty() {
            client.failed = client.tls.read_tls(&mut rest).is_err() || client.tls.process_new_packets().is_err();
            let _ = client.tls.reader().read_to_end(&mut client.read);
        }
    }
    let done = client.failed || client.read.len() >= WORDS.len() || client.over;
    let mut bytes = Vec::new();
    while client.tls.wants_write() {
        client.tls.write_tls(&mut bytes).expect("a vector takes all");
    }
    client.out.extend(mangler.pass(&bytes));
    let cut = mangler.cut;
    client.write(ends, cut, done || mangler.passed >= mangler.end);
}

/// Lets the server process the client's data. Returns the number of bytes that the server sends in answer.
fn answer(ends: &mut Ends, server: &mut Side<ServerConnection>) -> usize {
    while let Some(bytes) = server.read_some(ends) {
        let mut rest = bytes.as_slice();
        while !server.failed && !rest.is_empty() {
            server.failed = server.tls.read_tls(&mut rest).is_err() || server.tls.process_new_packets().is_err();
            let mut words = Vec::new();
            let _ = server.tls.reader().read_to_end(&mut words);
            server.tls.writer().write_all(&words).expect("room for some words");
        }
    }
    let before = server.out.len();
    while server.tls.wants_write() {
        server.tls.write_tls(&mut server.out).expect("a vector takes all");
    }
    let said = server.out.len() - before;
    let done = server.failed || server.over;
    server.write(ends, 1 << 14, done);
    said
}
