//! Files that packages install.
use std::fs;
use std::path::{Path, PathBuf};

use crate::machine::Machine;

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging").join(name)
}

/// Options that are commented out have to be valid, too.
#[test]
fn the_installed_configuration_is_valid() {
    let machine = Machine::new();
    let text = fs::read_to_string(packaging("config.toml")).unwrap();
    let all: Vec<_> =
        text.lines().map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line)).collect();
    assert_ne!(all.join("\n"), text.trim_end());
    for text in [text.clone(), all.join("\n")] {
        let file = machine.path("config.toml");
        fs::write(&file, &text).unwrap();
        for command in ["gateway", "receive"] {
            // `-C list` makes the program print the registry instead of running, but only after it has parsed each
            // option of the file.
            let output = machine.run(&["--config", file.to_str().unwrap(), command, "-C", "list"]);
            assert!(output.status.success(), "{output:?}");
        }
    }
}

#[test]
fn the_services_start_commands_that_exist() {
    let machine = Machine::new();
    for command in ["gateway", "receive"] {
        let unit = fs::read_to_string(packaging(&format!("systemd/longhaul-{command}.service"))).unwrap();
        let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let words: Vec<_> = start.split_whitespace().collect();
        assert_eq!(words, ["/usr/bin/longhaul", "--config", "/etc/longhaul/config.toml", command]);
        assert!(machine.run(&[command, "--help"]).status.success());
        for setting in ["DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet="] {
            assert!(unit.lines().any(|line| line == setting), "{command}: {setting}");
        }
        // The home of the key is the directory of the service.
        assert!(unit.contains(&format!("StateDirectory=longhaul-{command}\n")));
        assert!(unit.contains(&format!("XDG_DATA_HOME=/var/lib/longhaul-{command}\n")));
    }
}
