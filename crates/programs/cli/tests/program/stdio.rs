//! `longhaul stdio`: standard input and output as a connection, alone and for ssh.
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use crate::forward::{close, contents, echo, is_reset, listen, read_all};
use crate::machine::{Machine, Receiver, failed};
use crate::process::Watchdog;
use crate::programs::Sshd;

/// A machine that knows a gateway, which permits `target`.
struct Near {
    here: Machine,
    gateway: Receiver,
    _there: Machine,
    target: String,
}

impl Near {
    fn new(target: SocketAddr, options: &[&str]) -> Self {
        let (there, here) = (Machine::new(), Machine::new());
        let target = target.to_string();
        let gateway = there.gateway(&[&["--allow", &here.key(), "--permit", &target], options].concat());
        fs::write(here.data("known-peers"), format!("{} {}\n", gateway.address, there.key())).unwrap();
        Self { here, gateway, _there: there, target }
    }

    fn command(&self, options: &[&str]) -> Command {
        self.here.command(&[&["stdio", &self.gateway.address, &self.target], options].concat())
    }

    /// Starts the program with pipes.
    fn start(&self) -> Child {
        let piped = Stdio::piped;
        self.command(&[]).stdin(piped()).stdout(piped()).stderr(piped()).spawn().unwrap()
    }

    fn exchange(&self, data: &[u8]) -> Output {
        let mut child = self.start();
        let (mut input, data) = (child.stdin.take().unwrap(), data.to_vec());
        let writing = thread::spawn(move || input.write_all(&data));
        let output = ended(child);
        // A target that is not reached reads nothing.
        let _ = writing.join().unwrap();
        output
    }

    /// Starts a forwarder that has one connection to the gateway.
    fn forward(&self, options: &[&str]) -> Receiver {
        self.here.forward(&self.gateway.address, &[&["-D", "0", "--max-connections", "1"], options].concat())
    }

    /// Returns the control socket of the forwarder.
    fn control(&self) -> PathBuf {
        let mut entries = fs::read_dir(self.here.data("run")).unwrap();
        entries.next().unwrap().unwrap().path()
    }
}

fn ended(child: Child) -> Output {
    let _watchdog = Watchdog::over(&child);
    child.wait_with_output().unwrap()
}

/// Checks that a program has ended in order and said nothing; returns its output.
fn orderly(output: Output) -> Vec<u8> {
    assert!(output.status.success() && output.stderr.is_empty(), "{:?}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Lets standard input end first, and then the target.
fn ends_by_half_closes(near: &Near, listener: &TcpListener) {
    let (sent, answer) = (contents(1, 3_000_000), contents(2, 3_000_000));
    let mut child = near.start();
    let (mut input, data) = (child.stdin.take().unwrap(), sent.clone());
    let writing = thread::spawn(move || input.write_all(&data).unwrap());
    let mut server = listener.accept().unwrap().0;
    assert!(read_all(&mut server) == sent);
    writing.join().unwrap();
    server.write_all(&answer[..10]).unwrap();
    let rest = answer[10..].to_vec();
    thread::spawn(move || server.write_all(&rest).unwrap());
    assert!(orderly(ended(child)) == answer);
    // The target ends first.
    let mut child = near.start();
    let _watchdog = Watchdog::over(&child);
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut server = listener.accept().unwrap().0;
    let mut writer = server.try_clone().unwrap();
    let data = answer.clone();
    thread::spawn(move || writer.write_all(&data).and_then(|()| writer.shutdown(Shutdown::Write)).unwrap());
    let mut all = Vec::new();
    output.read_to_end(&mut all).unwrap();
    assert!(all == answer);
    assert!(child.try_wait().unwrap().is_none());
    let data = sent.clone();
    let writing = thread::spawn(move || input.write_all(&data).unwrap());
    assert!(read_all(&mut server) == sent);
    writing.join().unwrap();
    drop(server);
    orderly(ended(child));
}

#[test]
fn either_end_may_end_first() {
    let (listener, target) = listen();
    let near = Near::new(target, &[]);
    ends_by_half_closes(&near, &listener);
    let _forward = near.forward(&[]);
    ends_by_half_closes(&near, &listener);
}

/// The gateway accepts a single connection, which is the forwarder's.
#[test]
fn a_running_forwarder_carries_it_without_another_connection() {
    let (listener, target) = listen();
    echo(listener);
    let near = Near::new(target, &["--max-connections", "1"]);
    let _forward = near.forward(&[]);
    for size in [0, 1, 1_000_000] {
        let data = contents(3, size);
        assert!(orderly(near.exchange(&data)) == data);
    }
    let control = near.control();
    let mode = |path: &std::path::Path| path.metadata().unwrap().mode() & 0o777;
    assert_eq!((mode(&control), mode(control.parent().unwrap())), (0o600, 0o700));
    // Options that the forwarder's connections do not have.
    let own = near.command(&["-C", "cubic", "--timeout", "1"]).output().unwrap();
    let crowded = format!("longhaul stdio: no encrypted connection to {}: ", near.gateway.address);
    assert!(failed(&own, 1).starts_with(&crowded), "{own:?}");
    // A key of the gateway that is not the one of the forwarder's.
    let other = format!("{} {}\n", near.gateway.address, near.here.key());
    fs::write(near.here.data("known-peers"), other).unwrap();
    let changed = near.command(&["--timeout", "1"]).output().unwrap();
    assert!(failed(&changed, 1).contains("has changed"), "{changed:?}");
}

#[test]
fn regular_files_are_carried_too() {
    let (listener, target) = listen();
    echo(listener);
    let near = Near::new(target, &[]);
    let data = contents(4, 1_000_000);
    let [from, to] = ["from", "to"].map(|name| near.here.path(name));
    fs::write(&from, &data).unwrap();
    let mut forward = None;
    for _ in 0..2 {
        let mut command = near.command(&[]);
        command.stdin(File::open(&from).unwrap()).stdout(File::create(&to).unwrap());
        orderly(command.output().unwrap());
        assert!(fs::read(&to).unwrap() == data);
        forward.get_or_insert_with(|| near.forward(&[]));
    }
}

/// The end of one direction must not wait for the other, although both have the same descriptor.
#[test]
fn one_socket_is_both_input_and_output() {
    let (listener, target) = listen();
    let near = Near::new(target, &[]);
    let mut forward = None;
    for _ in 0..2 {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let [input, output] = [theirs.try_clone().unwrap(), theirs].map(|end| Stdio::from(OwnedFd::from(end)));
        let child = near.command(&[]).stdin(input).stdout(output).stderr(Stdio::piped()).spawn().unwrap();
        let _watchdog = Watchdog::over(&child);
        let mut server = listener.accept().unwrap().0;
        server.write_all(b"answer").and_then(|()| server.shutdown(Shutdown::Write)).unwrap();
        let mut answer = Vec::new();
        ours.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"answer");
        ours.write_all(b"request").and_then(|()| ours.shutdown(Shutdown::Write)).unwrap();
        assert_eq!(read_all(&mut server), b"request");
        drop(server);
        orderly(ended(child));
        forward.get_or_insert_with(|| near.forward(&[]));
    }
}

#[test]
fn a_target_that_is_not_reached_is_a_sentence() {
    let (listener, target) = listen();
    let _holder = close(listener);
    let mut near = Near::new(target, &[]);
    let gateway = near.gateway.address.clone();
    let refused = format!(
        "longhaul stdio: no connection to {target} through {gateway}: the target refused the connection; does a server \
         listen there?\n"
    );
    let not_permitted = format!(
        "longhaul stdio: no connection to 127.0.0.1:1 through {gateway}: the gateway does not permit this target; \
         `longhaul gateway --permit 127.0.0.1:1` would permit it\n"
    );
    let mut forward = None;
    for _ in 0..2 {
        for (target, said) in [(target.to_string(), &refused), ("127.0.0.1:1".to_owned(), &not_permitted)] {
            near.target = target;
            let output = near.exchange(b"data");
            assert!(output.stdout.is_empty() && failed(&output, 1) == *said, "{output:?}");
        }
        forward.get_or_insert_with(|| near.forward(&[]));
    }
}

#[test]
fn a_gateway_that_is_not_there_is_a_sentence() {
    let (_listener, target) = listen();
    let mut near = Near::new(target, &[]);
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    near.gateway.address = silent.local_addr().unwrap().to_string();
    let output = near.command(&["--timeout", "1"]).output().unwrap();
    let (address, said) = (&near.gateway.address, failed(&output, 1));
    assert!(said.starts_with(&format!("longhaul stdio: cannot connect to {address}: ")), "{said}");
    assert!(said.contains("does `longhaul gateway` run there") && said.lines().count() == 1, "{said}");
    assert!(output.stdout.is_empty());
    let wrong = near.here.run(&["stdio", &near.gateway.address, &near.target, "--code"]);
    assert!(failed(&wrong, 2).contains("use --code CODE"), "{wrong:?}");
}

/// The pipes stay open in the test; only the processes end.
#[test]
fn a_process_that_is_killed_resets_its_connection() {
    let (listener, target) = listen();
    let near = Near::new(target, &[]);
    for shared in [false, true] {
        let forward = shared.then(|| near.forward(&[]));
        let mut child = near.start();
        let (_input, _output) = (child.stdin.take(), child.stdout.take());
        let mut server = listener.accept().unwrap().0;
        // Without a forwarder, only a signal that can be caught lets the transport tell the gateway.
        let signal = if shared { "-KILL" } else { "-TERM" };
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        child.wait().unwrap();
        assert!(is_reset(&mut server), "shared: {shared}");
        drop(forward);
    }
}

#[test]
fn a_forwarder_that_was_killed_is_replaced() {
    let (listener, target) = listen();
    echo(listener);
    let near = Near::new(target, &[]);
    let mut killed = near.forward(&[]);
    let stale = near.control();
    killed.signal("-KILL");
    killed.child.wait().unwrap();
    assert!(stale.exists() && orderly(near.exchange(b"alone")) == b"alone");
    let forward = near.forward(&[]);
    let mut line = [0; 18];
    UnixStream::connect(&stale).unwrap().read_exact(&mut line).unwrap();
    assert_eq!(line, *b"longhaul-forward-1");
    assert_eq!(orderly(near.exchange(b"together")), b"together");
    // A second forwarder leaves the socket to the first, and the first removes it at its end.
    drop(near.forward(&[]));
    assert_eq!(orderly(near.exchange(b"again")), b"again");
    forward.signal("-TERM");
    forward.end();
    assert!(!stale.exists() && orderly(near.exchange(b"alone")) == b"alone");
}

/// A forwarder that is stopped does not answer.
#[test]
fn a_forwarder_that_does_not_answer_is_left_out() {
    let (listener, target) = listen();
    echo(listener);
    let near = Near::new(target, &[]);
    let forward = near.forward(&[]);
    forward.signal("-STOP");
    assert_eq!(orderly(near.exchange(b"alone")), b"alone");
}

#[test]
fn ssh_scp_and_git_run_over_it() {
    let Some(sshd) = Sshd::start() else { return };
    if !needs::programs(&["/usr/bin/scp", "/usr/bin/git"]) {
        return;
    }
    let near = Near::new(SocketAddr::from(([127, 0, 0, 1], sshd.port)), &[]);
    let program = env!("CARGO_BIN_EXE_longhaul");
    let config = format!("Port {}\nProxyCommand '{program}' stdio {} %h:%p", sshd.port, near.gateway.address);
    let config = sshd.config(&config);
    let path = |name: &str| near.here.path(name).into_os_string().into_string().unwrap();
    let data = contents(5, 2_000_000);
    fs::write(path("from"), &data).unwrap();
    // Runs a program with the environment of the machine.
    let run = |program: &str, arguments: &[&str]| {
        let environment = near.command(&[]);
        let mut command = Command::new(program);
        command.envs(environment.get_envs().filter_map(|(name, value)| Some((name, value?)))).args(arguments);
        command.env("GIT_SSH_COMMAND", format!("ssh -F '{config}'"));
        command.stdin(File::open(path("from")).unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
        orderly(ended(command.spawn().unwrap()))
    };
    let repository = path("repository");
    let git = |arguments: &[&str]| {
        run("git", &[&["-C", &repository, "-c", "user.name=a", "-c", "user.email=a@b"], arguments].concat())
    };
    run("git", &["init", "--quiet", &repository]);
    fs::write(near.here.path("repository/file"), &data).unwrap();
    git(&["add", "file"]);
    git(&["commit", "--quiet", "--message", "file"]);
    let mut forward = None;
    for _ in 0..2 {
        assert!(run("ssh", &["-F", &config, "127.0.0.1", "cat"]) == data);
        run("scp", &["-F", &config, &path("from"), &format!("127.0.0.1:{}", path("to"))]);
        run("git", &["clone", "--quiet", &format!("ssh://127.0.0.1{repository}"), &path("clone")]);
        for copy in ["to", "clone/file"] {
            assert!(fs::read(path(copy)).unwrap() == data, "{copy}");
        }
        fs::remove_file(path("to")).unwrap();
        fs::remove_dir_all(path("clone")).unwrap();
        forward.get_or_insert_with(|| near.forward(&[]));
    }
}
