//! The options that describe a link, as clap sees them.

use std::fs;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use longhaul_link::spec::{LinkOptions, OPTIONS, Path, SpecError};

use crate::log::{LogFiles, Logs};

/// The option that is about the emulator and not the link.
const LOG: (&str, &str, &str) = ("log", "FILE", "log what happens to each packet, in mahimahi's format");

/// Options of a link as they were given.
#[derive(Clone, Debug, Default)]
pub struct LinkArgs {
    options: LinkOptions,
    /// Of both directions.
    log: Option<String>,
    /// Of one.
    logs: LogFiles,
    list: bool,
    /// What was wrong first.
    fault: Option<SpecError>,
}

/// An option: its name, what follows it, its meaning (of those for one direction: none).
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
                // What is negative, or there twice, the link's own words explain.
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
        Some(_) => Err(SpecError::Twice(name.to_owned())),
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

    /// Whether the named links are asked for.
    #[must_use]
    pub fn asks_for_list(&self) -> bool {
        self.list
    }

    /// Makes the link, and creates its logs.
    ///
    /// # Errors
    /// What is wrong with the options or the files, and what to write instead.
    pub fn build(self, command: &str) -> Result<(Path, Logs)> {
        if let Some(fault) = self.fault {
            return Err(fault.into());
        }
        let read =
            |file: &str| fs::read_to_string(file).map_err(|error| format!("{error}; name a file that can be read"));
        let path = self.options.build(read)?;
        let files = LogFiles { up: self.logs.up.or(self.log.clone()), down: self.logs.down.or(self.log) };
        let logs = Logs::create(&files, command).context("--log: no file can be made there; name another")?;
        Ok((path, logs))
    }
}
