//! Small files that are stored together.

use super::*;

/// Returns the contents of the file with this number.
fn numbered(number: usize) -> Vec<u8> {
    number.to_string().repeat(number % 300).into_bytes()
}

/// Files of several directories, more than fit in one batch, with a large one and failures among them.
#[tokio::test]
async fn replies_follow_the_order_of_the_files() {
    let mut scene = Scene::new();
    scene.receiver.existing = Existing::Overwrite;
    fs::create_dir_all(scene.out().join("1/directory")).unwrap();
    let (mut bytes, mut wanted) = (protocol::MAGIC.to_vec(), Vec::new());
    for number in 0..2500 {
        let (directory, reply) = (number % 3, Reply::Confirmed);
        let (message, reply) = match number {
            100 => (whole("1/directory", b"x"), Reply::Declined("cannot write it: a directory has its name".into())),
            200 => (whole("0/.hidden", b"x"), Reply::Declined("\".hidden\" begins with a dot or a dash".into())),
            300 => (whole("2/large", &vec![7; MAX_CHUNK]), reply),
            400 => ([&protocol::MAGIC[..], &header(Kind::Directory, "3/empty", 0o755)].concat(), reply),
            500 => {
                let mut damaged = whole("1/damaged", b"x");
                *damaged.last_mut().unwrap() ^= 1;
                (damaged, Reply::Declined("it was damaged on the way".into()))
            }
            _ => (whole(&format!("{directory}/{number}"), &numbered(number)), reply),
        };
        bytes.extend(next(message));
        wanted.push((number as u64, reply));
    }
    let (left_out, replies) = scene.leaves_out(&bytes).await;
    assert_eq!(replies, wanted);
    assert_eq!(left_out.len(), 3);
    for number in (0..2500).filter(|number| ![100, 200, 300, 400, 500].contains(number)) {
        let path = scene.out().join(format!("{}/{number}", number % 3));
        assert!(fs::read(path).unwrap() == numbered(number), "{number}");
    }
    assert!(scene.out().join("3/empty").is_dir() && !scene.out().join("1/damaged").exists());
    assert_eq!(fs::read(scene.out().join("2/large")).unwrap().len(), MAX_CHUNK);
}

/// A file that has not arrived completely does not delay the replies to earlier ones.
#[tokio::test]
async fn files_are_confirmed_before_the_next_one_arrives() {
    let last = next(whole("last", b"contents"));
    for cut in [1, 30, last.len() - 1] {
        let scene = Scene::new();
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let talk = async {
            theirs.write_all(&[whole("a", b"a"), next(whole("b", b"")), last[..cut].to_vec()].concat()).await.unwrap();
            let mut replies = [0; 2 * 9];
            theirs.read_exact(&mut replies).await.unwrap();
            theirs.write_all(&last[cut..]).await.unwrap();
            theirs.shutdown().await.unwrap();
            theirs.read_exact(&mut replies[..9]).await.unwrap();
        };
        let (served, ()) = tokio::join!(scene.serve(ours), talk);
        served.unwrap();
        assert_eq!(scene.names(), ["a", "b", "last"], "{cut}");
    }
}

/// The sender of a large file waits for the answer, and sends nothing meanwhile.
#[tokio::test]
async fn a_question_after_a_batch_is_answered_at_once() {
    let scene = Scene::new();
    let (ours, mut theirs) = tokio::io::duplex(1 << 20);
    let mut question = next(file(b"large", 3 << 20));
    question[1] = 1;
    let talk = async {
        theirs.write_all(&[whole("a", b"a"), question].concat()).await.unwrap();
        let mut replies = vec![0; 2 * 9];
        theirs.read_exact(&mut replies).await.unwrap();
        let replies = [(); 2].map(|()| protocol::take_reply(&mut replies).unwrap().unwrap());
        assert_eq!(replies, [(0, Reply::Confirmed), (1, Reply::Go)]);
        drop(theirs);
    };
    let (served, ()) = tokio::join!(scene.serve(ours), talk);
    assert!(served.is_err());
    assert_eq!(scene.names(), ["a"]);
}

/// When a connection is given up in the middle of a batch, there are whole files, and nothing else.
#[tokio::test]
async fn a_batch_that_is_interrupted_leaves_whole_files() {
    let scene = Scene::new();
    let Output::Directory(staging) = &scene.receiver.out else { panic!("not a directory") };
    let mut bytes = protocol::MAGIC.to_vec();
    (0..3000).for_each(|number| bytes.extend(next(whole(&format!("{number}"), &numbered(number)))));
    let (mut ours, mut theirs) = tokio::io::duplex(4 << 20);
    theirs.write_all(&bytes).await.unwrap();
    let receiver = scene.receiver.clone();
    let serving = tokio::spawn(async move {
        let _ = receiver.serve(&mut ours, Screen::hidden().begin(None, ""), || {}, |_| {}).await;
    });
    while !scene.out().join("700").exists() {
        tokio::task::yield_now().await;
    }
    serving.abort();
    assert!(serving.await.unwrap_err().is_cancelled());
    // The thread that stores the batch has ended when nobody else uses the directory.
    while Arc::strong_count(staging) > 1 {
        time::sleep(Duration::from_millis(1)).await;
    }
    let names = scene.names();
    assert!((700..3000).contains(&names.len()), "{} files", names.len());
    for name in names {
        assert!(fs::read(scene.out().join(&name)).unwrap() == numbered(name.parse().unwrap()), "{name}");
    }
}

/// Files that are compressed or exist already.
#[tokio::test]
async fn compressed_files_and_those_that_are_there_are_confirmed() {
    let scene = Scene::new();
    let contents = vec![7; 5000];
    let end = [&[protocol::END][..], blake3::hash(&contents).as_bytes()].concat();
    let compressed = |name: &[u8]| [file(name, 5000), packed(&contents), end.clone()].concat();
    let empty = next(whole("empty", b""));
    let other = next(whole("other", &vec![8; 5000]));
    fs::write(scene.out().join("empty"), "not empty").unwrap();
    fs::write(scene.out().join("other"), &contents).unwrap();
    for _ in 0..2 {
        let bytes = [compressed(b"a"), next(compressed(b"b")), empty.clone(), other.clone()].concat();
        let (left_out, replies) = scene.leaves_out(&bytes).await;
        let exists = "it exists already";
        assert_eq!(
            replies,
            [(0, Reply::Confirmed), (1, Reply::Confirmed), declined(2, exists), declined(3, exists)],
            "{left_out:?}"
        );
        assert!(fs::read(scene.out().join("b")).unwrap() == contents);
    }
    assert_eq!(scene.names(), ["a", "b", "empty", "other"]);
}

/// A second name of an entry that was sent over the same connection is what a file system shows that ignores case.
#[tokio::test]
async fn what_was_confirmed_is_replaced_only_under_its_own_name() {
    for (first, second) in [("A", "a"), ("a", "A"), ("d/x", "D/x")] {
        for size in [0, 5, 100_000] {
            let mut scene = Scene::new();
            scene.receiver.existing = Existing::Overwrite;
            ["d", "D"].iter().for_each(|name| fs::create_dir(scene.out().join(name)).unwrap());
            if first == "A" {
                fs::write(scene.out().join(first), "old").unwrap();
            }
            let [here, there] = [first, second].map(|name| scene.out().join(name));
            // Files of two sizes, and links.
            let entry = |name: &str, contents: u8| match size {
                0 => header(Kind::Link(contents.to_string().as_str().into()), name, 0),
                _ => next(whole(name, &vec![contents; size])),
            };
            let (ours, mut theirs) = tokio::io::duplex(1 << 20);
            let talk = async {
                theirs.write_all(&[&protocol::MAGIC, &*entry(first, 1)].concat()).await.unwrap();
                let mut reply = [0; 9];
                theirs.read_exact(&mut reply).await.unwrap();
                fs::hard_link(&here, &there).unwrap();
                // Once the first entry is another one, the second name is free.
                let rest = [entry(second, 2), entry(first, 3), entry(second, 4)].concat();
                theirs.write_all(&rest).await.unwrap();
                theirs.shutdown().await.unwrap();
                let mut replies = Vec::new();
                theirs.read_to_end(&mut replies).await.unwrap();
                replies
            };
            let (served, mut replies) = tokio::join!(scene.serve(ours), talk);
            assert!(matches!(served, Err(ReceiveError::LeftOut(1))), "{served:?}");
            let replies = [(); 3].map(|()| protocol::take_reply(&mut replies).unwrap().unwrap());
            let reason = if size == 0 { "cannot create it" } else { "cannot write it" };
            let reason = format!("{reason}: {}", budget::SAME);
            assert_eq!(replies, [declined(1, &reason), (2, Reply::Confirmed), (3, Reply::Confirmed)]);
            for (path, contents) in [(here, 3), (there, 4)] {
                match size {
                    0 => assert_eq!(fs::read_link(path).unwrap(), Path::new(&contents.to_string())),
                    _ => assert!(fs::read(path).unwrap() == vec![contents; size], "{size}"),
                }
            }
        }
    }
}
