//! Nanoseconds per ACK of each registered congestion controller, from a prebuilt event to a `Control`.
//!
//! The benchmark covers every profile of the registry, and variants that use more fields of an ACK, in two states:
//! `avoidance` and `recovery`. The events are from `longhaul_instructions::acks`, and the time to create them is not
//! included. The bench `costs` measures the same as CPU time and writes `docs/costs.md`.
#![allow(missing_docs, reason = "criterion's macros make public items")]

#[cfg(target_os = "linux")]
mod linux {
    use criterion::{Criterion, Throughput, criterion_group};
    use longhaul_instructions::acks::{Sender, State, controllers};

    fn run(c: &mut Criterion, state: State, name: &str) {
        let mut group = c.benchmark_group(format!("controllers/ack in {name}"));
        group.throughput(Throughput::Elements(1));
        for controller in controllers() {
            group.bench_function(controller, |b| {
                let mut sender = Sender::new(controller, state).expect("a registered controller");
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
