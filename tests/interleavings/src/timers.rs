//! Models of the timer hub.
#![allow(clippy::unwrap_used, reason = "models are part of tests")]

use std::future::poll_fn;

use shuttle::future::block_on;
use shuttle::thread;

use super::fd::Device;
use super::*;

/// Runs the hub's task on a device whose clock runs, while `sockets` use the hub.
fn with_hub(sockets: impl FnOnce(&Arc<Hub>)) {
    Device::reset();
    let device = Arc::new(Device::default());
    let hub = Arc::new(Hub::new(Some(Fd::of(&device))));
    let kernel = Arc::clone(&device);
    let kernel = thread::spawn(move || kernel.run());
    let runtime = Handle::current().id();
    let mut task = Wait { hub: Arc::clone(&hub), runtime, wakers: Vec::new(), sleep: None };
    let task = thread::spawn(move || {
        block_on(&mut task);
        // Dropping it would remove it from the table of all hubs, in which it is not.
        std::mem::forget(task);
    });
    sockets(&hub);
    device.end();
    kernel.join().unwrap();
    task.join().unwrap();
}

/// Sets a timer, and waits for it.
fn expect(timer: &SocketTimer, millis: u64) {
    let deadline = Time::from_nanos(millis * 1_000_000);
    timer.arm(deadline);
    block_on(poll_fn(|cx| timer.poll_fired(cx)));
    assert!(now() >= deadline, "{:?} is before {deadline:?}", now());
    assert!(timer.poll_fired(&Context::from_waker(Waker::noop())).is_pending(), "it has fired twice");
}

/// Sockets set their timers while the hub's task expires those of others, earlier ones and later ones.
pub fn each_timer_fires_once() {
    with_hub(|hub| {
        let sockets = [[5, 7], [3, 9]].map(|deadlines| {
            let timer = SocketTimer::of(Arc::clone(hub));
            thread::spawn(move || deadlines.into_iter().for_each(|millis| expect(&timer, millis)))
        });
        sockets.into_iter().for_each(|socket| socket.join().unwrap());
    });
}

/// A timer is dropped when it may expire, and its number is given to another one.
pub fn a_dropped_timer_does_not_fire_for_its_successor() {
    with_hub(|hub| {
        let timers = [3, 6].map(|millis| {
            let hub = Arc::clone(hub);
            thread::spawn(move || {
                let dropped = SocketTimer::of(Arc::clone(&hub));
                dropped.arm(Time::from_nanos(1));
                drop(dropped);
                expect(&SocketTimer::of(hub), millis);
            })
        });
        timers.into_iter().for_each(|timer| timer.join().unwrap());
    });
}
