use super::*;
use crate::groups::{GROUP, chaining_values};
use crate::mirror::{self, Request, Writer};

fn scene() -> Scene {
    let mut scene = Scene::new();
    (scene.receiver.existing, scene.receiver.deletes) = (Existing::Overwrite, true);
    scene
}

/// Encodes a directory, whose name need not be valid.
fn directory(name: &str) -> Vec<u8> {
    let mut bytes = vec![protocol::DIRECTORY];
    bytes.resize(26, 0);
    bytes.extend((name.len() as u16).to_be_bytes());
    bytes.extend(name.as_bytes());
    bytes
}

/// A comparison with these entries, and what the sender says about the surplus.
fn compared(entries: &[Vec<u8>], answer: &[u8]) -> Vec<u8> {
    let mut writer = Writer::default();
    entries.iter().for_each(|entry| assert!(writer.push(entry).is_none()));
    let frames = [mirror::frame(&writer.take().0).unwrap(), mirror::frame(&[]).unwrap()].concat();
    let request = Request { surplus: true, checksum: false }.encode();
    [&protocol::MAGIC[..], &request, &frames, answer].concat()
}

/// Only the list that the receiver has made is deleted, and no path of the sender is used.
#[tokio::test]
async fn a_sender_deletes_nothing_else_than_the_list() {
    let scene = scene();
    fs::create_dir(scene.out().join("d")).unwrap();
    for name in ["d/surplus", "beside"] {
        fs::write(scene.out().join(name), b"x").unwrap();
    }
    let wrong = [&[1][..], blake3::hash(b"another list").as_bytes()].concat();
    let (error, _) = scene.hears(&compared(&[directory("d")], &wrong)).await;
    assert_eq!(error, "what is to be deleted is not what was listed");
    for name in ["..", "../out", "/tmp", "d/..", "", "."] {
        let (error, _) = scene.hears(&compared(&[directory(name)], &wrong)).await;
        assert!(error.contains("file name"), "{name:?}: {error}");
    }
    assert_eq!(scene.names(), ["beside", "surplus"]);
    // Without permission, the sender does not even learn the names.
    let mut scene = scene;
    scene.receiver.deletes = false;
    let (_, answer) = scene.hears(&compared(&[directory("d")], &wrong)).await;
    assert!(answer.starts_with(&[1]), "{answer:?}");
}

/// Receivers without mirrors read the beginning of a comparison as the header of a file.
#[tokio::test]
async fn an_older_receiver_refuses_in_words() {
    let request = Request::default().encode();
    let error = protocol::read_header(protocol::FILE, &mut &request[1..]).await.unwrap_err();
    assert!(matches!(&error, ProtocolError::Name(_)), "{error}");
    let reason = ReceiveError::from(error).reason().unwrap();
    assert!(reason.contains("renew longhaul at the receiver") && reason.contains(mirror::TOO_OLD), "{reason}");
}

fn changed(size: u64, copies: &[u32], hash: &[u8]) -> Vec<u8> {
    let mut bytes = file(b"f", size);
    let first = protocol::MAGIC.len();
    (bytes[first], bytes[first + 1]) = (11, 1);
    for len in copies {
        bytes.push(protocol::COPY);
        bytes.extend(len.to_be_bytes());
    }
    bytes.push(protocol::END);
    bytes.extend(hash);
    bytes
}

/// The hash of the whole file finds whatever is wrong about a group.
#[tokio::test]
async fn contents_of_the_existing_file_are_proven() {
    let scene = scene();
    let group = GROUP as u32;
    let old: Vec<u8> = (0..3 * group).map(|i| (i >> 11) as u8).collect();
    fs::write(scene.out().join("f"), &old).unwrap();
    let right = blake3::hash(&old);
    let (left_out, replies) = scene.leaves_out(&changed(3 << 20, &[group; 3], right.as_bytes())).await;
    assert!(left_out.is_empty(), "{left_out:?}");
    let groups = chaining_values(&old[..], u64::MAX, |_, _| true).unwrap();
    assert_eq!(replies, [(0, Reply::Groups(groups)), (0, Reply::Go), (0, Reply::Confirmed)]);
    let wrong = blake3::hash(b"other contents");
    let (left_out, _) = scene.leaves_out(&changed(3 << 20, &[group; 3], wrong.as_bytes())).await;
    assert_eq!(left_out, ["f was damaged on the way: its hash is not the sender's"]);
    // The file is shorter than the sender believes, which has sent the rest before it learns that.
    let (left_out, _) = scene.leaves_out(&changed(5 << 20, &[group; 5], right.as_bytes())).await;
    assert_eq!(left_out, ["cannot write f: the existing file has changed meanwhile"]);
    let (error, _) = scene.hears(&changed(3 << 20, &[group + 1], right.as_bytes())).await;
    assert!(error.contains("is too long"), "{error}");
    let mut plain = changed(3 << 20, &[group; 3], right.as_bytes());
    plain[protocol::MAGIC.len()] = protocol::FILE;
    let (error, _) = scene.hears(&plain).await;
    assert!(error.contains("a message of type 13"), "{error}");
    assert!(fs::read(scene.out().join("f")).unwrap() == old);
    assert_eq!(scene.names(), ["f"]);
}

/// A file that has appeared since the comparison, or has another spelling of the name.
#[tokio::test]
async fn a_new_file_replaces_none() {
    let scene = scene();
    fs::write(scene.out().join("f"), b"mine").unwrap();
    for size in [4, 100_000] {
        let contents = vec![7; size];
        let mut bytes = whole("f", &contents);
        bytes[protocol::MAGIC.len()] = 10;
        let (left_out, _) = scene.leaves_out(&bytes).await;
        assert_eq!(left_out, ["f exists already (receive with --overwrite to replace it)"]);
        assert_eq!(fs::read(scene.out().join("f")).unwrap(), b"mine");
    }
    // A changed file replaces it.
    let (left_out, _) = scene.leaves_out(&whole("f", b"theirs")).await;
    assert!(left_out.is_empty() && fs::read(scene.out().join("f")).unwrap() == b"theirs");
}

/// Whatever bytes come, the comparison ends, and nothing is deleted without the hash of the list.
#[tokio::test]
async fn faulty_comparisons_end() {
    let scene = scene();
    fs::create_dir_all(scene.out().join("d/e")).unwrap();
    for name in ["d/a", "d/e/b", "beside"] {
        fs::write(scene.out().join(name), b"x").unwrap();
    }
    let named = next(file(b"d/a", 1));
    let good = compared(&[named, directory("d/e"), directory("d")], &[&[1][..], &[7; HASH_LEN]].concat());
    let mut state = 1_usize;
    for round in 0..400 {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let (mut bytes, at) = (good.clone(), protocol::MAGIC.len() + (state >> 33) % (good.len() - 8));
        match round % 3 {
            0 => bytes.truncate(at),
            1 => bytes[at..].iter_mut().take(4).for_each(|byte| *byte = 0xff),
            _ => bytes[at] ^= 1 << (round % 8),
        }
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        theirs.write_all(&bytes).await.unwrap();
        theirs.shutdown().await.unwrap();
        // Any result is acceptable.
        let _ = scene.serve(ours).await;
        assert_eq!(scene.names(), ["a", "beside", "e"], "round {round}");
    }
    assert!(scene.out().join("d/e/b").exists());
}
