//! Checks of file names received from a peer, and escaping of a peer's texts for a terminal.

use std::fmt::Write as _;
use std::path::{Component, Path};

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// The longest file name that most file systems allow, in bytes.
pub const MAX_NAME: usize = 255;
/// Maximum length of a path in bytes.
pub const MAX_PATH: usize = 4095;
/// Maximum number of names in a path.
pub const MAX_DEPTH: usize = 64;
/// Start of the receiver's own file names; the case of the letters is ignored.
pub const OWN_PREFIX: &str = ".longhaul-";

/// Reason why a text is not accepted as a file name. Names are printed with [`escaped`] characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is empty.
    #[error("the file name is empty")]
    Empty,
    /// The name is longer than [`MAX_NAME`] bytes.
    #[error("a file name of {0} bytes is too long (at most {MAX_NAME})")]
    TooLong(usize),
    /// The path is longer than [`MAX_PATH`] bytes.
    #[error("a path of {0} bytes is too long (at most {MAX_PATH})")]
    PathTooLong(usize),
    /// The path has more than [`MAX_DEPTH`] names.
    #[error("a path of more than {MAX_DEPTH} names is too deep")]
    TooDeep,
    /// A symbolic link that may lead outside the directory that is sent.
    #[error("\"{name}\" may lead outside the directory", name = escaped(.0))]
    Outside(String),
    /// A path, `..`, or another text that a file system would interpret as more than a name.
    #[error("\"{name}\" is not a plain file name", name = escaped(.0))]
    NotPlain(String),
    /// The name contains a control character, an invisible one, or one that changes the direction of the text around
    /// it.
    #[error("\"{name}\" contains an invisible character", name = escaped(.0))]
    Invisible(String),
    /// The name of a device on Windows, with or without an extension.
    #[error("\"{name}\" is the name of a device on Windows", name = escaped(.0))]
    Device(String),
    /// The name ends in a dot or a space, which Windows drops.
    #[error("\"{name}\" ends in a dot or a space", name = escaped(.0))]
    Ending(String),
    /// A name reserved for the receiver's unfinished files.
    #[error("\"{name}\" is reserved for unfinished files", name = escaped(.0))]
    Own(String),
    /// A hidden file, or a name that programs would interpret as an option.
    #[error("\"{name}\" begins with a dot or a dash", name = escaped(.0))]
    Hidden(String),
}

/// Checks that `name` names a file inside its directory on every system, and that it is displayed as it is.
///
/// # Errors
/// Returns what is wrong with the name.
pub fn check(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > MAX_NAME {
        return Err(NameError::TooLong(name.len()));
    }
    let mut components = Path::new(name).components();
    let single =
        matches!((components.next(), components.next()), (Some(Component::Normal(only)), None) if only == name);
    // The separators and drive letters of all systems are refused, so that a name means the same everywhere.
    if !single || name.contains(['/', '\\', ':']) {
        return Err(NameError::NotPlain(name.to_owned()));
    }
    if name.chars().any(is_invisible) {
        return Err(NameError::Invisible(name.to_owned()));
    }
    if name.ends_with(|c: char| c == '.' || c.is_whitespace()) {
        return Err(NameError::Ending(name.to_owned()));
    }
    if is_device(name) {
        return Err(NameError::Device(name.to_owned()));
    }
    let own = name.get(..OWN_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(OWN_PREFIX));
    if own { Err(NameError::Own(name.to_owned())) } else { Ok(()) }
}

/// Checks that `path` is a relative path, separated by `/`, of names that [`check`] accepts.
///
/// # Errors
/// Returns what is wrong with the path or with one of its names.
pub fn check_path(path: &str) -> Result<(), NameError> {
    if path.len() > MAX_PATH {
        return Err(NameError::PathTooLong(path.len()));
    }
    if path.split('/').count() > MAX_DEPTH {
        return Err(NameError::TooDeep);
    }
    if path.starts_with('/') {
        return Err(NameError::NotPlain(path.to_owned()));
    }
    path.split('/').try_for_each(check)
}

/// Checks that a symbolic link at `path` with the text `target` leads to a place inside the tree that `path` is relative to:
/// `..` is allowed only at the beginning, where the directories are real ones, and at most as often as there are
/// directories.
///
/// # Errors
/// Returns [`NameError::Outside`] if the link may lead outside, or what is wrong with a name.
pub fn check_link(path: &str, target: &str) -> Result<(), NameError> {
    if target.len() > MAX_PATH {
        return Err(NameError::PathTooLong(target.len()));
    }
    let mut rest = target;
    let mut up = 0;
    while let Some(parent) = rest.strip_prefix("..").filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        up += 1;
        rest = parent.strip_prefix('/').unwrap_or(parent);
    }
    // The first directory of the path is the one that is sent.
    let inside = path.split('/').count().saturating_sub(2);
    if up > inside || (rest.is_empty() && up == 0) || target.starts_with('/') {
        return Err(NameError::Outside(target.to_owned()));
    }
    let plain = rest.is_empty() || rest.split('/').all(|name| check(name).is_ok());
    if plain { Ok(()) } else { Err(NameError::Outside(target.to_owned())) }
}

/// Checks that `ls` lists a file of this path, and that no program interprets one of its names as an option.
///
/// # Errors
/// Returns [`NameError::Hidden`] if a name in the path begins with a dot or a dash.
pub fn check_not_hidden(path: &str) -> Result<(), NameError> {
    let hidden = path.split('/').find(|name| name.starts_with(['.', '-']));
    if let Some(name) = hidden { Err(NameError::Hidden(name.to_owned())) } else { Ok(()) }
}

/// Returns whether a character is a control character, invisible, or changes the order of the characters around it.
fn is_invisible(c: char) -> bool {
    use GeneralCategory::{Control, Format, LineSeparator, ParagraphSeparator};
    // The rest of Unicode's property Default_Ignorable_Code_Point (DerivedCoreProperties.txt): joiners, fillers,
    // variation selectors and tags.
    let ignorable = matches!(c, '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{2065}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}'
        | '\u{e0000}'..='\u{e0fff}');
    ignorable || matches!(c.general_category(), Control | Format | LineSeparator | ParagraphSeparator)
}

/// Returns whether Windows opens a device by this name ("Naming Files, Paths, and Namespaces"). Only the part before
/// the first dot counts, without trailing spaces.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let port = |stem: &str| {
        let digit = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT"));
        digit.is_some_and(|digit| {
            matches!(digit, "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" | "\u{b9}" | "\u{b2}" | "\u{b3}")
        })
    };
    matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$") || port(&stem)
}

/// Returns `text` for display on a terminal: invisible characters and those that could control the terminal are shown
/// as `\u{..}`.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_invisible(c) {
            // Writing to a string does not fail.
            let _ = write!(shown, "{}", c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_pass() {
        for name in [
            "a",
            "a b.tar.gz",
            ".profile",
            "-rf",
            "ä",
            "a\u{308}",
            "報告.pdf",
            "console",
            "com10",
            "nul1",
            &"x".repeat(255),
        ] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        for name in [".", "..", "/", "a/b", "/etc/passwd", "../x", "a/", "./a", "a\\b", "c:x"] {
            assert_eq!(check(name), Err(NameError::NotPlain(name.to_owned())));
        }
        assert_eq!(check(""), Err(NameError::Empty));
        assert_eq!(check(&"x".repeat(256)), Err(NameError::TooLong(256)));
    }

    /// Overrides and isolates ("Trojan Source"), zero-width characters, the soft hyphen, a tag, a filler, control
    /// characters.
    #[test]
    fn invisible_characters_are_refused_and_printed_escaped() {
        for c in
            "\u{202e}\u{2066}\u{200b}\u{200d}\u{feff}\u{ad}\u{e0041}\u{3164}\u{fe0f}\u{2028}\n\u{0}\u{1b}\u{9b}\u{7f}"
                .chars()
        {
            let name = format!("a{c}b");
            assert_eq!(check(&name), Err(NameError::Invisible(name.clone())), "{c:?}");
            let shown = check(&name).unwrap_err().to_string();
            assert!(!shown.contains(c) && shown.contains(&c.escape_unicode().to_string()), "{shown}");
        }
        assert_eq!(escaped("fdp.\u{202e}exe ä"), "fdp.\\u{202e}exe ä");
    }

    #[test]
    fn paths_consist_of_plain_names() {
        for path in ["a", "a/b", "a b/c.d/-e", &vec!["x"; MAX_DEPTH].join("/")] {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
        for path in
            ["/a", "a/../b", "../a", "a/./b", "a//b", "a/", "a/\n", "a/b\0", "a/nul", "a/.longhaul-x", "a\\b", ""]
        {
            assert!(check_path(path).is_err(), "{path:?}");
        }
        assert_eq!(check_path(&vec!["x"; MAX_DEPTH + 1].join("/")), Err(NameError::TooDeep));
        assert_eq!(check_path(&"x/".repeat(2048)), Err(NameError::PathTooLong(4096)));
        assert_eq!(check_not_hidden("a/.b/c"), Err(NameError::Hidden(".b".to_owned())));
    }

    #[test]
    fn links_stay_inside() {
        for (path, target) in
            [("d/l", "x"), ("d/l", "a/b"), ("d/e/l", ".."), ("d/e/l", "../x"), ("d/e/f/l", "../../x/y")]
        {
            assert_eq!(check_link(path, target), Ok(()), "{path} {target}");
        }
        for (path, target) in [
            ("d/l", ".."),
            ("l", "x/.."),
            ("d/l", "../x"),
            ("d/e/l", "../../x"),
            ("d/e/l", "a/../x"),
            ("d/e/l", "/etc/passwd"),
            ("d/e/l", ""),
            ("d/e/l", "."),
            ("d/e/l", "a//b"),
            ("d/e/l", "..\\x"),
        ] {
            assert!(check_link(path, target).is_err(), "{path} {target}");
        }
    }

    #[test]
    fn names_that_mean_something_else_elsewhere_are_refused() {
        for name in ["NUL", "nul.txt", "Con", "aux.tar.gz", "com1", "LPT9.x", "COM\u{b9}", "prn .txt", "conin$"] {
            assert_eq!(check(name), Err(NameError::Device(name.to_owned())));
        }
        for name in ["a.", "...", "a ", "a\u{3000}", "x. "] {
            assert_eq!(check(name), Err(NameError::Ending(name.to_owned())));
        }
        for name in [".longhaul-12-0.part", ".LONGHAUL-x"] {
            assert_eq!(check(name), Err(NameError::Own(name.to_owned())));
        }
        for name in [".bashrc", "-rf"] {
            assert_eq!(check_not_hidden(name), Err(NameError::Hidden(name.to_owned())));
        }
        assert_eq!(check_not_hidden("a.-"), Ok(()));
    }
}
