//! Mirrors of directories.
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::directories::{age, file, make, tree};
use crate::disk::{receive_after, send_over_a_link};
use crate::machine::{Machine, Receiver, failed, json_lines};
use crate::relay::slow;
use crate::resume::wait_for;
use crate::terminal::Terminal;

const ALLOWED: [&str; 2] = ["--overwrite", "--allow-delete"];

/// Two machines, and a receiver with these options between them.
fn machines(options: &[&str]) -> (Machine, Machine, Receiver) {
    let (there, here) = (Machine::new(), Machine::new());
    let receiver = there.receive(&[&["--allow", &here.key()], options].concat());
    (there, here, receiver)
}

/// Mirrors the directory `tree`, with its links.
fn mirror(here: &Machine, receiver: &Receiver, options: &[&str]) -> Output {
    let root = here.path("tree");
    here.send(receiver, &[&[root.to_str().unwrap(), "--mirror", "--links"], options].concat())
}

/// Mirrors, and returns the summary.
fn sum(here: &Machine, receiver: &Receiver, options: &[&str]) -> Value {
    let sent = mirror(here, receiver, &[&["--json"], options].concat());
    assert!(sent.status.success(), "{sent:?}");
    json_lines(&sent.stdout).pop().unwrap()
}

fn change(path: &Path, at: u64) {
    let mut file = File::options().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(b"changed").unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
}

#[test]
fn what_is_the_same_is_not_sent_and_changes_arrive() {
    let (there, here, receiver) = machines(&["--overwrite"]);
    let root = here.path("tree");
    make(&root);
    here.file("tree/large", 20 << 20);
    let first = sum(&here, &receiver, &[]);
    assert_eq!((&first["files"], &first["unchanged_files"]), (&304.into(), &0.into()));
    assert_eq!(tree(&there.path("out/tree")), tree(&root));
    let again = sum(&here, &receiver, &[]);
    assert_eq!(
        (&again["files"], &again["unchanged_files"], &again["moved_bytes"]),
        (&0.into(), &304.into(), &0.into())
    );

    change(&root.join("large"), 5 << 20);
    change(&root.join("sub/7"), 0);
    file(&root.join("sub/new"), b"new", 0o600);
    fs::remove_file(root.join("empty/link")).unwrap();
    symlink("../sub", root.join("empty/link")).unwrap();
    ["sub", "empty", ""].iter().for_each(|directory| age(&root.join(directory)));
    let options = ["--mirror", "--links", "--json", root.to_str().unwrap()];
    let (sent, on_the_wire) = send_over_a_link(&here, &receiver, &options);
    let sum = json_lines(&sent.stdout).pop().unwrap();
    assert_eq!((&sum["files"], &sum["unchanged_files"]), (&3.into(), &302.into()), "{sent:?}");
    assert_eq!(sum["moved_bytes"], (1 << 20) + 7 + 3, "one group and two small files");
    assert!(on_the_wire < 1_400_000, "{on_the_wire} bytes were sent");
    assert_eq!(tree(&there.path("out/tree")), tree(&root));
}

#[test]
fn of_a_small_changed_file_the_blocks_that_differ_are_sent() {
    let (there, here, receiver) = machines(&["--overwrite"]);
    let root = here.path("tree");
    fs::create_dir(&root).unwrap();
    let path = here.file("tree/file", 100_000);
    sum(&here, &receiver, &[]);
    change(Path::new(&path), 50_000);
    File::options().append(true).open(&path).unwrap().write_all(&[9; 100]).unwrap();
    // The first block, that with the change, and the last one, which has grown.
    change(Path::new(&path), 0);
    let sum = sum(&here, &receiver, &[]);
    assert_eq!(sum["moved_bytes"], 2 * 1024 + (100_100 - 97 * 1024), "{sum}");
    assert_eq!(tree(&there.path("out/tree")), tree(&root));
}

/// The old file stays until the new one is complete, and groups that have arrived are not sent again.
#[test]
fn an_interrupted_change_is_continued() {
    const GROUPS: u64 = 40;
    let (there, here, receiver) = machines(&["--overwrite"]);
    let root = here.path("tree");
    fs::create_dir(&root).unwrap();
    let large = here.file("tree/large", (GROUPS << 20) as usize);
    sum(&here, &receiver, &[]);
    let old = blake3::hash(&fs::read(&large).unwrap());
    (0..GROUPS).step_by(2).for_each(|group| change(Path::new(&large), group << 20));
    let relay = slow(&receiver.address);
    let near = relay.local_addr().to_string();
    let options = ["send", "--accept-new", &near, "--mirror", "--json", root.to_str().unwrap()];
    let mut sender = here.start(&options);
    wait_for(&there, 10 << 20);
    sender.child.kill().unwrap();
    drop(sender);
    assert_eq!(blake3::hash(&fs::read(there.path("out/tree/large")).unwrap()), old);
    let sent = here.run(&options);
    assert!(sent.status.success(), "{sent:?}");
    let moved = json_lines(&sent.stdout).pop().unwrap()["moved_bytes"].as_u64().unwrap();
    assert!((5 << 20..=16 << 20).contains(&moved), "{moved} bytes were sent, of which 20 MiB have changed");
    assert_eq!(tree(&there.path("out/tree")), tree(&root));
}

/// As rsync does, unless hashes are asked for.
#[test]
fn other_contents_of_the_same_size_and_time_need_a_checksum() {
    let (there, here, receiver) = machines(&["--overwrite"]);
    fs::create_dir(here.path("tree")).unwrap();
    let (small, large) = (here.path("tree/small"), here.path("tree/large"));
    file(&small, b"old", 0o644);
    file(&large, &[1; 3 << 20], 0o644);
    sum(&here, &receiver, &[]);
    file(&small, b"new", 0o644);
    file(&large, &[&[1; 2 << 20][..], &[2; 1 << 20]].concat(), 0o644);
    assert_eq!(sum(&here, &receiver, &[])["unchanged_files"], 2);
    assert_eq!(fs::read(there.path("out/tree/small")).unwrap(), b"old");
    let with_hashes = sum(&here, &receiver, &["--checksum"]);
    assert_eq!((&with_hashes["files"], &with_hashes["moved_bytes"]), (&2.into(), &((1 << 20) + 3).into()));
    assert_eq!(tree(&there.path("out/tree")), tree(&here.path("tree")));
    assert_eq!(sum(&here, &receiver, &["--checksum"])["unchanged_files"], 2);
}

/// What a receiver has besides a mirrored tree of one file `kept`.
fn surplus(there: &Machine, here: &Machine) {
    fs::create_dir(here.path("tree")).unwrap();
    file(&here.path("tree/kept"), b"kept", 0o644);
    let out = there.path("out");
    fs::create_dir_all(out.join("tree/old/deep")).unwrap();
    fs::create_dir_all(out.join("tree/mixed")).unwrap();
    fs::create_dir_all(out.join("beside")).unwrap();
    for path in ["tree/old/deep/file", "tree/mixed/.hidden", "tree/mixed/file", "tree/.hidden", "beside/file"] {
        file(&out.join(path), path.as_bytes(), 0o644);
    }
    symlink("../beside", out.join("tree/link")).unwrap();
    symlink("../../beside", out.join("tree/old/link")).unwrap();
}

/// Neighbours, what links lead to, and names that the receiver would not accept, stay.
#[test]
fn only_what_is_listed_is_deleted() {
    let (there, here, receiver) = machines(&ALLOWED);
    surplus(&there, &here);
    let before = tree(&there.path("out"));
    let listed = mirror(&here, &receiver, &["--delete", "--dry-run"]);
    assert!(listed.status.success(), "{listed:?}");
    let said = String::from_utf8(listed.stderr).unwrap();
    let names: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    let expected = ["link", "mixed/file", "old/deep/file", "old/deep/", "old/link", "old/"];
    assert_eq!(names, expected.map(|name| format!("tree/{name}")), "{said}");
    assert!(said.ends_with("Would send 1 file, at most 4 B. 6 entries would be deleted.\n"), "{said}");
    assert_eq!(tree(&there.path("out")), before);

    let refused = mirror(&here, &receiver, &["--delete"]);
    assert!(failed(&refused, 2).contains("there is no terminal; --dry-run shows"), "{refused:?}");
    assert_eq!(tree(&there.path("out")), before);

    let sum = sum(&here, &receiver, &["--delete", "--yes"]);
    assert_eq!((&sum["surplus_entries"], &sum["deleted_entries"], &sum["files"]), (&6.into(), &6.into(), &1.into()));
    let left = tree(&there.path("out"));
    let left: Vec<_> = left.iter().map(|line| line.split(' ').next().unwrap()).collect();
    let left: Vec<_> = left.into_iter().filter(|name| !name.starts_with(".longhaul")).collect();
    assert_eq!(
        left,
        ["/", "beside/", "beside/file", "tree/", "tree/.hidden", "tree/kept", "tree/mixed/", "tree/mixed/.hidden"]
    );
}

#[test]
fn a_person_is_asked() {
    let (there, here, receiver) = machines(&ALLOWED);
    surplus(&there, &here);
    let root = here.path("tree");
    let arguments = ["send", "--accept-new", &receiver.address, "--mirror", "--delete", root.to_str().unwrap()];
    for (answer, end, is_left) in
        [("no", "Nothing was deleted of 6 entries.", true), ("yes", "6 entries deleted.", false)]
    {
        let mut terminal = Terminal::asked(&mut here.command(&arguments));
        terminal.until("Delete 4 files and 2 directories at the receiver (yes/no)?");
        assert!(there.path("out/tree/old/deep/file").exists());
        terminal.types(&format!("{answer}\n"));
        let shown = terminal.end();
        assert!(shown.contains(end), "{shown}");
        assert_eq!(there.path("out/tree/old").exists(), is_left, "{shown}");
    }
}

#[test]
fn nothing_is_deleted_if_the_sender_leaves_something_out() {
    let (there, here, receiver) = machines(&ALLOWED);
    surplus(&there, &here);
    symlink("/etc/passwd", here.path("tree/absolute")).unwrap();
    let sent = mirror(&here, &receiver, &["--delete", "--yes"]);
    let said = failed(&sent, 1);
    assert!(said.contains("nothing is deleted at the receiver, because some entries cannot be sent"), "{said}");
    assert!(there.path("out/tree/old/deep/file").exists() && there.path("out/tree/kept").exists());
}

/// A file in the place of a directory, and the other way round.
#[test]
fn another_kind_of_entry_is_replaced_if_it_may_be_deleted() {
    let (there, here, receiver) = machines(&ALLOWED);
    let root = here.path("tree");
    fs::create_dir_all(root.join("one")).unwrap();
    file(&root.join("one/file"), b"1", 0o644);
    file(&root.join("other"), b"2", 0o644);
    fs::create_dir_all(there.path("out/tree/other/deep")).unwrap();
    file(&there.path("out/tree/other/deep/file"), b"3", 0o644);
    symlink("/etc", there.path("out/tree/one")).unwrap();
    let said = failed(&mirror(&here, &receiver, &[]), 1);
    assert!(said.contains("one/file") && said.contains("tree/other"), "{said}");
    sum(&here, &receiver, &["--delete", "--yes"]);
    assert_eq!(tree(&there.path("out/tree")), tree(&root));
}

#[test]
fn the_receiver_decides_what_may_be_replaced_and_deleted() {
    for (options, arguments, reason) in [
        (&["--skip"][..], &[][..], "a mirror replaces files, for which `receive` needs --overwrite"),
        (&["--overwrite"], &["--delete", "--yes"], "nothing may be deleted, for which `receive` needs --allow-delete"),
    ] {
        let (there, here, mut receiver) = machines(options);
        surplus(&there, &here);
        let before = tree(&there.path("out"));
        let said = failed(&mirror(&here, &receiver, arguments), 1);
        assert!(said.contains(&format!("the receiver refused the mirror: {reason}")), "{said}");
        receiver.wait_for(reason);
        assert_eq!(tree(&there.path("out")), before);
    }
    let here = Machine::new();
    let refused = here.run(&["receive", "--plaintext", "--overwrite", "--allow-delete"]);
    assert!(failed(&refused, 2).contains("--plaintext"), "{refused:?}");
}

#[test]
fn a_changed_file_that_does_not_fit_leaves_the_old_one() {
    if !needs::mounts() {
        return;
    }
    let (there, here) = (Machine::new(), Machine::new());
    fs::create_dir(here.path("tree")).unwrap();
    file(&here.path("tree/large"), &[1; 3 << 20], 0o644);
    file(&here.path("tree/small"), b"old", 0o644);
    let mounted = "mount -t tmpfs -o size=5m none $out";
    let receiver = receive_after(&there, &here, mounted, &["--overwrite"]);
    let out = Path::new("/proc")
        .join(receiver.child.id().to_string())
        .join("root")
        .join(&there.path("out").to_str().unwrap()[1..]);
    sum(&here, &receiver, &[]);
    change(&here.path("tree/large"), 0);
    change(&here.path("tree/small"), 0);
    let said = failed(&mirror(&here, &receiver, &[]), 1);
    assert!(said.contains("it needs 3.1 MB of space, and less is free"), "{said}");
    assert!(fs::read(out.join("tree/large")).unwrap() == [1; 3 << 20]);
    assert_eq!(fs::read(out.join("tree/small")).unwrap(), b"changed");
}
