//! Algorithms of another crate among those that text names. What is registered stays for the process, hence one test.

use longhaul_cc::compose::{
    AvoidanceStep, CongestionAvoidance, CongestionEvent, ECN_BETA, Stage, Target, Window, additive,
};
use longhaul_cc::registry::{
    self, Entry, OptionSpec, Profile, RegisterError, Safety, Slot, Spec, built_in, known, register,
};
use longhaul_cc::{Ack, BuildParams, Congestion, Path, options};
use longhaul_units::Bytes;

options! {
    /// `alpha` segments per round trip up, three tenths of the window down.
    struct Gentle {
        alpha: f64 = OptionSpec::float("alpha", 0.1, 1.0, 0.5, "segments per round trip"),
        _ = ECN_BETA,
    }
}

impl Stage for Gentle {}

impl CongestionAvoidance for Gentle {
    fn on_ack(&mut self, _: &Ack<'_>, grow: Bytes, path: &Path, window: &mut Window) -> AvoidanceStep {
        additive(window, self.alpha, grow, path.mss);
        AvoidanceStep::Stay
    }

    fn reduce(&mut self, event: &CongestionEvent, path: &Path) -> Target {
        Target::multiplicative(event, 0.7, path.mss)
    }
}

const fn entry(name: &'static str) -> Entry {
    Entry::avoidance(name, |values| Box::new(Gentle::from_values(values)))
        .described("increases by half a segment per RTT; decreases by three tenths", "nobody")
        .with_options(Gentle::OPTIONS)
        .internet_safe()
}

static GENTLE: Entry = entry("gentle");
static OTHER: Entry = entry("other");
static LOUD: Entry = entry("Loud");
static CUBIC: Entry = entry("cubic");
static BBE: Entry = entry("bbe");
static NEW_RENO: Entry =
    Entry::loss("new-reno", |_| unreachable!()).described("has the name of a profile and of another slot", "nobody");

const fn profile(name: &'static str, spec: &'static str) -> Profile {
    Profile::new(name, spec, "an example", "nobody")
}

#[test]
fn text_names_what_was_registered() {
    // A registry of one's own, whose specifications print its names.
    let own = built_in().with(&[&GENTLE], &[]).unwrap();
    let spec = own.parse("slow-start+gentle(alpha=0.25)").unwrap();
    assert_eq!(spec.to_string(), "slow-start+gentle(alpha=0.25)");
    assert_eq!(own.parse(&spec.to_string()).unwrap(), spec);
    assert_eq!(built_in().print(&spec), "slow-start=slow-start,avoidance=gentle(alpha=0.25)");
    assert_eq!(Congestion::from(spec.clone()).to_string(), "slow-start+gentle(alpha=0.25)");
    assert_eq!(spec.build(&BuildParams::default()).name(), spec.to_string());

    let taken = |name| Err(RegisterError::Taken { name });
    let refused: [(&[&'static Entry], &[Profile], _); 7] = [
        (&[&LOUD], &[], Err(RegisterError::BadName { name: "Loud" })),
        (&[&CUBIC], &[], taken("cubic")),
        (&[&BBE], &[], taken("bbe")),
        (&[&OTHER, &OTHER], &[], taken("other")),
        (&[], &[profile("bbr", "monolithic=bbr")], taken("bbr")),
        (&[], &[profile("a", "avoidance=cubic"), profile("a", "avoidance=cubic")], taken("a")),
        (&[], &[profile("", "avoidance=cubic")], Err(RegisterError::BadName { name: "" })),
    ];
    for (entries, profiles, error) in refused {
        assert_eq!(register(entries, profiles), error);
    }
    let error = register(&[&GENTLE], &[profile("gentle-start", "slow-start=nothing")]).unwrap_err();
    assert!(error.to_string().starts_with("the profile `gentle-start` means nothing: unknown slow-start `nothing`"));
    assert!("gentle".parse::<Spec>().is_err(), "nothing of what was refused is there");

    register(&[&GENTLE], &[profile("calm", "slow-start=slow-start,avoidance=gentle(alpha=0.2)")]).unwrap();
    for (text, shortest) in [
        ("gentle", "gentle"),
        ("slow-start=slow-start,avoidance=gentle(alpha=0.25)", "calm+gentle(alpha=0.25)"),
        ("slow-start=slow-start,avoidance=gentle(alpha=0.2)", "calm"),
        ("calm+rfc6675", "calm+rfc6675"),
    ] {
        let congestion: Congestion = text.parse().unwrap();
        assert_eq!((congestion.to_string().as_str(), congestion.safety()), (shortest, Safety::Internet), "{text}");
        assert_eq!(congestion.build(&BuildParams::default()).name(), shortest);
    }
    assert_eq!(
        (spec.to_string(), known().print(&spec)),
        ("slow-start+gentle(alpha=0.25)".into(), "calm+gentle(alpha=0.25)".into())
    );
    assert!(registry::list().contains("gentle") && registry::list().contains("calm"));
    assert!(known().of_slot(Slot::Avoidance).any(|entry| entry.name == "gentle"));
    assert!(built_in().of_slot(Slot::Avoidance).all(|entry| entry.name != "gentle"));
    assert_eq!(register(&[&GENTLE], &[]), taken("gentle"));
    // In another slot, the name of a profile is free: alone, it still means the profile.
    let profile = "new-reno".parse::<Spec>().unwrap();
    register(&[&NEW_RENO], &[]).unwrap();
    assert_eq!("new-reno".parse::<Spec>().unwrap(), profile);
    assert_eq!("loss=new-reno".parse::<Spec>().unwrap().to_string(), "loss=new-reno");
    assert_eq!(register(&[&NEW_RENO], &[]), taken("new-reno"));
    assert_eq!("cubik".parse::<Spec>().unwrap_err().to_string().matches("gentle").count(), 1);
    assert_eq!(Spec::default().to_string(), "cubic", "the default stays");
}
