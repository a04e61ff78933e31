//! Nanoseconds for one ACK in each registered congestion controller: a prebuilt event in, a `Control` out.
//!
//! Every profile of the registry, and those variants that read more of an ACK, in two states: `avoidance` and
//! `recovery`. The events are in this package's library, `longhaul_instructions::acks`; building them is not timed. The bench
//! `costs` measures the same by CPU time and writes `docs/costs.md`.
#![allow(missing_docs, reason = "criterion's macros make public items")]

#[cfg(target_os = "linux")]
mod linux {
    use criterion::{Criterion, Throughput, criterion_group};
    use longhaul_instructions::acks::{Sender, State, laws};

    fn run(c: &mut Criterion, state: State, name: &str) {
        let mut group = c.benchmark_group(format!("controllers/ack in {name}"));
        group.throughput(Throughput::Elements(1));
        for law in laws() {
            group.bench_function(law, |b| {
                let mut sender = Sender::new(law, state).expect("a registered law");
                b.iter(|| sender.step());
            });
        }
    }

    fn avoidance(c: &mut Criterion) {
        run(c, State::Avoidance, "avoidance");
    }

    fn recovery(c: &mut Criterion) {
        run(c, State::Recovery, "recovery");
    }

    criterion_group!(benches, avoidance, recovery);
}

#[cfg(target_os = "linux")]
criterion::criterion_main!(linux::benches);

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this bench needs Linux");
}
