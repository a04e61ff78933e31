//! Scenarios: properties of the path, behaviour of the applications, and limits.

use std::sync::Arc;

use longhaul_link::source::Source;
use longhaul_link::topology::Duplex;
use longhaul_link::{
    CoDelConfig, Discipline, GilbertElliott, Limit, LinkConfig, LinkRate, Loss, Outage, OutageKind, RedConfig,
    Reordering, Step, Trace,
};
use longhaul_sim::{Plan, Setup};
use longhaul_tcp::Config;
use longhaul_units::{Rate, Span, Time};

/// Length in bytes of an IP packet with a full segment.
pub(crate) const PACKET: u64 = 1500;

#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    /// Name of at most ten characters, as in the table of bounds.
    pub(crate) name: &'static str,
    pub(crate) bytes: u64,
    /// Number of runs, enough to average out random effects. The mean time counts.
    pub(crate) seeds: u64,
    /// Changes to the standard path.
    pub(crate) change: fn(&mut Setup),
    /// Changes to the sending application.
    pub(crate) plan: fn(Plan) -> Plan,
    /// Rate of the cross traffic, if any.
    pub(crate) beside: Option<Rate>,
    /// Maximum number of retransmission timeouts per run.
    pub(crate) timeouts: u64,
    /// Maximum window in bytes. A larger window has grown without limit.
    pub(crate) most_cwnd: u64,
}

impl Scenario {
    const fn new(name: &'static str, bytes: u64, change: fn(&mut Setup)) -> Self {
        Self { name, bytes, seeds: 1, change, plan: |plan| plan, beside: None, timeouts: 2, most_cwnd: 2_000_000 }
    }
}

const RATE: Rate = Rate::from_bits_per_sec(20_000_000);
const RTT: Span = Span::from_millis(40);

/// Returns the standard path: 20 Mb/s, 40 ms, and a queue of one BDP, which is 100 kB. The reverse path has only a
/// delay. The receive window starts so small, and opens as the application reads, that slow start overflows the queue
/// only slightly.
pub(crate) fn standard(seed: u64) -> Setup {
    Setup::pair(seed, path(RATE, RTT)).configure(|config| config.recv_buffer = 256 << 10)
}

fn path(rate: Rate, rtt: Span) -> Duplex {
    let there = LinkConfig::new(rate, rtt / 2).queue(Limit::Bytes(rate.bytes_in(rtt).0));
    Duplex { there, back: LinkConfig::delay(rtt / 2) }
}

fn replace(setup: &mut Setup, path: Duplex) {
    *setup.link_mut(0) = path.there;
    *setup.link_mut(1) = path.back;
}

/// Returns cross traffic with a constant rate.
pub(crate) fn cbr(rate: Rate) -> Source {
    Source::cbr(Time::ZERO, rate, PACKET as u32)
}

fn clock(setup: &mut Setup, granularity: Span) {
    setup.hosts.iter_mut().for_each(|host| host.clock_granularity = Some(granularity));
}

const COARSE: Span = Span::from_micros(15_600);

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// Columns of the matrix.
pub(crate) static SCENARIOS: &[Scenario] = &[
    Scenario::new("clean", 10_000_000, |_| {}),
    Scenario {
        // Slow start leaves hundreds of gaps, and some recovery algorithms do not detect lost retransmissions.
        timeouts: 12,
        ..Scenario::new("4-MiB", 10_000_000, |setup| {
            let offered = Config::default().recv_buffer;
            setup.hosts.iter_mut().for_each(|host| Arc::make_mut(&mut host.config).recv_buffer = offered);
        })
    },
    Scenario { seeds: 4, ..Scenario::new("loss", 2_500_000, |setup| setup.link_mut(0).loss = Loss::Uniform(0.01)) },
    Scenario {
        seeds: 4,
        ..Scenario::new("bursts", 2_500_000, |setup| {
            setup.link_mut(0).loss = Loss::GilbertElliott(GilbertElliott::simple(0.004, 0.5));
        })
    },
    Scenario {
        seeds: 2,
        ..Scenario::new("reordering", 5_000_000, |setup| {
            let (least, most) = (Span::from_millis(1), Span::from_millis(15));
            setup.link_mut(0).reordering = Some(Reordering::Late { share: 0.02, least, most });
        })
    },
    Scenario::new("ack-bunch", 10_000_000, |setup| {
        let bunches = Trace::parse("25\n25\n25\n").expect("a trace");
        setup.link_mut(1).rate = LinkRate::Trace(Arc::new(bunches));
    }),
    Scenario::new("1ms", 10_000_000, |setup| clock(setup, Span::from_millis(1))),
    // FreeBSD and older Linux kernels have this clock with 100 Hz.
    Scenario::new("10ms", 1_000_000, |setup| clock(setup, Span::from_millis(10))),
    // At most 2896 bytes are sent per tick: the pacer compensates for wake-ups that are up to 1 ms late, but these are
    // up to 15.6 ms late.
    Scenario::new("15.6ms", 1_000_000, |setup| clock(setup, COARSE)),
    Scenario::new("1ms-lan", 10_000_000, |setup| {
        replace(setup, path(Rate::from_bits_per_sec(100_000_000), Span::from_micros(500)));
        setup.link_mut(0).queue = Limit::Bytes(100_000).into();
        clock(setup, Span::from_millis(1));
    }),
    Scenario::new("15.6ms-lan", 10_000_000, |setup| {
        replace(setup, path(Rate::from_bits_per_sec(100_000_000), Span::from_millis(2)));
        setup.link_mut(0).queue = Limit::Bytes(100_000).into();
        clock(setup, COARSE);
    }),
    Scenario::new("2-mss", 300_000, |setup| {
        for host in &mut setup.hosts {
            let config = Arc::make_mut(&mut host.config);
            (config.recv_buffer, config.recv_buffer_max) = (2896, 2896);
        }
    }),
    Scenario::new("4-packets", 4_000_000, |setup| setup.link_mut(0).queue = Limit::Packets(4).into()),
    Scenario {
        plan: app_limited,
        // The limit allows for bursts of 20 kB, and the part of the window's growth that they fill. BBR's window is a
        // multiple of its model.
        most_cwnd: 80_000,
        ..Scenario::new("app-limit", 1_000_000, |_| {})
    },
    Scenario {
        plan: call,
        // The limit allows for the initial window, and for some growth at the start, which this source can fill only
        // briefly.
        most_cwnd: 80_000,
        ..Scenario::new("64kb/s", 40_000, |_| {})
    },
    Scenario::new("worsens", 8_000_000, |setup| {
        let (rate, delay) = (Some(Rate::from_bits_per_sec(5_000_000)), Some(Span::from_millis(60)));
        setup.link_mut(0).steps = vec![Step { at: at(2_000), rate, delay }];
        setup.link_mut(1).steps = vec![Step { at: at(2_000), rate: None, delay }];
    }),
    Scenario::new("improves", 20_000_000, |setup| {
        let (rate, delay) = (Some(Rate::from_bits_per_sec(80_000_000)), Some(Span::from_millis(10)));
        setup.link_mut(0).steps = vec![Step { at: at(2_000), rate, delay }];
        setup.link_mut(1).steps = vec![Step { at: at(2_000), rate: None, delay }];
    }),
    Scenario {
        timeouts: 5,
        ..Scenario::new("outage", 10_000_000, |setup| {
            for link in [0, 1] {
                setup.link_mut(link).outages =
                    vec![Outage { from: at(1_500), until: at(2_500), kind: OutageKind::Lose }];
            }
        })
    },
    Scenario::new("codel-ecn", 10_000_000, |setup| {
        let queue = longhaul_link::QueueConfig::from(Discipline::CoDel(CoDelConfig::default())).ecn();
        setup.link_mut(0).queue = queue.limit(Limit::Bytes(400_000));
    }),
    Scenario::new("red-ecn", 10_000_000, |setup| {
        let queue = longhaul_link::QueueConfig::from(Discipline::Red(RedConfig::default())).ecn();
        setup.link_mut(0).queue = queue.limit(Limit::Bytes(400_000));
    }),
    Scenario {
        most_cwnd: 80_000_000,
        ..Scenario::new("long-fat", 40_000_000, |setup| {
            replace(setup, path(Rate::from_bits_per_sec(200_000_000), Span::from_millis(200)));
        })
    },
    Scenario { beside: Some(Rate::from_bits_per_sec(10_000_000)), ..Scenario::new("half-cbr", 6_000_000, |_| {}) },
];

/// Returns a plan that sends 20 kB per 100 ms.
fn app_limited(plan: Plan) -> Plan {
    pausing(plan, 20_000, Span::from_millis(100))
}

/// Returns a plan that sends like a call with 64 kb/s: 160 bytes per 20 ms.
fn call(plan: Plan) -> Plan {
    pausing(plan, 160, Span::from_millis(20))
}

fn pausing(plan: Plan, chunk: usize, pause: Span) -> Plan {
    let mut plan = plan.zeros();
    (plan.write_chunk, plan.write_pause) = (chunk, pause);
    plan
}
