//! TCP connections through `longhaul forward` and `longhaul gateway`.
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::machine::{Machine, Receiver, failed, first_word};

/// Machines of a forwarder and of a gateway that allows it, with their programs.
struct Pair {
    there: Machine,
    here: Machine,
    gateway: Receiver,
    forward: Receiver,
    /// Address of the second port, if there is one.
    dynamic: String,
}

impl Pair {
    /// Forwards a port to `target`, which the gateway permits.
    fn new(target: SocketAddr) -> Self {
        Self::with(&[&target.to_string()], &format!("0:{target}"))
    }

    fn with(permits: &[&str], local: &str) -> Self {
        Self::start(permits, &["-L", local])
    }

    /// Forwards one or two ports.
    fn start(permits: &[&str], ports: &[&str]) -> Self {
        let (there, here) = (Machine::new(), Machine::new());
        let key = here.key();
        let permits = permits.iter().flat_map(|permit| ["--permit", permit]);
        let gateway = there.gateway(&["--allow", &key].into_iter().chain(permits).collect::<Vec<_>>());
        let mut forward = here.forward(&gateway.address, ports);
        let mut dynamic = String::new();
        if ports.len() > 2 {
            dynamic = first_word(&forward.wait_for(" leads to "));
        }
        Self { there, here, gateway, forward, dynamic }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.forward.address).unwrap()
    }
}

pub(crate) fn listen() -> (TcpListener, SocketAddr) {
    let socket = bound(SocketAddr::from(([127, 0, 0, 1], 0)));
    socket.listen(1024).unwrap();
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Returns a bound socket, at an address that a second call may bind again.
fn bound(address: SocketAddr) -> socket2::Socket {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    #[cfg(unix)]
    socket.set_reuse_port(true).unwrap();
    #[cfg(not(unix))]
    socket.set_reuse_address(true).unwrap();
    socket.bind(&address.into()).unwrap();
    socket
}

/// Closes a listener, but keeps its port bound without listening, so that no other program gets the port.
pub(crate) fn close(listener: TcpListener) -> socket2::Socket {
    let holder = bound(listener.local_addr().unwrap());
    drop(listener);
    holder
}

pub(crate) fn contents(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(i.wrapping_add(seed)) >> 9) as u8).collect()
}

pub(crate) fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    all
}

/// Echoes each connection until its half-close.
pub(crate) fn echo(listener: TcpListener) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let (mut from, mut to) = (stream.as_ref().unwrap(), stream.as_ref().unwrap());
                // The client may have been killed.
                let _ = std::io::copy(&mut from, &mut to).and_then(|_| to.shutdown(Shutdown::Write));
            });
        }
    });
}

/// Sends `data` and returns the answer that arrives after the half-close.
pub(crate) fn exchange(mut stream: TcpStream, data: &[u8]) -> Vec<u8> {
    let mut writer = stream.try_clone().unwrap();
    let data = data.to_vec();
    let writing = thread::spawn(move || {
        writer.write_all(&data).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let back = read_all(&mut stream);
    writing.join().unwrap();
    back
}

#[test]
fn connections_pass_in_both_directions_one_after_the_other_and_together() {
    let (listener, target) = listen();
    echo(listener);
    let pair = Pair::new(target);
    // There are more connections than tunnels kept ready, so that some tunnels are used again.
    for round in 0..20 {
        let data = contents(round, 1000 * round as usize);
        assert!(exchange(pair.connect(), &data) == data, "round {round}");
    }
    let together: Vec<_> = (0..20)
        .map(|seed| {
            let (stream, data) = (pair.connect(), contents(seed, 300_000));
            thread::spawn(move || assert!(exchange(stream, &data) == data, "connection {seed}"))
        })
        .collect();
    together.into_iter().for_each(|connection| connection.join().unwrap());
}

#[test]
fn either_side_may_end_first() {
    let (listener, target) = listen();
    let pair = Pair::new(target);
    let (sent, answer) = (contents(1, 200_000), contents(2, 200_000));
    // The client ends its direction first; the server answers afterwards.
    let mut client = pair.connect();
    client.write_all(&sent).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut server = listener.accept().unwrap().0;
    assert!(read_all(&mut server) == sent);
    server.write_all(&answer).unwrap();
    drop(server);
    assert!(read_all(&mut client) == answer);
    // The server ends its direction first.
    let mut client = pair.connect();
    let mut server = listener.accept().unwrap().0;
    server.write_all(&answer).unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    assert!(read_all(&mut client) == answer);
    client.write_all(&sent).unwrap();
    drop(client);
    assert!(read_all(&mut server) == sent);
}

/// Resets a connection by dropping it with unread data.
fn reset(stream: TcpStream, mut peer: &TcpStream) {
    peer.write_all(b"unread").unwrap();
    let mut first = [0];
    (&stream).read_exact(&mut first).unwrap();
    drop(stream);
}

pub(crate) fn is_reset(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut rest = Vec::new();
    matches!(stream.read_to_end(&mut rest), Err(error) if error.kind() == ErrorKind::ConnectionReset)
}

#[test]
fn resets_are_carried_over_and_the_tunnel_is_used_again() {
    let (listener, target) = listen();
    let pair = Pair::new(target);
    for _ in 0..12 {
        let client = pair.connect();
        let mut server = listener.accept().unwrap().0;
        reset(client, &server);
        assert!(is_reset(&mut server));

        let mut client = pair.connect();
        let server = listener.accept().unwrap().0;
        reset(server, &client);
        assert!(is_reset(&mut client));
    }
    echo(listener);
    assert_eq!(exchange(pair.connect(), b"still there"), b"still there");
}

/// The client ends its direction before it is reset, so that `RESET` follows `END`.
#[test]
fn a_reset_after_the_half_close_is_carried_over() {
    let (listener, target) = listen();
    let pair = Pair::new(target);
    for _ in 0..10 {
        let client = pair.connect();
        client.shutdown(Shutdown::Write).unwrap();
        let mut server = listener.accept().unwrap().0;
        assert!(read_all(&mut server).is_empty());
        reset(client, &server);
        // A read would still return the end of the stream.
        server.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
        let error = std::iter::repeat(()).find_map(|()| server.write_all(&[0; 1000]).err()).unwrap();
        assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error}");
    }
}

#[test]
fn a_target_that_refuses_resets_the_connection() {
    let (listener, target) = listen();
    let _holder = close(listener);
    let mut pair = Pair::new(target);
    assert!(is_reset(&mut pair.connect()));
    let line = pair.forward.wait_for("the target refused the connection");
    assert!(line.starts_with(&target.to_string()), "{line}");
    pair.gateway.wait_for("the target refused the connection");
}

#[test]
fn only_what_is_permitted_is_reached() {
    let (listener, target) = listen();
    let port = target.port();
    for (permits, host) in [
        (&["any"][..], "127.0.0.1"),
        (&["any"], "localhost"),
        (&["any"], "0.0.0.0"),
        (&["127.0.0.1:1"], "127.0.0.1"),
        (&["127.0.0.2:any", "192.0.2.1:any"], "127.0.0.1"),
    ] {
        let mut pair = Pair::with(permits, &format!("0:{host}:{port}"));
        assert!(is_reset(&mut pair.connect()), "{permits:?} {host}");
        pair.forward.wait_for("the gateway does not permit this target");
    }
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    listener.set_nonblocking(false).unwrap();
    echo(listener);
    let pair = Pair::with(&["127.0.0.0/8:any"], &format!("0:localhost:{port}"));
    assert_eq!(exchange(pair.connect(), b"permitted"), b"permitted");
}

#[test]
fn forwarders_and_gateways_need_keys_and_permission() {
    let (there, here) = (Machine::new(), Machine::new());
    let nothing = failed(&there.run(&["gateway", "--listen", "127.0.0.1:0", "--allow", &here.key()]), 1);
    assert!(nothing.contains("nothing is permitted"), "{nothing}");
    // The first start creates the key and shows it, so that the peer can be told.
    assert!(there.data("identity").exists() && nothing.contains(&there.key()), "{nothing}");
    let nobody = failed(&there.run(&["gateway", "--listen", "127.0.0.1:0", "--permit", "any"]), 1);
    assert!(nobody.contains("nobody may forward"), "{nobody}");
    // The permission to send files does not suffice.
    std::fs::write(there.data("allowed-peers"), format!("{} ship send\n{} other forward\n", here.key(), there.key()))
        .unwrap();
    let gateway = there.gateway(&["--permit", "any"]);
    let forward = ["forward", "-L", "0:h.example:80", "--accept-new", &gateway.address];
    let refused = failed(&here.run(&forward), 1);
    assert!(refused.contains("does not allow this machine to forward; its key is ") && refused.contains(&here.key()));
    for wrong in [
        &["forward", "-L", "80:h:80"][..],
        &["forward", "192.0.2.1"],
        &["forward", "-L", "80:h", "192.0.2.1"],
        &["gateway", "--permit", "*:80"],
    ] {
        assert!(!failed(&here.run(wrong), 2).is_empty(), "{wrong:?}");
    }
}

#[test]
fn curl_gets_pages() {
    if !needs::program("curl") {
        return;
    }
    let (listener, target) = listen();
    let page = contents(3, 100_000);
    serve_pages(listener, page.clone());
    let port = target.port();
    let pair = Pair::start(&["localhost:any"], &["-L", &format!("0:{target}"), "-D", "0"]);
    let (local, dynamic) = (&pair.forward.address, &pair.dynamic);
    let [socks, name, http] = ["socks5", "socks5h", "http"].map(|scheme| format!("{scheme}://{dynamic}"));
    let (direct, by_name) = (format!("http://{local}/"), format!("http://localhost:{port}/"));
    for arguments in [
        &[&*direct][..],
        &[&by_name, "--proxy", &socks],
        &[&by_name, "--proxy", &name],
        &[&by_name, "--proxy", &http, "--proxytunnel"],
    ] {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--noproxy", ""]).args(arguments);
        let got = curl.output().unwrap();
        assert!(got.status.success() && got.stdout == page, "{:?}", String::from_utf8_lossy(&got.stderr));
    }
    assert!(!pair.there.data("known-peers").exists() && pair.here.data("known-peers").exists());
    // A target that is not permitted.
    let got = Command::new("curl").args(["--silent", "--proxy", &name, "http://192.0.2.1/"]).output().unwrap();
    assert!(!got.status.success());
}

fn serve_pages(listener: TcpListener, body: Vec<u8>) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(&[head.as_bytes(), &body].concat()).unwrap();
        }
    });
}

/// A killed gateway restarts on the same port. The client in between is reset, and the outage is reported.
#[cfg(unix)]
#[test]
fn a_gateway_that_returns_is_used_again() {
    let (listener, target) = listen();
    echo(listener);
    let mut pair = Pair::new(target);
    let mut client = pair.connect();
    client.write_all(b"before").unwrap();
    let mut back = [0; 6];
    client.read_exact(&mut back).unwrap();
    let address = pair.gateway.address.clone();
    pair.gateway.signal("-KILL");
    pair.gateway.child.wait().unwrap();
    let mut said = String::new();
    let mut until = |forward: &mut Receiver, text: &str| {
        while !said.contains(text) {
            said += &forward.wait_for("");
        }
    };
    until(&mut pair.forward, "; trying again\n");
    let key = pair.here.key();
    pair.gateway = pair.there.gateway(&["--listen", &address, "--allow", &key, "--permit", &target.to_string()]);
    until(&mut pair.forward, "connected again after ");
    assert!(is_reset(&mut client));
    until(&mut pair.forward, "1 stream was cut\n");
    // Until the forwarder has noticed that its tunnels are lost, connections may be reset.
    let works = || {
        let mut client = pair.connect();
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut back = [0; 5];
        client.write_all(b"after").and_then(|()| client.read_exact(&mut back)).is_ok()
    };
    assert_eq!((0..100).filter(|_| works()).take(12).count(), 12);
}

#[cfg(unix)]
#[test]
fn connections_in_progress_end_before_a_program_that_is_terminated() {
    for gateway in [true, false] {
        let (listener, target) = listen();
        let pair = Pair::new(target);
        let (sent, answer) = (contents(5, 300_000), contents(6, 300_000));
        let mut client = pair.connect();
        client.write_all(b"a").unwrap();
        let mut server = listener.accept().unwrap().0;
        let Pair { gateway: far, forward: mut near, .. } = pair;
        let mut other = None;
        let terminated = if gateway {
            far.signal("-TERM");
            other = Some(near);
            far
        } else {
            near.signal("-TERM");
            near.wait_for("ending when all connections have ended");
            // The port is closed, but the connection continues.
            assert!(TcpStream::connect(&near.address).is_err());
            other.replace(far);
            near
        };
        client.write_all(&sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let got = read_all(&mut server);
        assert!(got.split_first() == Some((&b'a', &sent[..])));
        server.write_all(&answer).unwrap();
        drop(server);
        assert!(read_all(&mut client) == answer);
        let (code, said, _) = terminated.end();
        assert_eq!(code, Some(0), "{said}");
        drop(other);
    }
}

/// If nobody reads at one end, the other end is stopped after a limited number of bytes.
#[test]
fn a_reader_that_stops_stops_the_writer() {
    let (listener, target) = listen();
    let pair = Pair::new(target);
    for from_client in [true, false] {
        let client = pair.connect();
        let server = listener.accept().unwrap().0;
        let (mut writer, mut reader) = if from_client { (client, server) } else { (server, client) };
        writer.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
        let part = contents(7, 1 << 16);
        let mut written = 0;
        loop {
            match writer.write(&part[written % part.len()..]) {
                Ok(len) => written += len,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                Err(error) => panic!("{error}"),
            }
            // The growing buffers of four sockets and a tunnel hold less than this.
            assert!(written < 64 << 20, "{written}");
        }
        drop(writer);
        let got = read_all(&mut reader);
        assert!(got.len() == written && got.chunks(part.len()).all(|chunk| part.starts_with(chunk)));
    }
}

/// A forwarder waits if its gateway is not up when it starts, or if the name of the gateway cannot be found. A wrong
/// key ends it.
#[cfg(unix)]
#[test]
fn a_forwarder_waits_for_its_gateway() {
    let (listener, target) = listen();
    echo(listener);
    let (there, here) = (Machine::new(), Machine::new());
    // Nothing listens at this port until the gateway starts.
    let holder = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap().to_string();
    drop(holder);
    let arguments = ["forward", "--accept-new", &address, "-L", &format!("0:{target}")];
    let mut forward = here.start(&arguments);
    let mut nameless = here.start(&["forward", "--accept-new", "no-such-name.invalid", "-L", "0:h.example:80"]);
    forward.wait_for("; trying again");
    let reason = nameless.wait_for("; trying again");
    assert!(reason.starts_with("cannot find no-such-name.invalid"), "{reason}");
    let gateway = there.gateway(&["--listen", &address, "--allow", &here.key(), "--permit", &target.to_string()]);
    let forward = forward.listening();
    assert_eq!(exchange(TcpStream::connect(&forward.address).unwrap(), b"at last"), b"at last");
    nameless.signal("-TERM");
    assert_eq!(nameless.end().0, Some(0));
    drop((forward, gateway));
    let other = Machine::new();
    let _gateway = other.gateway(&["--listen", &address, "--allow", &here.key(), "--permit", "any"]);
    let changed = failed(&here.run(&arguments), 1);
    assert!(changed.contains("has changed"), "{changed}");
}

/// Connections beyond the limit wait until others end.
#[test]
fn the_number_of_connections_has_an_option() {
    let (listener, target) = listen();
    let (there, here) = (Machine::new(), Machine::new());
    let gateway = there.gateway(&["--allow", &here.key(), "--permit", &target.to_string()]);
    for (options, limit) in [(&[][..], 100), (&["--max-connections", "3"], 3)] {
        let ports = ["-L", &format!("0:{target}")];
        let forward = here.forward(&gateway.address, &[&ports[..], options].concat());
        let clients: Vec<_> = (0..100).map(|_| TcpStream::connect(&forward.address).unwrap()).collect();
        let mut servers: std::collections::VecDeque<_> = (0..limit).map(|_| listener.accept().unwrap().0).collect();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        listener.set_nonblocking(false).unwrap();
        // A reset ends both directions.
        let ended = servers.pop_front().unwrap();
        socket2::SockRef::from(&ended).set_linger(Some(Duration::ZERO)).unwrap();
        drop(ended);
        if limit < clients.len() {
            servers.push_back(listener.accept().unwrap().0);
        }
    }
}

/// The longer idle time of the other end has no effect.
#[test]
fn connections_that_are_idle_for_too_long_are_reset() {
    for (gateways, forwarders) in [("1", "60"), ("60", "1")] {
        let (listener, target) = listen();
        let (there, here) = (Machine::new(), Machine::new());
        let gateway = there.gateway(&["--allow", &here.key(), "--permit", &target.to_string(), "--idle", gateways]);
        let forward = here.forward(&gateway.address, &["-L", &format!("0:{target}"), "--idle", forwarders]);
        let mut client = TcpStream::connect(&forward.address).unwrap();
        let mut server = listener.accept().unwrap().0;
        for end in [&mut client, &mut server] {
            end.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            assert_eq!(end.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        }
    }
}

/// A gateway may serve fewer connections than a forwarder asks for.
#[test]
fn the_number_of_connections_is_limited_by_the_gateway_too() {
    let (listener, target) = listen();
    let (there, here) = (Machine::new(), Machine::new());
    let gateway = there.gateway(&["--allow", &here.key(), "--permit", &target.to_string(), "--max-connections", "2"]);
    let forward = here.forward(&gateway.address, &["-L", &format!("0:{target}"), "--timeout", "1"]);
    let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(&forward.address).unwrap()).collect();
    let _servers = [(); 2].map(|()| listener.accept().unwrap());
    // One connection gets no place in time.
    assert_eq!(resets(&clients), 1);
}

/// Waits for resets; returns the number of connections that were reset.
fn resets(clients: &[TcpStream]) -> usize {
    let is_reset = |mut client: &TcpStream| {
        client.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        matches!(client.read(&mut [0]), Err(error) if error.kind() == ErrorKind::ConnectionReset)
    };
    clients.iter().filter(|client| is_reset(client)).count()
}

/// Connections that find no place are reported together, with the option that limits them.
#[test]
fn connections_beyond_the_limit_are_told_why_they_end() {
    let (listener, target) = listen();
    let (there, here) = (Machine::new(), Machine::new());
    let gateway = there.gateway(&["--allow", &here.key(), "--permit", &target.to_string()]);
    let options = ["-L", &format!("0:{target}"), "--timeout", "1", "--max-connections", "2"];
    let mut forward = here.forward(&gateway.address, &options);
    let clients: Vec<_> = (0..6).map(|_| TcpStream::connect(&forward.address).unwrap()).collect();
    let _servers = [(); 2].map(|()| listener.accept().unwrap());
    assert_eq!(resets(&clients), 4);
    let said = forward.wait_for(" reset, because ");
    assert!(said.contains("2 are forwarded at a time") && said.contains("--max-connections"), "{said}");
}
