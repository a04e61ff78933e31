//! A machine: a home directory with an identity, and the processes that use it.
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use longhaul_tls::Identity;
use serde_json::Value;
use tempfile::TempDir;

use crate::process::Watchdog;

pub(crate) struct Machine {
    directory: TempDir,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self { directory: TempDir::new().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the path of a file of the program, which may not exist.
    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.path("data/longhaul").join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.env("XDG_DATA_HOME", self.path("data")).env("HOME", self.directory.path());
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_CACHE_HOME");
        for variable in ["QLOGFILE", "QLOGDIR", "RUST_LOG", "XDG_RUNTIME_DIR"] {
            command.env_remove(variable);
        }
        command.args(arguments).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity::open(&self.data("identity")).unwrap()
    }

    pub(crate) fn key(&self) -> String {
        self.identity().fingerprint().to_string()
    }

    /// Creates a file of `len` bytes; returns its path.
    pub(crate) fn file(&self, name: &str, len: usize) -> String {
        let path = self.path(name);
        let contents: Vec<u8> = (0..len as u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        fs::write(&path, contents).unwrap();
        path.into_os_string().into_string().unwrap()
    }

    /// Sends with `--accept-new`, as the receiver is not known yet.
    pub(crate) fn send(&self, receiver: &Receiver, arguments: &[&str]) -> Output {
        self.run(&[&["send", "--accept-new", &receiver.address], arguments].concat())
    }

    /// Starts a receiver on a free port, which writes to the directory `out`.
    pub(crate) fn receive(&self, arguments: &[&str]) -> Receiver {
        self.receive_at("127.0.0.1:0", arguments)
    }

    /// Does the same as [`receive`](Self::receive) at this address.
    pub(crate) fn receive_at(&self, address: &str, arguments: &[&str]) -> Receiver {
        let out = self.path("out");
        let mut command = self.command(&["receive", "--listen", address]);
        if !arguments.contains(&"--out") {
            command.arg("--out").arg(&out);
        }
        let child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Receiver::new(child).listening()
    }

    /// Starts a gateway on a free port.
    pub(crate) fn gateway(&self, arguments: &[&str]) -> Receiver {
        let listen = if arguments.contains(&"--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] };
        self.listening(&[&["gateway"], listen, arguments].concat())
    }

    /// Starts a forwarder to a gateway whose key is accepted. The address of the result is that of the first port.
    pub(crate) fn forward(&self, gateway: &str, arguments: &[&str]) -> Receiver {
        self.listening(&[&["forward", "--accept-new", gateway], arguments].concat())
    }

    /// Does the same as [`forward`](Self::forward) without local ports. The result has no address.
    pub(crate) fn forward_to(&self, gateway: &str, arguments: &[&str]) -> Receiver {
        self.start(&[&["forward", "--accept-new", gateway], arguments].concat())
    }

    fn listening(&self, arguments: &[&str]) -> Receiver {
        self.start(arguments).listening()
    }

    /// Starts a program that may report an address later.
    pub(crate) fn start(&self, arguments: &[&str]) -> Receiver {
        let mut command = self.command(arguments);
        Receiver::new(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Does the same as [`start`](Self::start) in a network namespace.
    #[cfg(target_os = "linux")]
    pub(crate) fn start_in(&self, space: &str, arguments: &[&str]) -> Receiver {
        let mut command = self.command_in(space, arguments);
        Receiver::new(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn command_in(&self, space: &str, arguments: &[&str]) -> Command {
        let program = self.command(arguments);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", space]).stdin(Stdio::null()).arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Returns the names in the directory `out`, without that of the directory for unfinished files.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("out")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| !name.starts_with(".longhaul-incoming-")).collect();
        names.sort();
        names
    }
}

/// A running `longhaul receive`, or another listening program, killed when dropped.
pub(crate) struct Receiver {
    pub(crate) child: Child,
    pub(crate) address: String,
    said: Box<dyn BufRead + Send>,
    /// Standard error up to the line with the address.
    pub(crate) before: String,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // The program may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let mut said = String::new();
            let _ = self.said.read_to_string(&mut said);
            eprintln!("the receiver said: {said}");
        }
    }
}

impl Receiver {
    pub(crate) fn new(mut child: Child) -> Self {
        let said = Box::new(BufReader::new(child.stderr.take().unwrap()));
        Self { child, address: String::new(), said, before: String::new() }
    }

    /// Reads the address on which the program listens.
    pub(crate) fn listening(mut self) -> Self {
        loop {
            let line = self.wait_for("");
            if let Some(address) = line.strip_prefix("Ready on UDP ").or(line.contains(" leads ").then_some(&line)) {
                self.address = first_word(address);
                return self;
            }
        }
    }

    /// Reads standard error up to the next line that contains `text`; returns that line.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let _watchdog = Watchdog::over(&self.child);
        loop {
            let mut line = String::new();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "the program ended before {text:?}");
            if self.address.is_empty() {
                self.before += &line;
            }
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Reads and forgets what the program says, so that a full pipe does not stop it.
    pub(crate) fn ignore(&mut self) {
        let mut said = std::mem::replace(&mut self.said, Box::new(std::io::empty()));
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    }

    pub(crate) fn stop_reading(&mut self) {
        self.said = Box::new(std::io::empty());
    }

    /// Sends a signal, such as `-TERM`.
    #[cfg(unix)]
    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for the receiver to end; returns its exit code, the rest of standard error, and standard output.
    pub(crate) fn end(mut self) -> (Option<i32>, String, Vec<u8>) {
        let _watchdog = Watchdog::over(&self.child);
        let (mut stderr, mut stdout) = (String::new(), Vec::new());
        self.child.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
        self.said.read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap().code(), stderr, stdout)
    }
}

/// Returns the address with which a line begins, without a scheme.
pub(crate) fn first_word(line: &str) -> String {
    line.split_whitespace().next().unwrap_or_default().trim_start_matches("http://").to_owned()
}

/// Returns the standard error of a program that ended with `code`.
pub(crate) fn failed(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(crate) fn json_lines(text: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
