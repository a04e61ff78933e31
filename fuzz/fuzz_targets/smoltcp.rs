//! Interoperation with smoltcp through the shim between longhaul's datagrams and IP packets, over a network whose
//! faults a script selects for each packet. Both streams must arrive completely, and both ends must close.
#![no_main]

use std::collections::VecDeque;

use longhaul_tcp::{ConnectionError, Ecn};
use longhaul_units::{Span, Time};
use longhaul_wire::shim::{IpFields, MAX_GROWTH, tcp_from_udp, udp_from_tcp};
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

#[path = "../../crates/core/tcp/tests/support/ends.rs"]
#[allow(dead_code, reason = "other checks need the rest of it")]
mod ends;

use ends::script::Script;
use ends::{App, DELAY, Datagram, Ends, config, is_demanding, part, pattern, tuple};

/// Maximum time from the end of the script to the end of both connections, over a network without faults. smoltcp
/// retransmits its FIN once per minute without limit, so that a script with many losses may take hours.
const BOUND: Span = Span::from_secs(3600);
/// Number of lost packets from which on a handshake may fail, because longhaul's server retransmits its SYN-ACK only
/// twice.
const FATAL: u32 = 3;
const OURS: usize = 0;
const THEIRS: usize = 1;

libfuzzer_sys::fuzz_target!(|script: &[u8]| differential(script));

/// Network interface with two queues of IP packets.
#[derive(Default)]
struct Card {
    came: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

struct Came(Vec<u8>);
struct Room<'a>(&'a mut Vec<Vec<u8>>);

impl RxToken for Came {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(&self.0)
    }
}

impl TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        let mut packet = vec![0; len];
        let result = fill(&mut packet);
        self.0.push(packet);
        result
    }
}

impl Device for Card {
    type RxToken<'a> = Came;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Came, Room<'_>)> {
        Some((Came(self.came.pop_front()?), Room(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Room<'_>> {
        Some(Room(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = 1500;
        capabilities
    }
}

/// smoltcp stack with one socket.
struct Peer {
    card: Card,
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: smoltcp::iface::SocketHandle,
    written: u64,
    read: u64,
    ended: bool,
}

fn instant(now: Time) -> Instant {
    Instant::from_micros((now.as_nanos() / 1000) as i64)
}

impl Peer {
    fn new(now: Time, buffers: [usize; 2], seed: u8) -> Self {
        let mut card = Card::default();
        let mut settings = Config::new(HardwareAddress::Ip);
        settings.random_seed = seed.into();
        let mut interface = Interface::new(settings, &mut card, instant(now));
        interface.update_ip_addrs(|all| {
            let _ = all.push(IpCidr::new(IpAddress::v4(10, 0, 0, 2), 24));
        });
        let [receive, send] = buffers.map(|len| SocketBuffer::new(vec![0; len]));
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(Socket::new(receive, send));
        Self { card, interface, sockets, handle, written: 0, read: 0, ended: false }
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut::<Socket<'_>>(self.handle)
    }

    fn open(&mut self, connects: bool) {
        if connects {
            let socket = self.sockets.get_mut::<Socket<'_>>(self.handle);
            let to = (IpAddress::v4(10, 0, 0, 1), 4000);
            socket.connect(self.interface.context(), to, 4000).expect("a fresh socket");
        } else {
            self.socket().listen(4000).expect("a fresh socket");
        }
    }

    fn poll(&mut self, now: Time) {
        self.interface.poll(instant(now), &mut self.card, &mut self.sockets);
    }

    fn next(&mut self, now: Time) -> Option<Time> {
        let at = self.interface.poll_at(instant(now), &self.sockets)?;
        // The clock of smoltcp counts whole microseconds.
        Some(Time::from_nanos((at.total_micros().max(0) as u64 + 1) * 1000).max(now))
    }

    /// Lets smoltcp's application read and write as much as possible, and close.
    fn act(&mut self, size: u64) {
        let (written, read) = (self.written, self.read);
        let socket = self.socket();
        let mut got = Vec::new();
        while socket.can_recv() {
            let _ = socket.recv(|bytes| {
                got.extend_from_slice(bytes);
                (bytes.len(), ())
            });
        }
        let wrong = got.iter().zip(read..).position(|(byte, at)| *byte != pattern(OURS, at));
        assert_eq!(wrong, None, "smoltcp read what was not written, from {read} on");
        let mut taken = 0;
        if socket.may_send() && written < size {
            taken = socket.send_slice(&part(THEIRS, written, (size - written).min(8000) as usize)).unwrap_or(0);
        }
        let opened = !matches!(socket.state(), State::Listen | State::SynSent | State::SynReceived | State::Closed);
        if opened && written + taken as u64 == size {
            socket.close();
        }
        let ended = opened && !socket.may_recv();
        self.written += taken as u64;
        self.read += got.len() as u64;
        self.ended |= ended;
    }
}

/// Network with faults that a script selects.
struct Weather<'a> {
    script: Script<'a>,
    lost: u32,
}

impl Weather<'_> {
    fn meet(&mut self, ends: &mut Ends, datagram: Datagram) {
        let fate = self.script.byte();
        match fate & 7 {
            4 => {
                self.lost += 1;
                return;
            }
            5 => ends.send(datagram.clone(), DELAY + Span::from_millis(u64::from(fate >> 3))),
            6 => {
                let delay = Span::from_millis(u64::from(self.script.byte()) * 8);
                return ends.send(datagram, delay);
            }
            _ => {}
        }
        ends.send(datagram, DELAY + Span::from_micros(u64::from(fate >> 3) * 200));
    }
}

fn differential(script: &[u8]) {
    // The script selects the configuration, the sizes, and the side that connects.
    let mut script = Script(script);
    let config = config(&mut script);
    let demanding = is_demanding(&config.congestion);
    let sizes = [script.word(), script.word()].map(u64::from);
    let first = script.byte();
    let buffers = [script.byte(), script.byte()].map(|byte| 2000 + usize::from(byte) * 256);
    // smoltcp's arithmetic on SACK blocks overflows above 2^31, which panics in this build, unlike in an optimised one.
    let mut ends = Ends::new([Some(u32::from(script.byte()) * 64), None]);
    let mut peer = Peer::new(ends.now, buffers, script.byte());
    let mut weather = Weather { script, lost: 0 };
    let mut app = None;
    let we_connect = first & 1 == 0;
    peer.open(!we_connect);
    {
        let socket = peer.socket();
        socket.set_nagle_enabled(first & 2 == 0);
        if first & 4 != 0 {
            socket.set_ack_delay(None);
        }
    }
    if we_connect {
        let now = ends.now;
        app = ends.sides[OURS].connect(now, tuple(OURS, 0), config).map(|id| App::new(OURS, id));
    } else {
        ends.sides[OURS].listen(config);
    }
    let mut end = ends.now + BOUND;
    let mut released = false;
    // Run both ends and the network until both are closed.
    loop {
        if !weather.script.0.is_empty() {
            end = ends.now + BOUND;
        }
        app = app.or_else(|| ends.sides[OURS].accept().map(|id| App::new(OURS, id)));
        if let Some(app) = app.as_mut().filter(|_| !released) {
            released = act(&mut ends, app, sizes[OURS]);
        }
        peer.act(sizes[THEIRS]);
        let now = ends.now;
        peer.poll(now);
        peer.act(sizes[THEIRS]);
        for packet in std::mem::take(&mut peer.card.sent) {
            let mut bytes = vec![0; packet.len()];
            // Packets other than TCP (ICMP) have no datagram.
            let Ok(from) = udp_from_tcp(&packet, &mut bytes) else { continue };
            bytes.truncate(from.len);
            weather.meet(&mut ends, Datagram { to: OURS, flow: 0, ecn: Ecn::NotEct, bytes });
        }
        ends.flush(OURS, |ends, datagram| weather.meet(ends, datagram));
        let failed = app.as_ref().is_some_and(|app| app.error.is_some()) && released;
        let closed = matches!(peer.socket().state(), State::Closed | State::TimeWait);
        if released && (closed || failed) && ends.sides[OURS].is_idle() {
            break;
        }
        let lost_handshake = app.is_none() && weather.lost >= FATAL;
        let next = ends.next().into_iter().chain(peer.next(now)).min();
        match next {
            Some(next) if next <= end => step(&mut ends, &mut peer, next),
            _ if lost_handshake => break,
            // longhaul has given up and its RST was lost. smoltcp does not notice if it only receives.
            None if weather.lost >= FATAL && ends.sides[OURS].is_idle() => return,
            // smoltcp has data to send, but no timer: a late segment closed its window while its retransmission timer
            // ran, and smoltcp sends no window probe.
            _ if !closed && peer.next(now).is_none() && peer.socket().send_queue() > 0 => return,
            // smoltcp restarts its retransmission timer at every ACK (RFC 6298, section 5: only at ACKs of new data).
            // longhaul's keep-alive probes arrive before it expires, so that smoltcp never retransmits a lost FIN.
            _ if matches!(peer.socket().state(), State::FinWait1 | State::Closing | State::LastAck)
                && !ends.sides[OURS].is_idle() =>
            {
                return;
            }
            // longhaul's server has refused the connection because smoltcp lacks a feature, so its application gets no
            // connection.
            None if demanding && app.is_none() && closed => return,
            next => {
                let state = peer.socket().state();
                let info = app.as_ref().and_then(|app| Some(ends.sides[OURS].connection(app.id)?.info(now)));
                panic!(
                    "not over by {end}, next {next:?}: {app:?} {sizes:?}, smoltcp {state} read {}, {info:?}",
                    peer.read
                )
            }
        }
    }
    let error = app.as_ref().and_then(|app| app.error);
    if weather.lost >= FATAL || matches!(error, Some(ConnectionError::NeedNotGranted { .. })) {
        return;
    }
    let app = app.expect("a connection");
    assert!(
        app.ended && app.error.is_none() && app.read == sizes[THEIRS],
        "{app:?} of {sizes:?}, {} lost",
        weather.lost
    );
    assert!(peer.read == sizes[OURS] && peer.ended, "smoltcp read {} of {sizes:?}, {} lost", peer.read, weather.lost);
}

/// Advances the time to `now` and delivers packets: to longhaul as datagrams, and to smoltcp as IP packets.
fn step(ends: &mut Ends, peer: &mut Peer, now: Time) {
    ends.step();
    ends.now = ends.now.max(now);
    while let Some(entry) = ends.under_way.first_entry().filter(|entry| entry.key().0 <= ends.now) {
        let datagram = entry.remove();
        if datagram.to == OURS {
            ends.deliver(&datagram);
            continue;
        }
        let mut packet = vec![0; datagram.bytes.len() + MAX_GROWTH];
        let (from, to) = (tuple(THEIRS, 0).remote, tuple(OURS, 0).remote);
        let len = tcp_from_udp(&datagram.bytes, from, to, IpFields::default(), &mut packet).expect("we send segments");
        packet.truncate(len);
        peer.card.came.push_back(packet);
    }
    let clock = ends.clock(OURS);
    ends.sides[OURS].handle_timeout(clock);
}

/// Lets longhaul's application write, shut down, read to the end, and release the connection. Returns whether it has
/// released the connection.
fn act(ends: &mut Ends, app: &mut App, size: u64) -> bool {
    while app.read(ends, 5_000) > 0 {}
    while app.written < size && app.write(ends, 4_000.min((size - app.written) as usize)) {}
    let now = ends.clock(OURS);
    let state = ends.sides[OURS].drive(now, app.id, |c| (c.state().is_synchronized(), c.status().error()));
    let Some((established, error)) = state else { return true };
    app.error = app.error.or(error);
    if app.written == size && established {
        ends.sides[OURS].drive(now, app.id, longhaul_tcp::Connection::shutdown);
    }
    let done = app.error.is_some() || (app.ended && app.written == size);
    if done {
        ends.sides[OURS].release(now, app.id);
    }
    done
}
