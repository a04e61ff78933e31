//! The pictures of `docs/screens.md`: what a terminal of 80 columns shows. They must still have the words of today's screens,
//! whatever their numbers are. `LONGHAUL_PICTURES=write` draws them anew.
use std::iter::once;
use std::path::Path;
use std::{env, fs};

use crate::machine::Machine;
use crate::perf::Server;
use crate::terminal::{Terminal, masked};

const COLUMNS: u16 = 80;
/// Size of a character cell, and the margin, in pixels.
const CELL: (usize, usize) = (8, 18);
const MARGIN: usize = 12;

/// Draws a command and what a terminal shows then.
fn drawn(command: &str, shown: &str) -> String {
    let rows = rows(command, shown);
    let (width, height) = (2 * MARGIN + usize::from(COLUMNS) * CELL.0, 2 * MARGIN + rows.len() * CELL.1);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"13\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"#1d2330\"/>\n"
    );
    for (row, (is_command, text)) in rows.iter().enumerate() {
        let (y, fill) = (MARGIN + row * CELL.1 + 13, if *is_command { "#8fd18f" } else { "#e8e8e8" });
        let (text, length) = (escaped(text), text.chars().count() * CELL.0);
        svg += &format!(
            "<text x=\"{MARGIN}\" y=\"{y}\" fill=\"{fill}\" textLength=\"{length}\" xml:space=\"preserve\">{text}</text>\n"
        );
    }
    svg + "</svg>\n"
}

/// Returns the rows of a command and its screen, broken as a terminal does.
fn rows(command: &str, shown: &str) -> Vec<(bool, String)> {
    let command = once((true, format!("$ {command}")));
    let lines = shown.lines().flat_map(|line| {
        let characters: Vec<char> = line.chars().collect();
        let rows: Vec<String> = characters.chunks(COLUMNS.into()).map(|row| row.iter().collect()).collect();
        if rows.is_empty() { vec![String::new()] } else { rows }
    });
    command.chain(lines.map(|line| (false, line))).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns the words of a picture without numbers, units and line breaks, and without the lines of progress.
fn words(svg: &str) -> String {
    let texts = svg.lines().filter_map(|line| line.strip_prefix("<text ")?.split_once('>')?.1.strip_suffix("</text>"));
    let text = texts
        .filter(|line| ![" left", " of 3 files"].iter().any(|live| line.contains(live)))
        .collect::<Vec<_>>()
        .concat();
    let words: String = masked(&text, &[]).split_whitespace().collect();
    let units = ["Bytes", "bits/sec"]
        .into_iter()
        .flat_map(|unit| ["K", "M", "G"].map(|prefix| (format!("{prefix}{unit}"), unit)));
    units.fold(words, |words, (prefixed, unit)| words.replace(&prefixed, unit))
}

/// Compares the picture `name` with what is shown today, in which `names` replace what differs from machine to machine.
fn check(name: &str, command: &str, shown: &str, names: &[(&str, &str)]) {
    let shown = names.iter().fold(shown.to_owned(), |text, (from, to)| text.replace(from, to));
    let svg = drawn(command, &shown);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/screens").join(format!("{name}.svg"));
    if env::var("LONGHAUL_PICTURES").is_ok_and(|what| what == "write") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &svg).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(words(&committed), words(&svg), "LONGHAUL_PICTURES=write draws docs/screens/{name}.svg anew");
}

/// A key as it is shown in the pictures.
const KEY: &str = "SHA256:Zx1cEw0vVZ6TgYcG3b4nH2b8mSx0m7aK5qkq0eJd9Lo";

#[test]
fn transfers() {
    let (there, here) = (Machine::new(), Machine::new());
    let (key, out) = (here.key(), there.path("incoming").into_os_string().into_string().unwrap());
    let receive = ["receive", "--listen", "127.0.0.1:0", "--once", "--out", &out, "--allow", &key];
    let mut receiver = Terminal::start(&mut there.command(&receive), COLUMNS);
    receiver.until("may send.");
    let shown = receiver.shown();
    let address = shown.split_whitespace().nth(3).unwrap().to_owned();
    fs::create_dir(here.path("photos")).unwrap();
    for name in ["photos/dawn.raw", "photos/noon.raw", "photos/dusk.raw"] {
        here.file(name, 600_000);
    }
    let photos = here.path("photos").into_os_string().into_string().unwrap();
    let send = ["send", "--accept-new", &address, &photos, "--limit", "8M"];
    let mut sender = Terminal::start(&mut here.command(&send), COLUMNS);
    sender.until(" left");
    let meanwhile = sender.shown();
    let ended = sender.end();
    let received = receiver.end();
    let (home, key, there) = (here.path(""), there.key(), there.path(""));
    // The sender has another port in each run.
    let from = received.split("from ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
    let names = [
        (address.as_str(), "192.0.2.7:7000"),
        (from.as_str(), "198.51.100.4:40312"),
        (&key, KEY),
        (there.to_str().unwrap(), ""),
        (home.to_str().unwrap(), "~/.local/share/"),
        ("share/data", "share"),
    ];
    let command = "longhaul send --accept-new 192.0.2.7 photos";
    check("send-meanwhile", command, &meanwhile, &names);
    check("send", command, &ended, &names);
    check("receive", "longhaul receive --once --out incoming --allow SHA256:...", &received, &names);
}

#[test]
fn codes() {
    let there = Machine::new();
    let out = there.path("incoming").into_os_string().into_string().unwrap();
    let receive = ["receive", "--listen", "127.0.0.1:0", "--code", "--out", &out];
    let mut receiver = Terminal::start(&mut there.command(&receive), COLUMNS);
    receiver.until("The code works once");
    let shown = receiver.shown();
    let address = shown.split_whitespace().nth(3).unwrap();
    let code = shown.split("--code ").nth(1).unwrap().split_whitespace().next().unwrap();
    let names =
        [("Ready on UDP 127.0.0.1", "Ready on UDP 0.0.0.0"), (address, "192.0.2.7"), (code, "4821-harbor-violet")];
    check("code", "longhaul receive --code --out incoming", &shown, &names);
}

#[test]
fn tunnels() {
    let (there, here) = (Machine::new(), Machine::new());
    let key = here.key();
    let gateway = ["gateway", "--listen", "127.0.0.1:0", "--permit", "any", "--allow", &key];
    let mut gateway = Terminal::start(&mut there.command(&gateway), COLUMNS);
    gateway.until(" may forward");
    let shown = gateway.shown();
    let address = shown.split_whitespace().nth(3).unwrap().to_owned();
    let forward = ["forward", "--accept-new", "-L", "0:intranet.example:80", "-D", "0", &address];
    let mut forward = Terminal::start(&mut here.command(&forward), COLUMNS);
    forward.until(" up");
    gateway.until("1 forwarder");
    let (key, home) = (there.key(), here.path(""));
    let shown = forward.shown();
    let ports: Vec<&str> = shown.split("127.0.0.1:").skip(2).filter_map(|rest| rest.split(' ').next()).collect();
    let names = [
        (key.as_str(), KEY),
        (home.to_str().unwrap(), "~/.local/share/"),
        ("share/data", "share"),
        (&address, "192.0.2.7:7443"),
        (ports[0], "8080"),
        (ports[2], "1080"),
    ];
    let command = "longhaul forward --accept-new -L 8080:intranet.example:80 -D 1080 192.0.2.7";
    check("forward", command, &shown, &names);
    check("gateway", "longhaul gateway --permit any --allow SHA256:...", &gateway.shown(), &names);
}

#[test]
fn measurements() {
    let server = Server::start(&["-1"]);
    let machine = Machine::new();
    let perf = ["perf", "-c", "127.0.0.1", "-p", &server.port, "-n", "100K", "-C", "cubic"];
    let shown = Terminal::start(&mut machine.command(&perf), COLUMNS).end();
    check("perf", "longhaul perf -c 192.0.2.7 -n 100K -C cubic", &shown, &[("127.0.0.1", "192.0.2.7")]);
}

#[test]
fn words_outlast_new_numbers_and_line_breaks() {
    let of = |shown: &str| words(&drawn("x", shown));
    assert_eq!(of("Sent 3 files in 2.5 s (8 Mb/s) <now>"), of("Sent 30\nfiles in 12 s (80 kb/s) <now>"));
    assert_ne!(of("Sent 3 files."), of("Sent 3 folders."));
}
