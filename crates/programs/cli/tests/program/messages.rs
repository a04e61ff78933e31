//! Replay of the corpus of the fuzz target `messages`, and of similar inputs.
use std::fs;
use std::path::Path;

#[path = "../support/messages.rs"]
#[expect(unreachable_pub, reason = "the fuzz target shares the check")]
mod check;

use check::messages;

#[test]
fn no_message_of_a_peer_ends_the_program() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/messages");
    let mut random = 1_u32;
    let mut next = |limit: usize| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) as usize % limit
    };
    let mut replayed = 0;
    for seed in fs::read_dir(&directory).unwrap() {
        let script = fs::read(seed.unwrap().path()).unwrap();
        messages(&script);
        replayed += 1;
        for _ in 0..100 {
            let mut changed = script.clone();
            for _ in 0..=next(3) {
                let at = next(changed.len());
                changed[at] = [0, 0x7f, 0x80, 0xff, b'9', b'-', changed[at] ^ 1][next(7)];
            }
            changed.truncate(changed.len() - next(2) * next(changed.len()));
            messages(&changed);
        }
    }
    assert!(replayed > 0, "no seeds in {}", directory.display());
}
