//! What a terminal shows of each command, at three widths. Numbers are masked.
use std::process::Command;
use std::thread;

use crate::machine::Machine;
use crate::perf::Server;
use crate::terminal::{Terminal, masked};

const WIDTHS: [u16; 3] = [40, 80, 200];

/// Runs `show` at all widths at the same time; returns the screens with their widths.
fn at_all_widths(show: impl Fn(u16) -> String + Sync) -> String {
    let show = &show;
    let screens = thread::scope(|scope| {
        let running = WIDTHS.map(|columns| scope.spawn(move || show(columns)));
        running.map(|running| running.join().unwrap())
    });
    let screens = WIDTHS.iter().zip(&screens).map(|(columns, screen)| format!("--- {columns} columns\n{screen}\n"));
    let all: String = screens.collect();
    assert!(all.is_ascii(), "the C locale has only ASCII: {all}");
    all
}

fn end(terminal: Terminal) -> String {
    let status = Command::new("kill").args(["-TERM", &terminal.child.id().to_string()]).status().unwrap();
    assert!(status.success());
    terminal.end()
}

#[test]
fn help() {
    let machine = Machine::new();
    let show = |arguments: &[&str], columns| Terminal::start(&mut machine.command(arguments), columns).end();
    let narrow = |arguments: &[&str]| {
        let shown = show(arguments, 80);
        assert!(shown.lines().all(|line| line.len() <= 80), "{shown}");
        shown
    };
    insta::assert_snapshot!("help", narrow(&["-h"]));
    insta::assert_snapshot!("help-send", at_all_widths(|columns| show(&["send", "-h"], columns)));
    for command in ["receive", "forward", "gateway", "meet", "stdio", "doctor", "perf", "probe"] {
        insta::assert_snapshot!(format!("help-{command}"), narrow(&[command, "-h"]));
    }
    let all = show(&["send", "--help"], 80);
    assert!(
        ["Who may connect:", "Files:", "Limits:", "Reports:", "Transport:"].iter().all(|group| all.contains(group))
    );
}

#[test]
fn transfers() {
    let show = |columns, options: &[&str]| {
        let (there, here) = (Machine::new(), Machine::new());
        let (key, out) = (here.key(), there.path("out").into_os_string().into_string().unwrap());
        let receive = ["receive", "--listen", "127.0.0.1:0", "--once", "--out", &out, "--allow", &key];
        let mut receiver = Terminal::start(&mut there.command(&[&receive, options].concat()), columns);
        receiver.until("Ready on UDP ");
        receiver.until("\n");
        let shown = receiver.shown();
        let address = shown.split_whitespace().nth(3).unwrap().to_owned();
        let file = here.file("photo.raw", 100_000);
        let send = ["send", "--accept-new", &address, &file];
        let sender = Terminal::start(&mut here.command(&[&send, options].concat()), columns).end();
        let key = there.key();
        let (there, here) = (there.path(""), here.path(""));
        let places = [(there.to_str().unwrap(), "THERE/"), (here.to_str().unwrap(), "HERE/"), (&key, "KEY")];
        format!("{}\n\n{}", masked(&receiver.end(), &places), masked(&sender, &places))
    };
    insta::assert_snapshot!("transfer", at_all_widths(|columns| show(columns, &[])));
    insta::assert_snapshot!("transfer-plain", show(80, &["--plain"]));
}

/// With a code, and by a rendezvous. Somebody tries a wrong code first.
#[test]
fn codes() {
    let show = |columns, options: &[&str], meets: bool| {
        let (meet, there, here) = (Machine::new(), Machine::new(), Machine::new());
        let on_terminal = |machine: &Machine, words: &[&str]| {
            let mut terminal = Terminal::start(&mut machine.command(&[words, options].concat()), columns);
            terminal.until("Ready on UDP ");
            terminal.until("\n");
            let address = terminal.shown().split_whitespace().nth(3).unwrap().to_owned();
            (terminal, address)
        };
        let (mut rendezvous, host) = on_terminal(&meet, &["meet", "--listen", "127.0.0.1:0"]);
        let out = there.path("out").into_os_string().into_string().unwrap();
        let receive = ["receive", "--listen", "127.0.0.1:0", "--out", &out, "--code"];
        let by = if meets { &["--meet", &host][..] } else { &[] };
        let (mut receiver, address) = on_terminal(&there, &[&receive, by].concat());
        receiver.until(if meets { "Waiting for the sender" } else { "The code works once" });
        let shown = receiver.shown();
        let code = shown.split("--code ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
        let file = here.file("photo.raw", 100_000);
        let send = |code: &str| {
            let to = if meets { &host } else { &address };
            let words = ["send", "--code", code, if meets { "--meet" } else { "--to" }, to, &file];
            Terminal::start(&mut here.command(&[&words, options].concat()), columns).end()
        };
        let wrong = send(&format!("{}-acorn-actor", &code[..4]));
        let sender = send(&code);
        if meets {
            rendezvous.until("--meet");
        }
        let screens = [rendezvous.shown(), receiver.end(), wrong, sender];
        let (there, here) = (there.path(""), here.path(""));
        let places = [
            (there.to_str().unwrap(), "THERE/"),
            (here.to_str().unwrap(), "HERE/"),
            (&host, "MEET"),
            (&address, "ADDRESS"),
            (&code, "CODE"),
        ];
        let shown = screens.iter().skip(usize::from(!meets)).map(|screen| masked(screen, &places));
        shown.collect::<Vec<_>>().join("\n\n")
    };
    insta::assert_snapshot!("code", at_all_widths(|columns| show(columns, &[], false)));
    insta::assert_snapshot!("code-plain", show(80, &["--plain"], false));
    insta::assert_snapshot!("meet", at_all_widths(|columns| show(columns, &[], true)));
    insta::assert_snapshot!("meet-plain", show(80, &["--plain"], true));
}

#[test]
fn forwards() {
    let show = |columns, options: &[&str]| {
        let (there, here) = (Machine::new(), Machine::new());
        let (key, is_plain) = (here.key(), !options.is_empty());
        let gateway = ["gateway", "--listen", "127.0.0.1:0", "--permit", "any", "--allow", &key];
        let mut gateway = Terminal::start(&mut there.command(&[&gateway, options].concat()), columns);
        gateway.until(" may forward");
        let shown = gateway.shown();
        let address = shown.split_whitespace().nth(3).unwrap().to_owned();
        let forward = ["forward", "--accept-new", "-L", "0:h.example:80", "-D", "0", &address];
        let mut forward = Terminal::start(&mut here.command(&[&forward, options].concat()), columns);
        forward.until("HTTP CONNECT");
        if !is_plain {
            forward.until(" up");
            gateway.until("1 forwarder");
        }
        let (key, home) = (there.key(), here.path(""));
        let names = [(key.as_str(), "KEY"), (home.to_str().unwrap(), "HERE/"), (&address, "GATEWAY")];
        let screens = [gateway.shown(), forward.shown()].map(|screen| masked(&screen, &names));
        let end = masked(&end(forward), &names);
        format!("{}\n\nAt the end:\n{end}", screens.join("\n\n"))
    };
    insta::assert_snapshot!("forward", at_all_widths(|columns| show(columns, &[])));
    insta::assert_snapshot!("forward-plain", show(80, &["--plain"]));
}

#[test]
fn perf_has_the_lines_of_iperf3() {
    let server = Server::start(&["-1"]);
    let machine = Machine::new();
    let arguments = ["perf", "-c", "127.0.0.1", "-p", &server.port, "-n", "100K", "-C", "jump-start+cubic"];
    let shown = masked(&Terminal::start(&mut machine.command(&arguments), 80).end(), &[]);
    // Units and spaces depend on the numbers.
    let words = |line: &str| {
        let words = line.split_whitespace().map(|word| match word {
            word if word.ends_with("Bytes") => "Bytes",
            word if word.ends_with("bits/sec") => "bits/sec",
            word => word,
        });
        words.collect::<Vec<_>>().join(" ")
    };
    insta::assert_snapshot!("perf", shown.lines().map(words).collect::<Vec<_>>().join("\n"));
}

/// What is found depends on the machine.
#[test]
fn findings_are_wrapped_and_results_are_a_sentence() {
    let machine = Machine::new();
    for columns in WIDTHS {
        let arguments = ["doctor", "--bandwidth", "1000G", "--rtt", "1s"];
        let shown = Terminal::start(&mut machine.command(&arguments), columns).end();
        let fits = |line: &str| line.len() <= columns.into() || line.starts_with("     sudo ");
        assert!(shown.starts_with("1. receive-buffer: ") && shown.lines().all(fits), "{shown}");
    }
    let (there, out) = (Machine::new(), machine.path("out").into_os_string().into_string().unwrap());
    let receiver = there.receive(&["--reflect", "--plaintext", "--out", &out]);
    let arguments = ["probe", &receiver.address, "--time", "2"];
    let shown = Terminal::start(&mut machine.command(&arguments), 200).end();
    let sentence = shown.lines().next().unwrap();
    assert!(sentence.ends_with(" lost.") && !shown.contains("capprobe: 1 s"), "{shown}");
}
