use std::fs;

use tempfile::TempDir;

use super::*;

const FIRST: Boot = Boot([1; 16]);
const SECOND: Boot = Boot([2; 16]);
const NAME: &[u8] = b"part-x";

fn value(number: u8) -> ChainingValue {
    [number; HASH_LEN]
}

struct Scene(TempDir);

impl Scene {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn create(&self, about: &str) -> Log {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(self.0.path().join("log"));
        Log::create(file.unwrap(), NAME, &about, FIRST).unwrap()
    }

    fn open(&self) -> File {
        File::options().read(true).write(true).open(self.0.path().join("log")).unwrap()
    }

    fn read(&self, boot: Boot) -> Vec<u8> {
        Log::read(self.open(), NAME, boot).unwrap().1.iter().map(|value| value[0]).collect()
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.0.path().join("log")).unwrap()
    }

    fn write(&self, bytes: &[u8]) {
        fs::write(self.0.path().join("log"), bytes).unwrap();
    }

    /// Writes groups 0 to 5 with a sync after 3 of them, and a cut to 4 and group 9 after the sixth.
    fn fill(&self) -> Vec<u8> {
        let mut log = self.create("a file");
        for number in 0..6 {
            log.append(&value(number)).unwrap();
            if number == 3 {
                log.synced(3).unwrap();
            }
        }
        log.cut(4).unwrap();
        log.append(&value(9)).unwrap();
        self.bytes()
    }
}

#[test]
fn groups_come_back_and_after_a_restart_those_that_had_reached_the_disk() {
    let scene = Scene::new();
    scene.fill();
    assert_eq!(read_about::<String>(scene.open()).unwrap(), "a file");
    assert_eq!(scene.read(FIRST), [0, 1, 2, 3, 9]);
    assert_eq!(scene.read(SECOND), [0, 1, 2]);
    // What follows belongs to the new boot, and what was trusted stays trusted.
    let (mut log, values) = Log::read(scene.open(), NAME, SECOND).unwrap();
    log.cut(values.len() as u64).unwrap();
    log.append(&value(8)).unwrap();
    assert_eq!(scene.read(SECOND), [0, 1, 2, 8]);
    assert_eq!(scene.read(FIRST), [0, 1, 2]);
    // A cut below what was synced.
    let (mut log, _) = Log::read(scene.open(), NAME, SECOND).unwrap();
    log.cut(1).unwrap();
    log.append(&value(7)).unwrap();
    assert_eq!((scene.read(SECOND), scene.read(FIRST)), (vec![0, 7], vec![0]));
    log.synced(u64::MAX).unwrap();
    assert_eq!(scene.read(FIRST), [0, 7]);
}

/// Whatever prefix of a log has survived, and whatever follows it, its values are those that were written, in this order; and
/// the next group is appended after them.
#[test]
fn a_torn_log_ends_before_the_tear() {
    let scene = Scene::new();
    let whole = scene.fill();
    let line = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for len in 0..whole.len() {
        for garbage in [&[][..], &[0; 100], &[0xff; 7], &whole[line..line + RECORD]] {
            scene.write(&[&whole[..len], garbage].concat());
            if len < line {
                assert!(Log::read(scene.open(), NAME, FIRST).is_err(), "{len}");
                assert!(read_about::<String>(scene.open()).is_err());
                continue;
            }
            let (mut log, values) = Log::read(scene.open(), NAME, FIRST).unwrap();
            // Marks are the first record, the one after the fifth and the last but one.
            let records = (len - line) / RECORD;
            let wanted: &[u8] = match records {
                // Without its first mark, the log has no boot.
                0 => &[],
                1..=5 => &[0, 1, 2, 3][..records - 1],
                6 => &[0, 1, 2, 3],
                7 | 8 => &[0, 1, 2, 3, 4, 5][..records - 2],
                _ => &[0, 1, 2, 3],
            };
            assert_eq!(values.iter().map(|value| value[0]).collect::<Vec<_>>(), wanted, "{len} bytes");
            log.cut(values.len() as u64).unwrap();
            log.append(&value(42)).unwrap();
            assert_eq!(scene.read(FIRST), [wanted, &[42]].concat());
        }
    }
}

#[test]
fn each_changed_byte_ends_the_log_or_makes_it_invalid() {
    let scene = Scene::new();
    let whole = scene.fill();
    let line = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        scene.write(&bytes);
        match Log::read(scene.open(), NAME, FIRST) {
            Ok((log, _)) if at < line => assert_eq!((log.records, log.groups), (0, 0), "{at}"),
            Ok((log, _)) => assert_eq!(log.records, ((at - line) / RECORD) as u64, "{at}"),
            Err(_) => assert!(at < line, "{at}"),
        }
    }
}

/// The log of another file, of another part of the same file, and of another version of the program.
#[test]
fn foreign_logs_are_not_believed() {
    let scene = Scene::new();
    let whole = scene.fill();
    let line = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let (_, values) = Log::read(scene.open(), b"part-y", FIRST).unwrap();
    assert!(values.is_empty());
    let other = [MAGIC, b"\"another\"\n", &whole[line..]].concat();
    scene.write(&other);
    assert!(scene.read(FIRST).is_empty());
    let text = String::from_utf8_lossy(&whole[..line]).replace("groups 1", "groups 2");
    scene.write(&[text.as_bytes(), &whole[line..]].concat());
    assert!(Log::read(scene.open(), NAME, FIRST).is_err());
    // What version 0.1 wrote: a line of JSON, and chaining values.
    scene.write(&[b"{\"peer\":\"x\"}\n", &[7; 320][..]].concat());
    assert!(Log::read(scene.open(), NAME, FIRST).is_err());
}
