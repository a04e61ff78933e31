//! Replays the corpus of the fuzz target.

use std::path::Path;

use crate::any_datagram;

#[test]
fn segment_parser_corpus() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/segment_parser");
    let mut seeds = 0;
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        any_datagram::check(&std::fs::read(&path).unwrap());
        seeds += 1;
    }
    assert!(seeds > 0, "no seeds in {}", directory.display());
}
