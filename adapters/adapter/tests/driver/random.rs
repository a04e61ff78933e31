//! Random calls, and the replay of the fuzz target's corpus.

use std::path::Path;

use longhaul_adapter::Stack;
use proptest::prelude::*;

use crate::play::{Dice, LISTS, SUMS, any as any_kind, driver, play};

fn any_stack() -> impl Strategy<Value = (Stack, &'static str)> {
    let listed = prop::sample::select(vec!["cubic", "new-reno", "bbr", "copa", "copa-cubic"]);
    let summed = prop::sample::select(vec!["cubic", "new-reno", "copa", "copa-cubic"]);
    prop_oneof![listed.prop_map(|name| (LISTS, name)), summed.prop_map(|name| (SUMS, name))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_calls_panics((stack, name) in any_stack(), seed: u64, calls in 100_u64..10_000, broken: bool) {
        play(&mut Dice::Seed(seed), calls, stack, name, broken);
    }

    #[test]
    fn no_script_panics(script in prop::collection::vec(any::<u8>(), 0..2_000)) {
        driver(&script);
    }
}

#[test]
fn the_corpus_passes() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/adapter");
    let scripts: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!scripts.is_empty());
    scripts.iter().for_each(|script| driver(&std::fs::read(script).unwrap()));
}

/// `LONGHAUL_CALLS` says how many calls are made in all, from `LONGHAUL_SEED` on.
#[test]
fn many_calls() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (mut left, mut seed) = (number("LONGHAUL_CALLS").unwrap_or(200_000), number("LONGHAUL_SEED").unwrap_or(1));
    while left > 0 {
        left -= any_kind(seed, left);
        seed += 1;
    }
}
