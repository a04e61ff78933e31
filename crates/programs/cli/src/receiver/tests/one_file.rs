//! Files that fail among others, files with any Unix name, and files that arrive slowly.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::files::hashing::Stop;
use crate::sync::soon;

/// The sender is told of each failure, and later files arrive.
#[tokio::test]
async fn a_file_that_fails_does_not_keep_others_from_arriving() {
    let mut scene = Scene::new();
    scene.receiver.budget = Budget::new(Some(1 << 20));
    fs::write(scene.out().join("exists"), "other contents").unwrap();
    fs::write(scene.out().join("file"), "x").unwrap();
    let cut = [file(b"cut", 300_000), chunk(1000), vec![7; 1000], vec![protocol::ABANDONED]].concat();
    let damaged = [file(b"bad", 1), chunk(1), b"a".to_vec(), vec![protocol::END], vec![0; HASH_LEN]].concat();
    let long = "x".repeat(255) + "/" + &"y".repeat(255);
    let failing = [
        (whole("exists", b"new"), "it exists already"),
        (whole("file/below", b"x"), "cannot write it: a part of its path is not a directory"),
        (whole(".hidden", b"x"), "\".hidden\" begins with a dot or a dash"),
        (whole("d/-x", b"x"), "\"-x\" begins with a dot or a dash"),
        ([file(b"large", 2 << 20), vec![protocol::ABANDONED]].concat(), budget::EXCEEDED),
        (cut, "the sender gave it up"),
        (damaged, "it was damaged on the way"),
        (
            [protocol::MAGIC.to_vec(), header(Kind::Directory, "file/d", 0o755)].concat(),
            "cannot create it: a part of its path is not a directory",
        ),
    ];
    let (mut bytes, mut wanted) = (protocol::MAGIC.to_vec(), Vec::new());
    for (number, (message, reason)) in (0..).zip(failing) {
        bytes.extend(next(message));
        bytes.extend(next(whole(&format!("good-{number}"), b"good")));
        wanted.extend([declined(2 * number, reason), (2 * number + 1, Reply::Confirmed)]);
    }
    bytes.extend(next(whole(&long, b"deep")));
    wanted.push((wanted.len() as u64, Reply::Confirmed));
    let (left_out, replies) = scene.leaves_out(&bytes).await;
    assert_eq!(replies, wanted);
    assert_eq!(left_out.len(), 8);
    assert_eq!(fs::read(scene.out().join("exists")).unwrap(), b"other contents");
    assert!((0..8).all(|number| fs::read(scene.out().join(format!("good-{number}"))).unwrap() == b"good"));
}

/// A log that is truncated while it is sent, and a file that has vanished.
#[tokio::test]
async fn a_file_that_the_sender_loses_does_not_keep_others_from_arriving() {
    let scene = Scene::new();
    let tree = scene.directory.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for (name, len) in [("a", 10), ("b-shrinks", 2 << 20), ("c", 10), ("d-vanishes", 10), ("e", 10)] {
        fs::write(tree.join(name), vec![1; len]).unwrap();
    }
    let (mut ours, mut relayed) = tokio::io::duplex(10_000);
    let (theirs, mut sent) = tokio::io::duplex(10_000);
    let mut outcomes = Vec::new();
    let send = async {
        let mut plan = Plan::new(Source::walk(&tree, false).unwrap());
        fs::remove_file(tree.join("d-vanishes")).unwrap();
        let done = |source: &Source, delivery: Delivery, _: &DuplexStream| {
            outcomes.push((
                source.name().to_string(),
                match delivery {
                    Delivery::Confirmed { .. } => String::new(),
                    other => format!("{other:?}"),
                },
            ));
        };
        let options = Options { resume: true, attributes: true, compress: false, cache: None };
        Sender::new(theirs)
            .send(&mut plan, options, &mut Screen::hidden().begin(None, ""), |_| {}, done)
            .await
            .unwrap();
    };
    let relay = async {
        let mut first = vec![0; 5000];
        sent.read_exact(&mut first).await.unwrap();
        fs::File::options().write(true).open(tree.join("b-shrinks")).unwrap().set_len(10_000).unwrap();
        relayed.write_all(&first).await.unwrap();
        tokio::io::copy_bidirectional(&mut sent, &mut relayed).await.unwrap();
    };
    let serve = async {
        let served = scene.receiver.serve(&mut ours, Screen::hidden().begin(None, ""), || {}, |_| {}).await;
        drop(ours);
        served
    };
    let (served, (), ()) = tokio::join!(serve, send, relay);
    assert!(matches!(served, Err(ReceiveError::LeftOut(1))), "{served:?}");
    let failed: Vec<_> = outcomes.iter().filter(|(_, why)| !why.is_empty()).map(|(name, _)| name.as_str()).collect();
    assert_eq!((failed, outcomes.len()), (vec!["tree/b-shrinks", "tree/d-vanishes"], 6));
    assert!(outcomes[1].1.contains("it became shorter while it was sent"), "{outcomes:?}");
    let mut names: Vec<_> = fs::read_dir(scene.out().join("tree")).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a", "c", "e"]);
}

/// Hashing stops when the sender that asked for it is gone, also one that had ended its data before.
#[tokio::test]
async fn hashing_on_demand_ends_with_the_connection() {
    let scene = Scene::new();
    let Output::Directory(staging) = &scene.receiver.out else { panic!("not a directory") };
    for has_ended in [false, true] {
        // A connection that fails like a reset one.
        let (begun, stopped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let broken = Broken { has_ended, has_failed: Arc::clone(&begun) };
        let mut transport = tokio::io::join(broken, tokio::io::sink());
        let seen = Arc::clone(&stopped);
        let hash = move |stop: &Stop| {
            begun.store(true, Ordering::Relaxed);
            while !stop.is_set() {
                std::thread::sleep(Duration::from_millis(1));
            }
            seen.store(true, Ordering::Relaxed);
        };
        let mut peer = Peer::new(&mut transport, Screen::hidden().begin(None, ""));
        assert!(soon(peer.hash(staging, hash)).await.is_err());
        // The next turn comes only after the thread has stopped.
        drop(staging.hashing.turn(None).await);
        assert!(stopped.load(Ordering::Relaxed));
    }
    // Data that arrives meanwhile is kept.
    let (mut ours, mut theirs) = tokio::io::duplex(100);
    theirs.write_all(b"next").await.unwrap();
    let mut peer = Peer::new(&mut ours, Screen::hidden().begin(None, ""));
    peer.hash(staging, |_| std::thread::sleep(Duration::from_millis(20))).await.ok().unwrap();
    let mut next = [0; 4];
    peer.read_exact(&mut next).await.unwrap();
    assert_eq!(&next, b"next");
}

/// Fails when hashing has begun. Reads show it unless the data has ended.
struct Broken {
    has_ended: bool,
    has_failed: Arc<AtomicBool>,
}

impl tokio::io::AsyncRead for Broken {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        if self.has_ended {
            return std::task::Poll::Ready(Ok(()));
        } else if self.has_failed.load(Ordering::Relaxed) {
            return std::task::Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    }
}

impl Transport for tokio::io::Join<Broken, tokio::io::Sink> {
    fn has_failed(&self) -> bool {
        self.reader().has_failed.load(Ordering::Relaxed)
    }
}

/// Names that are not UTF-8, and names that other systems do not allow.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn any_name_of_a_unix_file_arrives() {
    use std::os::unix::ffi::OsStrExt;
    let scene = Scene::new();
    let names = [&b"caf\xe9"[..], b"d/\xff\xfe/x", b"a:b\\c", b"etc.", b"aux.c", "\u{2764}\u{fe0f}".as_bytes()];
    let mut bytes = protocol::MAGIC.to_vec();
    for name in names {
        bytes.extend(next([file(name, 0), vec![protocol::END], blake3::hash(b"").as_bytes().to_vec()].concat()));
    }
    let (left_out, replies) = scene.leaves_out(&bytes).await;
    assert!(left_out.is_empty() && replies.len() == names.len(), "{left_out:?}");
    assert!(names.iter().all(|name| scene.out().join(std::ffi::OsStr::from_bytes(name)).is_file()));
}

/// For example, a database dump in a pipe that sorts before it writes.
#[tokio::test(start_paused = true)]
async fn a_sender_may_pause_as_long_as_the_option_says() {
    for (pause, arrives) in [(50, true), (3_000, true), (4_000, false)] {
        let mut scene = Scene::new();
        scene.receiver.idle = Some(Duration::from_secs(3600));
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let talk = async {
            theirs.write_all(&protocol::MAGIC).await.unwrap();
            for part in [&next(file(b"dump", 2))[..], &chunk(1), b"x", &chunk(1), b"x", &[protocol::END]] {
                time::sleep(Duration::from_secs(pause)).await;
                if theirs.write_all(part).await.is_err() {
                    return;
                }
            }
            theirs.write_all(blake3::hash(b"xx").as_bytes()).await.unwrap();
            theirs.shutdown().await.unwrap();
        };
        let (served, ()) = tokio::join!(scene.serve(ours), talk);
        assert_eq!(served.is_ok(), arrives, "{pause} s: {served:?}");
    }
    let scene = Scene::new();
    let day = Duration::from_secs(86_400);
    assert_eq!(scene.receiver.pace(true), Pace { least: 1, time: day });
    assert_eq!(scene.receiver.pace(false), Pace { least: 16 << 10, time: Duration::from_secs(60) });
}
