//! BBR over simulated links: goodput, queue length and retransmissions.
//!
//! The reference is Linux's BBR (version 1, kernel 6.18): one flow over an emulated link with 1500-byte packets for
//! 40 to 60 s, measured with iperf3 on 2026-11-21.

use longhaul_link::{Limit, LinkConfig, Loss};
use longhaul_sim::{Content, Plan, Series, SeriesId, SessionId, Setup, Sim};
use longhaul_tcp::Info;
use longhaul_tests_papers::long;
use longhaul_units::{Rate, Span};

const RUN: Span = Span::from_secs(60);

/// Rate in Mb/s, RTT in ms, queue in bytes, loss rate, and the measured goodput of Linux's BBR in Mb/s.
const ROWS: [(u64, u64, u64, f64, f64); 6] = [
    (155, 65, 1_260_000, 0.0, 145.0),
    (155, 65, 1_260_000, 0.001, 143.0),
    (155, 65, 1_260_000, 0.0025, 143.0),
    (155, 65, 1_260_000, 0.005, 142.0),
    (20, 500, 1_250_000, 0.001, 16.8),
    (100, 133, 150_000, 0.000_05, 89.0),
];

struct Run {
    sim: Sim,
    sender: SessionId,
    receiver: SessionId,
    series: SeriesId,
}

impl Run {
    /// Starts an endless transfer; the reverse path has only a delay.
    fn new(congestion: &str, (mbit, rtt_millis, queue, loss, _): (u64, u64, u64, f64, f64)) -> Self {
        let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
        let mut there = LinkConfig::new(rate, Span::from_micros(rtt_millis * 500)).queue(Limit::Bytes(queue));
        if loss > 0.0 {
            there = there.loss(Loss::Uniform(loss));
        }
        let back = LinkConfig::delay(there.delay);
        let setup = Setup::pair(1, longhaul_link::topology::Duplex { there, back }).configure(|config| {
            config.congestion = longhaul_tests_papers::congestion(congestion);
            (config.send_buffer, config.recv_buffer) = (64 << 20, 64 << 20);
        });
        let mut sim = Sim::new(setup);
        let (mut plan, mut sink) = (Plan::bulk(u64::MAX), Plan::sink());
        (plan.content, sink.content) = (Content::Zeros, Content::Zeros);
        let (sender, receiver) = sim.open(plan, sink);
        let series = sim.record(sender, Some(0), Span::from_millis(10));
        Self { sim, sender, receiver, series }
    }

    /// Returns the goodput in Mb/s over the next `span`.
    fn goodput(&mut self, span: Span) -> f64 {
        let before = self.sim.find(self.receiver).map_or(0, |session| session.read);
        self.sim.run_for(span);
        (self.sim.session(self.receiver).read - before) as f64 * 8e-6 / span.as_secs_f64()
    }

    fn info(&self) -> Info {
        let connection = self.sim.session(self.sender).id;
        self.sim.host(self.sender.host).endpoint.connection(connection).unwrap().info(self.sim.now())
    }

    fn series(&self) -> &Series {
        self.sim.series(self.series)
    }
}

/// Returns the minimum and maximum over all rows of the goodput relative to Linux's BBR, over a minute that includes
/// start-up.
fn parts(congestion: &str) -> (f64, f64) {
    let (mut least, mut most) = (f64::MAX, 0.0_f64);
    // The rates of loss between the first row's and the fourth's are those of long runs.
    for (_, row) in ROWS.into_iter().enumerate().filter(|(number, _)| long() || ![1, 2].contains(number)) {
        let mut run = Run::new(congestion, row);
        let goodput = run.goodput(RUN);
        let info = run.info();
        let again = info.bytes_retransmitted as f64 / info.bytes_sent as f64;
        println!("{congestion} {row:?}: {goodput:.1} Mb/s, {:.2} % sent again", again * 100.0);
        let part = goodput / row.4;
        (least, most) = (least.min(part), most.max(part));
    }
    (least, most)
}

/// The tolerance is 3 % plus 0.3 % for the rounding of 16.75 to 16.8 Mb/s.
#[test]
fn version_1_has_the_throughput_of_linux() {
    let (least, most) = parts("bbr1");
    assert!(least >= 0.967 && most <= 1.033, "{least:.3} to {most:.3} of Linux's");
}

#[test]
fn version_3_has_at_least_the_throughput_of_version_1() {
    let (least, _) = parts("bbr");
    assert!(least >= 0.97, "{least:.3} of Linux's version 1");
}

/// Version 3 loses less on a shallow queue than version 1, because it learns the capacity of the path
/// (draft-ietf-ccwg-bbr).
#[test]
fn version_3_does_not_keep_overflowing_a_shallow_queue() {
    let again = |congestion: &str| {
        let mut run = Run::new(congestion, ROWS[5]);
        run.goodput(Span::from_secs(10));
        let before = run.info();
        run.goodput(Span::from_secs(30));
        let after = run.info();
        (after.bytes_retransmitted - before.bytes_retransmitted) as f64 / (after.bytes_sent - before.bytes_sent) as f64
    };
    let (three, one) = (again("bbr"), again("bbr1"));
    assert!(three < 0.01, "{three}");
    assert!(three < one / 2.0, "{three}, version 1 {one}");
}

/// On a link with a queue of one BDP, BBR's mean queue is about a tenth of a BDP, whereas CUBIC's is nearly one BDP.
#[test]
fn hardly_a_queue_stands() {
    for (congestion, most) in [("bbr", 0.12), ("bbr1", 0.12)] {
        let mut run = Run::new(congestion, ROWS[0]);
        run.goodput(Span::from_secs(20));
        let series = run.series();
        let late = series.queue.iter().skip(series.queue.len() / 4).map(|bytes| bytes.as_f64());
        let count = series.queue.len() - series.queue.len() / 4;
        let mean = late.sum::<f64>() / count as f64 / 1_260_000.0;
        assert!(mean < most, "{congestion}: {mean:.3} of the queue");
    }
}
