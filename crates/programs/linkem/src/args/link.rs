//! Options of the link for clap.

use std::fs;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use longhaul_link::spec::{LinkOptions, OPTIONS, Path, SpecError};

use crate::log::{LogFiles, Logs};

/// The option that concerns the emulator rather than the link.
const LOG: (&str, &str, &str) = ("log", "FILE", "log all packets in mahimahi's format");

/// Options of a link as given.
#[derive(Clone, Debug, Default)]
pub struct LinkArgs {
    options: LinkOptions,
    log: Option<String>,
    logs: LogFiles,
    list: bool,
    fault: Option<SpecError>,
}

/// An option: name, placeholder of the value, and help text. The variants for one direction have no help text.
struct Known {
    name: String,
    value: &'static str,
    help: Option<&'static str>,
}

fn known() -> &'static [Known] {
    static KNOWN: OnceLock<Vec<Known>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let mut known = Vec::new();
        for &(name, value, help) in OPTIONS.iter().chain([&LOG]) {
            known.push(Known { name: name.to_owned(), value, help: Some(help) });
            if !matches!(name, "scenario" | "swap" | "seed") {
                known.extend(["up", "down"].map(|way| Known { name: format!("{name}-{way}"), value, help: None }));
            }
        }
        known
    })
}

impl Args for LinkArgs {
    fn augment_args(command: Command) -> Command {
        command.args(known().iter().map(|known| {
            let arg =
                Arg::new(known.name.as_str()).long(known.name.as_str()).help_heading("Link").hide(known.help.is_none());
            let arg = if known.value.is_empty() {
                arg.action(ArgAction::SetTrue)
            } else {
                // Accept negative and repeated values, for which the link's own errors are more helpful than clap's.
                arg.value_name(known.value).action(ArgAction::Append).allow_hyphen_values(true)
            };
            known.help.map_or(arg.clone(), |help| arg.help(help))
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LinkArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for known in known() {
            let name = known.name.as_str();
            if known.value.is_empty() {
                if matches.get_flag(name) {
                    self.set(name, None);
                }
                continue;
            }
            for value in matches.get_many::<String>(name).into_iter().flatten() {
                self.set(name, Some(value));
            }
        }
        Ok(())
    }
}

fn once(place: &mut Option<String>, name: &str, value: &str) -> Result<(), SpecError> {
    match place.replace(value.to_owned()) {
        None => Ok(()),
        Some(_) => Err(SpecError::twice(name)),
    }
}

impl LinkArgs {
    fn set(&mut self, name: &str, value: Option<&str>) {
        let result = match (name, value) {
            ("scenario", Some("list")) => {
                self.list = true;
                Ok(())
            }
            ("log", Some(file)) => once(&mut self.log, name, file),
            ("log-up", Some(file)) => once(&mut self.logs.up, name, file),
            ("log-down", Some(file)) => once(&mut self.logs.down, name, file),
            _ => self.options.set(name, value),
        };
        self.fault = self.fault.take().or(result.err());
    }

    /// Returns whether the list of scenarios was requested.
    pub fn asks_for_list(&self) -> bool {
        self.list
    }

    /// Builds the link and creates its log files.
    pub fn build(self, command: &str) -> Result<(Path, Logs)> {
        if let Some(fault) = self.fault {
            return Err(fault.into());
        }
        let read =
            |file: &str| fs::read_to_string(file).map_err(|error| format!("{error}; name a file that can be read"));
        let path = self.options.build(read)?;
        let files = LogFiles { up: self.logs.up.or(self.log.clone()), down: self.logs.down.or(self.log) };
        let logs = Logs::create(&files, command).context("--log: the file cannot be created; name another")?;
        Ok((path, logs))
    }
}
