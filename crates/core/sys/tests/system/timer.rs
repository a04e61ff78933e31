//! Timer and clocks.

use std::thread::{sleep, yield_now};
use std::time::Duration;

use longhaul_sys::linux::{Timer, clock_pair, monotonic_now, process_cpu_time, realtime_now, thread_cpu_time};

const MS: u64 = 1_000_000;

fn wait(timer: &Timer) {
    for _ in 0..5000 {
        if timer.drain().unwrap() {
            return;
        }
        sleep(Duration::from_millis(1));
    }
    panic!("the timer did not fire");
}

#[test]
fn fires_at_its_deadline_or_later_and_once() {
    let timer = Timer::new().unwrap();
    assert!(!timer.drain().unwrap(), "not armed");
    for wait_ns in [0, 1, 300_000, 5 * MS] {
        let deadline = monotonic_now() + wait_ns;
        timer.arm(Some(deadline)).unwrap();
        wait(&timer);
        assert!(monotonic_now() >= deadline);
        assert!(!timer.drain().unwrap());
    }
}

#[test]
fn past_deadlines_fire_and_absent_ones_do_not() {
    let timer = Timer::new().unwrap();
    for past in [0, 1, monotonic_now() - 1] {
        timer.arm(Some(past)).unwrap();
        wait(&timer);
    }
    timer.arm(Some(monotonic_now())).unwrap();
    timer.arm(None).unwrap();
    assert!(!timer.drain().unwrap(), "disarming takes readability back");
    timer.arm(Some(u64::MAX)).unwrap();
    assert!(!timer.drain().unwrap());
}

#[test]
fn clocks_run() {
    let pair = clock_pair();
    assert!(pair.monotonic <= monotonic_now());
    assert!(pair.realtime.as_secs() > 1_600_000_000 && realtime_now().as_secs() > 1_600_000_000);
    let (thread, process) = (thread_cpu_time(), process_cpu_time());
    while thread_cpu_time() == thread {
        yield_now();
    }
    assert!(process_cpu_time() > process);
}
