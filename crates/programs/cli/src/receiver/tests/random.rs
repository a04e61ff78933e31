//! Sessions with random faults: no message of a sender makes the receiver panic, wait for ever, or write outside its
//! directory.

use super::*;

/// xorshift64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

fn session(random: &mut Random) -> Vec<u8> {
    let mut bytes = protocol::MAGIC.to_vec();
    for _ in 0..6 {
        let name = format!("{}{}", ["", "d/", "d/e/"][random.below(3)], random.below(4));
        let contents = vec![random.below(3) as u8; [0, 3, 5000, MAX_CHUNK][random.below(4)]];
        let len = Some(contents.len() as u64);
        let size = [len, len, len, None, Some(u64::MAX - 1)][random.below(5)];
        let entry = FileHeader {
            kind: [Kind::File, Kind::File, Kind::Directory, Kind::Link("x".into())][random.below(4)].clone(),
            name: name.as_str().into(),
            size,
            modified: protocol::Timestamp { seconds: [0, -62_135_596_800, 253_402_300_799][random.below(3)], nanos: 0 },
            mode: random.below(0o10000) as u32 | 0o700,
            keeps: random.below(2) == 0,
            asks: random.below(4) == 0,
            data: [None, None, Some(1), Some(1 << 62)][random.below(4)],
            target: [Target::Any, Target::New, Target::Changed][random.below(3)],
        };
        let claim = [&[protocol::CLAIM][..], blake3::hash(&contents).as_bytes()].concat();
        bytes.extend(protocol::encode_header(&entry).unwrap());
        match (&entry.kind, random.below(8)) {
            (Kind::File, 0) => bytes.extend(claim),
            (Kind::File, 1) => bytes.push(protocol::ABANDONED),
            (Kind::File, 3) => {
                bytes.push(protocol::COPY);
                bytes.extend((contents.len() as u32).to_be_bytes());
            }
            (Kind::File, way) => {
                let chunk =
                    if way == 2 { packed(&contents) } else { [chunk(contents.len()), contents.clone()].concat() };
                bytes.extend(if contents.is_empty() { Vec::new() } else { chunk });
                bytes.push(protocol::END);
                bytes.extend(blake3::hash(&contents).as_bytes());
            }
            _ => {}
        }
    }
    bytes
}

#[tokio::test]
async fn faulty_sessions_end() {
    for seed in 1..=40 {
        let random = &mut Random(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        let mut scene = Scene::new();
        scene.receiver.budget = Budget::new([None, Some(100_000), Some(10 << 20)][random.below(3)]);
        for _ in 0..4 {
            scene.receiver.existing =
                [Existing::Refuse, Existing::Overwrite, Existing::Rename, Existing::Skip][random.below(4)];
            let mut bytes = session(random);
            for _ in 0..random.below(4) {
                let at = protocol::MAGIC.len() + random.below(bytes.len() - protocol::MAGIC.len());
                match random.below(4) {
                    0 => bytes.truncate(at),
                    1 => bytes[at..].iter_mut().take(8).for_each(|byte| *byte = 0xff),
                    _ => bytes[at] ^= 1 << random.below(8),
                }
                bytes.resize(bytes.len().max(protocol::MAGIC.len() + 1), 0);
            }
            let (mut ours, mut theirs) = tokio::io::duplex(4 << 20);
            theirs.write_all(&bytes).await.unwrap();
            theirs.shutdown().await.unwrap();
            let done = |_: Result<File, LeftOut>| {};
            // Any result is acceptable.
            let _ = scene.receiver.serve(&mut ours, Screen::hidden().begin(None, ""), || {}, done).await;
            drop(ours);
            let mut replies = Vec::new();
            theirs.read_to_end(&mut replies).await.unwrap();
            while protocol::take_reply(&mut replies).unwrap().is_some() {}
            assert!(replies.is_empty(), "seed {seed}: half a reply");
        }
        let outside: Vec<_> = fs::read_dir(scene.directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(outside, ["out"], "seed {seed}");
    }
}
