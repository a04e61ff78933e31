//! Tests of the command line: errors and output.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::common::{burst, receive, socket};

const LINKEM: &str = env!("CARGO_BIN_EXE_longhaul-linkem");

/// Returns the exit code, standard output and standard error.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(LINKEM).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn faults_are_told_with_the_remedy_and_exit_code_2() {
    let trace = std::env::temp_dir().join(format!("longhaul-linkem-backwards-{}", std::process::id()));
    std::fs::write(&trace, "5\n3\n").unwrap();
    let backwards = format!("--trace {}", trace.display());
    let table = [
        ("--rate 0mbit", "the rate is 0, so nothing would ever pass; give at least"),
        ("--rate 20", "has no unit; write it as 500kbit"),
        ("--rtt -5ms", "is negative; write it as"),
        (&backwards, "line 2"),
        ("--trace /no/such/file", "/no/such/file: No such file"),
        ("--queue 0p --rate 1mbit", "the queue holds 0 packets; give at least 1"),
        ("--queue 1bdp", "--queue needs --rate or --trace"),
        ("--rate 1mbit --trace x", "--rate and --trace exclude each other; leave one of them out"),
        ("--loss 1% --loss-ge 1%,2%", "--loss and --loss-ge exclude each other"),
        ("--rate 1mbit --rate 2mbit", "--rate is given twice"),
        ("--rate-up 1mbit --rate-up 2mbit", "--rate-up is given twice"),
        ("--log a --log b", "--log is given twice"),
        ("--log-down a --log-down b", "--log-down is given twice"),
        ("--loss 200%", "200%"),
        ("--ecn --rate 1mbit", "--ecn needs a queue that marks"),
        ("--scenario moon", "there is no scenario \"moon\"; the scenarios are nasa-20mbit-500ms"),
        ("--swap --rate 1mbit", "--swap reverses a scenario and needs --scenario"),
        ("--seed x", "--seed"),
        ("--log /no/such/directory/log", "name another"),
        ("--idle 0", "5min"),
        ("--speed 1mbit", "unexpected argument '--speed'"),
    ];
    for (options, told) in table {
        let options: Vec<_> = options.split(' ').collect();
        let relay = [&["relay", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"][..], &options].concat();
        let (code, out, err) = run(&relay);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{options:?}: {err}");
        assert!(err.contains(told), "{options:?}: {err}");
        if options[0] != "--idle" {
            let (code, _, err) = run(&[&["shell"][..], &options, &["--", "true"]].concat());
            assert_eq!(code, Some(2), "shell {options:?}: {err}");
            assert!(err.contains(told), "shell {options:?}: {err}");
        }
    }
    std::fs::remove_file(trace).unwrap();
    let taken = socket("127.0.0.1").local_addr().to_string();
    let holder = std::net::UdpSocket::bind(&taken).unwrap();
    let addresses = [
        (vec!["relay", "--to", "127.0.0.1:9"], "relay needs --listen ADDR"),
        (vec!["relay", "--listen", "127.0.0.1:0"], "relay needs --to ADDR"),
        (vec!["relay", "--listen", "localhost", "--to", "127.0.0.1:9"], "write it as 127.0.0.1:7000"),
        (vec!["relay", "--listen", "127.0.0.1:9", "--to", "127.0.0.1:9"], "give the relay a port of its own"),
        (vec!["relay", "--listen", "127.0.0.1:9", "--to", "127.0.0.1:0"], "port 0"),
        (vec!["relay", "--listen", &taken, "--to", "127.0.0.1:9"], "name a free port"),
        (
            vec!["relay", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--listen", "127.0.0.1:0"],
            "--listen is given 2 times and --to 1 times; each --listen needs a --to",
        ),
        (
            vec!["relay", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--to", "127.0.0.1:10"],
            "--listen is given 1 times and --to 2 times",
        ),
        // These would forward datagrams to each other forever.
        (
            "relay --listen 127.0.0.1:9 --to 127.0.0.1:10 --listen 127.0.0.1:10 --to 127.0.0.1:9".split(' ').collect(),
            "127.0.0.1:10 is both a --listen and a --to",
        ),
        (
            vec!["relay", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9", "--listen", &taken, "--to", "127.0.0.1:9"],
            "name a free port",
        ),
    ];
    for (arguments, told) in addresses {
        let (code, _, err) = run(&arguments);
        assert!(code == Some(2) && err.contains(told), "{arguments:?}: {err}");
    }
    drop(holder);
}

#[test]
fn scenarios_are_listed() {
    for command in [&["list"][..], &["relay", "--scenario", "list"], &["shell", "--scenario", "list"]] {
        let (code, out, _) = run(command);
        assert_eq!((code, out.lines().count()), (Some(0), longhaul_link::scenario::all().len()));
        assert!(out.lines().any(|line| line.starts_with("geo ")), "{out}");
    }
}

/// The rates of both directions are printed at the start, because in `geo` the direction of sending may be
/// unexpected.
#[test]
fn a_relay_says_which_way_data_goes() {
    for (options, up, down) in [
        (&["--scenario", "geo"][..], "4 Mb/s, 300 ms one way", "40 Mb/s, 300 ms one way"),
        (&["--scenario", "geo", "--swap"], "40 Mb/s, 300 ms one way", "4 Mb/s, 300 ms one way"),
        (
            &["--scenario", "leo", "--rate-up", "1500kbit"],
            "1.5 Mb/s, 10.0 ms one way at first",
            "100 Mb/s, 10.0 ms one way at first",
        ),
        (&["--delay", "1ms"], "unlimited rate, 1.00 ms one way", "unlimited rate, 1.00 ms one way"),
    ] {
        let relay = ["relay", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"];
        let mut relay = Command::new(LINKEM).args(relay).args(options).stdout(Stdio::piped()).spawn().unwrap();
        let lines: Vec<String> =
            BufReader::new(relay.stdout.take().unwrap()).lines().take(3).map(Result::unwrap).collect();
        relay.kill().unwrap();
        relay.wait().unwrap();
        assert!(lines[0].starts_with("listening on "), "{lines:?}");
        assert_eq!(lines[1], format!("up, from clients to the server: {up}"), "{options:?}");
        assert_eq!(lines[2], format!("down, from the server to clients: {down}"), "{options:?}");
    }
}

#[test]
fn a_closed_output_is_ignored() {
    // Creates an output whose other end is closed, as after `| head -1`.
    let deaf = || {
        let (other, end) = std::io::pipe().unwrap();
        drop(other);
        Stdio::from(end)
    };
    let list = Command::new(LINKEM).arg("list").stdout(deaf()).output().unwrap();
    assert_eq!((list.status.code(), String::from_utf8_lossy(&list.stderr).as_ref()), (Some(0), ""));
    let fault = Command::new(LINKEM).args(["relay", "--rate", "0mbit"]).stderr(deaf()).status().unwrap();
    assert_eq!(fault.code(), Some(2));
    let server = socket("127.0.0.1");
    let holder = socket("127.0.0.1");
    let listen = holder.local_addr();
    drop(holder);
    let to = server.local_addr().to_string();
    let mut relay = Command::new(LINKEM)
        .args(["relay", "--listen", &listen.to_string(), "--to", &to, "--rate", "10mbit"])
        .stdout(deaf())
        .stderr(deaf())
        .spawn()
        .unwrap();
    let client = socket("127.0.0.1");
    let came = (0..10).any(|number| {
        burst(&client, listen, 0, 100, number..number + 1);
        !receive(&server, 1).is_empty()
    });
    let killed = Command::new("kill").args(["-INT", &relay.id().to_string()]).status().unwrap().success();
    assert_eq!((came, killed, relay.wait().unwrap().code()), (true, true, Some(0)));
}

#[test]
fn an_interrupt_prints_the_summary() {
    let server = socket("127.0.0.1");
    let to = server.local_addr().to_string();
    let arguments = ["relay", "--listen", "127.0.0.1:0", "--to", &to, "--rate", "1mbit", "--rate-down", "2mbit"];
    let log = std::env::temp_dir().join(format!("longhaul-linkem-log-{}", std::process::id()));
    for signal in ["-INT", "-TERM"] {
        let mut relay = Command::new(LINKEM)
            .args(arguments)
            .args(["--queue-up", "5p", "--loss-list", "2", "--log", log.to_str().unwrap()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(relay.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let addr = line.trim().strip_prefix("listening on ").unwrap().parse().unwrap();
        burst(&socket("127.0.0.1"), addr, 0, 1000, 0..10);
        assert_eq!(receive(&server, 5).len(), 5);
        assert!(Command::new("kill").args([signal, &relay.id().to_string()]).status().unwrap().success());
        let mut summary = String::new();
        out.read_to_string(&mut summary).unwrap();
        let output = relay.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said, "longhaul-linkem: the queue down is unlimited; --queue 1bdp limits it\n");
        let expected = [
            "up: 10 packets, 10280 bytes in; 5 packets, 5140 bytes out; 0 inside",
            "  dropped 5: queue full 4, lost 1",
            "  queue p50 ",
            "at most 5 packets, 5140 bytes",
            "down: 0 packets",
            "clients: 1",
            "lateness p50 ",
        ];
        for part in expected {
            assert!(summary.contains(part), "{part}: {summary}");
        }
        let lines = std::fs::read_to_string(&log).unwrap();
        let count = |what: &str| lines.lines().filter(|line| line.contains(what)).count();
        // A packet lost on the link is logged as departed.
        assert_eq!([" + 1028", " - 1028 ", " d 1 1028", "relay --listen"].map(count), [10, 6, 4, 1], "{lines}");
        // Both directions have opportunities, and times count from the start of the log.
        assert_eq!((count("# base timestamp: 0"), count("0 # 1504") >= 2), (1, true), "{lines}");
        std::fs::remove_file(&log).unwrap();
    }
}
