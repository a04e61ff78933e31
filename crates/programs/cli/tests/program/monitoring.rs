//! Metrics and the status page. Tests that need chromium or promtool print a message and pass if it is missing.
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::forward::{contents, echo, exchange, listen};
use crate::machine::{Machine, Receiver, failed};

/// Returns the address after `text` in the output of a program.
fn address(program: &Receiver, text: &str) -> String {
    let line = program.before.lines().find_map(|line| line.strip_prefix(text)).unwrap();
    line.split('/').next().unwrap().to_owned()
}

fn get(address: &str, path: &str) -> String {
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    body.to_owned()
}

/// A forwarder and a gateway with metrics and status page. The gateway knows the forwarder by `name`.
struct Observed {
    here: Machine,
    gateway: Receiver,
    forward: Receiver,
    _there: Machine,
}

const OPTIONS: [&str; 4] = ["--metrics", "127.0.0.1:0", "--status", "127.0.0.1:0"];

fn observed(name: &str, more: &[&str]) -> Observed {
    let (listener, target) = listen();
    echo(listener);
    let (there, here) = (Machine::new(), Machine::new());
    there.key();
    fs::write(there.data("allowed-peers"), format!("{} {name} forward\n", here.key())).unwrap();
    let gateway = there.gateway(&[&["--permit", &target.to_string()], &OPTIONS[..], more].concat());
    let local = format!("0:{target}");
    let forward = here.forward(&gateway.address, &[&["-L", &local], &OPTIONS[..]].concat());
    Observed { here, gateway, forward, _there: there }
}

fn value(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("longhaul_{name} ")));
    line.unwrap_or_else(|| panic!("{name}: {metrics}")).parse().unwrap()
}

#[test]
fn both_ends_count_the_same_bytes_and_connections() {
    let pair = observed("ship", &[]);
    let data = contents(1, 300_000);
    for _ in 0..3 {
        assert!(exchange(TcpStream::connect(&pair.forward.address).unwrap(), &data) == data);
    }
    let mut open = TcpStream::connect(&pair.forward.address).unwrap();
    open.write_all(b"x").unwrap();
    open.read_exact(&mut [0]).unwrap();
    let observe = |program: &Receiver| get(&address(program, "metrics at http://"), "/metrics");
    // A tunnel stays busy for a moment after the end of its connection.
    let busy = "longhaul_pool_tunnels{state=\"busy\"} 1\n";
    let returned = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        observe(&pair.forward).contains(busy)
    });
    assert!(returned, "{}", observe(&pair.forward));
    let [near, far] = [&pair.forward, &pair.gateway].map(observe);
    for metrics in [&near, &far] {
        assert_eq!(value(metrics, "connections"), 1.0);
        assert_eq!(value(metrics, "connections_total"), 4.0);
        for direction in ["sent", "received"] {
            assert_eq!(value(metrics, &format!("{direction}_bytes_total")), 900_001.0, "{direction}");
        }
        assert_eq!(value(metrics, "connections_ended_total{how=\"orderly\"}"), 3.0);
    }
    assert!(near.contains("longhaul_pool_tunnels") && !far.contains("longhaul_pool"));
    if !needs::program("promtool") {
        return;
    }
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().unwrap();
    promtool.stdin.take().unwrap().write_all(far.as_bytes()).unwrap();
    let checked = promtool.wait_with_output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the limit holds in real time")]
fn a_rate_limit_holds_for_a_forwarder() {
    let pair = observed("ship", &["--max-rate", "16M"]);
    let data = contents(2, 2_000_000);
    let start = std::time::Instant::now();
    assert!(exchange(TcpStream::connect(&pair.forward.address).unwrap(), &data) == data);
    // 16 Mb at 16 Mb/s take one second; the other direction has its own limit. A busy machine takes longer.
    let took = start.elapsed().as_secs_f64();
    assert!(took > 0.9, "{took}");
}

#[test]
fn the_page_is_for_this_machine_unless_said_otherwise() {
    let machine = Machine::new();
    let base = ["gateway", "--listen", "127.0.0.1:0", "--permit", "any", "--allow", &machine.key()];
    let wrong = failed(&machine.run(&[&base[..], &["--status", "0.0.0.0:0"]].concat()), 2);
    assert!(wrong.contains("--status-anyone"), "{wrong}");
    failed(&machine.run(&[&base[..], &["--status-anyone"]].concat()), 2);
    let gateway = machine.gateway(&[&base[3..], &["--status", "0.0.0.0:0", "--status-anyone"]].concat());
    assert!(gateway.before.contains("status at http://0.0.0.0:"));
}

/// Loads the page in chromium; returns its elements and the messages of its console. Writes a screenshot.
fn browse(machine: &Machine, address: &str, screenshot: &Path) -> (String, Vec<String>) {
    let profile = machine.path("profile");
    let browser = |action: &str| {
        Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr"])
            .args([&format!("--user-data-dir={}", profile.display()), "--window-size=1200,800"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"])
            .args(["--virtual-time-budget=5000", action, &format!("http://{address}/")])
            .output()
            .unwrap()
    };
    let output = browser("--dump-dom");
    let shown = browser(&format!("--screenshot={}", screenshot.display()));
    assert!(shown.status.success() && screenshot.exists());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let console = said.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    (String::from_utf8(output.stdout).unwrap(), console)
}

#[test]
fn a_browser_shows_the_connections_and_no_html_of_peers() {
    if !needs::program("chromium") {
        return;
    }
    const NAME: &str = "<img/src=x/onerror=document.title='attacked'>";
    let pair = observed(NAME, &[]);
    let mut open = TcpStream::connect(&pair.forward.address).unwrap();
    let mut flow = open.try_clone().unwrap();
    // Keeps a connection busy.
    std::thread::spawn(move || {
        while flow.write_all(&[7; 20_000]).is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    std::thread::spawn(move || std::io::copy(&mut open, &mut std::io::sink()));
    let temporary = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    for (program, role) in [(&pair.gateway, "gateway"), (&pair.forward, "forward")] {
        let page = address(program, "status at http://");
        let screenshot = temporary.join(format!("status-{role}.png"));
        let (dom, console) = browse(&pair.here, &page, &screenshot);
        assert!(console.is_empty(), "{console:?}");
        assert!(dom.contains(&format!("<title>longhaul {role}</title>")), "{dom}");
        let rows = dom.split_once("<tbody id=\"rows\">").unwrap().1.split_once("</tbody>").unwrap().0;
        assert_eq!(rows.matches("<tr>").count(), 1, "{rows}");
        assert!(rows.contains("127.0.0.1:") && rows.contains("bit/s</td>"), "{rows}");
        assert!(dom.contains("<polyline class=\"sent\" points=\""), "{dom}");
        if role == "gateway" {
            assert!(
                rows.contains("<td>&lt;img/src=x/onerror=document.title='attacked'&gt;</td>") && !dom.contains("<img")
            );
        }
    }
}
