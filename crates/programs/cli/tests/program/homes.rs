//! Home directories that do not exist, or cannot be written.
use std::fs;
use std::process::{Command, Stdio};

use crate::machine::{Machine, Receiver, failed};

/// Values of HOME without XDG_DATA_HOME: unset, empty, a file, and a directory in which nothing can be created.
const HOMES: [Option<&str>; 4] = [None, Some(""), Some("/dev/null"), Some("/proc")];

fn command(machine: &Machine, home: Option<&str>, arguments: &[&str]) -> Command {
    let mut command = machine.command(arguments);
    command.env_remove("XDG_DATA_HOME").env_remove("HOME");
    if let Some(home) = home {
        command.env("HOME", home);
    }
    command
}

#[test]
fn programs_without_a_home_say_what_to_do_or_do_without() {
    let machine = Machine::new();
    for home in HOMES {
        let run = |arguments: &[&str]| command(&machine, home, arguments).output().unwrap();
        for arguments in [
            &["identity"][..],
            &["send", "127.0.0.1:9", "/etc/hostname"],
            &["receive", "--listen", "127.0.0.1:0", "--allow", "SHA256:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"],
            &["gateway", "--listen", "127.0.0.1:0", "--permit", "any"],
            &["forward", "-D", "0", "127.0.0.1:9"],
            &["stdio", "127.0.0.1:9", "127.0.0.1:22"],
        ] {
            let said = failed(&run(arguments), 1);
            assert!(said.contains("set XDG_DATA_HOME to a directory that this user can write"), "{home:?}: {said}");
        }
        for arguments in [&["send", "-C", "list"][..], &["man"], &["forward", "--help"]] {
            assert!(run(arguments).status.success(), "{home:?} {arguments:?}");
        }
    }
}

#[test]
fn a_one_time_code_needs_no_home() {
    let (there, here) = (Machine::new(), Machine::new());
    let file = here.file("file", 10_000);
    for home in HOMES {
        let out = there.path("out").into_os_string().into_string().unwrap();
        let receive = ["receive", "--code", "--listen", "127.0.0.1:0", "--overwrite", "--out", &out];
        let receive = command(&there, home, &receive).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut receiver = Receiver::new(receive).listening();
        let code = crate::codes::code(&mut receiver);
        let sent =
            command(&here, home, &["send", &receiver.address, &file, "--remember", "--code", &code]).output().unwrap();
        assert!(sent.status.success(), "{home:?}: {sent:?}");
        let said = String::from_utf8(sent.stderr).unwrap();
        assert!(said.contains("warning: the key is for this run only: "), "{said}");
        assert!(said.contains("is not remembered: there is no directory for a list of keys"), "{said}");
        assert_eq!(receiver.end().0, Some(0));
        assert_eq!(there.names(), ["file"]);
    }
}

/// The key exists, but nothing can be written to its directory.
#[cfg(target_os = "linux")]
#[test]
fn a_home_that_can_only_be_read_is_enough_for_one_that_has_a_key() {
    if !needs::mounts() {
        return;
    }
    let (there, here) = (Machine::new(), Machine::new());
    let receiver = there.receive(&["--allow", &here.key()]);
    let file = here.file("file", 10_000);
    let send = here.command(&["send", "--accept-new", &receiver.address, &file]);
    let data = here.data("");
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).arg(&data).arg(send.get_program()).args(send.get_args());
    command.envs(send.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
    let sent = command.output().unwrap();
    let said = String::from_utf8_lossy(&sent.stderr);
    assert!(sent.status.success() && said.contains("is not remembered: cannot use "), "{said}");
    assert_eq!(there.names(), ["file"]);
    assert!(fs::metadata(here.data("known-peers")).is_err());
}
