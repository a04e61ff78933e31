//! Files whose transfer is interrupted.
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use longhaul_link::spec::Direction;

use crate::disk::receive_after;
use crate::machine::{Machine, Receiver, failed, json_lines};
use crate::relay::{relay, slow};

/// Interval between checks of the disk.
const LOOK: Duration = Duration::from_millis(2);
const MIB: u64 = 1 << 20;

/// Returns the number of bytes in the unfinished files of `there`.
pub(crate) fn unfinished(there: &Machine) -> u64 {
    let mut bytes = 0;
    for directory in fs::read_dir(there.path("out")).into_iter().flatten().flatten() {
        for file in fs::read_dir(directory.path()).into_iter().flatten().flatten() {
            let part = file.file_name().to_string_lossy().starts_with("part-");
            bytes += file.metadata().ok().filter(|_| part).map_or(0, |metadata| metadata.len());
        }
    }
    bytes
}

/// Waits until the receiver has more than `bytes` bytes.
pub(crate) fn wait_for(there: &Machine, bytes: u64) {
    while unfinished(there) <= bytes {
        sleep(LOOK);
    }
}

fn start(here: &Machine, address: &str, file: &str, options: &[&str]) -> Child {
    let mut command = here.command(&[&["send", "--accept-new", "--json", address, file], options].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Starts to send `file`, and kills the sender once the receiver has more than `bytes` bytes.
fn interrupt(there: &Machine, here: &Machine, receiver: &Receiver, file: &str, bytes: u64) -> u64 {
    let relay = slow(&receiver.address);
    let mut sender = start(here, &relay.local_addr().to_string(), file, &[]);
    wait_for(there, bytes);
    sender.kill().unwrap();
    sender.wait().unwrap();
    unfinished(there)
}

fn same(file: &str, there: &Machine, name: &str) -> bool {
    fs::read(file).unwrap() == fs::read(there.path("out").join(name)).unwrap()
}

#[test]
fn an_interrupted_file_is_continued_by_the_next_sender_and_the_next_receiver() {
    let (there, here) = (Machine::new(), Machine::new());
    let (file, key) = (here.file("big", 30_000_000), here.key());
    let mut receiver = there.receive(&["--allow", &key]);
    interrupt(&there, &here, &receiver, &file, 3 * MIB);
    drop(receiver);
    let before = unfinished(&there);
    receiver = there.receive(&["--allow", &key, "--json", "--once"]);
    let sent = here.send(&receiver, &[&file, "--json"]);
    assert!(sent.status.success(), "{sent:?}");
    let line = &json_lines(&sent.stdout)[0];
    let resumed = line["resumed_bytes"].as_u64().unwrap();
    assert!(resumed >= 3 * MIB && before - resumed < MIB, "{before} {line}");
    assert!(String::from_utf8_lossy(&sent.stderr).contains(&format!("big is continued after {resumed} of 30000000")));
    let (code, said, received) = receiver.end();
    assert_eq!(code, Some(0));
    assert!(said.contains("big is continued after "), "{said}");
    assert_eq!(json_lines(&received)[0]["resumed_bytes"], resumed);
    assert!(same(&file, &there, "big"));
    // No other file is left. What the sender has kept is in its cache, which nobody else can read.
    assert_eq!(fs::read_dir(there.path("out")).unwrap().count(), 1);
    let cache = here.path(".cache/longhaul");
    assert_eq!((cache.metadata().unwrap().mode() & 0o777, fs::read_dir(cache).unwrap().count()), (0o700, 1));
}

/// The receiver is killed in the middle of many small files.
#[test]
fn small_files_that_were_confirmed_are_there_after_a_crash() {
    let (there, here) = (Machine::new(), Machine::new());
    let (root, key) = (here.path("tree"), here.key());
    fs::create_dir(&root).unwrap();
    let contents = |name: &str| name.repeat(300).into_bytes();
    for name in (0..3000).map(|number| format!("{number:04}")) {
        fs::write(root.join(&name), contents(&name)).unwrap();
    }
    let root = root.to_str().unwrap();
    let mut receiver = there.receive(&["--allow", &key, "-v"]);
    let relay = slow(&receiver.address);
    let sender = start(&here, &relay.local_addr().to_string(), root, &["--retry", "0"]);
    // A sender whose output nobody reads waits once the pipe is full.
    let sender = std::thread::spawn(|| sender.wait_with_output().unwrap());
    receiver.wait_for("tree/0500: ");
    receiver.child.kill().unwrap();
    let sent = sender.join().unwrap();
    assert!(!sent.status.success());
    let out = there.path("out/tree");
    for line in json_lines(&sent.stdout).iter().filter(|line| line["blake3"].is_string()) {
        let name = line["file"].as_str().unwrap().rsplit('/').next().unwrap();
        assert!(out.join(name).exists(), "{name} was confirmed");
    }
    let stored: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(stored.len() > 500);
    for name in stored {
        assert!(fs::read(out.join(&name)).unwrap() == contents(name.to_str().unwrap()), "{name:?}");
    }
    drop(receiver);
    let receiver = there.receive(&["--allow", &key, "--once"]);
    assert!(here.send(&receiver, &[root]).status.success());
    assert_eq!(receiver.end().0, Some(0));
    assert_eq!(fs::read_dir(out).unwrap().count(), 3000);
    // What the killed process left is gone.
    assert_eq!(fs::read_dir(there.path("out")).unwrap().count(), 1);
}

#[test]
fn a_file_that_has_changed_is_sent_anew_and_this_is_said() {
    let (there, here) = (Machine::new(), Machine::new());
    let (file, key) = (here.file("big", 30_000_000), here.key());
    let mut receiver = there.receive(&["--allow", &key]);
    interrupt(&there, &here, &receiver, &file, 3 * MIB);
    // A file with another modification time.
    fs::write(&file, vec![7; 30_000_000]).unwrap();
    let relay = slow(&receiver.address);
    let mut sender = start(&here, &relay.local_addr().to_string(), &file, &[]);
    receiver.wait_for("big has changed since it was interrupted, and is received anew");
    wait_for(&there, 3 * MIB);
    sender.kill().unwrap();
    sender.wait().unwrap();
    // A file with the same size and time, but other contents.
    let modified = File::open(&file).unwrap().metadata().unwrap().modified().unwrap();
    fs::write(&file, vec![8; 30_000_000]).unwrap();
    File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
    let sent = here.send(&receiver, &[&file, "--json"]);
    let said = failed(&sent, 0);
    assert!(said.contains("big is not what was interrupted, and is sent anew"), "{said}");
    assert_eq!(json_lines(&sent.stdout)[0]["resumed_bytes"], 0);
    receiver.wait_for("big is not what was interrupted, and is received anew");
    assert!(same(&file, &there, "big"));
}

/// A part belongs to the key of its sender, and damaged groups are not continued.
#[test]
fn a_part_belongs_to_its_sender_and_is_verified() {
    let (there, here, other) = (Machine::new(), Machine::new(), Machine::new());
    let file = here.file("big", 30_000_000);
    let options = ["--allow", &here.key(), "--allow", &other.key(), "--overwrite"];
    let receiver = there.receive(&options);
    interrupt(&there, &here, &receiver, &file, 5 * MIB);
    let modified = File::open(&file).unwrap().metadata().unwrap().modified().unwrap();
    let copy = other.file("big", 30_000_000);
    File::options().write(true).open(&copy).unwrap().set_modified(modified).unwrap();
    let resumed = |machine: &Machine, receiver: &Receiver, options: &[&str]| {
        let sent = machine.send(receiver, &[&[file.as_str(), "--json"], options].concat());
        let said = failed(&sent, 0);
        (json_lines(&sent.stdout)[0]["resumed_bytes"].as_u64().unwrap(), said)
    };
    assert_eq!(resumed(&other, &receiver, &[]).0, 0);
    drop(receiver);
    // Damages the third group.
    for directory in fs::read_dir(there.path("out")).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        for part in fs::read_dir(directory.path()).unwrap().flatten() {
            if part.file_name().to_string_lossy().starts_with("part-") {
                use std::os::unix::fs::FileExt;
                File::options().write(true).open(part.path()).unwrap().write_at(b"?", 2 * MIB + 5).unwrap();
            }
        }
    }
    let receiver = there.receive(&[&options[..], &["--once", "--json"]].concat());
    let (bytes, said) = resumed(&here, &receiver, &[]);
    assert_eq!(bytes, 2 * MIB);
    assert!(
        said.contains("big: its part was damaged on the receiver's disk; what was damaged is sent again"),
        "{said}"
    );
    assert!(said.contains("big is continued after 2097152 of 30000000"), "{said}");
    // Nothing is left out.
    let (code, said, received) = receiver.end();
    assert_eq!((code, json_lines(&received).len()), (Some(0), 2));
    assert!(said.contains("big has changed on this disk since it was received, after the first 2.1 MB"), "{said}");
    assert!(same(&file, &there, "big"));
    let receiver = there.receive(&options);
    interrupt(&there, &here, &receiver, &file, 3 * MIB);
    assert_eq!(resumed(&here, &receiver, &["--no-resume"]).0, 0);
}

#[test]
fn a_file_that_arrived_before_the_sender_heard_of_it_is_confirmed() {
    let (there, here) = (Machine::new(), Machine::new());
    let files = [("big", 5_000_000), ("small", 1000)].map(|(name, len)| here.file(name, len));
    let receiver = there.receive(&["--allow", &here.key()]);
    for resumed in [[0, 0], [5_000_000, 1000]] {
        let sent = here.send(&receiver, &[&files[0], &files[1], "--json"]);
        assert!(sent.status.success(), "{sent:?}");
        let lines = json_lines(&sent.stdout);
        assert_eq!(
            (lines[0]["resumed_bytes"].as_u64(), lines[0]["bytes"].as_u64()),
            (Some(resumed[0]), Some(5_000_000))
        );
    }
    // Another file with the same name, size and time is refused, even if its sender claims to have the same one.
    let modified = File::open(&files[0]).unwrap().metadata().unwrap().modified().unwrap();
    fs::write(&files[0], vec![1; 5_000_000]).unwrap();
    File::options().write(true).open(&files[0]).unwrap().set_modified(modified).unwrap();
    let said = failed(&here.send(&receiver, &[&files[0]]), 1);
    assert!(said.contains("the receiver has another file of this name"), "{said}");
}

/// The receiver is killed and restarted; the sender reconnects by itself.
#[test]
fn a_sender_survives_the_receiver() {
    let (there, here) = (Machine::new(), Machine::new());
    let (file, key) = (here.file("big", 30_000_000), here.key());
    let mut receiver = there.receive(&["--allow", &key]);
    let address = receiver.address.clone();
    let relay = slow(&address);
    let sender = start(&here, &relay.local_addr().to_string(), &file, &[]);
    wait_for(&there, 3 * MIB);
    receiver.child.kill().unwrap();
    drop(receiver);
    let receiver = there.receive_at(&address, &["--allow", &key, "--once"]);
    let sent = sender.wait_with_output().unwrap();
    let said = failed(&sent, 0);
    for part in ["; connecting again", "connected again", "big is continued after "] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(receiver.end().0, Some(0));
    assert!(same(&file, &there, "big"));

    let mut receiver = there.receive(&["--allow", &key, "--overwrite"]);
    let relay = slow(&receiver.address);
    let sender = start(&here, &relay.local_addr().to_string(), &file, &["--retry", "0"]);
    wait_for(&there, 3 * MIB);
    receiver.child.kill().unwrap();
    drop(receiver);
    let said = failed(&sender.wait_with_output().unwrap(), 1);
    assert!(
        said.starts_with("longhaul send: sending big failed after ")
            || said.contains("\nlonghaul send: sending big failed after "),
        "{said}"
    );
}

/// Interruptions of either end at random moments. The relay counts the delivered bytes.
#[test]
fn kills_cost_at_most_two_mebibytes_each() {
    const SIZE: usize = 40_000_000;
    let kills = if std::env::var_os("LONGHAUL_LONG").is_some() { 10 } else { 4 };
    let (there, here) = (Machine::new(), Machine::new());
    let (file, key) = (here.file("big", SIZE), here.key());
    let mut receiver = there.receive(&["--allow", &key]);
    let relay = slow(&receiver.address);
    let near = relay.local_addr().to_string();

    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: u64| {
        // xorshift64 (Marsaglia 2003) with a fixed seed.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut sender = start(&here, &near, &file, &[]);
    let mut at = 0;
    for kill in 0..kills {
        at = (at + next(6 * MIB)).min(SIZE as u64 - 4 * MIB);
        wait_for(&there, at);
        sleep(Duration::from_micros(next(5000)));
        if next(2) == 0 {
            sender.kill().unwrap();
            sender.wait().unwrap();
            sender = start(&here, &near, &file, &[]);
        } else {
            receiver.child.kill().unwrap();
            let address = receiver.address.clone();
            drop(receiver);
            receiver = there.receive_at(&address, &["--allow", &key]);
        }
        eprintln!("kill {kill} at {} bytes", unfinished(&there));
        at = at.max(unfinished(&there));
    }
    let sent = sender.wait_with_output().unwrap();
    assert!(sent.status.success(), "{sent:?}");
    assert!(same(&file, &there, "big"));
    let (engine, _) = relay.stop().unwrap();
    let delivered = engine.stats(Direction::Up).delivered_bytes;
    eprintln!("{delivered} bytes delivered for a file of {SIZE} bytes");
    // The headers of packets and TLS records take 7 %.
    let most = (SIZE as u64 + kills * 2 * MIB) * 107 / 100;
    assert!(delivered <= most, "{delivered} bytes were delivered, more than {most}");
}

/// Returns the number of groups that have reached the disk according to the log of the only part.
fn synced(there: &Machine) -> u64 {
    let private = fs::read_dir(there.path("out")).unwrap().flatten().find(|entry| entry.path().is_dir()).unwrap();
    let mut entries = fs::read_dir(private.path()).unwrap().flatten();
    let log = entries.find(|entry| entry.file_name().to_string_lossy().starts_with("about-")).unwrap();
    let log = fs::read(log.path()).unwrap();
    let line = log.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    // Records of 40 bytes; of those of type 2, the number follows 16 bytes.
    let mut marks = log[line..].chunks_exact(40).filter(|record| record[0] == 2);
    u64::from_le_bytes(marks.next_back().unwrap()[17..25].try_into().unwrap())
}

/// The machine of the receiver fails in the middle of a file: what had not reached its disk is lost. The next receiver sees the
/// boot id of another start.
#[test]
fn a_machine_that_fails_loses_what_had_not_reached_its_disk() {
    if !needs::mounts() {
        return;
    }
    let (there, here) = (Machine::new(), Machine::new());
    let (file, key) = (here.file("big", 80_000_000), here.key());
    let mut receiver = there.receive(&["--allow", &key]);
    let relay = relay("--rate 80mbit --rtt 10ms --queue 200p", receiver.address.parse().unwrap());
    let sender = start(&here, &relay.local_addr().to_string(), &file, &["--retry", "0"]);
    wait_for(&there, 3 * MIB);
    while synced(&there) == 0 {
        sleep(LOOK);
    }
    wait_for(&there, unfinished(&there) + 3 * MIB);
    receiver.child.kill().unwrap();
    drop(receiver);
    assert!(!sender.wait_with_output().unwrap().status.success());
    let (synced, before) = (synced(&there) * MIB, unfinished(&there));
    assert!((3 * MIB..before - 3 * MIB).contains(&synced), "{synced} of {before}");
    for directory in fs::read_dir(there.path("out")).unwrap().flatten() {
        for part in fs::read_dir(directory.path()).unwrap().flatten() {
            if part.file_name().to_string_lossy().starts_with("part-") {
                let part = File::options().write(true).open(part.path()).unwrap();
                part.set_len(synced).unwrap();
                part.set_len(before).unwrap();
            }
        }
    }
    let boot = there.path("boot");
    fs::write(&boot, "00000000-1111-2222-3333-444444444444\n").unwrap();
    let mount = format!("mount --bind {} /proc/sys/kernel/random/boot_id", boot.display());
    let receiver = receive_after(&there, &here, &mount, &["--once"]);
    let sent = here.send(&receiver, &[&file, "--json"]);
    assert!(sent.status.success(), "{sent:?}");
    assert_eq!(json_lines(&sent.stdout)[0]["resumed_bytes"], synced);
    let (code, said, _) = receiver.end();
    assert_eq!(code, Some(0));
    // It was not damaged, because it was not believed to be there.
    assert!(!said.contains("has changed on this disk"), "{said}");
    assert!(same(&file, &there, "big"));
}

/// A part still counts in the next process, but not twice when it is continued.
#[test]
fn parts_of_an_earlier_receiver_count_towards_the_limits() {
    let (there, here) = (Machine::new(), Machine::new());
    let (file, key) = (here.file("big", 30_000_000), here.key());
    let receiver = there.receive(&["--allow", &key]);
    interrupt(&there, &here, &receiver, &file, 3 * MIB);
    drop(receiver);
    let other = here.file("other", 29_000_000);
    for option in ["--max-bytes", "--max-bytes-per-peer"] {
        let receiver = there.receive(&["--allow", &key, option, "30M"]);
        assert!(
            failed(&here.send(&receiver, &[&other]), 1).contains("it exceeds what the receiver accepts"),
            "{option}"
        );
    }
    let receiver = there.receive(&["--allow", &key, "--max-bytes", "30M"]);
    let sent = here.send(&receiver, &[&file, "--json"]);
    assert!(sent.status.success(), "{sent:?}");
    assert!(json_lines(&sent.stdout)[0]["resumed_bytes"].as_u64().unwrap() >= 3 * MIB);
    assert!(failed(&here.send(&receiver, &[&here.file("more", 2_000_000)]), 1).contains("it exceeds"));
}
