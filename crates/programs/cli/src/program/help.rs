//! Text of `-h` and `--help`: the options that people use, or all in groups. Shell completions and man pages.

use std::path::Path;

use anyhow::{Context, Result};
use clap::{Arg, Command, CommandFactory as _};
use clap_complete::Shell;

use super::WrongUse;
use super::args::Cli;
use crate::output::print;
use crate::progress::columns;

/// Help of `longhaul -h`, which fits on a screen of 24 lines.
const START: &str = "\
Transfers files and forwards TCP connections over long, lossy links, encrypted.

Usage: longhaul COMMAND ...

  send      Send files and directories to a machine where `receive` runs
  receive   Receive them
  forward   Open ports of this machine that lead to others beyond the link
  stdio     Carry ssh, rsync and git, as ssh's ProxyCommand
  gateway   Run the far end of `forward` and `stdio`, which connects to them
  meet      Introduce senders and receivers that are behind NATs
  doctor    Find out what slows down a path or this machine
  perf      Measure the throughput of a path, as iperf3 does

Examples:
  longhaul send user@host.example:incoming photos    By ssh
  longhaul receive --code                     The receiver shows a code,
  longhaul send 192.0.2.7 photos --code CODE  which the sender has to know
  longhaul forward -L 8080:intranet.example:80 192.0.2.7
  longhaul doctor 192.0.2.7

`longhaul COMMAND -h` shows examples and the options that people use,
`longhaul COMMAND --help` all options, and `longhaul --help` all commands.";

const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\n{all-args}\n";
/// Lines with examples in short help, below their heading.
const EXAMPLES: usize = 3;

/// Options in short help besides operands, by command. Commands that are not listed show all of their options.
const SHOWN: [(&str, &[&str]); 6] = [
    ("send", &["accept_new", "code", "meet", "limit", "compress", "links", "mirror", "retry", "json", "congestion"]),
    ("receive", &["out", "code", "meet", "allow", "once", "overwrite", "rename", "skip", "listen", "max_bytes"]),
    ("forward", &["local", "dynamic", "remote", "accept_new", "code", "max_rate", "status", "congestion"]),
    ("stdio", &["accept_new", "ca", "code", "remember", "congestion"]),
    ("gateway", &["permit", "permit_listen", "allow", "code", "listen", "max_rate", "status", "congestion"]),
    ("perf", &["server", "client", "port", "time", "parallel", "reverse", "udp", "bitrate", "json", "congestion"]),
];

/// Groups of options in long help. Other options come first.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Who may connect", &["allow", "accept_new", "ca", "code", "meet", "remember", "plaintext"]),
    (
        "Files",
        &["links", "no_attributes", "compress", "resume", "no_resume", "overwrite", "rename", "skip", "allow_hidden"],
    ),
    ("Mirrors", &["mirror", "delete", "yes", "dry_run", "checksum", "allow_delete"]),
    (
        "Limits",
        &["limit", "retry", "max_bytes", "max_bytes_per_peer", "max_rate", "max_total_rate", "max_connections", "idle"],
    ),
    ("Reports", &["json", "plot", "metrics", "status", "status_anyone", "verbose", "plain", "quiet", "config"]),
    (
        "Transport",
        &[
            "congestion",
            "pcap",
            "qlog",
            "path_cache",
            "allow_unsafe_congestion",
            "routers_answer",
            "no_ecn",
            "timeout",
            "via",
            "warm",
            "bond",
        ],
    ),
];

/// Returns the command line, with all options in groups if `grouped`.
pub(super) fn command(grouped: bool) -> Command {
    let mut command = Cli::command().term_width(columns(std::io::stdout()).min(100));
    if !grouped {
        command = command.override_help(START);
    }
    for global in ["plain", "quiet", "config"] {
        command = command.mut_arg(global, |arg| arg.hide_short_help(true));
    }
    command = command.mut_args(|arg| if grouped { in_group(arg) } else { arg });
    command.mut_subcommands(|command| {
        let shown = SHOWN.iter().find(|(name, _)| *name == command.get_name()).map(|(_, shown)| *shown);
        let is_shown = |arg: &Arg| arg.is_positional() || shown.is_none_or(|all| all.contains(&arg.get_id().as_str()));
        let command = command.mut_args(|arg| {
            let hidden = !is_shown(&arg);
            let arg = arg.hide_short_help(hidden);
            if grouped { in_group(arg) } else { arg }
        });
        match command.get_after_help().map(ToString::to_string) {
            Some(text) if text.starts_with("Examples:") => {
                let examples: Vec<_> = text.lines().take(1 + EXAMPLES).collect();
                command.help_template(TEMPLATE).after_help(examples.join("\n")).after_long_help(text)
            }
            _ => command,
        }
    })
}

/// Returns the command line of the sub-command `name`.
pub(super) fn of(name: &str) -> Command {
    let mut program = command(false);
    program.build();
    program.find_subcommand(name).cloned().unwrap_or(program)
}

fn in_group(arg: Arg) -> Arg {
    let group = GROUPS.iter().find(|(_, all)| all.contains(&arg.get_id().as_str()));
    match group {
        Some((name, _)) if arg.get_help_heading().is_none() => arg.help_heading(*name),
        _ => arg,
    }
}

pub(super) fn completions(shell: Shell) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command(true), "longhaul", &mut text);
    print(&String::from_utf8(text).context("the completions are not text")?)
}

/// Prints the man page of a sub-command or of the program, or writes all pages into the directory `out`.
pub(super) fn man(name: Option<&str>, out: Option<&Path>) -> Result<()> {
    let mut program = command(true);
    if let Some(out) = out {
        return clap_mangen::generate_to(program, out).with_context(|| format!("cannot write into {}", out.display()));
    }
    program.build();
    let page = match name {
        None => program,
        Some(name) => {
            let found = program.find_subcommand(name).cloned();
            found.ok_or_else(|| WrongUse(format!("there is no sub-command {name:?}")))?
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text).context("cannot write the page")?;
    print(&String::from_utf8(text).context("the page is not text")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that no option has would be ignored.
    #[test]
    fn the_lists_name_options_that_exist() {
        let command = Cli::command();
        for (name, shown) in SHOWN {
            let below = command.find_subcommand(name).unwrap();
            let has = |id: &str| below.get_arguments().any(|arg| arg.get_id() == id);
            assert!(shown.iter().all(|id| has(id)), "{name}");
            assert!(shown.len() <= 10 && START.contains(&format!("  {name} ")), "{name}");
        }
        let all: Vec<_> = command.get_subcommands().chain([&command]).flat_map(Command::get_arguments).collect();
        for id in GROUPS.iter().flat_map(|(_, ids)| *ids) {
            assert!(all.iter().any(|arg| arg.get_id() == id), "{id}");
        }
    }

    /// A command of an example that is broken into two lines cannot be copied.
    #[test]
    fn examples_fit_into_80_columns() {
        for command in Cli::command().get_subcommands() {
            let Some(text) = command.get_after_help().map(ToString::to_string) else { continue };
            for (number, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with("  ")) {
                let words = line.trim_start();
                // Only in long help, the explanation may be in the next line.
                let words = if number > EXAMPLES { words.split("  ").next().unwrap() } else { words };
                assert!(2 + words.chars().count() <= 80, "{}: {line}", command.get_name());
            }
        }
    }

    #[test]
    fn the_first_help_fits_on_a_screen() {
        assert!(START.lines().count() < 24 && START.lines().all(|line| line.chars().count() <= 80));
    }
}
