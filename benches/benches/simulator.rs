//! Speed of the simulator, and memory per simulated endpoint.
//!
//! * **`bulk_segments_per_s`**: one connection with timestamps and CUBIC over 1 Gb/s, 20 ms and a queue of one
//!   bandwidth-delay product, for 20 s of virtual time after the first second. The value is the number of data segments
//!   sent per second of CPU time, which includes the work of both hosts, of the links, and of half an ACK per segment.
//! * **`dumbbell_900_speedup`**: virtual time divided by CPU time, for 300 s of virtual time, 450 clients and 450
//!   servers on the dumbbell of the TCP evaluation suite, 10 Mb/s and 50 packets; HTTP/1.0 with truncated Pareto
//!   responses of 14 kB on average loads the bottleneck to 90 %.
//! * **`dumbbell_900_saturated_speedup`**: the same with 450 concurrent bulk transfers, which lose a third of their
//!   packets.
//! * **`bytes_per_endpoint`**: on the same dumbbell, each pair has one idle connection that has carried 10 kB. The value
//!   is the number of allocated bytes, including those of the links, divided by 900.
//!
//! Streams are zeros, which packets carry as a number. Values are medians of `LONGHAUL_BENCH_RUNS` (5) runs. CPU time
//! is that of the only thread: other work on the machine affects it only through caches and the clock rate. Results go
//! to `bench/simulator.json` in the target directory.

#[cfg(target_os = "linux")]
mod linux {
    use std::time::Duration;

    use allocation_counter::measure;
    use anyhow::{Context, Result};
    use longhaul_benches::report;
    use longhaul_link::source::{BoundedPareto, HttpWorkload};
    use longhaul_link::statistics;
    use longhaul_link::topology::{Dumbbell, Duplex, dumbbell};
    use longhaul_link::{Limit, LinkConfig, Random};
    use longhaul_sim::{Close, Plan, SessionId, Setup, Sim};
    use longhaul_sys::linux::process_cpu_time;
    use longhaul_units::{Rate, Span, Time};
    use serde::Serialize;

    #[derive(Serialize)]
    struct Results {
        bulk_segments_per_s: f64,
        dumbbell_900_speedup: f64,
        dumbbell_900_saturated_speedup: f64,
        bytes_per_endpoint: i64,
    }

    fn cpu_seconds(act: impl FnOnce()) -> f64 {
        let before: Duration = process_cpu_time();
        act();
        (process_cpu_time() - before).as_secs_f64()
    }

    fn median(runs: usize, mut run: impl FnMut() -> Result<f64>) -> Result<f64> {
        let values = (0..runs.max(1)).map(|_| run()).collect::<Result<Vec<f64>>>()?;
        statistics::median(&values).context("no run")
    }

    fn segments_out(sim: &Sim, session: SessionId) -> Result<u64> {
        let host = sim.host(session.host);
        let connection = host.endpoint.connection(sim.session(session).id).context("the connection is gone")?;
        Ok(connection.info(sim.now()).data_segments_out)
    }

    fn bulk() -> Result<f64> {
        let link = LinkConfig::new(Rate::from_bits_per_sec(1_000_000_000), Span::from_millis(10));
        let mut sim = Sim::new(Setup::symmetric(1, link.queue(Limit::Packets(1_667))));
        let (client, _) = sim.open(Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
        sim.run_for(Span::from_secs(1));
        let before = segments_out(&sim, client)?;
        let seconds = cpu_seconds(|| sim.run_for(Span::from_secs(20)));
        Ok((segments_out(&sim, client)? - before) as f64 / seconds)
    }

    const BOTTLENECK: Rate = Rate::from_bits_per_sec(10_000_000);

    fn network() -> (Dumbbell, Vec<(usize, usize)>) {
        let link = LinkConfig::new(BOTTLENECK, Span::from_millis(5)).queue(Limit::Packets(50));
        // One-way delays of the access links (draft-irtf-iccrg-tcpeval-01, section 3.1): 50 pairs for each of nine RTTs.
        let pairs =
            || (0..50).flat_map(|_| [0, 12, 25].into_iter().flat_map(|left| [2, 37, 75].map(|right| (left, right))));
        let access = |millis| Duplex::delay(Span::from_millis(millis));
        let (left, right) = (pairs().map(|(left, _)| access(left)), pairs().map(|(_, right)| access(right)));
        let net = dumbbell(Duplex::symmetric(link), left, right);
        let pairs = net.left.iter().zip(&net.right).map(|(left, right)| (*left as usize, *right as usize)).collect();
        (net, pairs)
    }

    fn http() -> f64 {
        let (net, pairs) = network();
        let mut sim = Sim::new(Setup::new(1, net.topology));
        let span = Span::from_secs(300);
        for (stream, (server, client)) in (1_000_000..).zip(&pairs) {
            let load = 0.9 / pairs.len() as f64;
            let responses = BoundedPareto::http_responses();
            let vectors = HttpWorkload::new(Time::ZERO, BOTTLENECK, load, responses, Random::new(1, stream));
            let (client, server) = (*client, *server);
            sim.add_population(vectors.map(move |vector| (client, server, vector)), Time::ZERO + span);
        }
        span.as_secs_f64() / cpu_seconds(|| sim.run_for(span))
    }

    fn saturated() -> f64 {
        let (net, pairs) = network();
        let mut sim = Sim::new(Setup::new(1, net.topology));
        for (left, right) in pairs {
            sim.open_between(left, right, Plan::bulk(u64::MAX).zeros(), Plan::sink().zeros());
        }
        let span = Span::from_secs(200);
        span.as_secs_f64() / cpu_seconds(|| sim.run_for(span))
    }

    fn memory() -> i64 {
        let (mut kept, mut hosts) = (None, 0);
        let allocated = measure(|| {
            let (net, pairs) = network();
            let mut sim = Sim::new(Setup::new(1, net.topology));
            let mut plan = Plan::bulk(10_000).zeros();
            plan.close = Close::Never;
            for (left, right) in &pairs {
                sim.open_between(*left, *right, plan, Plan::sink().zeros());
            }
            sim.run_for(Span::from_secs(120));
            hosts = 2 * pairs.len();
            kept = Some(sim);
        });
        drop(kept);
        allocated.bytes_current / hosts as i64
    }

    pub(crate) fn main() -> Result<()> {
        let runs = report::setting("LONGHAUL_BENCH_RUNS", 5)?;
        let results = Results {
            bulk_segments_per_s: median(runs, bulk)?,
            dumbbell_900_speedup: median(runs, || Ok(http()))?,
            dumbbell_900_saturated_speedup: median(runs, || Ok(saturated()))?,
            bytes_per_endpoint: memory(),
        };
        println!("one bulk flow:            {:>9.0} segments per second", results.bulk_segments_per_s);
        println!("450 + 450 on 10 Mb/s:     {:>9.0} times real time", results.dumbbell_900_speedup);
        println!("  saturated:              {:>9.0} times real time", results.dumbbell_900_saturated_speedup);
        println!("an idle endpoint:         {:>9} bytes", results.bytes_per_endpoint);
        report::write_json(env!("CARGO_TARGET_TMPDIR"), "simulator.json", &results)
    }
}

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}
