use longhaul_units::{Rate, Span, Time};

use super::*;
use crate::config::{GilbertElliott, LinkConfig, LinkRate, Loss, OutageKind, Phase, Policer, Reordering, Step};
use crate::overhead::Overhead;
use crate::queue::{Discipline, Limit};

fn build(line: &str) -> Result<Path, SpecError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut options = LinkOptions::new();
    let read = options.read(&words)?;
    assert_eq!(read, words.len(), "{line}");
    options.build(|file| match file {
        "up.trace" => Ok("1\n2\n".into()),
        "back.trace" => Ok("2\n1\n".into()),
        _ => Err("No such file or directory".into()),
    })
}

fn told(line: &str) -> String {
    build(line).map_or_else(|error| error.to_string(), |_| "nothing".into())
}

#[test]
fn the_example_of_a_satellite() {
    let path = build("--rate 20mbit --rtt 500ms --queue 1000p --loss 0.1% --seed 7").unwrap();
    let expected = LinkConfig::new(Rate::from_bits_per_sec(20_000_000), Span::from_millis(250))
        .queue(Limit::Packets(1_000))
        .loss(Loss::Uniform(0.001));
    assert_eq!(path, Path { link: Duplex::symmetric(expected), seed: 7 });
}

#[test]
fn the_more_specific_wins_and_bdp_is_of_its_own_rate() {
    let path = build("--rate-up 4mbit --rate 40mbit --delay 300ms --delay-down=200ms --queue 0.5bdp").unwrap();
    let Duplex { there, back } = path.link;
    assert_eq!(there.rate, LinkRate::Constant(Rate::from_bits_per_sec(4_000_000)));
    assert_eq!((there.delay, back.delay), (Span::from_millis(300), Span::from_millis(200)));
    // Half of 4 and 40 Mb/s times 500 ms.
    assert_eq!((there.queue.limit, back.queue.limit), (Limit::Bytes(125_000), Limit::Bytes(1_250_000)));
    let traced = build("--rate 1mbit --trace-up up.trace --queue-up 1bdp --rtt 2s").unwrap().link;
    assert_eq!(traced.there.queue.limit, Limit::Bytes(2 * 1_504_000));
    assert_eq!((traced.back.queue.limit, traced.back.delay), (Limit::Infinite, Span::from_secs(1)));
}

#[test]
fn every_option_has_its_effect() {
    let down = |line: &str| build(&format!("--rate 1mbit {line}")).unwrap().link.back;
    assert_eq!(down("--queue 150kB").queue.limit, Limit::Bytes(150_000));
    assert_eq!(down("--queue infinite").queue.limit, Limit::Infinite);
    let codel = down("--aqm codel --ecn").queue;
    assert!(codel.ecn && matches!(codel.discipline, Discipline::CoDel(_)));
    for (name, is) in
        [("red", "Red"), ("pie", "Pie"), ("dualpi2", "DualPi2"), ("peach", "Threshold"), ("priority", "Prio")]
    {
        assert!(format!("{:?}", down(&format!("--aqm {name}")).queue.discipline).starts_with(is));
    }
    let Discipline::Red(red) = down("--aqm red:20,60").queue.discipline else { panic!("RED") };
    assert_eq!((red.min, red.max, red.max_p), (20.0, 60.0, 0.1));
    for (wrong, told) in [("red:5", "two thresholds of RED in packets"), ("red:60,20", "lower RED threshold")] {
        let error = build(&format!("--rate 1mbit --aqm {wrong}")).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
    let classes_of = |name: &str| match down(&format!("--aqm {name}")).queue.discipline {
        Discipline::Priority(classes) => [0, 1, 5, 9, 13, 46].map(|dscp| classes.of(dscp)),
        _ => [u8::MAX; 6],
    };
    assert_eq!((classes_of("priority"), classes_of("rc3")), ([0, 1, 0, 0, 0, 0], [0, 1, 2, 3, 4, 0]));
    assert_eq!(down("--loss-ge 0.01,0.25").loss, Loss::GilbertElliott(GilbertElliott::simple(0.01, 0.25)));
    let elliott = GilbertElliott { p: 0.01, r: 0.25, loss_bad: 0.5, loss_good: 0.001 };
    assert_eq!(down("--loss-ge 1%,25%,50%,0.1%").loss, Loss::GilbertElliott(elliott));
    assert_eq!(
        (down("--ber 1e-7").loss, down("--loss-list 1,5").loss),
        (Loss::BitErrors(1e-7), Loss::List(vec![1, 5]))
    );
    let places = Reordering::Places { share: 0.013, places: 3, patience: Span::from_millis(100) };
    assert_eq!(down("--reorder 1.3%,3").reordering, Some(places));
    let late = Reordering::Late { share: 0.05, least: Span::from_millis(10), most: Span::from_millis(100) };
    assert_eq!(down("--late 5%,10ms,100ms").reordering, Some(late));
    assert_eq!((down("--duplicate 1%").duplication, down("--jitter 5ms").jitter), (0.01, Span::from_millis(5)));
    assert_eq!(down("--corrupt 1%,5%").corruption, crate::Corruption { share: 0.01, unseen: 0.05 });
    assert_eq!(
        (down("--overhead 18B").overhead, down("--overhead aal5").overhead),
        (Overhead::Bytes(18), Overhead::Aal5)
    );
    let policer = Policer { rate: Rate::from_bits_per_sec(10_000_000), burst: 30_000 };
    assert_eq!(down("--policer 10mbit,30kB").policer, Some(policer));
    let at = |secs| Time::ZERO + Span::from_secs(secs);
    let outages = down("--outage 10s,2s --outage 20s,1s,hold").outages;
    assert_eq!(outages.iter().map(|o| (o.from, o.until)).collect::<Vec<_>>(), [(at(10), at(12)), (at(20), at(21))]);
    assert_eq!(outages[1].kind, OutageKind::Hold);
    let step = Step { at: at(15), rate: Some(Rate::from_bits_per_sec(40_000_000)), delay: Some(Span::from_millis(30)) };
    assert_eq!(down("--step 15s,40mbit,60ms --step 30s,-,20ms").steps[0], step);
    let phase = |lasts, delay, loss, interval| {
        let [lasts, delay, interval] = [lasts, delay, interval].map(Span::from_millis);
        Phase { lasts, delay, loss, interval }
    };
    assert_eq!(down("--cycle 1s,20ms/40ms,0ms,5%,3ms").cycle, [phase(1_000, 20, 0.0, 0), phase(40, 0, 0.05, 3)]);
    assert_eq!(down("--bleach both").bleaching, crate::Bleaching { ecn: true, dscp: true });
    assert_eq!(down("--bleach-up ecn").bleaching, crate::Bleaching::default());
    assert_eq!(down("--mtu 1400B,3s").mtu, Some(crate::Mtu { from: at(3), size: 1_400 }));
    let geo = build("--scenario geo --loss-up 1% --queue-down 64KiB").unwrap().link;
    assert_eq!((geo.there.loss, geo.back.queue.limit), (Loss::Uniform(0.01), Limit::Bytes(65_536)));
    assert_eq!(geo.there.delay, Span::from_millis(300));
}

/// Checks against draft-irtf-iccrg-tcpeval-01, section 4: 4 Mb/s up and 40 Mb/s down.
#[test]
fn a_scenario_turned_round_has_its_fast_side_up() {
    let [four, forty] = [4, 40].map(|mega| LinkRate::Constant(Rate::from_bits_per_sec(mega * 1_000_000)));
    let [geo, swapped] = ["--scenario geo", "--scenario geo --swap"].map(|text| build(text).unwrap().link);
    assert_eq!((&geo.there.rate, &geo.back.rate), (&four, &forty));
    assert_eq!(swapped, Duplex { there: geo.back.clone(), back: geo.there });
    // Options for up apply away from the client, wherever they stand.
    for text in ["--scenario geo --swap --loss-up 1%", "--loss-up 1% --swap --scenario geo"] {
        let link = build(text).unwrap().link;
        assert_eq!(link.there, LinkConfig { loss: Loss::Uniform(0.01), ..geo.back.clone() }, "{text}");
    }
    assert_eq!(build("--scenario oc3 --swap"), build("--scenario oc3"));
    let told = |text: &str| build(text).unwrap_err().to_string();
    assert!(told("--rate-up 1mbit --swap").starts_with("--swap reverses a scenario and needs --scenario"));
    assert_eq!(told("--scenario geo --swap --swap"), "--swap is given twice; leave one of them out");
    assert_eq!(told("--scenario geo --swap=up"), "--swap takes no value");
    assert!(told("--scenario geo --swap-up").starts_with("there is no option --swap-up"));
}

#[test]
fn options_override_the_steps_of_a_scenario() {
    let (fifty, leo) = (Rate::from_bits_per_sec(50_000_000), build("--scenario leo").unwrap().link);
    let end = Time::MAX;
    // With the rate of one direction set, its delay and the other direction change as in the scenario.
    let rate = build("--scenario leo --rate-down 50mbit").unwrap().link;
    assert_eq!((rate.there, rate.back.rate_at(end)), (leo.there.clone(), Some(fifty)));
    assert_eq!(rate.back.steps.len(), leo.back.steps.len());
    assert!(
        rate.back.steps.iter().zip(&leo.back.steps).all(|(step, was)| step.rate.is_none() && step.delay == was.delay)
    );
    // With the RTT set, the rates change as in the scenario.
    let rtt = build("--scenario leo --rtt 30ms").unwrap().link.back;
    assert!(rtt.steps.iter().zip(&leo.back.steps).all(|(step, was)| step.delay.is_none() && step.rate == was.rate));
    let both = build("--scenario leo --rate 50mbit --delay 9ms").unwrap().link;
    assert_eq!(both.back, LinkConfig::new(fifty, Span::from_millis(9)).queue(leo.back.queue.limit));
    let trace = build("--scenario leo --trace up.trace").unwrap().link.there;
    assert!(matches!(trace.rate, LinkRate::Trace(_)) && trace.steps[0].delay == leo.there.steps[0].delay);
    let steps = build("--scenario leo --rate 50mbit --step 5s,10mbit,-").unwrap().link.there;
    assert_eq!((steps.steps.len(), steps.rate_at(end)), (1, Some(Rate::from_bits_per_sec(10_000_000))));
}

#[test]
fn faults_name_the_option_and_the_remedy() {
    assert_eq!(
        told("--rate 0mbit"),
        "up: the rate is 0, so nothing would ever pass; give at least 8 bit/s, or an outage for a time without service"
    );
    assert_eq!(
        told("--rate 1mbit --delay-down -5ms"),
        "--delay-down \"-5ms\" is negative; write it as 250us, 65ms, 1.5s or 2min"
    );
    assert_eq!(
        told("--rate 1mbit --queue 0p"),
        "up: the queue holds 0 packets; give at least 1, or leave the limit out for an infinite queue"
    );
    assert_eq!(told("--queue 10p"), "up: --queue needs --rate or --trace: without a rate nothing ever waits");
    assert_eq!(
        told("--rate 1mbit --queue 1bdp"),
        "up: --queue needs a delay: --rtt or --delay; the product of rate and RTT is 0"
    );
    assert_eq!(
        told("--rate 1mbit --queue 10"),
        "--queue \"10\" has no unit; write it as 1000p, 150kB, 1bdp or infinite"
    );
    assert!(told("--rate 1mbit --queue many").starts_with("--queue \"many\" is not a queue limit; write it"));
    assert_eq!(told("--loss 1% --loss-ge 1%,5%"), "--loss and --loss-ge exclude each other; leave one of them out");
    assert_eq!(told("--rtt-up 1s --delay-up 1s"), "--rtt-up and --delay-up exclude each other; leave one of them out");
    assert_eq!(told("--rate 1mbit --rate 2mbit"), "--rate is given twice; leave one of them out");
    assert_eq!(told("--rate 1mbit --trace up.trace"), "--rate and --trace exclude each other; leave one of them out");
    assert_eq!(told("--trace nowhere"), "nowhere: No such file or directory");
    assert_eq!(
        told("--trace-down back.trace"),
        "back.trace: line 2 of the trace goes backwards, from 2 to 1 ms; sort the lines by time"
    );
    assert_eq!(told("--rate 1mbit --ecn"), "up: --ecn needs a queue that marks: --aqm codel, red, pie or dualpi2");
    assert!(told("--rate 1mbit --ecn --aqm-up codel").starts_with("down: --ecn needs a queue that marks"));
    assert!(told("--queue 10p --rate-up 1mbit").starts_with("down: --queue needs --rate or --trace"));
    assert_eq!(
        told("--rate 1mbit --rtt 1s --queue 1e30bdp"),
        "--queue \"1e30bdp\" is more than a million bdp; write infinite"
    );
    assert_eq!(told("--mtu 67B,3s"), "--mtu \"67B\" is less than 68B, which every IP link carries (RFC 791)");
    assert_eq!(
        told("--policer-down 1mbit,1499B"),
        "down: the policer's burst of 1499 bytes is less than a packet; give at least 1500 bytes"
    );
    assert_eq!(
        told("--loss-list 5,1"),
        "up: lost packet 2 of the list is not after the one before; sort them by number, each once"
    );
    assert!(
        told("--scenario moon").starts_with("there is no scenario \"moon\"; the scenarios are nasa-20mbit-500ms, ")
    );
    assert!(told("--aqm blue").ends_with(
        "valid choices are droptail, drophead, priority, rc3, peach, codel, red or red:MIN,MAX, pie and dualpi2"
    ));
    assert_eq!(
        told("--reorder 5%"),
        "--reorder \"5%\" should be a share, a number of places, and optionally a maximum time, as in 1.3%,3, separated by commas"
    );
    assert_eq!(told("--seed x"), "--seed \"x\" is not a number; write it as a whole number");
    assert_eq!(told("--rate"), "--rate needs a value");
    assert_eq!(told("--ecn=yes"), "--ecn takes no value");
    assert_eq!(
        told("--step 5s,1mbit,10ms"),
        "up: an unlimited rate and a step of the rate exclude each other; leave one of them out"
    );
    assert!(
        LinkOptions::new()
            .set("speed", None)
            .unwrap_err()
            .to_string()
            .starts_with("there is no option --speed; the options are --rate, ")
    );
}

#[test]
fn reading_stops_at_the_first_foreign_argument() {
    let mut options = LinkOptions::new();
    assert_eq!(options.read(&["--rtt", "5ms", "--listen", "x"]), Ok(2));
    assert_eq!(options.read(&["--", "--rtt"]), Ok(0));
    assert_eq!((LinkOptions::takes_value("ecn-up"), LinkOptions::takes_value("rate-down")), (Some(false), Some(true)));
    assert_eq!(LinkOptions::takes_value("listen"), None);
}

#[test]
fn routers_are_for_directions_and_within_their_ranges() {
    use crate::router::{QuickStartConfig, RcpConfig, RouterConfig, XcpConfig};

    let routers = |line: &str| {
        let link = build(line).unwrap().link;
        (link.there.router, link.back.router)
    };
    let (rcp, xcp) = (RouterConfig::Rcp(RcpConfig::default()), RouterConfig::Xcp(XcpConfig::default()));
    assert_eq!(routers("--rate 1mbit"), (None, None));
    assert_eq!(routers("--router rcp --router-down none"), (Some(rcp.clone()), None));
    assert_eq!(routers("--router-up xcp --router rcp"), (Some(xcp), Some(rcp)));
    let quick_start = QuickStartConfig { threshold: 0.5, ..QuickStartConfig::default() };
    let quick_start = Some(RouterConfig::QuickStart(quick_start));
    assert_eq!(routers("--scenario geo --router quick-start(threshold=50%)"), (quick_start.clone(), quick_start));
    assert_eq!(told("--router-up rcp(gamma=2)"), "up: the RCP gamma is 2; it must be from 0.01 to 1");
    assert_eq!(told("--router-down xcp(rtt-max=0)"), "down: the maximum XCP RTT is 0ns; it must be from 1ms to 60s");
    for (router, wrong) in [
        ("quick-start", &["slot=999us", "slot=61s", "slots=0", "slots=1001", "interval=0", "intervals=0"][..]),
        ("rcp", &["alpha=0", "alpha=11", "beta=-1", "beta=11", "gamma=0", "interval=9us", "interval=2s"]),
        ("rcp", &["first-rtt=0", "first-rtt=1001s", "least=-1", "least=101", "rtt-max=0", "rtt-max=1001s"]),
        ("xcp", &["alpha=0", "alpha=1.1", "beta=-0.1", "beta=1.1", "first-interval=0", "first-interval=61s"]),
        ("xcp", &["least-interval=99us", "least-interval=2s", "least-queue-interval=99us", "rtt-max=61s"]),
    ] {
        for wrong in wrong {
            let told = told(&format!("--router {router}({wrong})"));
            assert!(told.starts_with("up: the ") && told.contains("; it must be from "), "{wrong}: {told}");
        }
    }
    for (router, right) in [
        ("quick-start", "threshold=0,slot=1ms,slots=1,interval=1ms,intervals=1"),
        ("quick-start", "threshold=1,slot=60s,slots=1000,interval=60s,intervals=1000"),
        ("rcp", "alpha=0.001,beta=0,gamma=0.01,interval=10us,first-rate=0,first-rtt=1us,least=0,rtt-max=1us"),
        ("rcp", "alpha=10,beta=10,gamma=1,interval=1s,first-rate=1,first-rtt=1000s,least=100,rtt-max=1000s"),
        ("xcp", "alpha=0.001,beta=0,shuffle=0,first-interval=1ms,least-interval=100us,least-queue-interval=100us"),
        ("xcp", "alpha=1,beta=1,shuffle=1,first-interval=60s,least-interval=1s,least-queue-interval=1s,rtt-max=60s"),
    ] {
        assert_eq!(told(&format!("--router {router}({right})")), "nothing");
    }
}
