use std::time::Duration;

use super::*;

fn header(name: &str, size: Option<u64>) -> FileHeader {
    let modified = Timestamp { seconds: -1, nanos: 5 };
    FileHeader {
        kind: Kind::File,
        name: name.into(),
        size,
        modified,
        mode: 0o640,
        keeps: false,
        asks: size.is_some(),
        data: None,
        target: Target::Any,
    }
}

#[tokio::test]
async fn headers_come_back() {
    let bytes = encode_header(&header("a file", Some(1 << 40))).unwrap();
    assert_eq!(bytes, b"\x01\x01\0\0\x01\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x05\0\0\x01\xa0\0\x06a file");
    let link = FileHeader { kind: Kind::Link("../x".into()), keeps: true, ..header("d/e/l", None) };
    let directory = FileHeader { kind: Kind::Directory, ..header("d/e", None) };
    let latin = FileHeader { name: b"caf\xe9".to_vec().into(), ..header("", Some(1)) };
    let holes =
        [1, 1 << 20, 1 << 62].map(|data| FileHeader { data: Some(data), ..header("disk.img", Some(u64::MAX - 1)) });
    let targets = [Target::New, Target::Changed].map(|target| FileHeader { target, ..header("a", Some(1)) });
    for header in [header("a file", Some(1 << 40)), header("stdin", None), directory, link, latin]
        .into_iter()
        .chain(holes)
        .chain(targets)
    {
        let bytes = encode_header(&header).unwrap();
        assert_eq!(read_header(bytes[0], &mut &bytes[1..]).await.unwrap(), header);
    }
}

async fn refused(name: &[u8], len: u16) -> String {
    let bytes = [&[0; HEADER_LEN], &len.to_be_bytes()[..], name].concat();
    read_header(FILE, &mut bytes.as_slice()).await.unwrap_err().to_string()
}

#[tokio::test]
async fn bad_headers_are_refused() {
    let early = "the peer closed the connection in the middle of a message";
    assert_eq!(read_header(FILE, &mut [0; 20].as_slice()).await.unwrap_err().to_string(), early);
    assert_eq!(refused(b"a fi", 6).await, early);
    assert_eq!(refused(b"..", 2).await, "\"..\" is not a plain file name");
    assert_eq!(
        refused(b"a\xff\x1b", 3).await,
        "\"a\\xff\\u{1b}\" contains a control character, or one that changes the direction of text"
    );
    assert_eq!(refused(b"", u16::MAX).await, "a path of 65535 bytes is too long (at most 4095)");
}

#[test]
fn times_before_and_after_1970_are_seconds_and_nanoseconds() {
    let (epoch, half) = (SystemTime::UNIX_EPOCH, Duration::from_millis(500));
    for (time, seconds, nanos) in [
        (epoch, 0, 0),
        (epoch + half, 0, 500_000_000),
        (epoch - half, -1, 500_000_000),
        (epoch - Duration::from_secs(2), -2, 0),
    ] {
        assert_eq!(Timestamp::from(time), Timestamp { seconds, nanos });
    }
}

/// File systems can store any 64-bit time, and a peer may send any.
#[tokio::test]
async fn times_outside_the_calendar_are_clamped_by_the_sender_and_refused_by_the_receiver() {
    let epoch = SystemTime::UNIX_EPOCH;
    let first = epoch.checked_sub(Duration::from_secs(1 << 63));
    let last = epoch.checked_add(Duration::from_secs((1 << 63) - 1));
    for (time, year) in [(first, "0001-01-01T00:00:00Z"), (last, "9999-12-31T23:59:59Z")] {
        // Not every system can represent such times.
        let Some(time) = time else { continue };
        let far = Timestamp::from(time);
        let mut bytes = encode_header(&FileHeader { modified: far, ..header("a", Some(1)) }).unwrap();
        let error = read_header(FILE, &mut bytes.split_off(1).as_slice()).await.unwrap_err();
        assert!(matches!(error, ProtocolError::BadTime(_)), "{error}");
        let near = FileHeader { modified: far.clamped(), ..header("a", Some(1)) };
        let bytes = encode_header(&near).unwrap();
        assert_eq!(read_header(FILE, &mut &bytes[1..]).await.unwrap(), near, "{year}");
    }
}

#[tokio::test]
async fn replies_come_back() {
    let replies = [
        Reply::Confirmed,
        Reply::Refused("no".to_owned()),
        Reply::Skipped,
        Reply::Declined("hidden".to_owned()),
        Reply::Go,
        Reply::Anew,
        Reply::Offer { groups: 1 << 40, digest: blake3::hash(b"x") },
        Reply::Same,
        Reply::Groups(vec![[7; HASH_LEN], [8; HASH_LEN]]),
        Reply::Groups(Vec::new()),
    ];
    let mut all = Vec::new();
    for (number, reply) in (0..).zip(&replies) {
        encode_reply(&mut all, number, reply);
    }
    // The replies arrive byte by byte.
    let (mut arrived, mut heard) = (Vec::new(), Vec::new());
    for byte in all {
        arrived.push(byte);
        heard.extend(take_reply(&mut arrived).unwrap());
    }
    assert_eq!(heard, (0..).zip(replies).collect::<Vec<_>>());
    let mut bytes = Vec::new();
    encode_reply(&mut bytes, 7, &Reply::Refused(format!("{}ä\x1b", "x".repeat(1022))));
    let cut = Reply::Refused(format!("{}ä", "x".repeat(1022)));
    assert_eq!(take_reply(&mut bytes).unwrap(), Some((7, cut)));
    assert!(matches!(take_reply(&mut vec![9]), Err(ProtocolError::BadReply)));
    assert!(matches!(take_reply(&mut vec![21]), Err(ProtocolError::Encrypted)));
    let many = [&[GROUPS][..], &[0; 8], &(MAX_GROUPS + 1).to_be_bytes()].concat();
    assert!(matches!(take_reply(&mut many.clone()), Err(ProtocolError::BadReply)));
    let long = [&[REFUSED][..], &[0; 8], &[0xff, 0xff]].concat();
    assert!(matches!(take_reply(&mut long.clone()), Err(ProtocolError::BadReply)));
    assert!(matches!(read_magic(&mut &b"\x16\x03\x01aaaaa"[..]).await, Err(ProtocolError::Encrypted)));
    assert!(matches!(read_magic(&mut &b"GET / HT"[..]).await, Err(ProtocolError::NotOurs)));
}
