//! Trust in a certificate authority (`--ca`) instead of keys.
use std::fs;
use std::net::TcpStream;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ED25519, date_time_ymd};

use crate::machine::{Machine, Receiver, failed, first_word};

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Returns a new key and its certificate for `name`, which is valid until `last_year`.
    fn identity(&self, name: &str, last_year: i32) -> String {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_after = date_time_ymd(last_year, 1, 1);
        key.serialize_pem() + &params.signed_by(&key, &self.issuer).unwrap().pem()
    }

    /// Returns a machine with a certificate of the authority, and with the authority's own certificate as `ca.pem`.
    fn machine(&self, name: &str, last_year: i32) -> Machine {
        let machine = self.outsider();
        let file = machine.data("identity");
        fs::write(&file, self.identity(name, last_year)).unwrap();
        machine
    }

    /// Returns a machine with an uncertified key, which trusts the authority.
    fn outsider(&self) -> Machine {
        let machine = Machine::new();
        machine.key();
        fs::write(machine.path("ca.pem"), &self.pem).unwrap();
        machine
    }
}

fn ca(machine: &Machine) -> String {
    machine.path("ca.pem").into_os_string().into_string().unwrap()
}

const VALID: i32 = 2100;
const EXPIRED: i32 = 2001;

#[test]
fn machines_of_one_authority_need_no_keys_of_each_other() {
    let authority = Authority::new();
    let (there, here) = (authority.machine("127.0.0.1", VALID), authority.machine("laptop.example", VALID));
    let receiver = there.receive(&["--ca", &ca(&there), "--overwrite"]);
    let file = here.file("file", 100_000);
    for _ in 0..2 {
        let sent = here.run(&["send", "--ca", &ca(&here), &receiver.address, &file]);
        assert!(sent.status.success(), "{sent:?}");
    }
    assert_eq!(there.names(), ["file"]);
    assert!(!here.data("known-peers").exists(), "the authority vouches, and the key is not remembered");
}

#[test]
fn the_receiver_needs_a_valid_certificate_for_its_name() {
    let authority = Authority::new();
    let here = authority.machine("laptop.example", VALID);
    let file = here.file("file", 1000);
    for there in [
        authority.machine("other.example", VALID),
        authority.machine("127.0.0.1", EXPIRED),
        authority.outsider(),
        Authority::new().machine("127.0.0.1", VALID),
    ] {
        let receiver = there.receive(&["--allow", &here.key()]);
        let said = failed(&here.run(&["send", "--ca", &ca(&here), &receiver.address, &file]), 1);
        assert!(said.contains("the authority does not vouch for the server"), "{said}");
        assert!(said.contains("is not known, and there is no terminal to ask"), "{said}");
        // A known key suffices.
        let sent = here.run(&["send", "--ca", &ca(&here), "--accept-new", &receiver.address, &file]);
        assert!(sent.status.success(), "{sent:?}");
        let sent = here.run(&["send", &receiver.address, &file]);
        assert!(sent.status.success(), "{sent:?}");
    }
}

#[test]
fn the_sender_needs_a_valid_certificate_or_an_allowed_key() {
    let authority = Authority::new();
    let there = authority.machine("127.0.0.1", VALID);
    let known = Machine::new();
    let receiver = there.receive(&["--ca", &ca(&there), "--allow", &known.key(), "--overwrite"]);
    for here in [
        authority.outsider(),
        authority.machine("laptop.example", EXPIRED),
        Authority::new().machine("laptop.example", VALID),
    ] {
        let file = here.file("file", 1000);
        let said = failed(&here.send(&receiver, &[&file]), 1);
        assert!(said.contains("does not allow this machine to send"), "{said}");
    }
    let file = known.file("file", 1000);
    assert!(known.send(&receiver, &[&file]).status.success());
}

#[test]
fn a_file_without_an_authority_is_refused() {
    let authority = Authority::new();
    let machine = authority.outsider();
    let file = machine.file("file", 10);
    let key = machine.data("identity").into_os_string().into_string().unwrap();
    let said = failed(&machine.run(&["receive", "--listen", "127.0.0.1:0", "--ca", &file]), 1);
    assert!(said.contains("no valid certificate of an authority"), "{said}");
    let said = failed(&machine.run(&["send", "--ca", "/nonexistent", "127.0.0.1:9", &file]), 1);
    assert!(said.contains("cannot read /nonexistent: "), "{said}");
    // A self-signed certificate of a peer vouches for that peer only.
    assert!(failed(&machine.run(&["send", "--ca", &key, "127.0.0.1:9", &file]), 1).contains("refused"));
    assert!(!failed(&machine.run(&["receive", "--ca", &file, "--plaintext"]), 2).is_empty());
}

/// Starts a server that echoes; returns its address, and the argument of `-L` for it.
fn target() -> (String, String) {
    let (listener, target) = crate::forward::listen();
    crate::forward::echo(listener);
    (target.to_string(), format!("0:{target}"))
}

fn passes(forward: &Receiver) {
    let stream = TcpStream::connect(&forward.address).unwrap();
    assert_eq!(crate::forward::exchange(stream, b"through"), b"through");
}

#[test]
fn tunnels_of_one_authority_need_no_keys_of_each_other() {
    let authority = Authority::new();
    let (there, here) = (authority.machine("127.0.0.1", VALID), authority.machine("laptop.example", VALID));
    let (target, local) = target();
    let mut gateway = there.gateway(&["--ca", &ca(&there), "--permit", &target]);
    let arguments = ["forward", "--ca", &ca(&here), "-L", &local, "-L", "0:127.0.0.1:9", &gateway.address];
    let mut forward = here.start(&arguments).listening();
    let second = first_word(&forward.wait_for(" leads to "));
    // With more connections than the first tunnel carries, the pool opens tunnels, which are trusted in the same way.
    let opened: Vec<_> = (0..20).map(|_| TcpStream::connect(&forward.address).unwrap()).collect();
    for stream in opened {
        assert_eq!(crate::forward::exchange(stream, b"through"), b"through");
    }
    assert!(!here.data("known-peers").exists(), "the authority vouches, and the key is not remembered");
    // Only targets of --permit are allowed, and the log names the forwarder.
    let refused = TcpStream::connect(second).unwrap();
    let line = gateway.wait_for("127.0.0.1:9: ");
    assert!(line.contains(" (--ca): 127.0.0.1:9: "), "{line}");
    drop(refused);
    // The reloaded list has no entry for the forwarder, which the authority still admits.
    gateway.signal("-HUP");
    gateway.wait_for("read anew");
    passes(&forward);
}

#[test]
fn the_gateway_needs_a_valid_certificate_for_its_name() {
    let authority = Authority::new();
    let here = authority.machine("laptop.example", VALID);
    let (target, local) = target();
    for there in [
        authority.machine("other.example", VALID),
        authority.machine("127.0.0.1", EXPIRED),
        authority.outsider(),
        Authority::new().machine("127.0.0.1", VALID),
    ] {
        let gateway = there.gateway(&["--allow", &here.key(), "--permit", &target]);
        let arguments = ["forward", "--ca", &ca(&here), "-L", &local, &gateway.address];
        let said = failed(&here.run(&arguments), 1);
        assert!(said.contains("the authority does not vouch for the server"), "{said}");
        // A known key suffices.
        passes(&here.start(&[&arguments[..], &["--accept-new"]].concat()).listening());
    }
}

#[test]
fn the_forwarder_needs_a_valid_certificate_or_an_allowed_key() {
    let authority = Authority::new();
    let there = authority.machine("127.0.0.1", VALID);
    let known = Machine::new();
    let (target, local) = target();
    let gateway = there.gateway(&["--ca", &ca(&there), "--allow", &known.key(), "--permit", &target]);
    for here in [
        authority.outsider(),
        authority.machine("laptop.example", EXPIRED),
        Authority::new().machine("laptop.example", VALID),
    ] {
        let said = failed(&here.run(&["forward", "--accept-new", "-L", &local, &gateway.address]), 1);
        assert!(said.contains("does not allow this machine to forward"), "{said}");
    }
    passes(&known.forward(&gateway.address, &["-L", &local]));
    for wrong in [&["forward", "--code", "4821-harbor-violet"][..], &["gateway", "--code"]] {
        assert!(!failed(&there.run(&[wrong, &["--ca", "ca.pem"]].concat()), 2).is_empty(), "{wrong:?}");
    }
}

/// A certificate permits to listen only if `--permit-listen` names ports.
#[test]
fn an_authority_permits_to_listen_if_keys_of_the_command_line_may() {
    let authority = Authority::new();
    let (there, here) = (authority.machine("127.0.0.1", VALID), authority.machine("laptop.example", VALID));
    let (target, _) = target();
    let remote = format!("0:{target}");
    for (permit, listens) in [(&["--permit-listen", "any:any"][..], true), (&["--permit", "any"], false)] {
        let mut gateway = there.gateway(&[&["--ca", &ca(&there)], permit].concat());
        let forward = here.start(&["forward", "--ca", &ca(&here), "-R", &remote, &gateway.address]);
        let line = gateway.wait_for(&target.to_string());
        assert_eq!(line.contains("not listening"), !listens, "{line}");
        drop(forward);
    }
}
