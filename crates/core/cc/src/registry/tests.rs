use proptest::prelude::*;

use super::spec::Part;
use super::*;
use crate::describe::OptionKind;
use crate::{BuildParams, Control, Controller, Path, Snapshot, Timeout};

fn spec(text: &str) -> Spec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> String {
    text.parse::<Spec>().expect_err(text).to_string()
}

#[test]
fn the_default_is_cubic_with_hystart_and_prr() {
    assert_eq!(Spec::default(), spec("startup=none,slow-start=hystart-pp,avoidance=cubic,loss=none,recovery=prr"));
    assert_eq!(Spec::default(), spec("cubic"));
    assert_eq!(Spec::default().to_string(), "cubic");
}

#[test]
fn three_forms_name_the_same() {
    let same = [
        ("new-reno", "slow-start=slow-start,avoidance=new-reno"),
        ("slow-start(iw=4)+new-reno", "slow-start=slow-start(iw=4), avoidance = new-reno"),
        ("new-reno+rfc6675", "slow-start=slow-start,avoidance=new-reno,recovery=rfc6675"),
        ("cubic(beta=0.8)", "avoidance=cubic(beta=0.8)"),
        ("new-reno(ecn-beta=0.8)", "slow-start=slow-start,avoidance=new-reno(ecn-beta=0.8)"),
        ("slow-start( iw = 10 )", "slow-start=slow-start(iw=10)"),
        ("cubic(fast-convergence=on)", "cubic"),
    ];
    for (one, other) in same {
        assert_eq!(spec(one), spec(other), "{one} and {other}");
    }
}

#[test]
fn the_shortest_form_is_printed() {
    let shortest = [
        ("startup=none,slow-start=hystart-pp(iw=10),avoidance=cubic,recovery=prr", "cubic"),
        ("slow-start=slow-start,avoidance=new-reno,recovery=prr", "new-reno"),
        ("slow-start=slow-start(iw=4),avoidance=new-reno", "slow-start(iw=4)+new-reno"),
        ("slow-start=slow-start,avoidance=cubic", "slow-start"),
        ("avoidance=cubic(fast-convergence=off,beta=0.5)", "cubic(beta=0.5,fast-convergence=off)"),
        ("avoidance=new-reno", "avoidance=new-reno"),
    ];
    for (long, short) in shortest {
        assert_eq!(spec(long).to_string(), short);
    }
}

#[test]
fn unknown_names_are_answered_with_those_that_exist() {
    let profiles: Vec<_> = built_in().profiles.iter().map(|profile| profile.name).collect();
    let variants: Vec<_> = built_in().of_slot(Slot::SlowStart).map(|entry| entry.name).collect();
    let (profiles, variants) = (profiles.join(", "), variants.join(", "));
    assert!(profiles.starts_with("cubic, new-reno, ") && variants.starts_with("hystart-pp, slow-start"));
    assert_eq!(error(""), format!("empty name of a congestion controller; there are {profiles}"));
    let unknown = error("cubik");
    assert!(
        unknown.starts_with(&format!(
            "unknown congestion control `cubik` (did you mean `cubic`?); there are {profiles}, "
        ))
    );
    assert!(built_in().entries.iter().all(|entry| entry.name == "none" || unknown.contains(entry.name)), "{unknown}");
    assert_eq!(error("slow-start=cubic"), format!("unknown slow-start `cubic`; there are {variants}"));
    assert!(error("monolithic=cubik").starts_with("unknown monolithic `cubik`; there are "));
}

#[test]
fn errors_say_what_would_fit() {
    let cases = [
        ("none", "`none` is ambiguous; write startup=none or loss=none"),
        ("grow=cubic", "unknown slot `grow`; there are startup, slow-start, avoidance, loss, recovery, monolithic"),
        ("prr+rfc6675", "two algorithms for recovery: `prr` and `rfc6675`"),
        ("cubic+new-reno", "two algorithms for monolithic: `cubic` and `new-reno`"),
        ("careful-resume+cached-start", "two algorithms for startup: `careful-resume` and `cached-start`"),
        ("cubic(gamma=4)", "`cubic` has no option `gamma`; it has beta, ecn-beta, c, fast-convergence"),
        ("prr(x=1)", "`prr` has no option `x`; it has none"),
        ("cubic(beta=1.5)", "option `beta` of `cubic` cannot be `1.5`: 0.1 to 0.9"),
        ("cubic(beta=nan)", "option `beta` of `cubic` cannot be `nan`: 0.1 to 0.9"),
        ("slow-start(iw=-1)", "option `iw` of `slow-start` cannot be `-1`: 1 to 10"),
        ("cubic(fast-convergence=yes)", "option `fast-convergence` of `cubic` cannot be `yes`: on or off"),
        ("slow-start(iw=4,iw=5)", "option `iw` of `slow-start` is given twice"),
    ];
    for (text, message) in cases {
        assert_eq!(error(text), message);
    }
    for text in
        ["CUBIC", "cubic(", "cubic)", "cubic()", "cubic(beta)", "prr+", "cubic,prr", "avoidance=cubic,prr", "((", "é"]
    {
        assert!(error(text).contains("is not of the form"), "{text}: {}", error(text));
    }
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let cases = [
        (
            "hystart-pp(min-thresh=100,max-thresh=5)",
            "`min-thresh` of `hystart-pp` cannot be `100` with `max-thresh=5`: at most 5, or a greater `max-thresh`",
        ),
        (
            "ledbat-plus-plus(target=20)",
            "`target` of `ledbat-plus-plus` cannot be `20` with `slow-start=ledbat-start(target=60)`: both have to have the same",
        ),
        (
            "ledbat-start(delay=auto)+ledbat-plus-plus(delay=one-way)",
            "`delay` of `ledbat-start` cannot be `auto` with `avoidance=ledbat-plus-plus(delay=one-way)`: both have to have the same",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(error(text), format!("option {message}"), "{text}");
    }
    for text in ["slow-start+ledbat-plus-plus(target=20)", "ledbat-start(target=20)+ledbat-plus-plus(target=20)"] {
        assert!(text.parse::<Spec>().is_ok(), "{text}");
    }
}

/// A rule with a name that does not exist would never apply.
#[test]
fn rules_name_what_exists() {
    for entry in built_in().entries {
        let kind = |name: &str| entry.options.iter().find(|option| option.name == name).map(|option| option.kind);
        for (option, rule) in
            entry.options.iter().flat_map(|option| option.rules.iter().map(move |rule| (option, rule)))
        {
            let sound = match *rule {
                Rule::AtMost(name) => {
                    matches!(kind(name), Some(OptionKind::Int { .. } | OptionKind::Float { .. }))
                }
                Rule::With(name, value) | Rule::Without(name, value) => {
                    let named = entry.options.iter().find(|option| option.name == name);
                    named.is_some_and(|named| named.parse(&value.to_string()) == Some(value))
                }
                Rule::OnlyWith(slot, name) => built_in().of_slot(slot).any(|other| other.name == name),
                // Algorithms of longhaul-zoo may share it, whose tests check the whole registry.
                Rule::Shared => true,
            };
            assert!(sound, "{} of {}: {rule}", option.name, entry.name);
        }
    }
}

#[test]
fn the_table_is_in_order() {
    let legal =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let registry = built_in();
    for slot in Slot::COMPOSED {
        assert!(registry.of_slot(slot).next().is_some(), "no default for {slot}");
        assert_eq!(Slot::of_name(slot.name()), Some(slot));
    }
    for entry in registry.entries {
        assert!(legal(entry.name) && !entry.reference.is_empty() && !entry.summary.is_empty(), "{}", entry.name);
        assert_eq!(
            registry.of_slot(entry.slot()).filter(|other| other.name == entry.name).count(),
            1,
            "{}",
            entry.name
        );
        for option in entry.options {
            assert!(legal(option.name), "{}", option.name);
            let default = option.default_value();
            assert_eq!(option.parse(&default.to_string()), Some(default), "{} of {}", option.name, entry.name);
        }
        assert!(!entry.tested.is_empty(), "{} is tested nowhere", entry.name);
        for text in entry.tested {
            let composition = spec(text);
            assert!(composition.entries().any(|part| part.name == entry.name), "{text}");
            assert!(composition.is_tested());
        }
    }
    for profile in registry.profiles {
        assert!(legal(profile.name));
        assert_eq!(spec(profile.name), spec(profile.spec));
        assert_eq!(spec(profile.name).to_string(), profile.name);
        assert!(spec(profile.name).is_tested());
        assert_eq!(spec(profile.name).safety(), Safety::Internet, "{}", profile.name);
    }
}

#[test]
fn the_list_names_everything() {
    let list = list();
    for entry in built_in().entries {
        assert!(list.contains(entry.name) && list.contains(entry.reference), "{}", entry.name);
        assert!(entry.options.iter().all(|option| list.contains(&format!("({}=", option.name))), "{}", entry.name);
        let tested = entry.tested.join(", ");
        assert!(tested.is_empty() || list.contains(&format!("tested: {tested}\n")), "{}", entry.name);
    }
    for pair in ["swift-start(gamma=1)+cubic", "swift-start-hardened(gamma=1)+cubic"] {
        assert!(list.contains(pair) && spec(pair).is_tested(), "{pair}");
    }
    assert!(built_in().profiles.iter().all(|profile| list.contains(profile.spec)));
}

crate::options! {
    /// A monolithic controller for a registry of this test.
    struct Fixed {
        window: u64 = OptionSpec::int("window", 1, 1 << 30, 100_000, "bytes"),
    }
}

impl Controller for Fixed {
    fn name(&self) -> String {
        format!("fixed(window={})", self.window)
    }
    fn on_ack(&mut self, _event: &crate::Ack<'_>, _path: &Path) {}
    fn on_timeout(&mut self, _event: &Timeout, _path: &Path) {}
    fn control(&self) -> Control {
        Control::window(longhaul_units::Bytes(self.window))
    }
    fn snapshot(&self) -> Snapshot {
        Snapshot::new("fixed")
    }
}

static FIXED: Entry = Entry::monolithic("fixed", |_, values, _| Box::new(Fixed::from_values(values)))
    .described("a window that never changes", "none")
    .with_options(Fixed::OPTIONS)
    .tested_in(&["fixed"]);

static WITH_MONOLITHIC: Registry = Registry {
    entries: &[
        &crate::startup::none::ENTRY,
        &crate::slow_start::standard::ENTRY,
        &crate::avoidance::cubic::ENTRY,
        &crate::classify::none::ENTRY,
        &crate::recovery::prr::ENTRY,
        &FIXED,
    ],
    profiles: &[Profile { name: "fast", spec: "monolithic=fixed(window=7)", summary: "", reference: "" }],
};

#[test]
fn a_whole_controller_stands_alone() {
    let fixed = WITH_MONOLITHIC.parse("fixed(window=5)").expect("a name");
    assert_eq!(fixed.build(&BuildParams::default()).control(), Control::window(longhaul_units::Bytes(5)));
    assert_eq!(fixed.safety(), Safety::Controlled);
    assert_eq!(WITH_MONOLITHIC.print(&fixed), "fixed(window=5)");
    assert_eq!(WITH_MONOLITHIC.parse("monolithic=fixed(window=5)"), Ok(fixed));
    assert_eq!(WITH_MONOLITHIC.parse("fast"), WITH_MONOLITHIC.parse("fixed(window=7)"));
    for text in ["slow-start+fixed", "fixed+slow-start", "monolithic=fixed,recovery=prr", "fast+slow-start"] {
        let message = WITH_MONOLITHIC.parse(text).expect_err(text).to_string();
        assert!(message.starts_with("`fixed` is a monolithic controller and has no place for"), "{text}: {message}");
    }
    assert!(WITH_MONOLITHIC.to_string().contains("not for shared networks"));
}

/// Any composition with any valid and consistent options.
fn any_spec() -> impl Strategy<Value = Spec> {
    let part = |slot: Slot| {
        let entries: Vec<_> = built_in().of_slot(slot).collect();
        prop::sample::select(entries).prop_flat_map(|entry| {
            let values: Vec<_> = entry.options.iter().map(any_value).collect();
            values.prop_map(move |values| Part { entry, values })
        })
    };
    let any = Slot::COMPOSED.map(part).prop_map(|parts| Spec { parts: parts.into(), registry: built_in() });
    any.prop_filter("parts that fit", |spec| {
        spec.check().is_ok() && spec.parts.iter().all(|part| part.check(&[]).is_ok())
    })
}

fn any_value(option: &OptionSpec) -> BoxedStrategy<Value> {
    let default = Just(option.default_value());
    let other = match option.kind {
        OptionKind::Int { min, max, .. } => (min..=max).prop_map(Value::Int).boxed(),
        OptionKind::Float { min, max, .. } => (min..=max).prop_map(Value::Float).boxed(),
        OptionKind::Flag { .. } => any::<bool>().prop_map(Value::Flag).boxed(),
        OptionKind::Choice { names } => prop::sample::select(names).prop_map(Value::Choice).boxed(),
    };
    prop_oneof![2 => default, 1 => other].boxed()
}

proptest! {
    /// A printed text can be parsed, names the controller that it builds, and is never longer than the long form.
    #[test]
    fn parse_and_print_are_inverse(spec in any_spec()) {
        let text = spec.to_string();
        prop_assert_eq!(text.parse(), Ok(spec.clone()), "{}", &text);
        let long: Vec<_> = spec.parts.iter().map(|part| format!("{}={part}", part.entry.slot())).collect();
        let long = long.join(",");
        prop_assert_eq!(long.parse(), Ok(spec.clone()), "{}", &long);
        prop_assert!(text.len() <= long.len());
        prop_assert_eq!(spec.build(&BuildParams::default()).name(), text);
    }

    /// Invalid text causes an error, never a panic.
    #[test]
    fn any_text_is_parsed_or_refused(text in "[a-z0-9(),+= .-]{0,40}|\\PC{0,20}") {
        if let Ok(spec) = text.parse::<Spec>() {
            prop_assert_eq!(spec.to_string().parse(), Ok(spec));
        }
    }
}
