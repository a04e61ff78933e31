//! Parsers return a value or a descriptive error for any text, and never panic.

use longhaul_link::spec::{LinkOptions, OPTIONS};
use longhaul_link::{Link, Trace};
use proptest::prelude::*;

proptest! {
    #[test]
    fn options_of_any_text(
        options in prop::collection::vec((0..OPTIONS.len(), 0..3usize, "[-0-9a-zA-Z.,%]{0,12}|(quick-start|rcp|xcp)\\(((alpha|gamma|slots|interval|rtt-max)=[0-9]{1,3}(ms|%|)?,?){0,3}\\)|[0-9]{1,4}(ms|s|mbit|kB|p|bdp|%)(,[0-9]{1,3}(ms|s|mbit|kB|%)?){0,2}"), 0..8),
    ) {
        let mut link = LinkOptions::new();
        for (option, direction, value) in &options {
            let (name, takes, _) = OPTIONS[*option];
            let name = format!("{name}{}", ["", "-up", "-down"][*direction]);
            if let Err(error) = link.set(&name, (!takes.is_empty()).then_some(value)) {
                prop_assert!(error.to_string().contains("--"), "{error}");
            }
        }
        match link.build(|file| Err(format!("{file} is not there"))) {
            // Options that build describe a valid link.
            Ok(path) => prop_assert!(Link::<u64>::new(path.link.there, path.seed, 0).is_ok()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn traces_of_any_text(text in "([0-9 .-]{0,12}\n){0,8}|\\PC*") {
        if let Ok(trace) = Trace::parse(&text) {
            prop_assert!(!trace.period().is_zero());
        }
    }
}
