//! Checks of the algorithm against its paper and the rules of longhaul, and a transfer over real sockets.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::process::{Command, Stdio};

use longhaul_cc::compose::{CongestionAvoidance, CongestionEvent, Signal, Window};
use longhaul_cc::registry::Spec;
use longhaul_cc::{Ack, Path};
use longhaul_conformance::{Expect, check};
use longhaul_controller::{Gaimd, register};
use longhaul_units::{Bytes, Time};

const MSS: f64 = 1000.0;

/// If one of `1 / p` segments is lost, the mean window in segments is that of NewReno, sqrt(3 / (2p)), for every
/// `keep`.
#[test]
fn the_throughput_is_that_of_new_reno() {
    let (path, loss) = (Path::new(Bytes(1000)), 1e-4);
    let wanted = (1.5_f64 / loss).sqrt();
    for keep in [0.5, 0.75, 0.875, 0.95] {
        let mut gaimd = Gaimd::new(keep);
        let mut window = Window::new(wanted * MSS);
        let (mut sent, mut segments, mut round_trips) = (0.0, 0.0, 0.0);
        while round_trips < 100_000.0 {
            sent += window.cwnd / MSS;
            segments += window.cwnd / MSS;
            round_trips += 1.0;
            gaimd.on_ack(&Ack::new(Time::ZERO), Bytes(window.cwnd as u64), &path, &mut window);
            if sent >= 1.0 / loss {
                sent -= 1.0 / loss;
                let event = CongestionEvent::new(Time::ZERO, Signal::Loss, Bytes(window.cwnd as u64), window.cwnd);
                window.cwnd = gaimd.reduce(&event, &path).cwnd;
            }
        }
        let mean = segments / round_trips;
        assert!((mean / wanted - 1.0).abs() < 0.02, "{keep}: {mean}, not {wanted}");
    }
}

#[test]
fn it_passes_the_suite_and_is_found_by_name() {
    register().unwrap();
    for spec in ["slow-start+gaimd", "gaimd(keep=0.5)", "slow-start+gaimd(keep=0.95)"] {
        let spec: Spec = spec.parse().unwrap();
        check(&spec, Expect::default(), 128);
    }
    assert!("gaimd(keep=2)".parse::<Spec>().is_err());
    assert!(register().is_err(), "a name is registered once");
}

#[test]
fn the_program_transfers_with_it() {
    let program = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul-controller"));
        command.args(arguments).stdin(Stdio::null()).output().unwrap()
    };
    let done = program(&["slow-start+gaimd(keep=0.9)"]);
    assert!(done.status.success(), "{done:?}");
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(said.starts_with("4000000 bytes arrived, sent by slow-start+gaimd(keep=0.9)"), "{said}");
    let refused = program(&["gaimd(keep=7)"]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("keep"), "{refused:?}");
}
