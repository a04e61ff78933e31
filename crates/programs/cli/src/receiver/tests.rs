use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::io::DuplexStream;

use super::*;
use crate::protocol::HASH_LEN;
use crate::sender::{Delivery, Options, Plan, SendError, Sender, Source};

impl Transport for DuplexStream {}

mod batches;
mod mirror;
mod one_file;
mod random;
mod resumed;

struct Scene {
    directory: TempDir,
    out: PathBuf,
    receiver: Receiver,
}

impl Scene {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let out = directory.path().join("out");
        fs::create_dir(&out).unwrap();
        let patience = Duration::from_secs(20);
        let receiver = Receiver {
            out: Output::Directory(Staging::open(&out).unwrap()),
            existing: Existing::Refuse,
            deletes: false,
            hidden: false,
            budget: Budget::default(),
            patience,
            idle: None,
            owner: None,
            screen: Screen::hidden(),
        };
        Self { directory, out, receiver }
    }

    fn out(&self) -> &Path {
        &self.out
    }

    fn source(&self, name: &str, contents: &[u8]) -> Source {
        let path = self.directory.path().join(name);
        fs::write(&path, contents).unwrap();
        Source::open(&path).unwrap()
    }

    /// Returns the names in the receiver's directory and in the directory for unfinished files inside it.
    fn names(&self) -> Vec<String> {
        let read = |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        let all = read(self.out()).into_iter().flat_map(|path| if path.is_dir() { read(&path) } else { vec![path] });
        let mut names: Vec<_> = all.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    /// Receives from a peer that sends `bytes` and closes; returns the error and the reply sent to the peer.
    async fn hears(&self, bytes: &[u8]) -> (String, Vec<u8>) {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let talk = async {
            theirs.write_all(bytes).await.unwrap();
            theirs.shutdown().await.unwrap();
            let mut answer = Vec::new();
            theirs.read_to_end(&mut answer).await.unwrap();
            answer
        };
        let (served, answer) = tokio::join!(self.serve(ours), talk);
        (served.unwrap_err().to_string(), answer)
    }

    async fn serve(&self, mut ours: DuplexStream) -> Result<(), ReceiveError> {
        self.receiver.serve(&mut ours, Screen::hidden().begin(None, ""), || {}, |_| {}).await
    }
}

impl Scene {
    /// Receives from a peer that sends `bytes` and closes; returns why each file was left out, and the replies.
    async fn leaves_out(&self, bytes: &[u8]) -> (Vec<String>, Vec<(u64, Reply)>) {
        let (mut ours, mut theirs) = tokio::io::duplex(4 << 20);
        theirs.write_all(bytes).await.unwrap();
        theirs.shutdown().await.unwrap();
        let mut left_out = Vec::new();
        let done = |file: Result<File, LeftOut>| left_out.extend(file.err());
        let served = self.receiver.serve(&mut ours, Screen::hidden().begin(None, ""), || {}, done).await;
        match left_out.len() {
            0 => served.unwrap(),
            files => assert!(matches!(served, Err(ReceiveError::LeftOut(left)) if left == files), "{served:?}"),
        }
        drop(ours);
        let (mut answer, mut replies) = (Vec::new(), Vec::new());
        theirs.read_to_end(&mut answer).await.unwrap();
        while let Some(reply) = protocol::take_reply(&mut answer).unwrap() {
            replies.push(reply);
        }
        (left_out.iter().map(|left| left.error.to_string()).collect(), replies)
    }
}

fn declined(number: u64, reason: &str) -> (u64, Reply) {
    (number, Reply::Declined(reason.to_owned()))
}

/// Returns the messages of one file without the magic.
fn next(bytes: Vec<u8>) -> Vec<u8> {
    bytes.strip_prefix(&protocol::MAGIC).unwrap().to_vec()
}

fn file(name: &[u8], size: u64) -> Vec<u8> {
    let mut bytes = protocol::MAGIC.to_vec();
    bytes.extend([protocol::FILE, 0]);
    bytes.extend(size.to_be_bytes());
    bytes.extend([0; 12 + 4]);
    bytes.extend((name.len() as u16).to_be_bytes());
    bytes.extend(name);
    bytes
}

fn chunk(len: usize) -> Vec<u8> {
    [&[protocol::CHUNK][..], &(len as u32).to_be_bytes()].concat()
}

/// Sends files; returns their hashes, or `None` for those that were skipped.
async fn send(transport: DuplexStream, sources: Vec<Source>) -> Result<Vec<Option<blake3::Hash>>, SendError> {
    let mut hashes = Vec::new();
    let done = |_: &Source, delivery: Delivery, _: &DuplexStream| {
        hashes.push(if let Delivery::Confirmed { hash, .. } = delivery { Some(hash) } else { None });
    };
    let options = Options { resume: false, attributes: true, compress: false, cache: None };
    Sender::new(transport)
        .send(&mut Plan::new(sources), options, &mut Screen::hidden().begin(None, ""), |_| {}, done)
        .await
        .map(|()| hashes)
}

/// Returns a file that is sent in one chunk, with its hash.
fn whole(name: &str, contents: &[u8]) -> Vec<u8> {
    let start = [file(name.as_bytes(), contents.len() as u64), chunk(contents.len())].concat();
    let body = if contents.is_empty() { file(name.as_bytes(), 0) } else { [start, contents.to_vec()].concat() };
    [body, vec![protocol::END], blake3::hash(contents).as_bytes().to_vec()].concat()
}

#[tokio::test]
async fn files_arrive_whole_with_their_hashes() {
    let scene = Scene::new();
    let contents: Vec<u8> = (0..3 * MAX_CHUNK as u32 + 17).map(|i| (i ^ i >> 9) as u8).collect();
    let (mut ours, theirs) = tokio::io::duplex(10_000);
    let sources = vec![scene.source("first", &contents), scene.source("empty", &[])];
    let mut files = Vec::new();
    let (served, hashes) = tokio::join!(
        scene.receiver.serve(&mut ours, Screen::hidden().begin(None, ""), || {}, |file| files.push(file.unwrap())),
        send(theirs, sources)
    );
    served.unwrap();
    assert_eq!(hashes.unwrap(), [Some(blake3::hash(&contents)), Some(blake3::hash(b""))]);
    assert_eq!(files.iter().map(|file| file.hash).collect::<Vec<_>>(), [blake3::hash(&contents), blake3::hash(b"")]);
    assert_eq!(scene.names(), ["empty", "first"]);
    assert!(fs::read(scene.out().join("first")).unwrap() == contents);
}

#[tokio::test]
async fn a_file_that_exists_is_refused_in_the_middle_of_its_contents() {
    let scene = Scene::new();
    fs::write(scene.out().join("big"), "old").unwrap();
    let source = scene.source("big", &vec![1; 8 * MAX_CHUNK]);
    let (mut ours, theirs) = tokio::io::duplex(10_000);
    let (served, sent) = tokio::join!(
        scene.receiver.serve(&mut ours, Screen::hidden().begin(None, ""), || {}, |_| {}),
        send(theirs, vec![source])
    );
    assert!(matches!(served, Err(ReceiveError::LeftOut(1))), "{served:?}");
    assert_eq!(sent.unwrap(), [None]);
    assert_eq!(fs::read(scene.out().join("big")).unwrap(), b"old");
}

#[tokio::test]
async fn hostile_input_ends_with_a_sentence() {
    let scene = Scene::new();
    let (error, answer) = scene.hears(b"GET / HTTP/1.1\r\n\r\n").await;
    assert_eq!(error, "the peer is not a sender of files, or uses another version of the protocol");
    assert!(answer.is_empty());
    for (bytes, expected) in [
        (file(b"../escape", 1), "\"..\" is not a plain file name"),
        (file(b"", 1), "the file name is empty"),
        (file(&[b'x'; 300], 1), "a file name of 300 bytes is too long (at most 255)"),
        (file(b"\xff\n", 1), "\"\\xff\\u{a}\" contains a control character, or one that changes the direction of text"),
    ] {
        let (error, answer) = scene.hears(&bytes).await;
        assert_eq!(error, expected);
        // The sender receives the same text.
        assert_eq!(answer.get(11..), Some(expected.as_bytes()));
    }
    let (error, _) = scene.hears(b"long").await;
    assert_eq!(error, "the peer closed the connection in the middle of a message");
    let (error, _) = scene.hears(&[file(b"cut", 300_000), chunk(200_000), vec![7; 100_000]].concat()).await;
    assert_eq!(
        error,
        "receiving cut failed after 0 of 300000 bytes: the peer closed the connection in the middle of a message"
    );
    let huge = [file(b"huge", 1 << 60), vec![protocol::ABANDONED]].concat();
    let (errors, replies) = scene.leaves_out(&huge).await;
    assert_eq!(errors, ["cannot write huge: it needs 1153 PB of space, and less is free"]);
    assert_eq!(replies, [declined(0, "cannot write it: it needs 1153 PB of space, and less is free")]);
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}

fn header(kind: Kind, name: &str, mode: u32) -> Vec<u8> {
    let modified = protocol::Timestamp::default();
    let (name, keeps) = (name.into(), kind == Kind::Directory);
    protocol::encode_header(&FileHeader {
        kind,
        name,
        size: None,
        modified,
        mode,
        keeps,
        asks: false,
        data: None,
        target: Target::Any,
    })
    .unwrap()
}

/// Empty files, directories and links count as 4 KiB each, and so do directories above them.
#[tokio::test]
async fn a_budget_counts_whatever_takes_room() {
    for limit in [64 << 10, 256 << 10] {
        let mut scene = Scene::new();
        scene.receiver.budget = Budget::new(Some(limit));
        let mut bytes = protocol::MAGIC.to_vec();
        for number in 0..200 {
            bytes.extend(next(whole(&format!("file-{number}"), b"")));
            bytes.extend(next(whole(&format!("deep-{number}/{}/file", vec!["x"; 60].join("/")), b"")));
            bytes.extend(header(Kind::Directory, &format!("directory-{number}/below"), 0o755));
            bytes.extend(header(Kind::Link("directory-0".into()), &format!("link-{number}"), 0));
            // An existing directory costs nothing.
            bytes.extend(header(Kind::Directory, "deep-0", 0o755));
        }
        let (left_out, replies) = scene.leaves_out(&bytes).await;
        assert_eq!(replies.len(), 1000);
        assert!(left_out.len() >= 700 && left_out.iter().any(|error| error.contains("would exceed --max-bytes")));
        let mut entries = 0;
        let mut left = vec![scene.out().to_owned()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                entries += 1;
                left.extend(entry.file_type().unwrap().is_dir().then(|| entry.path()));
            }
        }
        // The additional entry is the directory for unfinished files.
        assert!(entries > 1 && entries <= limit / 4096 + 1, "{entries} entries");
    }
}

fn packed(contents: &[u8]) -> Vec<u8> {
    let frame = zstd::bulk::compress(contents, 3).unwrap();
    [&protocol::packed_start(frame.len() as u32)[..], &frame].concat()
}

#[tokio::test]
async fn compressed_chunks_are_bounded_and_have_to_be_valid() {
    let scene = Scene::new();
    let garbage = [&protocol::packed_start(6)[..], b"garbage"].concat();
    let wrong = "a compressed chunk is not valid: ";
    for (body, said) in [
        (packed(&vec![0; MAX_CHUNK + 1]), wrong),
        (packed(&vec![0; 64 << 20]), wrong),
        (garbage, wrong),
        (protocol::packed_start(MAX_CHUNK as u32 + 1).to_vec(), "a chunk of 262145 bytes is too long"),
        ([packed(b"ab"), packed(b"cd")].concat(), "the contents differ in length from the 3 bytes"),
        ([packed(b"ab"), vec![protocol::END]].concat(), "the contents differ in length from the 3 bytes"),
    ] {
        let (error, answer) = scene.hears(&[file(b"packed", 3), body].concat()).await;
        assert!(error.contains(said), "{error}");
        assert_eq!(answer.get(11..), Some(b"its contents are not as announced".as_slice()), "{error}");
    }
    assert!(scene.names().is_empty());
    let mixed = [file(b"mixed", 7), packed(b"ab"), chunk(3), b"cde".to_vec(), packed(b""), packed(b"fg")].concat();
    let end = [vec![protocol::END], blake3::hash(b"abcdefg").as_bytes().to_vec()].concat();
    let (mut ours, mut theirs) = tokio::io::duplex(1 << 20);
    theirs.write_all(&[mixed, end].concat()).await.unwrap();
    theirs.shutdown().await.unwrap();
    scene.receiver.serve(&mut ours, Screen::hidden().begin(None, ""), || {}, |_| {}).await.unwrap();
    assert_eq!(fs::read(scene.out().join("mixed")).unwrap(), b"abcdefg");
}

#[tokio::test]
async fn a_wrong_hash_leaves_no_file() {
    let scene = Scene::new();
    let bad = [file(b"bad", 3), chunk(3), b"abc".to_vec(), vec![protocol::END], vec![0; HASH_LEN]].concat();
    let (errors, replies) = scene.leaves_out(&bad).await;
    assert_eq!(errors, ["bad was damaged on the way: its hash is not the sender's"]);
    assert_eq!(replies, [declined(0, "it was damaged on the way")]);
    assert!(scene.names().is_empty());
}

/// Announced sizes that are too small or too large, and chunks that would take much memory.
#[tokio::test]
async fn contents_that_are_not_as_announced_leave_no_file() {
    let scene = Scene::new();
    let told = "its contents are not as announced";
    for (body, error) in [
        (
            [chunk(2), b"ab".to_vec(), vec![protocol::END], vec![0; HASH_LEN]].concat(),
            "failed after 2 of 3 bytes: the contents differ in length from the 3 bytes that were announced",
        ),
        (
            [chunk(2), b"ab".to_vec(), chunk(2), b"cd".to_vec()].concat(),
            "failed after 2 of 3 bytes: the contents differ in length from the 3 bytes that were announced",
        ),
        (chunk(MAX_CHUNK + 1), "failed after 0 of 3 bytes: a chunk of 262145 bytes is too long (at most 262144)"),
    ] {
        let (ours, answer) = scene.hears(&[file(b"lie", 3), body].concat()).await;
        assert_eq!(ours, format!("receiving lie {error}"));
        assert_eq!(answer.get(11..), Some(told.as_bytes()));
    }
    let (errors, _) = scene.leaves_out(&[file(b"lie", 3), vec![protocol::ABANDONED]].concat()).await;
    assert_eq!(errors, ["the sender gave lie up"]);
    assert!(scene.names().is_empty());
}

/// The sender abandons a file that is skipped in the middle of its contents, and the next file arrives.
#[tokio::test]
async fn an_existing_file_is_skipped_or_gets_another_name() {
    let mut scene = Scene::new();
    let contents = vec![1; 8 * MAX_CHUNK];
    fs::write(scene.out().join("big"), "old").unwrap();
    fs::write(scene.out().join("empty"), "old").unwrap();
    for (existing, arrive) in [(Existing::Skip, [false, false, true]), (Existing::Rename, [true; 3])] {
        scene.receiver.existing = existing;
        let (mut ours, theirs) = tokio::io::duplex(10_000);
        let files = [("big", contents.as_slice()), ("empty", &[]), ("new", b"new")];
        let sources = files.map(|(name, contents)| scene.source(name, contents)).into();
        let (served, sent) = tokio::join!(
            scene.receiver.serve(&mut ours, Screen::hidden().begin(None, ""), || {}, |_| {}),
            send(theirs, sources)
        );
        served.unwrap();
        let hashes = files.map(|(_, contents)| Some(blake3::hash(contents)));
        let arrived: Vec<_> = sent.unwrap().iter().zip(hashes).map(|(sent, hash)| *sent == hash).collect();
        assert_eq!(arrived, arrive);
    }
    assert_eq!(scene.names(), ["big", "big (1)", "empty", "empty (1)", "new", "new (1)"]);
    assert_eq!(fs::read(scene.out().join("big")).unwrap(), b"old");
    assert!(fs::read(scene.out().join("big (1)")).unwrap() == contents);
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_given_up() {
    let scene = Scene::new();
    let (mut ours, _theirs) = tokio::io::duplex(100);
    let error = scene.receiver.serve(&mut ours, Screen::hidden().begin(None, ""), || {}, |_| {}).await.unwrap_err();
    assert!(matches!(error, ReceiveError::Silent), "{error}");
}

#[tokio::test]
async fn names_of_its_own_and_hidden_ones_are_refused() {
    let mut scene = Scene::new();
    let (error, answer) = scene.hears(&file(b".longhaul-incoming-x", 1)).await;
    assert_eq!(error, "\".longhaul-incoming-x\" is reserved for unfinished files");
    assert_eq!(answer.get(11..), Some(error.as_bytes()));
    for name in [".bashrc", "-rf"] {
        let (errors, replies) = scene.leaves_out(&[file(name.as_bytes(), 1), vec![protocol::ABANDONED]].concat()).await;
        let error = format!("\"{name}\" begins with a dot or a dash");
        let hint = "(receive with --allow-hidden to accept such names)";
        assert_eq!(errors, [format!("{name} is not wanted: {error} {hint}")]);
        assert_eq!(replies, [declined(0, &error)]);
    }
    assert!(scene.names().is_empty());
    scene.receiver.hidden = true;
    scene.receiver.existing = Existing::Overwrite;
    let (error, _) = scene.hears(&file(b".longhaul-incoming-x", 1)).await;
    assert!(error.ends_with("is reserved for unfinished files"), "{error}");
    let whole = whole(".bashrc", b"");
    let (mut ours, mut theirs) = tokio::io::duplex(1 << 20);
    theirs.write_all(&whole).await.unwrap();
    theirs.shutdown().await.unwrap();
    scene.receiver.serve(&mut ours, Screen::hidden().begin(None, ""), || {}, |_| {}).await.unwrap();
    assert_eq!(scene.names(), [".bashrc"]);
}

#[tokio::test]
async fn no_more_is_accepted_than_was_asked_for() {
    let mut scene = Scene::new();
    scene.receiver.budget = Budget::new(Some(10_000));
    let (errors, replies) = scene.leaves_out(&[file(b"large", 10_001), vec![protocol::ABANDONED]].concat()).await;
    assert_eq!(errors, ["large would exceed --max-bytes (10000 bytes)"]);
    assert_eq!(replies, [declined(0, "it exceeds what the receiver accepts")]);
    assert!(scene.names().is_empty());
}

/// More uploads than the runtime has blocking threads, each stalled in the middle of a file.
#[tokio::test(start_paused = true)]
async fn stalled_uploads_block_no_other_and_are_ended() {
    let scene = Scene::new();
    let (receiver, begun) = (
        &scene.receiver,
        [file(b"stalled", 1_000_000), chunk(MAX_CHUNK), vec![7; MAX_CHUNK], chunk(MAX_CHUNK), vec![7]].concat(),
    );
    let mut stalled = tokio::task::JoinSet::new();
    let mut peers = Vec::new();
    for _ in 0..600 {
        let (mut ours, mut theirs) = tokio::io::duplex(2 * MAX_CHUNK);
        theirs.write_all(&begun).await.unwrap();
        peers.push(theirs);
        let receiver = receiver.clone();
        stalled.spawn(async move { receiver.serve(&mut ours, Screen::hidden().begin(None, ""), || {}, |_| {}).await });
    }
    let (mut ours, mut theirs) = tokio::io::duplex(1 << 20);
    let whole = whole("whole", b"abc");
    theirs.write_all(&whole).await.unwrap();
    theirs.shutdown().await.unwrap();
    receiver.serve(&mut ours, Screen::hidden().begin(None, ""), || {}, |_| {}).await.unwrap();
    assert!(scene.names().contains(&"whole".to_owned()));
    while let Some(ended) = stalled.join_next().await {
        let error = ended.unwrap().unwrap_err();
        assert!(matches!(error, ReceiveError::File { fault: Fault::Slow(_), .. }), "{error}");
    }
    assert_eq!(scene.names(), ["whole"]);
}

/// 1024 byte/s is slow but sufficient; 1 byte/s is not.
#[tokio::test(start_paused = true)]
async fn a_trickle_is_ended_and_a_slow_upload_is_not() {
    for (step, arrives) in [(1024, true), (1, false)] {
        let scene = Scene::new();
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let contents = vec![5; step * 300];
        let talk = async {
            theirs.write_all(&file(b"slow", contents.len() as u64)).await.unwrap();
            for part in contents.chunks(step) {
                time::sleep(Duration::from_secs(1)).await;
                if theirs.write_all(&[chunk(part.len()), part.to_vec()].concat()).await.is_err() {
                    return;
                }
            }
            theirs.write_all(&[protocol::END]).await.unwrap();
            theirs.write_all(blake3::hash(&contents).as_bytes()).await.unwrap();
            theirs.shutdown().await.unwrap();
        };
        let (served, ()) = tokio::join!(scene.serve(ours), talk);
        assert_eq!(served.is_ok(), arrives, "{served:?}");
    }
}
