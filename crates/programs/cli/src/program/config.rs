//! The configuration file: options of the command line, in TOML.
//!
//! Keys are derived from clap's definition of the command line. Options from the file are inserted before those of the
//! command line. An option is omitted if the command line contains the same option or one that excludes it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches as _};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::args::Cli;
use super::home;

const FILE: &str = "longhaul/config.toml";
/// Identifier of the option with the name of another file.
const CONFIG: &str = "config";

/// Parses the command line of the process, with the options of the configuration file. Ends the process if the command
/// line is not valid.
pub(super) fn parse() -> Result<Cli> {
    let given: Vec<_> = std::env::args_os().collect();
    let command = super::help::command(given.iter().any(|word| word == "--help" || word == "help"));
    let matches = command.clone().get_matches_from(&given);
    let cli = |matches: ArgMatches| Cli::from_arg_matches(&matches);
    let Some((file, text)) = read(matches.get_one::<PathBuf>(CONFIG))? else {
        return Ok(cli(matches).unwrap_or_else(|error| error.exit()));
    };
    let settings = Settings::parse(&text, &command).map_err(|fault| fault.at(&file))?;
    let arguments = settings.arguments(&command, &matches, given);
    command.try_get_matches_from(arguments).and_then(cli).map_err(|error| match settings.line_of(&error) {
        Some(line) => super::WrongUse(format!("{}, line {line}: {}", file.display(), plain(&error))).into(),
        None => error.exit(),
    })
}

/// Returns the file and its text, or `None` if the default file does not exist.
fn read(named: Option<&PathBuf>) -> Result<Option<(PathBuf, String)>> {
    let Some(file) = named.cloned().or_else(|| home::config_directory().map(|directory| directory.join(FILE))) else {
        return Ok(None);
    };
    let text = File::open(&file).and_then(|mut opened| {
        super::lists::check_owner(&opened)?;
        io::read_to_string(&mut opened)
    });
    match text {
        Ok(text) => Ok(Some((file, text))),
        Err(error) if named.is_none() && is_nowhere(&file, &error) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// Returns whether a file does not exist, or is in a directory of another user that cannot be searched, so that it
/// cannot be this user's.
fn is_nowhere(file: &Path, error: &io::Error) -> bool {
    let closed = || {
        let directory = file.parent().map(Path::metadata);
        directory.is_some_and(|found| found.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied))
    };
    super::lists::is_missing(error) || error.kind() == io::ErrorKind::PermissionDenied && closed()
}

/// Returns the first line of clap's message, without `error: `.
pub(super) fn plain(error: &clap::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

#[derive(Debug)]
struct Fault {
    line: usize,
    what: String,
}

impl Fault {
    fn at(self, file: &Path) -> anyhow::Error {
        super::WrongUse(format!("{}, line {}: {}", file.display(), self.line, self.what)).into()
    }
}

#[derive(Debug)]
struct Setting {
    path: Vec<String>,
    id: String,
    words: Vec<String>,
    line: usize,
}

#[derive(Debug, Default)]
struct Settings(Vec<Setting>);

impl Settings {
    fn parse(text: &str, command: &Command) -> Result<Self, Fault> {
        let table = DeTable::parse(text).map_err(|error| Fault {
            line: line(text, error.span().unwrap_or_default()),
            what: error.message().to_owned(),
        })?;
        let mut settings = Self::default();
        settings.collect(text, command, &[], table.get_ref())?;
        Ok(settings)
    }

    /// Adds the options of the sub-command `command`, whose name is the last element of `path`, and of its
    /// sub-commands.
    fn collect(&mut self, text: &str, command: &Command, path: &[String], table: &DeTable<'_>) -> Result<(), Fault> {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let fault = |what| Fault { line: line(text, key.span()), what };
            let below = command.get_subcommands().find(|below| below.get_name() == name && !below.is_hide_set());
            if let Some(below) = below {
                let DeValue::Table(table) = value.get_ref() else {
                    return Err(fault(format!("{name} is a sub-command: its options belong under [{name}]")));
                };
                self.collect(text, below, &[path, &[name.to_owned()]].concat(), table)?;
                continue;
            }
            let root = path.is_empty();
            let Some(arg) = command.get_arguments().find(|arg| key_of(arg, root).as_deref() == Some(name)) else {
                let of = if root { "longhaul".to_owned() } else { format!("longhaul {}", path.join(" ")) };
                return Err(fault(format!("unknown key {name:?}; the keys are the options of `{of} --help`")));
            };
            let words = words(arg, value).ok_or_else(|| fault(format!("{name} is {}", wanted(arg))))?;
            let (path, id) = (path.to_vec(), arg.get_id().to_string());
            self.0.push(Setting { path, id, words, line: line(text, key.span()) });
        }
        Ok(())
    }

    /// Returns the command line, completed by the options of the file.
    fn arguments(&self, command: &Command, matches: &ArgMatches, given: Vec<OsString>) -> Vec<OsString> {
        let (mut command, mut matches, mut path) = (command, matches, Vec::new());
        // Words to insert, with their positions.
        let mut inserted = vec![(1, self.words(command, matches, &path))];
        let mut at = 0;
        while let Some((name, below)) = matches.subcommand()
            && let Some(place) = place(given.get(at + 1..).unwrap_or_default(), name)
            && let Some(found) = command.find_subcommand(name)
        {
            at += 1 + place;
            (command, matches) = (found, below);
            path.push(name.to_owned());
            inserted.push((at + 1, self.words(command, matches, &path)));
        }
        let mut arguments = given;
        for (place, words) in inserted.into_iter().rev() {
            arguments.splice(place..place, words.into_iter().map(OsString::from));
        }
        arguments
    }

    /// Returns the options that the file sets for the sub-command `path`, but the command line does not.
    fn words(&self, command: &Command, matches: &ArgMatches, path: &[String]) -> Vec<String> {
        let given: Vec<_> = command
            .get_arguments()
            .filter(|arg| matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine))
            .collect();
        let of_here = self.0.iter().filter(|setting| setting.path == path);
        let kept = of_here.filter(|setting| {
            let arg = command.get_arguments().find(|arg| arg.get_id().as_str() == setting.id);
            arg.is_some_and(|arg| {
                given.iter().all(|given| given.get_id() != arg.get_id() && !exclude(command, arg, given))
            })
        });
        kept.flat_map(|setting| setting.words.clone()).collect()
    }

    /// Returns the line of the option that caused an error of clap.
    fn line_of(&self, error: &clap::Error) -> Option<usize> {
        let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
        let option = argument.split([' ', '=', '<']).next()?;
        let is_it = |word: &String| word.split('=').next() == Some(option);
        self.0.iter().find(|setting| setting.words.iter().any(is_it)).map(|setting| setting.line)
    }
}

/// Returns the key of an option. Operands have no key, and neither do options that are meaningful only on the command
/// line.
fn key_of(arg: &Arg, root: bool) -> Option<String> {
    let id = arg.get_id().as_str();
    if arg.is_positional() || matches!(id, "help" | "version" | CONFIG) || arg.is_global_set() && !root {
        return None;
    }
    Some(arg.get_long().map_or_else(|| id.replace('_', "-"), str::to_owned))
}

fn exclude(command: &Command, one: &Arg, other: &Arg) -> bool {
    let lists = |one: &Arg, other: &Arg| {
        command.get_arg_conflicts_with(one).iter().any(|conflict| conflict.get_id() == other.get_id())
    };
    let share_a_group = command.get_groups().any(|group| {
        let has = |arg: &Arg| group.get_args().any(|id| id == arg.get_id());
        !group.clone().is_multiple() && has(one) && has(other)
    });
    lists(one, other) || lists(other, one) || share_a_group
}

/// Returns the position of a sub-command in `words`, which begin after the program or the parent command.
fn place(words: &[OsString], name: &str) -> Option<usize> {
    let mut is_value = false;
    words.iter().position(|word| {
        let skipped = std::mem::replace(&mut is_value, word == OsStr::new("--config"));
        !skipped && word == OsStr::new(name)
    })
}

/// Returns the words for an option on the command line, or `None` if the option does not take such a value.
fn words(arg: &Arg, value: &Spanned<DeValue<'_>>) -> Option<Vec<String>> {
    let name = match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => return None,
    };
    let with = |text: String| match arg.get_long() {
        Some(_) => format!("{name}={text}"),
        None => format!("{name}{text}"),
    };
    match (arg.get_action(), value.get_ref()) {
        (ArgAction::SetTrue, DeValue::Boolean(true)) => Some(vec![name]),
        (ArgAction::SetTrue, DeValue::Boolean(false)) => Some(Vec::new()),
        (ArgAction::SetTrue, _) => None,
        (ArgAction::Count, value) => {
            let times = scalar(value)?.parse::<u8>().ok()?;
            Some(vec![name; times.into()])
        }
        (ArgAction::Append, DeValue::Array(values)) => {
            values.iter().map(|value| scalar(value.get_ref()).map(with)).collect()
        }
        (_, DeValue::Boolean(is_on)) if arg.get_num_args().is_some_and(|range| range.min_values() == 0) => {
            Some(if *is_on { vec![name] } else { Vec::new() })
        }
        (_, value) => scalar(value).map(|text| vec![with(text)]),
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        _ => None,
    }
}

fn wanted(arg: &Arg) -> &'static str {
    match arg.get_action() {
        ArgAction::SetTrue => "true or false",
        ArgAction::Count => "a number of times, such as 2",
        ArgAction::Append => "a text or a number, or a list of them",
        _ => "a text or a number",
    }
}

fn line(text: &str, span: Range<usize>) -> usize {
    text.get(..span.start).unwrap_or(text).matches('\n').count() + 1
}

#[cfg(test)]
mod tests;
