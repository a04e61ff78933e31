//! Options, exit codes, and the destinations of output.
use std::process::Command;

use crate::machine::{Machine, failed, json_lines};

#[test]
fn the_identity_is_made_once_and_shown() {
    let machine = Machine::new();
    let first = machine.run(&["identity"]);
    assert!(first.status.success(), "{first:?}");
    let key = String::from_utf8(first.stdout).unwrap();
    assert_eq!(key, format!("{}\n", machine.key()));
    assert_eq!(machine.run(&["identity"]).stdout, key.as_bytes());
    let line = &json_lines(&machine.run(&["identity", "--json"]).stdout)[0];
    assert_eq!(
        (line["fingerprint"].as_str(), line["file"].as_str()),
        (Some(key.trim()), machine.data("identity").to_str())
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let file = machine.data("identity");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        let exposed = failed(&machine.run(&["identity"]), 1);
        assert!(exposed.contains("others may read ") && exposed.contains("chmod 600"), "{exposed}");
    }
}

#[test]
fn wrong_use_ends_with_2_and_a_failure_with_1() {
    let machine = Machine::new();
    let file = machine.file("file", 1);
    for wrong in [
        &[][..],
        &["fly"],
        &["send"],
        &["send", "192.0.2.7"],
        &["send", "host:99999", &file],
        &["send", "192.0.2.7", &file, "--plaintext", "--accept-new"],
        &["send", "--code=4821-harbor-violet", "--meet", "127.0.0.1:9", &file, "--via", "127.0.0.1"],
        &["receive", "--allow", "SHA256:x"],
        &["receive", "--overwrite", "--skip"],
        &["receive", "--out", "-", "--json"],
        &["receive", "--plaintext=always"],
        &["man", "fly"],
    ] {
        let output = machine.run(wrong);
        assert!(output.stdout.is_empty() && !failed(&output, 2).is_empty(), "{wrong:?}");
    }
    let used = failed(&machine.run(&["send", &file]), 2);
    assert!(used.contains("\nUsage: longhaul send "), "{used}");
    let missing = failed(&machine.run(&["send", "127.0.0.1:9", "/nonexistent/file"]), 1);
    assert!(missing.starts_with("longhaul send: cannot open /nonexistent/file: "), "{missing}");
    let refused = failed(&machine.run(&["send", "127.0.0.1:9", &file]), 1);
    let advice =
        "Is `longhaul receive` running there, and does a firewall pass UDP 9? `longhaul doctor 127.0.0.1:9` looks.";
    assert_eq!(refused, format!("longhaul send: cannot connect to 127.0.0.1:9: connection refused. {advice}\n"));
}

#[test]
fn options_come_from_a_file_unless_the_command_line_has_them() {
    let machine = Machine::new();
    let file = machine.path(".config/longhaul/config.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "[identity]\njson = true\n").unwrap();
    assert_eq!(json_lines(&machine.run(&["identity"]).stdout).len(), 1);
    let other = machine.path("other.toml");
    std::fs::write(&other, "# nothing\n\n[identity]\nyaml = true\n").unwrap();
    let other = other.to_str().unwrap();
    let unknown = failed(&machine.run(&["identity", "--config", other]), 2);
    let said = format!("longhaul: {other}, line 4: unknown key \"yaml\"; the keys are the options of");
    assert!(unknown.starts_with(&said), "{unknown}");
    std::fs::write(other, "[send]\nretry = 'soon'\n").unwrap();
    let invalid = failed(&machine.run(&["--config", other, "send", "host", "file"]), 2);
    assert!(invalid.starts_with(&format!("longhaul: {other}, line 2: invalid value 'soon'")), "{invalid}");
    // An invalid value does no harm in the table of another sub-command, or if the command line sets the option.
    assert!(machine.run(&["--config", other, "identity"]).status.success());
    let missing = failed(&machine.run(&["--config", other, "send", "--retry", "0", "127.0.0.1:9", "none"]), 1);
    assert!(missing.contains("cannot open none"), "{missing}");
    let absent = failed(&machine.run(&["identity", "--config", "/nonexistent/file"]), 1);
    assert!(absent.starts_with("longhaul: cannot read /nonexistent/file: "), "{absent}");
}

#[cfg(unix)]
#[test]
fn an_interrupted_program_ends_with_130() {
    let (there, here) = (Machine::new(), Machine::new());
    let receiver = there.receive(&["--allow", &here.key()]);
    let pid = receiver.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let (code, said, _) = receiver.end();
    assert_eq!((code, said.lines().last()), (Some(130), Some("longhaul receive: interrupted")));
}

#[test]
fn completions_and_pages_are_generated() {
    let machine = Machine::new();
    for shell in ["bash", "zsh", "fish"] {
        let output = machine.run(&["completions", shell]);
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains("accept-new"), "{shell}");
    }
    let page = |arguments: &[&str]| {
        let output = machine.run(arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(page(&["man"]).contains(".TH longhaul 1"));
    assert!(page(&["man", "receive"]).contains("allowed\\-peers"));
    assert!(page(&["send", "--help"]).contains("Examples:\n"));
    assert!(page(&["send", "-C", "list"]).contains("RFC 9438"));
    std::fs::create_dir(machine.path("man1")).unwrap();
    page(&["man", "--out", machine.path("man1").to_str().unwrap()]);
    assert!(machine.path("man1/longhaul-send.1").exists());
}
