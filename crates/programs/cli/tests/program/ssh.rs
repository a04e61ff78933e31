//! Transfers whose other end is started by ssh.
use std::fs::{self, Permissions};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::machine::{Machine, failed, json_lines};
use crate::terminal::Terminal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_longhaul");

/// Two machines, and a program in place of ssh that runs the command in the home directory of the other one.
struct Pair {
    here: Machine,
    there: Machine,
}

impl Pair {
    fn new() -> Self {
        let (here, there) = (Machine::new(), Machine::new());
        fs::create_dir(there.path("home")).unwrap();
        let script = format!(
            "#!/bin/sh
            case \" $* \" in *' -G '*) echo hostname 127.0.0.1; exit;; esac
            while [ \"$1\" != -- ]; do shift; done
            echo Welcome; printf 'no end of line: '
            cd '{home}' && echo $$ > ../pid
            unset XDG_DATA_HOME
            HOME='{home}' SSH_CONNECTION='127.0.0.1 1 127.0.0.1 22' exec sh -c \"$3\"\n",
            home = there.path("home").display()
        );
        fs::write(here.path("ssh"), script).unwrap();
        fs::set_permissions(here.path("ssh"), Permissions::from_mode(0o755)).unwrap();
        Self { here, there }
    }

    /// Returns the command line of this end. `program` is what runs at the other end.
    fn words(&self, program: &str, arguments: &[&str]) -> Vec<String> {
        let ssh = self.here.path("ssh").into_os_string().into_string().unwrap();
        let options = ["--ssh", &ssh, "--remote-program", program, "--udp-ports", "0"];
        let (command, rest) = arguments.split_first().unwrap();
        [&[*command][..], &options, rest].concat().into_iter().map(str::to_owned).collect()
    }

    fn run_with(&self, program: &str, arguments: &[&str]) -> Output {
        let words = self.words(program, arguments);
        self.here.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(&format!("exec {PROGRAM}"), arguments)
    }

    /// Starts a transfer that takes long; returns it once it has begun.
    fn start(&self, arguments: &[&str], begun: impl Fn() -> bool) -> crate::machine::Receiver {
        let words = self.words(&format!("exec {PROGRAM}"), arguments);
        let started = self.here.start(&words.iter().map(String::as_str).collect::<Vec<_>>());
        wait_until(begun);
        started
    }

    fn home(&self, name: &str) -> PathBuf {
        self.there.path("home").join(name)
    }

    fn pid(&self) -> String {
        fs::read_to_string(self.there.path("pid")).unwrap_or_default().trim().to_owned()
    }

    /// Sends a signal to the other end.
    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.pid()]).status().unwrap().success());
    }

    /// Waits until the other end has ended.
    fn wait_for_end(&self) {
        wait_until(|| !is_running(&self.pid()));
    }
}

fn is_running(pid: &str) -> bool {
    // A process without a parent that waits for it stays as a zombie.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn wait_until(reached: impl Fn() -> bool) {
    for _ in 0..3000 {
        if reached() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("what was waited for did not happen");
}

/// Creates a directory whose names need quotes in a shell.
fn awkward(directory: &Path) {
    fs::create_dir_all(directory.join("-d $(touch x)")).unwrap();
    for (name, text) in [("a b", "1"), ("it's \"c\"", "2"), (".hidden", "3"), ("-d $(touch x)/e;f", "4")] {
        fs::write(directory.join(name), text).unwrap();
    }
}

#[test]
fn a_directory_is_mirrored_and_an_older_program_is_named() {
    let pair = Pair::new();
    let tree = pair.here.path("tree");
    awkward(&tree);
    let root = tree.to_str().unwrap();
    let sent = pair.run(&["send", "user@host:in", "--mirror", root]);
    assert!(sent.status.success(), "{sent:?}");
    fs::remove_file(tree.join(".hidden")).unwrap();
    fs::write(tree.join("a b"), "changed").unwrap();
    let sent = pair.run(&["send", "user@host:in", "--mirror", "--delete", "--yes", root]);
    assert!(sent.status.success(), "{sent:?}");
    assert!(same(&tree, &pair.home("in/tree")));
    // What a program without the option answers.
    let old = r#"echo 'longhaul-ssh {"Failed":"unexpected argument '"'--allow-delete'"' found"}'; exit 1;"#;
    let said = failed(&pair.run_with(old, &["send", "user@host:in", "--mirror", "--delete", "--yes", root]), 1);
    assert!(said.contains("longhaul at user@host is too old for --delete; renew it there"), "{said}");
}

fn same(one: &Path, other: &Path) -> bool {
    Command::new("diff").arg("-r").args([one, other]).status().unwrap().success()
}

/// Returns whether some of a file has come into the directory for unfinished files.
fn arrived(out: &Path) -> bool {
    let entries = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    // Space is reserved at once, so that only the blocks tell.
    let parts = entries(out).filter(|path| path.is_dir()).flat_map(|path| entries(&path).collect::<Vec<_>>());
    parts.into_iter().any(|part| part.metadata().is_ok_and(|found| found.len() > 2_000_000))
}

#[test]
fn ssh_starts_a_receiver_that_leaves_nothing_behind() {
    let pair = Pair::new();
    awkward(&pair.here.path("-it's \"all\""));
    let source = pair.here.path("-it's \"all\"");
    let target = "user@host.example:-to $(touch y) 'there'";
    let sent = pair.run(&["send", "--to", target, "--", source.to_str().unwrap()]);
    let said = failed(&sent, 0);
    assert!(said.contains("The receiver has checked and stored all of them."), "{said}");
    let out = pair.home("-to $(touch y) 'there'");
    assert!(same(&source, &out.join("-it's \"all\"")));
    // Another file of the same name is replaced if that is wanted.
    fs::write(source.join("a b"), "other").unwrap();
    failed(&pair.run(&["send", target, source.to_str().unwrap()]), 1);
    failed(&pair.run(&["send", "--overwrite", target, source.to_str().unwrap()]), 0);
    assert!(same(&source, &out.join("-it's \"all\"")));
    pair.wait_for_end();
    let names: Vec<_> = fs::read_dir(pair.home("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["-to $(touch y) 'there'"]);
}

#[test]
fn ssh_starts_a_sender() {
    let pair = Pair::new();
    awkward(&pair.home("it's all"));
    fs::write(pair.home("-b"), "b").unwrap();
    let out = pair.here.path("out").into_os_string().into_string().unwrap();
    let from = ["receive", "--out", &out, "--allow-hidden", "u@h:it's all", "u@h:-b"];
    let got = failed(&pair.run(&from), 0);
    assert!(got.contains("Received 5 files"), "{got}");
    assert!(same(&pair.home("it's all"), &pair.here.path("out/it's all")));
    assert_eq!(fs::read_to_string(pair.here.path("out/-b")).unwrap(), "b");
    pair.wait_for_end();
    let text = pair.run(&["receive", "--out", "-", "--allow-hidden", "h:-b"]).stdout;
    assert_eq!(text, b"b");
    // The sender has one of the two files.
    let some = failed(&pair.run(&["receive", "--out", &out, "--rename", "--allow-hidden", "h:-b", "h:no\x07ne"]), 2);
    assert!(some.contains("is not of the form"), "{some}");
    let some = failed(&pair.run(&["receive", "--out", &out, "--rename", "--allow-hidden", "h:-b", "h:none"]), 1);
    assert!(some.contains("none: ") && some.contains("Received 1 file"), "{some}");
    let none = failed(&pair.run(&["receive", "--out", &out, "h:none"]), 1);
    assert!(none.contains("longhaul receive: h: cannot open none: "), "{none}");
    failed(&pair.run(&["receive", "h:a", "other:b"]), 2);
    failed(&pair.run(&["receive", "192.0.2.7"]), 2);
}

/// ssh reads the password from the terminal of the program.
#[test]
fn ssh_may_ask_for_a_password() {
    if !needs::program("setsid") {
        return;
    }
    let pair = Pair::new();
    let asks = "printf 'password: ' >/dev/tty; read -r word </dev/tty; \
                [ \"$word\" = secret ] || { echo 'Permission denied.' >&2; exit 255; }; echo Welcome;";
    let script = fs::read_to_string(pair.here.path("ssh")).unwrap().replace("echo Welcome;", asks);
    fs::write(pair.here.path("ssh"), script).unwrap();
    let file = pair.here.file("file", 1000);
    for (word, answers) in [
        ("secret", &["The receiver has checked and stored it."][..]),
        ("other", &["Permission denied.", "longhaul send: "]),
    ] {
        let words = pair.words(&format!("exec {PROGRAM}"), &["send", "user@host:in", &file]);
        let program = pair.here.command(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(program.get_program()).args(program.get_args());
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut terminal = Terminal::asked(&mut command);
        terminal.until("password:");
        terminal.types(&format!("{word}\n"));
        let shown = terminal.end();
        assert!(answers.iter().all(|answer| shown.contains(answer)), "{shown}");
    }
}

/// Neither paths nor keys are on a command line. The other end ends with this one.
#[test]
fn an_interrupted_transfer_leaves_no_process_and_is_continued() {
    let pair = Pair::new();
    let file = pair.here.file("file", 8_000_000);
    for signal in ["-KILL", "-INT"] {
        let sending = pair.start(&["send", "--limit", "40M", "h:out", &file], || arrived(&pair.home("out")));
        let line = fs::read(format!("/proc/{}/cmdline", pair.pid())).unwrap();
        assert_eq!(line, [PROGRAM, "ssh-server", ""].join("\0").as_bytes());
        sending.signal(signal);
        drop(sending);
        pair.wait_for_end();
        let sent = json_lines(&pair.run(&["send", "--json", "h:out", &file]).stdout);
        assert!(sent[0]["resumed_bytes"].as_u64() > Some(0), "{sent:?}");
        assert!(fs::read(pair.home("out/file")).unwrap() == fs::read(&file).unwrap());
        fs::remove_dir_all(pair.home("out")).unwrap();
    }
}

#[test]
fn an_interrupted_fetch_is_continued() {
    let pair = Pair::new();
    let file = pair.here.file("big", 60_000_000);
    fs::rename(file, pair.home("big")).unwrap();
    let out = pair.here.path("out");
    let arguments = ["receive", "--json", "--out", out.to_str().unwrap(), "h:big"];
    let getting = pair.start(&arguments, || arrived(&out));
    getting.signal("-KILL");
    drop(getting);
    pair.wait_for_end();
    let got = json_lines(&pair.run(&arguments).stdout);
    assert!(got[0]["resumed_bytes"].as_u64() > Some(0), "{got:?}");
    assert!(fs::read(out.join("big")).unwrap() == fs::read(pair.home("big")).unwrap());
}

/// The other end waits for the connection after an outage.
#[test]
fn an_outage_does_not_end_the_transfer() {
    let pair = Pair::new();
    let file = pair.here.file("file", 8_000_000);
    let arguments = ["send", "--limit", "40M", "--timeout", "1", "h:out", &file];
    let mut sending = pair.start(&arguments, || arrived(&pair.home("out")));
    pair.signal("-STOP");
    sending.wait_for("connecting again");
    pair.signal("-CONT");
    let (code, said, _) = sending.end();
    assert!(code == Some(0) && said.contains("The receiver has checked and stored it."), "{said}");
    assert!(fs::read(pair.home("out/file")).unwrap() == fs::read(&file).unwrap());
}

#[test]
fn the_end_of_the_other_end_is_noticed() {
    let pair = Pair::new();
    let file = pair.here.file("file", 8_000_000);
    let sending = pair.start(&["send", "--limit", "40M", "h:out", &file], || arrived(&pair.home("out")));
    pair.signal("-KILL");
    let (code, said, _) = sending.end();
    assert!(code == Some(1) && said.contains("longhaul at h has ended"), "{said}");
}

#[test]
fn failures_say_what_to_do() {
    let pair = Pair::new();
    let file = pair.here.file("file", 1000);
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let ready = format!(
        "echo 'longhaul-ssh {{\"Ready\":{{\"port\":{},\"key\":\"{}\",\"address\":null}}}}'; cat > /dev/null;",
        silent.local_addr().unwrap().port(),
        pair.here.key()
    );
    let unanswered = format!("UDP port {} there does not answer", silent.local_addr().unwrap().port());
    for (program, wanted) in [
        ("/no/such/longhaul", "there is no `/no/such/longhaul` at u@h; install it there (cargo install"),
        ("exit 255;", "ssh has not reached u@h"),
        // A program without this sub-command.
        (&*format!("{PROGRAM} no"), "at u@h is too old to be started by ssh; renew it there"),
        ("echo 'longhaul-ssh {\"Version\":0}';", "at u@h is too old to be started by ssh; renew it there"),
        ("echo 'longhaul-ssh {\"Version\":2}';", "longhaul here is too old for the one at u@h; renew it here"),
        ("echo 'longhaul-ssh {}';", "cannot read what longhaul at u@h says"),
        ("exit 3;", "ended with exit code 3 before it was ready"),
        ("head -c 2000000 /dev/zero;", "does not say that it is ready"),
        ("echo 'longhaul-ssh {\"Failed\":\"a\\u001bb\"}';", "u@h: a\\u{1b}b"),
        (&ready, &unanswered),
    ] {
        let said = failed(&pair.run_with(program, &["send", "--timeout", "1", "u@h:", &file]), 1);
        assert!(said.contains(wanted), "{program}: {said}");
    }
    fs::write(pair.home("taken"), "").unwrap();
    let said = failed(&pair.run(&["send", "u@h:taken", &file]), 1);
    assert!(said.contains("longhaul send: u@h: cannot write to taken: "), "{said}");
    let said = failed(&pair.run(&["send", "u@h:", &file, "--code", "4821-harbor-violet"]), 2);
    assert!(said.contains("u@h: is reached by ssh, where --code and --plaintext have no use"), "{said}");
    let said = failed(&pair.here.run(&["send", &file, "u@h:"]), 2);
    assert!(said.contains(&format!("the receiver comes first: longhaul send u@h: {file}")), "{said}");
    let said = failed(&pair.here.run(&["send", "--skip", "192.0.2.7", &file]), 2);
    assert!(said.contains("--skip is an option of the receiver"), "{said}");
    let said = failed(&pair.here.run(&["send", "--ssh", "/no/such/ssh -v", "u@h:", &file]), 1);
    assert!(said.contains("cannot run /no/such/ssh"), "{said}");
    pair.wait_for_end();
}

/// The system's ssh, and sshd as its child instead of behind a port.
#[test]
fn the_programs_of_openssh_do_it() {
    let sshd = "/usr/sbin/sshd";
    if !needs::programs(&[sshd, "ssh", "ssh-keygen"]) || !needs::root() {
        return;
    }
    let keys = TempDir::new().unwrap();
    let path = |name: &str| keys.path().join(name).into_os_string().into_string().unwrap();
    for name in ["host", "user"] {
        let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &path(name)]).status();
        assert!(made.unwrap().success());
    }
    // sshd needs this directory to drop its privileges.
    fs::create_dir_all("/run/sshd").unwrap();
    let server = format!(
        "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nPidFile none\nPermitRootLogin yes\nUsePAM no\n",
        path("host"),
        path("user.pub")
    );
    fs::write(path("sshd"), server).unwrap();
    let client = format!(
        "Host alias\nHostName 127.0.0.1\nUser root\nIdentityFile {}\nIdentitiesOnly yes\nStrictHostKeyChecking no\n\
         UserKnownHostsFile /dev/null\nLogLevel ERROR\nBatchMode yes\nProxyCommand {sshd} -i -f {}\n\
         RemoteCommand false\nRequestTTY force\n",
        path("user"),
        path("sshd")
    );
    fs::write(path("ssh"), client).unwrap();
    let ssh = format!("ssh -F {}", path("ssh"));
    let machine = Machine::new();
    awkward(&machine.path("all of it"));
    let run = |arguments: &[&str]| {
        let (command, rest) = arguments.split_first().unwrap();
        let options = ["--ssh", &ssh, "--remote-program", PROGRAM, "--udp-ports", "0"];
        machine.run(&[&[*command][..], &options, rest].concat())
    };
    let text = |path: PathBuf| path.into_os_string().into_string().unwrap();
    let there = format!("alias:{}", text(machine.path("it's there")));
    let sent = run(&["send", &there, &text(machine.path("all of it"))]);
    assert!(sent.status.success(), "{sent:?}");
    assert!(same(&machine.path("all of it"), &machine.path("it's there/all of it")));
    let back = text(machine.path("back"));
    let got = run(&["receive", "--allow-hidden", "--out", &back, &format!("{there}/all of it")]);
    assert!(got.status.success(), "{got:?}");
    assert!(same(&machine.path("all of it"), &machine.path("back/all of it")));
    let missing = machine.run(&["send", "--ssh", &ssh, "--remote-program", "/no/such/longhaul", &there, &back]);
    assert!(failed(&missing, 1).contains("there is no `/no/such/longhaul` at alias"), "{missing:?}");
    // Either end ends with the other.
    let (file, pid) = (machine.file("file", 8_000_000), machine.path("pid"));
    let program = format!("echo $$ > {}; exec {PROGRAM}", pid.display());
    let options = ["--ssh", &ssh, "--remote-program", &program, "--udp-ports", "0", "--limit", "20M"];
    for name in ["one", "other"] {
        let out = machine.path(name);
        let target = format!("alias:{}", out.display());
        let sending = machine.start(&[&["send"][..], &options, &[&target, &file]].concat());
        wait_until(|| arrived(&out));
        let there = fs::read_to_string(&pid).unwrap().trim().to_owned();
        if name == "one" {
            sending.signal("-KILL");
            wait_until(|| !is_running(&there));
        } else {
            assert!(Command::new("kill").args(["-KILL", &there]).status().unwrap().success());
            let (code, said, _) = sending.end();
            assert!(code == Some(1) && said.contains("longhaul at alias has ended"), "{said}");
        }
    }
}

/// The receiver must not end when one of several connections has joined the others.
#[test]
fn a_bonded_transfer_arrives() {
    let pair = Pair::new();
    let file = pair.here.file("file", 3_000_000);
    let sent = pair.run(&["send", "host:", &file, "--via", "127.0.0.1,127.0.0.1", "--bond"]);
    assert!(sent.status.success() && !String::from_utf8_lossy(&sent.stderr).contains("without this path"), "{sent:?}");
    assert!(fs::read(pair.home("file")).unwrap() == fs::read(&file).unwrap());
}
