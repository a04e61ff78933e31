use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::sidecar::Boot;

fn version(name: &str, seconds: i64) -> Description {
    let modified = Timestamp { seconds, nanos: 0 };
    Description { peer: "SHA256:x".to_owned(), name: name.into(), size: 10 * GROUP, modified }
}

/// Writes `groups` groups to a new part of `name`, and interrupts it.
async fn leave(staging: &Arc<Staging>, name: &str, groups: u64) {
    leave_version(staging, version(name, 1), groups).await;
}

async fn leave_version(staging: &Arc<Staging>, version: Description, groups: u64) {
    let (claim, found) = staging.claim(version).await.unwrap();
    assert!(matches!(found, Found::Nothing));
    let mut part = staging.create_part(claim).unwrap();
    let mut hasher = crate::groups::GroupHasher::default();
    for _ in 0..groups {
        let data = vec![7; GROUP as usize];
        part.write_all(&data).unwrap();
        hasher.update(&data, |group| part.record(group)).unwrap();
    }
    part.write_all(b"the beginning of a group").unwrap();
}

async fn continued(staging: &Arc<Staging>, name: &str) -> u64 {
    let (claim, found) = staging.claim(version(name, 1)).await.unwrap();
    let Found::Part(left) = found else { return 0 };
    let (mut part, groups) = staging.reopen(claim, &left).unwrap();
    let groups = groups.len() as u64;
    part.continue_at(groups).unwrap();
    assert_eq!(part.file.as_file().metadata().unwrap().len(), groups * GROUP);
    groups
}

fn private(out: &Path) -> Vec<std::path::PathBuf> {
    let inside = |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    inside(out).iter().filter(|path| path.is_dir()).flat_map(|path| inside(path)).collect()
}

#[tokio::test]
async fn a_part_stays_and_the_next_process_takes_it_over() {
    let out = TempDir::new().unwrap();
    let staging = Staging::open(out.path()).unwrap();
    leave(&staging, "a", 2).await;
    leave(&staging, "useless", 0).await;
    assert_eq!(continued(&staging, "a").await, 2);
    drop(staging);
    assert_eq!(private(out.path()).len(), 2);
    let staging = Staging::open(out.path()).unwrap();
    assert_eq!(continued(&staging, "useless").await, 0);
    assert_eq!(continued(&staging, "a").await, 2);
    let (claim, found) = staging.claim(version("a", 2)).await.unwrap();
    assert!(matches!(found, Found::Changed));
    drop((claim, staging));
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
}

/// Anybody with write access to the target directory can create a directory or a link there that looks like ours.
#[tokio::test]
async fn parts_of_strangers_are_not_taken_over() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let out = TempDir::new().unwrap();
    let leave_one = async || {
        let staging = Staging::open(out.path()).unwrap();
        leave(&staging, "a", 2).await;
        drop(staging);
        private(out.path())
    };
    let part = |files: &[std::path::PathBuf]| {
        files.iter().find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(PART)).unwrap().clone()
    };
    let continues = async || {
        let staging = Staging::open(out.path()).unwrap();
        continued(&staging, "a").await
    };
    let files = leave_one().await;
    fs::set_permissions(files[0].parent().unwrap(), PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(continues().await, 0);

    let secret = out.path().join("secret");
    for link in [true, false] {
        let files = leave_one().await;
        let data = fs::read(part(&files)).unwrap();
        fs::write(&secret, &data).unwrap();
        fs::remove_file(part(&files)).unwrap();
        if link {
            symlink(&secret, part(&files)).unwrap()
        } else {
            fs::hard_link(&secret, part(&files)).unwrap()
        }
        assert_eq!(continues().await, 0);
        assert!(fs::read(&secret).unwrap() == data);
    }
    let files = leave_one().await;
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    File::options().write(true).open(part(&files)).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(continues().await, 0);
    assert_eq!(continues().await, 0);
}

#[tokio::test]
async fn the_number_of_parts_is_limited() {
    let out = TempDir::new().unwrap();
    let staging = Staging::open(out.path()).unwrap();
    for number in 0..=MAX_PARTS {
        leave(&staging, &number.to_string(), 1).await;
    }
    assert_eq!(private(out.path()).len(), 2 * MAX_PARTS);
    assert_eq!(continued(&staging, "0").await, 0);
    assert_eq!(continued(&staging, "1").await, 1);
}

/// The parts of others stay, however many parts one sender leaves, and whoever was first.
#[tokio::test]
async fn the_sender_with_the_most_parts_makes_room() {
    let out = TempDir::new().unwrap();
    let staging = Staging::open(out.path()).unwrap();
    let other = |name: &str| Description { peer: "SHA256:y".to_owned(), ..version(name, 1) };
    leave_version(&staging, other("first"), 1).await;
    for number in 0..MAX_PARTS + 2 {
        leave(&staging, &number.to_string(), 1).await;
    }
    leave_version(&staging, other("last"), 1).await;
    let mut names: Vec<_> = staging.parts().into_iter().map(|(part, _)| (part.peer, part.name)).collect();
    names.sort();
    assert_eq!(names.len(), MAX_PARTS);
    assert_eq!(names[MAX_PARTS - 2..], [other("first").key(), other("last").key()]);
    assert_eq!(continued(&staging, "3").await, 0);
    assert_eq!(continued(&staging, "4").await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_second_connection_takes_over_and_another_version_only_from_a_silent_one() {
    let out = TempDir::new().unwrap();
    let staging = Staging::open(out.path()).unwrap();
    let (first, _) = staging.claim(version("a", 1)).await.unwrap();
    let lease = Arc::clone(&first.lease);
    let release = async {
        lease.evicted().await;
        drop(first);
    };
    let (second, ()) = tokio::join!(staging.claim(version("a", 1)), release);
    let (second, _) = second.unwrap();
    // The claim of another version waits as long as data arrives.
    let lease = Arc::clone(&second.lease);
    let arrive = async {
        time::sleep(SILENCE / 2).await;
        lease.arrived();
    };
    assert!(tokio::join!(staging.claim(version("a", 2)), arrive).0.is_none());
    let release = async {
        lease.evicted().await;
        drop(second);
    };
    assert!(tokio::join!(staging.claim(version("a", 2)), release).0.is_some());
    // A connection that does not stop keeps its part.
    let _third = staging.claim(version("a", 3)).await.unwrap();
    assert!(staging.claim(version("a", 3)).await.is_none());
}

/// What a machine that failed has left: the contents that had not reached the disk are zeros or missing, and the end of the log
/// is any bytes.
#[tokio::test]
async fn after_a_restart_only_what_had_reached_the_disk_is_continued() {
    let out = TempDir::new().unwrap();
    let [first, second] = [1, 2].map(|boot| Boot([boot; 16]));
    let staging = Staging::open_since(out.path(), first).unwrap();
    for (name, synced) in [("a", 0), ("b", 3), ("c", 5)] {
        let (claim, _) = staging.claim(version(name, 1)).await.unwrap();
        let mut part = staging.create_part(claim).unwrap();
        let mut hasher = crate::groups::GroupHasher::default();
        for group in 0..5 {
            let data = vec![group; GROUP as usize];
            part.write_all(&data).unwrap();
            hasher.update(&data, |group| part.record(group)).unwrap();
            if u64::from(group) + 1 == synced {
                let file = part.file.as_file().try_clone().unwrap();
                part.part.as_mut().unwrap().log.change(&file, |log| log.synced(synced)).unwrap();
            }
        }
    }
    drop(staging);
    // The same boot: a killed process has lost nothing.
    let staging = Staging::open_since(out.path(), first).unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(continued(&staging, name).await, 5);
    }
    drop(staging);
    let staging = Staging::open_since(out.path(), second).unwrap();
    for (name, synced) in [("a", 0), ("b", 3), ("c", 5)] {
        assert_eq!(continued(&staging, name).await, synced, "{name}");
    }
    drop(staging);
    // A second failure before anything is written loses nothing more, and a part that is shorter than its log counts.
    let staging = Staging::open_since(out.path(), first).unwrap();
    assert_eq!(continued(&staging, "b").await, 3);
    for path in private(out.path()).iter().filter(|path| path.metadata().unwrap().len() >= GROUP) {
        File::options().write(true).open(path).unwrap().set_len(2 * GROUP + 1).unwrap();
    }
    assert_eq!(continued(&staging, "b").await, 2);
}

/// The thread records that a group has reached the disk, and ends with the part.
#[tokio::test]
async fn a_part_that_takes_long_is_synced() {
    let out = TempDir::new().unwrap();
    let staging = Staging::open_since(out.path(), Boot([1; 16])).unwrap();
    let (claim, _) = staging.claim(version("a", 1)).await.unwrap();
    let mut part = staging.create_part(claim).unwrap();
    let file = part.file.as_file().try_clone().unwrap();
    let log = &mut part.part.as_mut().unwrap().log;
    log.change(&file, |log| log.append(&[7; 32])).unwrap();
    log.start(&file).unwrap();
    while log.synced_groups() < 1 {
        std::thread::sleep(Duration::from_millis(5));
    }
    part.file.as_file().set_len(GROUP).unwrap();
    drop((part, staging));
    let staging = Staging::open_since(out.path(), Boot([2; 16])).unwrap();
    assert_eq!(continued(&staging, "a").await, 1);
}
