//! Parts that an interrupted transfer has left, whatever of them and of their logs is right.

use std::os::unix::fs::PermissionsExt as _;

use longhaul_tls::Identity;

use super::random::Random;
use super::*;
use crate::protocol::START;

const SIZE: usize = 5 * GROUP as usize + 1000;

/// A file and its part, of which 4 groups and some bytes have arrived.
struct Interrupted {
    scene: Scene,
    contents: Vec<u8>,
    /// Name and bytes of the files in the private directory.
    left: Vec<(String, Vec<u8>)>,
    cache: PathBuf,
}

impl Interrupted {
    async fn new() -> Self {
        let mut scene = Scene::new();
        scene.receiver.owner = Some(Identity::generate().unwrap().fingerprint());
        let contents: Vec<u8> = (0..SIZE as u32).map(|i| (i ^ i >> 7 ^ i >> 15) as u8).collect();
        scene.source("file", &contents);
        let cache = scene.directory.path().join("cache");
        let mut interrupted = Self { scene, contents, left: Vec::new(), cache };
        let mut part = interrupted.header();
        part.extend(chunks(&interrupted.contents[..4 * GROUP as usize + 300_000]));
        interrupted.scene.hears(&[&protocol::MAGIC[..], &part].concat()).await;
        interrupted.close();
        for path in interrupted.private() {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            interrupted.left.push((name, fs::read(path).unwrap()));
        }
        interrupted
    }

    /// Ends the receiver's process, as it were: its directory is not locked any more.
    fn close(&mut self) {
        self.scene.receiver.out = Output::Stdout;
    }

    fn open(&mut self) {
        self.scene.receiver.out = Output::Directory(Staging::open(&self.scene.out).unwrap());
    }

    fn header(&self) -> Vec<u8> {
        let metadata = self.path().metadata().unwrap();
        protocol::encode_header(&FileHeader {
            target: crate::protocol::Target::Any,
            kind: Kind::File,
            name: "file".into(),
            size: Some(SIZE as u64),
            modified: metadata.modified().unwrap().into(),
            mode: 0o644,
            keeps: true,
            asks: true,
            data: None,
        })
        .unwrap()
    }

    fn path(&self) -> PathBuf {
        self.scene.directory.path().join("file")
    }

    fn private(&self) -> Vec<PathBuf> {
        let directories = fs::read_dir(&self.scene.out).unwrap().map(|entry| entry.unwrap().path());
        let inside = directories.filter(|path| path.is_dir()).flat_map(|path| fs::read_dir(path).unwrap());
        inside.map(|entry| entry.unwrap().path()).collect()
    }

    /// Restores the part, with its description and its contents as `change` returns them.
    fn restore(&mut self, mut change: impl FnMut(bool, Vec<u8>) -> Vec<u8>) {
        self.close();
        let _ = fs::remove_dir_all(&self.scene.out);
        let private = self.scene.out.join(".longhaul-incoming-abcdefghijkl");
        fs::create_dir_all(&private).unwrap();
        fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
        for (name, bytes) in &self.left {
            fs::write(private.join(name), change(name.starts_with("about-"), bytes.clone())).unwrap();
        }
        self.open();
    }

    /// Sends the file, and returns how much was not sent again, and how often the receiver has left it out.
    async fn send(&self) -> (u64, usize) {
        let (mut ours, theirs) = tokio::io::duplex(1 << 20);
        let mut resumed = Vec::new();
        let done = |_: &Source, delivery: Delivery, _: &DuplexStream| match delivery {
            Delivery::Confirmed { resumed: bytes, .. } => resumed.push(bytes),
            other => panic!("{other:?}"),
        };
        let options = Options { resume: true, attributes: true, compress: false, cache: Some(self.cache.clone()) };
        let mut left_out = 0;
        let serve = async {
            let done = |file: Result<File, LeftOut>| left_out += usize::from(file.is_err());
            let served = self.scene.receiver.serve(&mut ours, Screen::hidden().begin(None, ""), || {}, done).await;
            drop(ours);
            served.unwrap();
        };
        let send = async {
            let mut plan = Plan::new(vec![Source::open(&self.path()).unwrap()]);
            let mut progress = Screen::hidden().begin(None, "");
            Sender::new(theirs).send(&mut plan, options, &mut progress, |_| {}, done).await.unwrap();
            assert_eq!(plan.unsettled().count(), 0);
        };
        tokio::join!(serve, send);
        assert!(fs::read(self.scene.out.join("file")).unwrap() == fs::read(self.path()).unwrap());
        assert_eq!(resumed.len(), 1);
        (resumed[0], left_out)
    }
}

fn chunks(contents: &[u8]) -> Vec<u8> {
    contents.chunks(MAX_CHUNK).flat_map(|data| [chunk(data.len()), data.to_vec()].concat()).collect()
}

/// Whatever prefix of the log has survived, whatever follows it, and whatever has become of the contents: the file arrives, and
/// nobody is told that it has not.
#[tokio::test]
async fn a_resumed_file_arrives_whatever_has_survived() {
    let mut interrupted = Interrupted::new().await;
    interrupted.restore(|_, bytes| bytes);
    assert_eq!(interrupted.send().await, (4 * GROUP, 0));
    let cases = if std::env::var_os("LONGHAUL_LONG").is_some() { 1000 } else { 60 };
    let mut all = Vec::new();
    for case in 1..=cases {
        let random = &mut Random(u64::wrapping_mul(case, 0x9e37_79b9_7f4a_7c15));
        interrupted.restore(|is_log, mut bytes| {
            match random.below(if is_log { 4 } else { 6 }) {
                0 | 1 => bytes.truncate(random.below(bytes.len() + 1)),
                2 => {
                    let at = random.below(bytes.len());
                    bytes[at] ^= 1 << random.below(8);
                }
                3 => bytes.extend(vec![random.below(256) as u8; random.below(100)]),
                _ => {}
            }
            bytes
        });
        let (resumed, left_out) = interrupted.send().await;
        assert!(resumed.is_multiple_of(GROUP) && resumed <= 4 * GROUP && left_out == 0, "case {case}");
        all.push(resumed / GROUP);
    }
    assert!((0..=4).all(|groups| all.contains(&groups)), "{all:?}");
}

/// A group that has changed on the receiver's disk is found while the rest arrives, and is sent again with what follows it.
#[tokio::test]
async fn a_damaged_part_is_found_and_sent_again_from_there() {
    let mut interrupted = Interrupted::new().await;
    for group in 0..4 {
        interrupted.restore(|is_log, mut bytes| {
            if !is_log {
                bytes[group * GROUP as usize + 7] ^= 1;
            }
            bytes
        });
        assert_eq!(interrupted.send().await, (group as u64 * GROUP, 0));
    }
}

/// The sender's file has changed, but neither its size nor its time; what the sender has kept of it lies or is missing.
#[tokio::test]
async fn a_changed_file_is_found_and_sent_anew() {
    let mut interrupted = Interrupted::new().await;
    let modified = interrupted.path().metadata().unwrap().modified().unwrap();
    interrupted.contents[GROUP as usize + 1] ^= 1;
    fs::write(interrupted.path(), &interrupted.contents).unwrap();
    fs::File::options().write(true).open(interrupted.path()).unwrap().set_modified(modified).unwrap();
    interrupted.restore(|_, bytes| bytes);
    assert_eq!(interrupted.send().await, (0, 0));
}

/// A sender of an earlier version does not send the file again over the same connection.
#[tokio::test]
async fn a_file_that_is_not_sent_again_is_left_out() {
    let mut interrupted = Interrupted::new().await;
    for next in [Vec::new(), next(whole("other", b"x"))] {
        interrupted.restore(|is_log, mut bytes| {
            if !is_log {
                bytes[GROUP as usize] ^= 1;
            }
            bytes
        });
        let rest = chunks(&interrupted.contents[4 * GROUP as usize..]);
        let end = [&[protocol::END][..], blake3::hash(&interrupted.contents).as_bytes()].concat();
        let start = [&[START][..], &4_u64.to_be_bytes()].concat();
        let bytes = [&protocol::MAGIC[..], &interrupted.header(), &start, &rest, &end, &next].concat();
        let (left_out, replies) = interrupted.scene.leaves_out(&bytes).await;
        assert_eq!(left_out, ["file has changed on this disk since it was received, after the first 1.0 MB"]);
        assert!(matches!(replies[0], (0, Reply::Offer { groups: 4, .. })), "{replies:?}");
        assert_eq!(replies[1], declined(0, "its part was damaged on the receiver's disk"));
        // What is right is continued over the next connection.
        assert_eq!(interrupted.send().await, (GROUP, 0));
    }
}

/// What a sender hears makes it send again exactly what the receiver waits for.
#[test]
fn both_ends_agree_on_what_is_sent_again() {
    let faults = [
        Fault::WrongHash,
        Fault::Damaged(3),
        Fault::Peer(ProtocolError::Abandoned),
        Fault::Exists,
        Fault::Superseded,
        Fault::Disk(io::ErrorKind::StorageFull.into()),
    ];
    let repeated = faults.map(|fault| {
        let repeats = fault.may_be_repeated();
        let error = ReceiveError::File { name: "x".into(), came: String::new(), fault };
        assert_eq!(may_be_repeated(&error.reason().unwrap()), repeats, "{error}");
        repeats
    });
    assert_eq!(repeated, [true, true, true, false, false, false]);
}
