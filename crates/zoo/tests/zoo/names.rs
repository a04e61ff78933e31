//! Names of compositions with algorithms of this crate, and the order of the whole registry.

use longhaul_cc::BuildParams;
use longhaul_cc::registry::{Entry, OptionSpec, Rule, Safety, Slot, Spec, Value, built_in, list};
use proptest::prelude::*;
use proptest::sample::select;

use super::{registry, spec};

fn error(text: &str) -> String {
    registry().parse(text).expect_err(text).to_string()
}

#[test]
fn forms_name_the_same() {
    let same = [
        ("reno-classic", "recovery=new-reno,avoidance=new-reno,slow-start=slow-start(iw=3,l=1)"),
        ("veno(backlog=5)", "slow-start=slow-start,avoidance=veno(backlog=5),loss=veno(backlog=5)"),
        (
            "veno(severity=0.5, ecn-beta=0.8)",
            "slow-start=slow-start,avoidance=veno(ecn-beta=0.8),loss=veno(severity=0.5)",
        ),
        // A start-up scheme that has its own profile, combined with another profile.
        ("quick-start", "startup=quick-start,slow-start=limited-slow-start,avoidance=new-reno"),
        ("quick-start(rate=100)+cubic", "startup=quick-start(rate=100)"),
        ("quick-start+limited-slow-start+new-reno", "quick-start"),
    ];
    for (one, other) in same {
        assert_eq!(spec(one), spec(other), "{one} and {other}");
    }
}

#[test]
fn the_shortest_form_is_printed() {
    let shortest = [
        ("slow-start=slow-start(iw=3,l=1),avoidance=new-reno,recovery=new-reno", "reno-classic"),
        ("recovery=new-reno", "recovery=new-reno"),
        ("slow-start=slow-start,avoidance=fast", "slow-start+fast"),
        (
            "slow-start=slow-start,avoidance=veno(backlog=5),loss=veno(backlog=5,severity=1)",
            "veno(backlog=5,severity=1)",
        ),
        // The compositions that NASA's conclusions call for.
        ("startup=swift-start(gamma=4),slow-start=limited-slow-start,avoidance=hstcp", "swift-start+hstcp"),
        ("swift-start(gamma=4)+hstcp", "swift-start+hstcp"),
        ("swift-start(gamma=1)+westwood", "swift-start(gamma=1)+westwood"),
    ];
    for (long, short) in shortest {
        assert_eq!(spec(long).to_string(), short);
    }
}

#[test]
fn the_default_and_the_names_of_the_core_stay() {
    let before: Vec<_> = built_in().profiles.iter().map(|profile| (profile.name, profile.spec)).collect();
    for (name, long) in before {
        assert_eq!(spec(name), built_in().parse(long).unwrap(), "{name}");
    }
    assert_eq!(registry().parse("slow-start").unwrap().to_string(), "slow-start");
    assert_eq!(Spec::default().to_string(), "cubic");
}

#[test]
fn errors_say_what_would_fit() {
    let cases = [
        ("rcp+cubic", "`rcp` is a monolithic controller and has no place for `cubic`"),
        ("xcp+speedy-start", "`xcp` is a monolithic controller and has no place for `speedy-start`"),
        ("jump-start+rc3", "two algorithms for startup: `jump-start` and `rc3`"),
        ("rapid-recovery+quick-recovery", "two algorithms for recovery: `rapid-recovery` and `quick-recovery`"),
        (
            "tcp-peach+speedy-recovery+quick-recovery",
            "two algorithms for recovery: `speedy-recovery` and `quick-recovery`",
        ),
        ("reno-classic(iw=4)", "`reno-classic` has no option `iw=4`; it has none"),
    ];
    for (text, message) in cases {
        assert_eq!(error(text), message);
    }
    for (text, meant) in [("avoidance=westwod", "westwood"), ("jump-start(max-jmup=1)", "max-jump")] {
        assert!(error(text).contains(&format!("(did you mean `{meant}`?)")), "{}", error(text));
    }
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let cases = [
        (
            "h-tcp(adaptive-backoff=off,memory=0.7)",
            "`memory` of `h-tcp` cannot be `0.7` with `adaptive-backoff=off`: it has an effect only with adaptive-backoff=on",
        ),
        ("vegas(alpha=9)", "`alpha` of `vegas` cannot be `9` with `beta=4`: at most 4, or a greater `beta`"),
        ("vegas(alpha=9,beta=1)", "`alpha` of `vegas` cannot be `9` with `beta=1`: at most 1, or a greater `beta`"),
        (
            "fast(tuning=on,alpha=50)",
            "`alpha` of `fast` cannot be `50` with `tuning=on`: it has an effect only with tuning=off",
        ),
        (
            "fast(tuning=on,alpha=100)",
            "`alpha` of `fast` cannot be `100` with `tuning=on`: it has an effect only with tuning=off",
        ),
        (
            "westwood-bbe(threshold=0.1)",
            "`threshold` of `westwood-bbe` cannot be `0.1` with `policy=interpolate`: it has an effect only with policy=discriminate",
        ),
        (
            "westwood-bbe(policy=adaptive-reno,tau=5)",
            "`tau` of `westwood-bbe` cannot be `5` with `policy=adaptive-reno`: it has an effect only with policy=interpolate or plain-ere or discriminate",
        ),
        (
            "westwood-bbe(delta=0,keep-re=0.5)",
            "`keep-re` of `westwood-bbe` cannot be `0.5` with `delta=0`: it has an effect only with delta other than 0",
        ),
        (
            "abse(expected=0.3)",
            "`expected` of `abse` cannot be `0.3` with `pncd=off`: it has an effect only with pncd=on",
        ),
        (
            "abse(pncd=on)",
            "`pncd` of `abse` cannot be `on` with `slow-start=astart`: it has an effect only with slow-start=agile-probing",
        ),
        (
            "astart(n=0,recent=3)",
            "`recent` of `astart` cannot be `3` with `n=0`: it has an effect only with n other than 0",
        ),
        (
            "hybla(rtt0=50)",
            "`rtt0` of `hybla` cannot be `50` with `slow-start=hybla-start(rtt0=25)`: both have to have the same",
        ),
        (
            "sudden-start(dscp=8)+rapid-recovery",
            "`dscp` of `sudden-start` cannot be `8` with `recovery=rapid-recovery(dscp=1)`: both have to have the same",
        ),
        (
            "tcp-swift+speedy-recovery(dscp=8)",
            "`dscp` of `speedy-recovery` cannot be `8` with `startup=speedy-start(dscp=1)`: both have to have the same",
        ),
        (
            "avoidance=veno(backlog=5),loss=veno",
            "`backlog` of `veno` cannot be `5` with `loss=veno(backlog=3)`: both have to have the same",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(error(text), format!("option {message}"), "{text}");
    }
    for text in [
        "vegas(alpha=3,beta=3)",
        "westwood-bbe(policy=discriminate,threshold=0.1)",
        "agile-probing+abse(pncd=on,expected=0.3)",
        "agile-probing+new-reno",
        "sudden-start(dscp=8)+rapid-recovery(dscp=8)",
        "sudden-start(dscp=8)+prr",
    ] {
        assert!(registry().parse(text).is_ok(), "{text}");
    }
}

/// A rule with a name that does not exist would never apply.
#[test]
fn rules_name_what_exists() {
    for entry in registry().entries {
        let find = |name: &str| entry.options.iter().find(|option| option.name == name);
        let is_number = |name: &&str| {
            find(name).is_some_and(|option| matches!(option.default_value(), Value::Int(_) | Value::Float(_)))
        };
        for (option, rule) in
            entry.options.iter().flat_map(|option| option.rules.iter().map(move |rule| (option, rule)))
        {
            let sound = match *rule {
                Rule::AtMost(name) => is_number(&name),
                Rule::With(name, value) | Rule::Without(name, value) => {
                    find(name).is_some_and(|named| named.parse(&value.to_string()) == Some(value))
                }
                Rule::OnlyWith(slot, name) => registry().of_slot(slot).any(|other| other.name == name),
                Rule::Shared => {
                    let have = |other: &&&Entry| other.slot() != entry.slot() && other.options.contains(option);
                    registry().entries.iter().filter(have).count() > 0
                }
                _ => panic!("{rule:?} is not checked"),
            };
            assert!(sound, "{} of {}: {rule}", option.name, entry.name);
        }
    }
}

#[test]
fn the_table_is_in_order() {
    let registry = registry();
    for entry in registry.entries {
        let is_same = |other: &Entry| other.name == entry.name;
        assert!(!entry.reference.is_empty() && !entry.summary.is_empty(), "{}", entry.name);
        assert_eq!(registry.of_slot(entry.slot()).filter(|other| is_same(other)).count(), 1, "{}", entry.name);
        for option in entry.options {
            let default = option.default_value();
            assert_eq!(option.parse(&default.to_string()), Some(default), "{} of {}", option.name, entry.name);
        }
        assert!(!entry.tested.is_empty(), "{} is tested nowhere", entry.name);
        for text in entry.tested {
            let composition = spec(text);
            assert!(composition.entries().any(is_same), "{text}");
            assert!(composition.is_tested());
        }
    }
    for profile in registry.profiles {
        assert_eq!(spec(profile.name), spec(profile.spec));
        assert_eq!(spec(profile.name).to_string(), profile.name);
        assert!(spec(profile.name).is_tested());
        assert_eq!(
            spec(profile.name).safety() == Safety::Controlled,
            ["bbr1", "fast", "h-tcp", "hstcp", "hybla", "log-westwood-plus", "scalable", "tcp-swift", "udt"]
                .contains(&profile.name),
            "{}",
            profile.name
        );
    }
}

#[test]
fn the_list_names_everything() {
    let profiles = registry().profiles;
    let list = list();
    for entry in registry().entries {
        assert!(list.contains(entry.name) && list.contains(entry.reference), "{}", entry.name);
        assert!(entry.options.iter().all(|option| list.contains(&format!("({}=", option.name))), "{}", entry.name);
    }
    assert!(profiles.iter().all(|profile| list.contains(profile.spec)));
}

/// A value in words: `at` is its place between the limits of a number, or selects a word.
fn value(option: &OptionSpec, at: f64) -> String {
    let range = option.range();
    let (least, most) = range.split_once(" to ").unwrap_or_default();
    match (option.default_value(), least.parse::<f64>(), most.parse::<f64>()) {
        (Value::Int(_), Ok(least), Ok(most)) => ((least + at * (most - least)) as u64).to_string(),
        (Value::Float(_), Ok(least), Ok(most)) => (least + at * (most - least)).to_string(),
        _ => {
            let words: Vec<_> = range.split(", ").flat_map(|words| words.split(" or ")).collect();
            words[(at * words.len() as f64) as usize].to_owned()
        }
    }
}

/// Any algorithm of `slot` in the long form, with any valid options.
fn any_part(slot: Slot) -> impl Strategy<Value = String> {
    let entries: Vec<_> = registry().of_slot(slot).collect();
    select(entries).prop_flat_map(move |entry| {
        let place = prop_oneof![2 => Just(None), 1 => (0.0..1.0_f64).prop_map(Some)];
        prop::collection::vec(place, entry.options.len()).prop_map(move |places| {
            let given = entry.options.iter().zip(&places).filter_map(|(option, place)| Some((option, (*place)?)));
            let options: Vec<_> = given.map(|(option, at)| format!("{}={}", option.name, value(option, at))).collect();
            let options = if options.is_empty() { String::new() } else { format!("({})", options.join(",")) };
            format!("{slot}={}{options}", entry.name)
        })
    })
}

proptest! {
    /// A printed text can be parsed, names the controller that it builds, and is never longer than the long form.
    #[test]
    fn parse_and_print_are_inverse(parts in Slot::COMPOSED.map(any_part)) {
        let long = parts.join(",");
        let Ok(spec) = registry().parse(&long) else { return Err(TestCaseError::reject("parts that do not fit")) };
        let text = spec.to_string();
        prop_assert_eq!(text.parse(), Ok(spec.clone()), "{}", &text);
        prop_assert!(text.len() <= long.len());
        prop_assert_eq!(spec.build(&BuildParams::default()).name(), text);
    }
}
