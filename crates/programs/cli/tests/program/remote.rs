//! Ports of the gateway that are forwarded to targets near the forwarder.
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::forward::{close, contents, echo, exchange, is_reset, listen, read_all};
use crate::machine::{Machine, Receiver, failed};

/// Starts a gateway that permits listening by `permission` and `arguments`. Also returns the forwarder's machine.
fn gateway(permission: &str, arguments: &[&str]) -> (Machine, Machine, Receiver) {
    let (there, here) = (Machine::new(), Machine::new());
    there.key();
    fs::write(there.data("allowed-peers"), format!("{} ship {permission}\n", here.key())).unwrap();
    let gateway = there.gateway(arguments);
    (there, here, gateway)
}

/// Starts a forwarder with one port of the gateway. The address of the forwarder is that of this port.
fn forward(here: &Machine, gateway: &Receiver, remote: &str) -> Receiver {
    let mut forward = here.forward_to(&gateway.address, &["-R", remote]);
    let line = forward.wait_for("port ");
    let port = line.split_whitespace().nth(1).unwrap();
    forward.address = format!("127.0.0.1:{port}");
    forward
}

#[test]
fn connections_to_the_gateway_reach_targets_near_the_forwarder() {
    let (listener, target) = listen();
    echo(listener);
    let (_there, here, mut gateway) = gateway("listen", &["--permit", "any"]);
    let forward = forward(&here, &gateway, &format!("0:{target}"));
    assert!(gateway.wait_for(": 127.0.0.1:").contains(&target.to_string()));
    for round in 0..12 {
        let data = contents(round, 1000 * round as usize);
        assert!(exchange(TcpStream::connect(&forward.address).unwrap(), &data) == data, "round {round}");
    }
    // There are more connections at the same time than offered tunnels.
    let together: Vec<_> = (0..20)
        .map(|seed| {
            let (stream, data) = (TcpStream::connect(&forward.address).unwrap(), contents(seed, 200_000));
            thread::spawn(move || assert!(exchange(stream, &data) == data, "connection {seed}"))
        })
        .collect();
    together.into_iter().for_each(|connection| connection.join().unwrap());
}

#[test]
fn half_close_and_resets_pass_and_refusals_reset() {
    let (listener, target) = listen();
    let (_there, here, gateway) = gateway("forward,listen", &["--permit", "any"]);
    let mut forward = forward(&here, &gateway, &format!("0:{target}"));
    let mut client = TcpStream::connect(&forward.address).unwrap();
    client.write_all(b"question").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut server = listener.accept().unwrap().0;
    assert_eq!(read_all(&mut server), b"question");
    server.write_all(b"answer").unwrap();
    drop(server);
    assert_eq!(read_all(&mut client), b"answer");
    // Dropping the target's connection with unread data resets it.
    let mut client = TcpStream::connect(&forward.address).unwrap();
    client.write_all(b"unread").unwrap();
    let mut server = listener.accept().unwrap().0;
    server.read_exact(&mut [0]).unwrap();
    drop(server);
    assert!(is_reset(&mut client));
    let _holder = close(listener);
    assert!(is_reset(&mut TcpStream::connect(&forward.address).unwrap()));
    forward.wait_for("the target refused the connection");
}

#[test]
fn listening_needs_permission() {
    let refused = |permission: &str, arguments: &[&str], remote: &str| {
        let (_there, here, gateway) = gateway(permission, arguments);
        let text = failed(&here.run(&["forward", "--accept-new", "-R", remote, &gateway.address]), 1);
        assert!(text.contains("the gateway does not listen on ") && text.contains("not permitted"), "{text}");
    };
    refused("forward", &["--permit", "any"], "0:h.example:80");
    refused("forward", &["--permit", "any", "--permit-listen", "any:any"], "0:h.example:80");
    refused("listen", &["--permit", "any"], "0.0.0.0:0:h.example:80");
    refused("listen", &["--permit", "any"], "80:h.example:80");
    refused("listen", &["--permit-listen", "81"], "8081:h.example:80");
    // The permission to listen does not include the one to open connections.
    let (listener, target) = listen();
    let (_there, here, gateway) = gateway("listen", &["--permit", "127.0.0.0/8:any"]);
    let mut forward = here.forward(&gateway.address, &["-L", &format!("0:{target}")]);
    assert!(is_reset(&mut TcpStream::connect(&forward.address).unwrap()));
    forward.wait_for("the gateway does not permit this target");
    listener.set_nonblocking(true).unwrap();
    listener.accept().unwrap_err();
    // A port that is already in use.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (_there, here, gateway) = crate::remote::gateway("listen", &["--permit-listen", "any:any"]);
    let _holder = TcpListener::bind(taken).unwrap();
    let remote = format!("{}:{}:h.example:80", taken.ip(), taken.port());
    let text = failed(&here.run(&["forward", "--accept-new", "-R", &remote, &gateway.address]), 1);
    assert!(text.contains("the port is taken"), "{text}");
}

/// Waits until nobody listens on an address any more.
fn closed(address: &str) {
    let closed = (0..600).any(|_| {
        thread::sleep(Duration::from_millis(100));
        TcpStream::connect(address).is_err()
    });
    assert!(closed, "{address} is still open");
}

#[test]
fn listeners_close_when_the_forwarder_goes_or_is_not_allowed_any_more() {
    let (listener, target) = listen();
    echo(listener);
    let remote = format!("0:{target}");
    let (there, here, mut gateway) = gateway("listen", &["--permit", "any"]);
    for signal in ["-TERM", "-KILL", "-HUP"] {
        let forward = forward(&here, &gateway, &remote);
        assert_eq!(exchange(TcpStream::connect(&forward.address).unwrap(), b"open"), b"open");
        if signal == "-HUP" {
            fs::write(there.data("allowed-peers"), "# nobody\n").unwrap();
            gateway.signal(signal);
            gateway.wait_for("the key is not allowed any more");
        } else {
            forward.signal(signal);
        }
        closed(&forward.address);
    }
}

/// A terminated forwarder waits for its connection in progress.
#[test]
fn a_terminated_forwarder_drains() {
    let (listener, target) = listen();
    let (_there, here, gateway) = gateway("listen", &["--permit", "any"]);
    let mut forward = forward(&here, &gateway, &format!("0:{target}"));
    let mut client = TcpStream::connect(&forward.address).unwrap();
    client.write_all(b"a").unwrap();
    let mut server = listener.accept().unwrap().0;
    forward.signal("-TERM");
    forward.wait_for("ending when all connections have ended");
    closed(&forward.address);
    let data = contents(1, 300_000);
    client.write_all(&data).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(read_all(&mut server).split_first() == Some((&b'a', &data[..])));
    server.write_all(b"answer").unwrap();
    drop(server);
    assert_eq!(read_all(&mut client), b"answer");
    assert_eq!(forward.end().0, Some(0));
}

/// A killed gateway restarts on the same port.
#[test]
fn a_gateway_that_returns_listens_again() {
    let (listener, target) = listen();
    echo(listener);
    let (there, here, mut gateway) = gateway("listen", &["--permit", "any"]);
    let mut forward = forward(&here, &gateway, &format!("0:{target}"));
    let address = gateway.address.clone();
    gateway.signal("-KILL");
    gateway.child.wait().unwrap();
    let gateway = there.gateway(&["--listen", &address, "--permit", "any"]);
    let line = forward.wait_for(" leads to ");
    let port: u16 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert_eq!(exchange(TcpStream::connect(("127.0.0.1", port)).unwrap(), b"again"), b"again");
    drop(gateway);
}
