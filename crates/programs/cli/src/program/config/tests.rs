use clap::{CommandFactory as _, Parser as _};

use super::*;

fn arguments(file: &str, line: &str) -> String {
    let command = Cli::command();
    let given: Vec<_> = std::iter::once("longhaul").chain(line.split_whitespace()).map(OsString::from).collect();
    let matches = command.clone().try_get_matches_from(&given).unwrap();
    let settings = Settings::parse(file, &command).unwrap();
    let arguments = settings.arguments(&command, &matches, given);
    Cli::try_parse_from(&arguments).unwrap();
    let words: Vec<_> = arguments.iter().map(|word| word.to_str().unwrap()).collect();
    words.join(" ")
}

#[test]
fn options_of_the_file_come_before_those_of_the_command_line() {
    let file = "quiet = true\nverbose = 2\n[send]\nretry = '2m'\ntimeout = 30\nlinks = true\njson = false\n[receive]\nonce = true";
    assert_eq!(
        arguments(file, "send host file"),
        "longhaul --quiet --verbose --verbose send --links --retry=2m --timeout=30 host file"
    );
    // A global option comes first, and a file has the name of the sub-command.
    assert_eq!(
        arguments("[send]\nlinks = true", "--config send -q send host send"),
        "longhaul --config send -q send --links host send"
    );
    assert_eq!(
        arguments("[forward]\nlocal = ['1:a:2', '2:b:3']\n", "forward host"),
        "longhaul forward -L1:a:2 -L2:b:3 host"
    );
}

#[test]
fn the_command_line_wins() {
    assert_eq!(arguments("[send]\ntimeout = 30", "send --timeout 5 host file"), "longhaul send --timeout 5 host file");
    // A list of the command line replaces that of the file.
    let key = "SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8";
    let allow = format!("[receive]\nallow = ['{key}']\n");
    assert!(arguments(&allow, "receive").contains("receive --allow="));
    assert_eq!(arguments(&allow, &format!("receive --allow {key}")), format!("longhaul receive --allow {key}"));
    // Options may exclude each other by the definition of either one, or by a group.
    assert_eq!(arguments(&allow, "receive --plaintext"), "longhaul receive --plaintext");
    assert_eq!(
        arguments("[receive]\nplaintext = true", &format!("receive --allow {key}")),
        format!("longhaul receive --allow {key}")
    );
    assert_eq!(arguments("[receive]\noverwrite = true", "receive --skip"), "longhaul receive --skip");
    assert_eq!(
        arguments("[send]\nno-resume = true", "send --resume host file"),
        "longhaul send --no-resume --resume host file"
    );
}

#[test]
fn faults_have_a_line_and_a_reason() {
    let fault = |file: &str| {
        let Fault { line, what } = Settings::parse(file, &Cli::command()).unwrap_err();
        format!("{line}: {what}")
    };
    for (file, said) in [
        ("\n\n[send]\nspeed = 1\n", "4: unknown key \"speed\"; the keys are the options of `longhaul send --help`"),
        ("[fly]\n", "1: unknown key \"fly\"; the keys are the options of `longhaul --help`"),
        ("config = 'x'\n", "1: unknown key \"config\""),
        ("[send]\nquiet = true\n", "2: unknown key \"quiet\""),
        ("send = 1\n", "1: send is a sub-command"),
        ("[send]\nlinks = 'yes'\n", "2: links is true or false"),
        ("[send]\ntimeout = [1]\n", "2: timeout is a text or a number"),
        ("quiet = false\nquiet = true\n", "2: duplicate key"),
        ("[send\n", "1: "),
        ("[link.shell-init]\n", "1: unknown key \"shell-init\""),
    ] {
        assert!(fault(file).starts_with(said), "{file:?}: {}", fault(file));
    }
}

#[test]
fn an_invalid_value_is_found_in_the_file() {
    let settings = Settings::parse("[send]\n\ntimeout = 0\n", &Cli::command()).unwrap();
    let error = Cli::try_parse_from(["longhaul", "send", "--timeout=0", "host", "file"]).unwrap_err();
    assert_eq!(settings.line_of(&error), Some(3));
}

/// Calls `each` for the options of `command` and of its sub-commands.
fn walk(command: &Command, path: &str, each: &mut impl FnMut(&str, &Arg)) {
    command.get_arguments().filter(|arg| !arg.is_positional()).for_each(|arg| each(path, arg));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        let path = if path.is_empty() { below.get_name().to_owned() } else { format!("{path}.{}", below.get_name()) };
        walk(below, &path, each);
    }
}

#[test]
fn every_option_has_a_key() {
    let (command, mut options) = (Cli::command(), 0);
    walk(&command, "", &mut |path, arg| {
        let id = arg.get_id().as_str();
        if id == CONFIG {
            return;
        }
        let key = arg.get_long().map_or_else(|| id.replace('_', "-"), str::to_owned);
        let value = match arg.get_action() {
            ArgAction::SetTrue => "true",
            ArgAction::Count => "1",
            _ => "'x'",
        };
        let table = if path.is_empty() { String::new() } else { format!("[{path}]\n") };
        let settings = Settings::parse(&format!("{table}{key} = {value}\n"), &command).unwrap();
        let [setting] = settings.0.as_slice() else { panic!("{path}.{key}: {settings:?}") };
        assert_eq!((setting.id.as_str(), setting.words.len()), (id, 1), "{path}.{key}");
        options += 1;
    });
    assert!(options > 100, "{options}");
}
