//! Captures of a simulation, read by other programs.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

use longhaul_link::{Limit, LinkConfig};
use longhaul_sim::{Pcap, Plan, Setup, Sim};
use longhaul_units::{Rate, Span};

const BYTES: u64 = 500_000;

/// Temporary file, which is removed when dropped.
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn capture(name: &str, plan: Plan, ipv6: bool) -> (File, Sim) {
    let link = LinkConfig::new(Rate::from_bits_per_sec(20_000_000), Span::from_millis(20)).queue(Limit::Infinite);
    let setup = Setup::symmetric(1, link);
    let mut sim = Sim::new(if ipv6 { setup.over_ipv6() } else { setup });
    let pcap = Rc::new(RefCell::new(Pcap::at_host(0, Vec::new()).expect("memory takes it")));
    sim.add_tap(Rc::clone(&pcap));
    let mut sink = Plan::sink();
    sink.content = plan.content;
    sim.open(plan, sink);
    assert!(sim.run(Span::from_secs(60), Sim::all_done));
    sim.run_for(Span::from_secs(1));
    let path = std::env::temp_dir().join(format!("longhaul-sim-{}-{name}.pcap", std::process::id()));
    fs::write(&path, pcap.borrow_mut().finish().expect("memory took it")).expect("a temporary file");
    (File(path), sim)
}

/// Returns the output of a program, or `None` if it is not installed.
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    if !needs::program(program) {
        return None;
    }
    let output = Command::new(program).args(arguments).output().expect("the program runs");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn tshark_and_tcptrace_find_one_whole_clean_connection() {
    let plans = [Plan::bulk(BYTES), Plan::bulk(BYTES).zeros()];
    for (n, (plan, ipv6)) in plans.into_iter().flat_map(|plan| [(plan, false), (plan, true)]).enumerate() {
        let (file, _) = capture(&n.to_string(), plan, ipv6);
        let path = file.0.to_str().unwrap();
        let filter = "tcp.checksum.status == 0 || ip.checksum.status == 0 || _ws.malformed || \
            tcp.analysis.retransmission || tcp.analysis.out_of_order || tcp.analysis.lost_segment";
        let options = ["-n", "-r", path, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-Y"];
        if let Some(faults) = output_of("tshark", &[&options[..], &[filter]].concat()) {
            assert_eq!(faults, "");
            let fields = ["-n", "-r", path, "-T", "fields", "-e", "tcp.len", "-e", "frame.time_epoch"];
            let lines = output_of("tshark", &fields).unwrap();
            let sum: u64 = lines.lines().filter_map(|line| line.split('\t').next()?.parse::<u64>().ok()).sum();
            assert_eq!(sum, BYTES);
            // The SYN is sent at the epoch; its answer arrives after 40 ms and two transmission times of a SYN.
            let second = lines.lines().nth(1).unwrap().split('\t').nth(1).unwrap();
            assert!(second.contains("0.0400"), "{second}");
        }
        if let Some(report) = output_of("tcptrace", &["-n", "-l", path]) {
            assert!(report.contains("1 TCP connection traced") && report.contains("complete conn: yes"), "{report}");
            let line = report.lines().find(|line| line.contains("unique bytes sent:")).unwrap();
            assert!(line.contains(&BYTES.to_string()), "{line}");
        }
    }
}

#[test]
fn the_header_says_nanoseconds_and_raw_ip() {
    let (file, _) = capture("header", Plan::bulk(1), false);
    let bytes = fs::read(&file.0).unwrap();
    // draft-ietf-opsawg-pcap, section 4: magic number, version 2.4, zeros, snapshot length, link type 101.
    assert_eq!(bytes[..8], [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0]);
    assert_eq!((bytes[20], &bytes[21..24]), (101, &[0, 0, 0][..]));
    // The first packet, at second 0: an IPv4 header and a SYN.
    assert_eq!((&bytes[24..32], bytes[40] >> 4), (&[0; 8][..], 4));
}
