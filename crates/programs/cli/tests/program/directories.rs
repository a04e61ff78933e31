//! Transfer of directories.
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::machine::{Machine, failed, json_lines};

pub(crate) fn file(path: &Path, contents: &[u8], mode: u32) {
    fs::write(path, contents).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    age(path);
}

pub(crate) fn age(path: &Path) {
    let time = SystemTime::UNIX_EPOCH + Duration::new(981_173_106, 789_000_000);
    File::open(path).unwrap().set_modified(time).unwrap();
}

/// Describes all entries of a directory: path, kind, mode, contents or target, and the time if it is that of [`age`].
pub(crate) fn tree(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let metadata = path.symlink_metadata().unwrap();
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let aged = metadata.modified().unwrap() == SystemTime::UNIX_EPOCH + Duration::new(981_173_106, 789_000_000);
        let mode = metadata.permissions().mode() & 0o777;
        lines.push(if metadata.is_symlink() {
            format!("{name} -> {}", path.read_link().unwrap().display())
        } else if metadata.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            format!("{name}/ {mode:o} {aged}")
        } else {
            format!("{name} {mode:o} {aged} {}", blake3::hash(&fs::read(&path).unwrap()))
        });
    }
    lines.sort();
    lines
}

/// Creates a tree with every kind of entry that is sent.
pub(crate) fn make(root: &Path) {
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    file(&root.join("executable"), b"#!/bin/sh", 0o750);
    file(&root.join("sub/nothing"), b"", 0o600);
    file(&root.join("sub/deep/large"), &[7; 3_000_000], 0o444);
    for number in 0..300 {
        file(&root.join(format!("sub/{number}")), number.to_string().as_bytes(), 0o640);
    }
    symlink("../sub/deep", root.join("empty/link")).unwrap();
    fs::set_permissions(root.join("empty"), PermissionsExt::from_mode(0o710)).unwrap();
    for directory in ["sub/deep", "sub", "empty", ""] {
        age(&root.join(directory));
    }
}

#[test]
fn a_directory_arrives_with_everything_in_it() {
    let (there, here) = (Machine::new(), Machine::new());
    let root = here.path("tree");
    make(&root);
    let receiver = there.receive(&["--allow", &here.key(), "--once", "--json"]);
    let sent = here.send(&receiver, &[root.to_str().unwrap(), "--links", "--json"]);
    assert!(sent.status.success(), "{sent:?}");
    let (code, said, received) = receiver.end();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!((json_lines(&sent.stdout).len(), json_lines(&received).len()), (304, 304));
    assert_eq!(tree(&there.path("out/tree")), tree(&root));
    assert_eq!(there.names(), ["tree"]);

    // Sends the tree to the same place again, where everything exists. Without attributes, the times are new.
    let receiver = there.receive(&["--allow", &here.key()]);
    assert!(here.send(&receiver, &[root.to_str().unwrap(), "--links"]).status.success());
    assert_eq!(tree(&there.path("out/tree")), tree(&root));
    drop(receiver);
    let receiver = there.receive(&["--allow", &here.key(), "--overwrite"]);
    assert!(here.send(&receiver, &[root.to_str().unwrap(), "--links", "--no-attributes"]).status.success());
    let large = there.path("out/tree/sub/deep/large").metadata().unwrap();
    assert!(
        large.permissions().mode() & 0o777 != 0o444
            && large.modified().unwrap() > SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000)
    );
}

#[test]
fn what_is_not_sent_is_named() {
    let (there, here) = (Machine::new(), Machine::new());
    let root = here.path("tree");
    fs::create_dir_all(root.join("sub")).unwrap();
    file(&root.join("file"), b"x", 0o644);
    file(&root.join(".hidden"), b"x", 0o644);
    file(&root.join("bad\nname"), b"x", 0o644);
    symlink("/etc/passwd", root.join("absolute")).unwrap();
    symlink("../../x", root.join("sub/up")).unwrap();
    assert!(Command::new("mkfifo").arg(root.join("pipe")).status().unwrap().success());
    let receiver = there.receive(&["--allow", &here.key()]);
    for (options, reason) in [(&["--links"][..], "may lead outside the directory"), (&[], "it is a symbolic link")] {
        let arguments = [&[root.to_str().unwrap(), "--json"], options].concat();
        let sent = here.send(&receiver, &arguments);
        let said = failed(&sent, 1);
        assert!(said.contains("Sent 1 of 6 files, ") && said.contains("sends only what is missing."), "{said}");
        let listed = json_lines(&sent.stdout).iter().filter(|line| line["error"].is_string()).count();
        assert_eq!(listed, 5);
        for (name, reason) in [
            ("absolute", reason),
            ("sub/up", reason),
            ("pipe", "it is neither a file nor a directory"),
            ("bad\\u{a}name", "contains a control character"),
            (".hidden", "the receiver says: "),
        ] {
            let named = |line: &str| line.contains(&format!("tree/{name}  ")) && line.contains(reason);
            assert!(said.lines().any(named), "{name}: {said}");
        }
    }
    let names: Vec<_> =
        tree(&there.path("out/tree")).iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(names, ["/", "file", "sub/"]);
}

/// While a file is being received, its directory at the receiver is replaced by a link to another place.
#[test]
fn a_link_that_is_swapped_in_is_not_followed() {
    use std::io::Write;
    use std::process::Stdio;
    let (there, here) = (Machine::new(), Machine::new());
    let (root, outside) = (here.path("tree"), there.path("outside"));
    fs::create_dir_all(&root).unwrap();
    fs::create_dir(&outside).unwrap();
    file(&root.join("a"), b"first", 0o644);
    file(&root.join("b"), &[7; 100_000], 0o644);
    let mut receiver = there.receive(&["--allow", &here.key(), "-v"]);
    // The directory is sent twice, before and after the contents of standard input. The marker arrives after the first
    // copy.
    let (root, marker) = (root.to_str().unwrap(), here.file("marker", 1));
    let mut command = here.command(&["send", "--accept-new", &receiver.address, root, &marker, "-", root]);
    let mut sender = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    receiver.wait_for("marker: ");
    fs::rename(there.path("out/tree"), there.path("moved")).unwrap();
    symlink(&outside, there.path("out/tree")).unwrap();
    let mut stdin = sender.stdin.take().unwrap();
    stdin.write_all(b"now").unwrap();
    drop(stdin);
    let said = failed(&sender.wait_with_output().unwrap(), 1);
    assert!(said.contains("tree/a  the receiver says: cannot write it"), "{said}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

/// Names need not be UTF-8, even on the command line. `--json` shows them as text.
#[cfg(target_os = "linux")]
#[test]
fn whatever_a_unix_file_is_called_arrives() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let (there, here) = (Machine::new(), Machine::new());
    let root = here.path("tree").join(OsStr::from_bytes(b"r\xe9pertoire"));
    let names = [
        &b"backup 12:30:00.log"[..],
        b"a\\b",
        b"etc.",
        b"aux.c",
        b"caf\xe9",
        "\u{2764}\u{fe0f}.jpg".as_bytes(),
        "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}".as_bytes(),
    ];
    fs::create_dir_all(&root).unwrap();
    for name in names {
        file(&root.join(OsStr::from_bytes(name)), b"x", 0o644);
    }
    symlink(OsStr::from_bytes(b"caf\xe9"), root.join("link")).unwrap();
    let receiver = there.receive(&["--allow", &here.key(), "--once", "--json"]);
    let mut command = here.command(&["send", "--accept-new", "--links", "--json", &receiver.address]);
    let sent = command.arg(&root).output().unwrap();
    assert!(sent.status.success(), "{sent:?}");
    assert!(
        json_lines(&sent.stdout).iter().any(|line| line["file"].as_str().unwrap().ends_with("r\\xe9pertoire/caf\\xe9"))
    );
    let (code, said, received) = receiver.end();
    assert_eq!(code, Some(0), "{said}");
    let received = json_lines(&received);
    assert!(received.iter().any(|line| line["file"] == "r\\xe9pertoire/\u{2764}\u{fe0f}.jpg"), "{received:?}");
    assert_eq!(received.len(), names.len() + 1, "the files and the sum");
    let there = there.path("out").join(root.file_name().unwrap());
    assert!(names.iter().all(|name| there.join(OsStr::from_bytes(name)).is_file()));
    assert_eq!(there.join("link").read_link().unwrap(), OsStr::from_bytes(b"caf\xe9"));
}

/// A tree with a read-only directory is sent again with a new entry.
#[test]
fn a_tree_that_has_grown_is_sent_again() {
    let (there, here) = (Machine::new(), Machine::new());
    let root = here.path("tree");
    fs::create_dir_all(root.join("fixed")).unwrap();
    for name in ["fixed/a", "b-changes", "c"] {
        file(&root.join(name), b"old", 0o444);
    }
    fs::set_permissions(root.join("fixed"), PermissionsExt::from_mode(0o555)).unwrap();
    let receiver = there.receive(&["--allow", &here.key()]);
    let root = root.to_str().unwrap();
    assert!(here.send(&receiver, &[root]).status.success());
    assert!(here.send(&receiver, &[root]).status.success());
    fs::remove_file(here.path("tree/b-changes")).unwrap();
    for (name, contents) in [("b-changes", "changed"), ("d-new", "new")] {
        file(&here.path("tree").join(name), contents.as_bytes(), 0o644);
    }
    // A missing file of the command line is reported, too.
    let sent = here.send(&receiver, &["missing", root, "--json"]);
    let said = failed(&sent, 1);
    assert!(said.contains("tree/b-changes  the receiver has another file of this name"), "{said}");
    let missing = said.lines().find(|line| line.starts_with("  missing  "));
    assert!(missing.is_some_and(|line| line.contains("  cannot open missing")), "{said}");
    let lines = json_lines(&sent.stdout);
    assert_eq!(lines.iter().filter(|line| line["error"].is_string()).count(), 2, "{lines:?}");
    assert_eq!(fs::read(there.path("out/tree/d-new")).unwrap(), b"new");
    assert_eq!(fs::read(there.path("out/tree/b-changes")).unwrap(), b"old");
}
