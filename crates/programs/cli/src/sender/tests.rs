use std::fs;
use std::task::Context;

use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};

use super::*;
use crate::progress::Screen;
use crate::protocol::{MAGIC, MAX_UNASKED};

/// Sends one file of `size` bytes to a receiver that answers its header with `replies`, and then only reads.
async fn answered(size: u64, replies: &[(u64, Reply)]) -> Result<(), SendError> {
    let mut bytes = Vec::new();
    replies.iter().for_each(|(number, reply)| protocol::encode_reply(&mut bytes, *number, reply));
    told(size, &bytes, false).await
}

async fn told(size: u64, bytes: &[u8], ends: bool) -> Result<(), SendError> {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("file");
    fs::File::create(&path).unwrap().set_len(size).unwrap();
    let (ours, mut theirs) = tokio::io::duplex(64 << 10);
    let receiver = async {
        theirs.read_exact(&mut [0; MAGIC.len() + 1]).await.unwrap();
        // The sender may have ended.
        let _ = theirs.write_all(bytes).await;
        if ends {
            let _ = theirs.shutdown().await;
        }
        let _ = tokio::io::copy(&mut theirs, &mut tokio::io::sink()).await;
    };
    let send = async {
        let mut plan = Plan::new(vec![Source::open(&path).unwrap()]);
        let options = Options { resume: true, attributes: true, compress: false, cache: None };
        let done = |_: &Source, _: Delivery, _: &DuplexStream| {};
        let mut sender = Sender::new(ours);
        let sent = sender.send(&mut plan, options, &mut Screen::hidden().begin(None, ""), |_| {}, done).await;
        drop(sender);
        sent
    };
    tokio::join!(send, receiver).0
}

/// Whatever bytes a receiver sends, they end the connection or the file.
#[tokio::test]
async fn faulty_replies_neither_panic_nor_hang() {
    let mut state = 1_u64;
    let mut below = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    };
    for _ in 0..100 {
        let mut bytes = Vec::new();
        for _ in 0..3 {
            let number = [0, 0, 1, u64::MAX][below(4) as usize];
            let reply = match below(8) {
                0 => Reply::Confirmed,
                1 => Reply::Skipped,
                2 => Reply::Declined("x".repeat(below(2000) as usize)),
                3 => Reply::Go,
                4 => Reply::Anew,
                5 => Reply::Same,
                6 => Reply::Refused("x".to_owned()),
                _ => Reply::Offer { groups: [0, 1, 2, u64::MAX][below(4) as usize], digest: blake3::hash(b"x") },
            };
            protocol::encode_reply(&mut bytes, number, &reply);
        }
        let at = below(bytes.len() as u64) as usize;
        bytes[at] ^= (below(4) * 0x11) as u8;
        // Any result is acceptable.
        let _ = told(MAX_UNASKED + 1, &bytes, true).await;
    }
}

/// Each kind of reply is accepted once, for the file whose turn it is. Otherwise, replies of nine bytes would fill the
/// sender's memory.
#[tokio::test]
async fn replies_that_nobody_waits_for_end_the_connection() {
    let offer = || Reply::Offer { groups: u64::MAX, digest: blake3::hash(b"") };
    for replies in [
        vec![(0, Reply::Go); 1000],
        vec![(0, offer()); 2],
        vec![(0, Reply::Same); 2],
        vec![(0, Reply::Same), (0, Reply::Go), (0, Reply::Go)],
        vec![(0, Reply::Go), (0, Reply::Anew)],
        vec![(0, Reply::Confirmed)],
        vec![(1, Reply::Go)],
        vec![(u64::MAX, Reply::Skipped)],
        vec![(u64::MAX, Reply::Declined("no".to_owned()))],
    ] {
        let error = answered(MAX_UNASKED + 1, &replies).await.unwrap_err();
        let bad = matches!(error, SendError::Connection { error: ProtocolError::BadReply, .. });
        assert!(bad, "{replies:?}: {error}");
    }
    let error = answered(MAX_UNASKED, &[(0, Reply::Go)]).await.unwrap_err();
    assert!(matches!(error, SendError::Connection { error: ProtocolError::BadReply, .. }), "{error}");
    // If a file is not wanted, no other reply is needed.
    answered(MAX_UNASKED + 1, &[(0, Reply::Skipped)]).await.unwrap();
    answered(MAX_UNASKED, &[(0, Reply::Declined("no".to_owned()))]).await.unwrap();
}

/// A peer that accepts everything, and from which a byte can always be read.
struct Talker;

impl AsyncRead for Talker {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        buffer.put_slice(b"x");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Talker {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Transport for Talker {}

#[tokio::test]
async fn a_receiver_that_always_talks_keeps_nothing_from_being_sent() {
    let mut sender = Sender::new(Talker);
    let mut written = 0;
    for _ in 0..10 {
        written += sender.write_or_hear(b"data", &mut |_| {}).await.unwrap();
    }
    assert_eq!((written, sender.inbox.len()), (5 * 4, 5));
}

/// Anybody with write access to a directory can replace one in it by a link while its files are sent.
#[test]
fn links_that_appear_in_a_directory_lead_nowhere() {
    use std::os::unix::fs::symlink;
    let directory = TempDir::new().unwrap();
    let (tree, outside) = (directory.path().join("tree"), directory.path().join("outside"));
    for below in [&tree.join("sub/deep"), &outside.join("deep")] {
        fs::create_dir_all(below).unwrap();
        fs::write(below.join("file"), "x").unwrap();
    }
    let sources = Source::walk(&tree, false).unwrap();
    let names: Vec<_> = sources.iter().map(|source| source.name().text()).collect();
    assert_eq!(names, ["tree/sub/deep/file", "tree/sub/deep", "tree/sub", "tree"]);
    let mut latest = tree::Latest::default();
    assert!(sources.iter().all(|source| source.begin(&mut latest).is_ok()));
    fs::rename(tree.join("sub"), tree.join("moved")).unwrap();
    symlink(&outside, tree.join("sub")).unwrap();
    let opened: Vec<_> = sources.iter().map(|source| source.begin(&mut tree::Latest::default()).is_ok()).collect();
    assert_eq!(opened, [false, false, false, true]);
    // A directory that is still open is the one that was found.
    assert!(sources[0].begin(&mut latest).is_ok());
    // The root stays the directory that was named, even if its name now leads elsewhere.
    fs::rename(&tree, directory.path().join("elsewhere")).unwrap();
    symlink(&outside, &tree).unwrap();
    assert!(sources[3].begin(&mut tree::Latest::default()).is_ok());
    // A directory that becomes a link after it was found is not entered.
    let root = tree::Directory::open(&directory.path().join("elsewhere")).unwrap();
    assert!(matches!(root.find(&"moved".into()).unwrap(), tree::Found::Directory(_)));
    assert!(root.below(&"sub".into()).is_err() && root.below(&"moved".into()).is_ok());
}

/// A file of 20 MiB of which a receiver has 18 groups, as the sender has kept them, and a sender that lies to itself: its file has
/// changed since. The receiver answers each header with the same offer, and each end with the next of `answers`. Returns what the
/// sender has said to each header, and the result.
async fn continued(changed: bool, cached: bool, answers: &[&str]) -> (Vec<(u64, bool)>, Vec<String>) {
    let directory = TempDir::new().unwrap();
    let (path, cache) = (directory.path().join("file"), directory.path().join("cache"));
    let mut contents: Vec<u8> = (0..20 << 20_u32).map(|i| (i ^ i >> 7 ^ i >> 15) as u8).collect();
    let groups = crate::groups::chaining_values(&contents[..], 18, |_, _| true).unwrap();
    contents[5 << 20] ^= u8::from(changed);
    fs::write(&path, &contents).unwrap();
    if cached {
        let place = cache::Place::of(&cache, &fs::File::open(&path).unwrap()).unwrap();
        let mut log = place.create().unwrap();
        groups.iter().for_each(|group| log.append(group).unwrap());
    }
    let offer = Reply::Offer { groups: 18, digest: crate::groups::digest(&groups) };
    let (ours, mut theirs) = tokio::io::duplex(64 << 10);
    let (mut starts, mut results) = (Vec::new(), Vec::new());
    let receive = async {
        theirs.read_exact(&mut [0; MAGIC.len()]).await.unwrap();
        for number in 0.. {
            let Ok(first) = theirs.read_u8().await else { break };
            protocol::read_header(first, &mut theirs).await.unwrap();
            let mut reply = Vec::new();
            protocol::encode_reply(&mut reply, number, &offer);
            theirs.write_all(&reply).await.unwrap();
            assert_eq!(theirs.read_u8().await.unwrap(), protocol::START);
            let from = theirs.read_u64().await.unwrap();
            let mut bytes = Vec::new();
            let ended = loop {
                match theirs.read_u8().await.unwrap() {
                    protocol::CHUNK => {
                        let mut chunk = vec![0; theirs.read_u32().await.unwrap() as usize];
                        theirs.read_exact(&mut chunk).await.unwrap();
                        bytes.extend(chunk);
                    }
                    first => break first == protocol::END,
                }
            };
            let reply = if ended {
                let mut hash = [0; protocol::HASH_LEN];
                theirs.read_exact(&mut hash).await.unwrap();
                // Whatever the cache says, this is the hash of the file as it is.
                assert_eq!(hash, *blake3::hash(&contents).as_bytes());
                assert!(bytes == contents[(from << 20) as usize..]);
                match answers.get(starts.len()) {
                    Some(reason) => Reply::Declined((*reason).to_owned()),
                    None => Reply::Confirmed,
                }
            } else {
                Reply::Declined("the sender gave it up".to_owned())
            };
            starts.push((from, ended));
            let mut bytes = Vec::new();
            protocol::encode_reply(&mut bytes, number, &reply);
            theirs.write_all(&bytes).await.unwrap();
        }
    };
    let send = async {
        let mut plan = Plan::new(vec![Source::open(&path).unwrap()]);
        let options = Options { resume: true, attributes: true, compress: false, cache: Some(cache.clone()) };
        let done = |_: &Source, delivery: Delivery, _: &DuplexStream| {
            results.push(match delivery {
                Delivery::Confirmed { resumed, .. } => format!("{} groups resumed", resumed >> 20),
                Delivery::Declined(reason) => reason,
                other => panic!("{other:?}"),
            });
        };
        let mut sender = Sender::new(ours);
        sender.send(&mut plan, options, &mut Screen::hidden().begin(None, ""), |_| {}, done).await.unwrap();
        assert_eq!(plan.unsettled().count(), 0);
    };
    tokio::join!(send, receive);
    (starts, results)
}

/// The proof at the end is that of the file as it is, and a file is sent again once.
#[tokio::test]
async fn a_cache_that_lies_is_found_out_and_a_file_is_sent_again_once() {
    let damaged = "its part was damaged on the receiver's disk";
    for cached in [true, false] {
        assert_eq!(continued(false, cached, &[]).await, (vec![(18, true)], vec!["18 groups resumed".to_owned()]));
        // Abandoned, and from the beginning, although the receiver offers the same part again.
        let wanted = (vec![(18, false), (0, true)], vec!["0 groups resumed".to_owned()]);
        assert_eq!(continued(true, cached, &[]).await, wanted);
        for reasons in [&[damaged][..], &["it was damaged on the way"]] {
            let wanted = (vec![(18, true), (18, true)], vec!["18 groups resumed".to_owned()]);
            assert_eq!(continued(false, cached, reasons).await, wanted);
        }
        let wanted = (vec![(18, true), (18, true)], vec![damaged.to_owned()]);
        assert_eq!(continued(false, cached, &[damaged, damaged, damaged]).await, wanted);
        let wanted = (vec![(18, true)], vec!["it exists already".to_owned()]);
        assert_eq!(continued(false, cached, &["it exists already"]).await, wanted);
    }
}

/// Compares a file with that of a receiver that answers with these bytes, and then closes.
async fn compared(answer: &[u8]) -> Result<u64, SendError> {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("file"), b"x").unwrap();
    let (ours, mut theirs) = tokio::io::duplex(64 << 10);
    theirs.write_all(answer).await.unwrap();
    theirs.shutdown().await.unwrap();
    let mut plan = Plan::new(vec![Source::open(&directory.path().join("file")).unwrap()]);
    Sender::new(ours).compare(&mut plan, crate::mirror::Request::default()).await
}

#[tokio::test]
async fn answers_to_a_list_are_checked() {
    let frame = |states: &[u8]| crate::mirror::frame(states).unwrap();
    assert_eq!(compared(&frame(&[0])).await.unwrap(), 1);
    assert_eq!(compared(&frame(&[1])).await.unwrap(), 0);
    for wrong in [frame(&[]), frame(&[0, 0]), frame(&[4]), frame(&[2]), vec![14, 0, 1, 0], vec![7; 100], Vec::new()] {
        assert!(matches!(compared(&wrong).await, Err(SendError::Connection { .. })), "{wrong:?}");
    }
    for (reason, said) in [
        (crate::mirror::TOO_OLD, "the receiver is too old for --mirror; renew longhaul there"),
        ("no", "the receiver refused the mirror: no"),
    ] {
        let mut refusal = Vec::new();
        protocol::encode_reply(&mut refusal, 0, &Reply::Refused(reason.to_owned()));
        let error = compared(&refusal).await.unwrap_err();
        assert!(!error.is_outage() && error.to_string() == said, "{error}");
    }
}
