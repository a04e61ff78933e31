//! Receivers that cannot write: a full disk, a read-only file system, no permission.
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use longhaul_link::spec::Direction;

use crate::machine::{Machine, Receiver, failed, json_lines};
use crate::relay::relay;

/// Starts a receiver for `here` after the commands `before`, in its own mount namespace.
pub(crate) fn receive_after(there: &Machine, here: &Machine, before: &str, options: &[&str]) -> Receiver {
    let out = there.path("out");
    fs::create_dir_all(&out).unwrap();
    let script = format!("set -e; out=$0; {before}; exec \"$@\"");
    let isolated = ["--mount", "sh", "-c", &script];
    let program = there.command(&["receive", "--listen", "127.0.0.1:0", "--allow", &here.key(), "--out"]);
    let mut command = Command::new("unshare");
    command.args(isolated).arg(&out).arg(program.get_program()).args(program.get_args()).arg(&out).args(options);
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    Receiver::new(child).listening()
}

/// Sends over a relay; returns the messages of the sender, and the number of bytes that it has put on the link.
fn refused(here: &Machine, receiver: &Receiver, files: &[&str]) -> (String, u64) {
    let (output, bytes) = send_over_a_link(here, receiver, files);
    (failed(&output, 1), bytes)
}

/// Sends over a relay; returns the output, and the number of bytes that the sender has put on the link.
pub(crate) fn send_over_a_link(here: &Machine, receiver: &Receiver, files: &[&str]) -> (Output, u64) {
    let relay = relay("--rtt 20ms", receiver.address.parse().unwrap());
    let address = relay.local_addr().to_string();
    let output = here.run(&[&["send", "--accept-new", &address], files].concat());
    let (engine, _) = relay.stop().unwrap();
    (output, engine.stats(Direction::Up).all().offered_bytes)
}

#[test]
fn a_full_disk_is_known_before_the_bytes_come() {
    if !needs::mounts() {
        return;
    }
    let (there, here) = (Machine::new(), Machine::new());
    let tmpfs = "mount -t tmpfs -o size=4m none $out";
    let mut receiver = receive_after(&there, &here, tmpfs, &[]);
    let (said, bytes) = refused(&here, &receiver, &[&here.file("large", 8 << 20)]);
    assert!(said.contains("it needs 8.4 MB of space, and less is free"), "{said}");
    assert!(bytes < 100_000, "{bytes} bytes were sent");
    receiver.wait_for("cannot write large: it needs 8.4 MB of space");
    // A file that fits is received, and may use the space that was reserved for it.
    let fits = here.file("fits", 3 << 20);
    assert!(here.send(&receiver, &[&fits]).status.success());
    let (said, _) = refused(&here, &receiver, &[&here.file("rest", 2 << 20)]);
    assert!(said.contains("it needs 2.1 MB of space"), "{said}");
    assert!(here.send(&receiver, &[&here.file("small", 100_000)]).status.success());
}

/// Of many small files, those for which there is space are stored.
#[test]
fn small_files_that_do_not_fit_are_named() {
    if !needs::mounts() {
        return;
    }
    let (there, here) = (Machine::new(), Machine::new());
    let mounted = "mount -t tmpfs -o size=1m none $out";
    let mut receiver = receive_after(&there, &here, mounted, &["-v"]);
    let root = here.path("tree");
    fs::create_dir(&root).unwrap();
    (0..400).for_each(|number| fs::write(root.join(format!("{number:03}")), vec![7; 4000]).unwrap());
    let sent = here.run(&["send", "--accept-new", "--json", &receiver.address, root.to_str().unwrap()]);
    assert!(failed(&sent, 1).contains("cannot write it: there is no space for it"), "{sent:?}");
    let lines = json_lines(&sent.stdout);
    let stored = lines.iter().filter(|line| line["blake3"].is_string()).count();
    let failed = lines.iter().filter(|line| line["error"].is_string()).count();
    // Unless the receiver is busy with the directory itself, 256 blocks are free.
    assert!(stored >= 200 && stored + failed == 400, "{stored} and {failed}");
    receiver.wait_for("cannot write tree/");
    // The mount is visible to the receiver only.
    let out = format!("/proc/{}/root{}", receiver.child.id(), there.path("out").display());
    let there: Vec<_> = fs::read_dir(Path::new(&out).join("tree")).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(there.len(), stored);
    assert!(there.iter().all(|file| fs::read(file.path()).unwrap() == vec![7; 4000]));
}

#[test]
fn directories_that_cannot_be_written_are_known_before_the_bytes_come() {
    if !needs::mounts() {
        return;
    }
    let (there, here) = (Machine::new(), Machine::new());
    let mounts = "mkdir -p $out/files $out/other; \
                  mount --bind $out/files $out/files; mount -o remount,ro,bind $out/files; \
                  mount -t tmpfs none $out/other";
    let receiver = receive_after(&there, &here, mounts, &[]);
    for (name, reason) in [("files", "the file system is read-only"), ("other", "is on another file system than --out")]
    {
        fs::create_dir(here.path(name)).unwrap();
        let file = here.file(&format!("{name}/large"), 8 << 20);
        let (said, bytes) = refused(&here, &receiver, &[here.path(name).to_str().unwrap()]);
        assert!(said.contains(reason), "{file}: {said}");
        assert!(bytes < 100_000, "{bytes} bytes were sent");
    }
    // Outside of these two mounts, everything is received.
    assert!(here.send(&receiver, &[&here.file("beside", 8 << 20)]).status.success());
}

/// Root may write everywhere, so the receiver runs as another user.
#[test]
fn a_missing_permission_is_known_before_the_bytes_come() {
    if !needs::root() || !needs::program("setpriv") {
        return;
    }
    let (there, here) = (Machine::new(), Machine::new());
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all";
    there.key();
    let root = there.path("");
    let before = format!("mkdir -p $out/files; chown -R 65534:65534 {}; chown 0:0 $out/files", root.display());
    let out = there.path("out");
    let script = format!("set -e; out=$0; {before}; exec {nobody} \"$@\"");
    let program = there.command(&["receive", "--listen", "127.0.0.1:0", "--allow", &here.key(), "--out"]);
    // The other user may not see the place where the program was built.
    let copy = there.path("longhaul");
    fs::copy(program.get_program(), &copy).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(&out).arg(&copy);
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let arguments: Vec<_> = program.get_args().map(|word| word.to_str().unwrap()).collect();
    let arguments = [&arguments[..], &[out.to_str().unwrap()]].concat();
    let receiver = Receiver::new(run(&arguments).spawn().unwrap()).listening();
    fs::create_dir(here.path("files")).unwrap();
    here.file("files/large", 8 << 20);
    let (said, bytes) = refused(&here, &receiver, &[here.path("files").to_str().unwrap()]);
    assert!(said.contains("the receiver has no permission to write there"), "{said}");
    assert!(bytes < 100_000, "{bytes} bytes were sent");
}

#[test]
fn a_target_that_cannot_be_written_ends_the_receiver_at_once() {
    let (there, here) = (Machine::new(), Machine::new());
    fs::write(there.path("out"), b"a file").unwrap();
    let out = there.path("out").into_os_string().into_string().unwrap();
    let said = failed(&there.run(&["receive", "--listen", "127.0.0.1:0", "--allow", &here.key(), "--out", &out]), 1);
    assert!(said.starts_with(&format!("longhaul receive: cannot write to {out}: ")), "{said}");
}

#[test]
fn a_sender_is_limited_by_its_own_budget_and_by_that_of_all() {
    let (there, [one, other]) = (Machine::new(), [(); 2].map(|()| Machine::new()));
    let keys = [one.key(), other.key()];
    let limits = ["--max-bytes", "5M", "--max-bytes-per-peer", "3M", "--overwrite"];
    let receiver = there.receive(&[&["--allow", &keys[0], "--allow", &keys[1]], &limits[..]].concat());
    let (two, four) = (one.file("two", 2 << 20), one.file("four", 4 << 20));
    assert!(failed(&one.send(&receiver, &[&four]), 1).contains("it exceeds what the receiver accepts"));
    assert!(one.send(&receiver, &[&two]).status.success());
    assert!(failed(&one.send(&receiver, &[&two]), 1).contains("it exceeds what the receiver accepts"));
    assert!(other.send(&receiver, &[&two]).status.success());
    let (_, said, _) = {
        receiver.signal("-INT");
        receiver.end()
    };
    assert!(said.contains("would exceed --max-bytes-per-peer (3145728 bytes)"), "{said}");
}

/// Writes a file of 64 MiB with little in it, and returns its path, or `None` if files have no holes here.
fn disk_image(here: &Machine) -> Option<PathBuf> {
    let path = here.path("disk.img");
    let mut image = fs::File::create(&path).unwrap();
    image.seek(SeekFrom::Start(20 << 20)).unwrap();
    image.write_all(&[7; 4096]).unwrap();
    image.set_len(64 << 20).unwrap();
    let has_holes = image.metadata().unwrap().blocks() < 1000;
    needs::that(has_holes, "holes", "files with holes; set TMPDIR to a file system that has them").then_some(path)
}

/// Sends the image to a receiver that then ends.
fn send_image(here: &Machine, path: &Path, receiver: Receiver) {
    let (output, bytes) = send_over_a_link(here, &receiver, &[path.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert!(bytes < 100_000, "{bytes} bytes were sent");
    assert_eq!(receiver.end().0, Some(0));
}

#[test]
fn holes_stay_holes() {
    let (there, here) = (Machine::new(), Machine::new());
    let Some(path) = disk_image(&here) else { return };
    send_image(&here, &path, there.receive(&["--allow", &here.key(), "--once"]));
    assert!(there.path("out/disk.img").metadata().unwrap().blocks() < 1000);
    assert!(fs::read(there.path("out/disk.img")).unwrap() == fs::read(path).unwrap());
}

/// The image is larger than the receiver's file system.
#[test]
fn holes_need_no_space() {
    let (there, here) = (Machine::new(), Machine::new());
    let Some(path) = disk_image(&here).filter(|_| needs::mounts()) else { return };
    let tmpfs = "mount -t tmpfs -o size=4m none $out";
    send_image(&here, &path, receive_after(&there, &here, tmpfs, &["--once"]));
}
