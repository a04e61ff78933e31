//! Checks of file names received from a peer, and escaping of text from a peer for a terminal.
//!
//! A name is a sequence of bytes, as on Unix, and usually UTF-8. Names that no system should have to handle are refused.
//! Whether the file system has others is found when the file is created.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// The longest file name that most file systems allow, in bytes.
pub(crate) const MAX_NAME: usize = 255;
/// Maximum length of a path in bytes.
pub(crate) const MAX_PATH: usize = 4095;
/// Maximum number of names in a path.
pub(crate) const MAX_DEPTH: usize = 64;
/// Prefix of the receiver's own file names, in upper or lower case.
pub(crate) const OWN_PREFIX: &str = ".longhaul-";

/// A file name, or a path separated by `/`. It is displayed [`escaped`], with bytes that are not UTF-8 as `\xHH`.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Vec<u8>);

impl Name {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn to_local(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// Returns the path of `name` in this directory.
    pub fn join(&self, name: &Self) -> Self {
        Self([self.as_bytes(), b"/", name.as_bytes()].concat())
    }

    /// Returns the name as a text for other programs, in which bytes that are not UTF-8 are replaced by `\xHH`.
    pub fn text(&self) -> String {
        self.shown(str::to_owned)
    }

    fn shown(&self, valid: impl Fn(&str) -> String) -> String {
        let mut shown = String::with_capacity(self.0.len());
        for chunk in self.0.utf8_chunks() {
            shown += &valid(chunk.valid());
            for byte in chunk.invalid() {
                // Writing to a string does not fail.
                let _ = write!(shown, "\\x{byte:02x}");
            }
        }
        shown
    }
}

impl From<&OsStr> for Name {
    fn from(name: &OsStr) -> Self {
        Self(name.as_encoded_bytes().to_owned())
    }
}

impl From<Vec<u8>> for Name {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_owned())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown(escaped))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.serialize_bytes(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Bytes(Vec<u8>),
        }
        Ok(match Form::deserialize(deserializer)? {
            Form::Text(text) => Self(text.into_bytes()),
            Form::Bytes(bytes) => Self(bytes),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("the file name is empty")]
    Empty,
    #[error("a file name of {0} bytes is too long (at most {MAX_NAME})")]
    TooLong(usize),
    #[error("a path of {0} bytes is too long (at most {MAX_PATH})")]
    PathTooLong(usize),
    #[error("a path of more than {MAX_DEPTH} names is too deep")]
    TooDeep,
    /// A symbolic link that may lead outside the directory that is sent.
    #[error("\"{0}\" may lead outside the directory")]
    Outside(Name),
    #[error("\"{0}\" is not a plain file name")]
    NotPlain(Name),
    #[error("\"{0}\" contains a control character, or one that changes the direction of text")]
    Control(Name),
    #[error("\"{0}\" is reserved for unfinished files")]
    Own(Name),
    #[error("\"{0}\" begins with a dot or a dash")]
    Hidden(Name),
}

/// Checks that `name` names a file inside its directory, and that it does not change how the text around it is
/// displayed.
pub(crate) fn check(name: &[u8]) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > MAX_NAME {
        return Err(NameError::TooLong(name.len()));
    }
    let error = |kind: fn(Name) -> NameError| Err(kind(Name(name.to_owned())));
    let text = String::from_utf8_lossy(name);
    let visible = visible(&text);
    if matches!(visible.as_str(), "" | "." | "..") || name.contains(&b'/') || name.contains(&0) {
        return error(NameError::NotPlain);
    }
    if text.chars().any(is_control) {
        return error(NameError::Control);
    }
    let own = visible.get(..OWN_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(OWN_PREFIX));
    if own { error(NameError::Own) } else { Ok(()) }
}

/// Checks that `path` is a relative path, separated by `/`, of names that [`check`] accepts.
pub(crate) fn check_path(path: &Name) -> Result<(), NameError> {
    if path.0.len() > MAX_PATH {
        return Err(NameError::PathTooLong(path.0.len()));
    }
    if parts(path).count() > MAX_DEPTH {
        return Err(NameError::TooDeep);
    }
    if path.0.starts_with(b"/") {
        return Err(NameError::NotPlain(path.clone()));
    }
    parts(path).try_for_each(check)
}

/// Checks that a symbolic link at `path` with the text `target` leads to a place inside the tree that `path` is
/// relative to. `..` is allowed only at the beginning of the target, where the directories are real ones, and at most
/// as often as there are directories above.
/// Returns [`NameError::Outside`] if the link may lead outside, or the problem with a name.
pub(crate) fn check_link(path: &Name, target: &Name) -> Result<(), NameError> {
    if target.0.len() > MAX_PATH {
        return Err(NameError::PathTooLong(target.0.len()));
    }
    let up = parts(target).take_while(|name| *name == b"..").count();
    let mut below = parts(target).skip(up).peekable();
    // The first component of the path is the directory that is sent.
    let inside = parts(path).count().saturating_sub(2);
    let plain = (up > 0 || below.peek().is_some()) && below.all(|name| check(name).is_ok());
    if up <= inside && plain { Ok(()) } else { Err(NameError::Outside(target.clone())) }
}

/// Checks that `ls` lists a file with this path, and that no program interprets one of its names as an option. Returns
/// [`NameError::Hidden`] if a name in the path begins with a dot or a dash.
pub(crate) fn check_not_hidden(path: &Name) -> Result<(), NameError> {
    let hidden = parts(path).find(|name| visible(&String::from_utf8_lossy(name)).starts_with(['.', '-']));
    if let Some(name) = hidden { Err(NameError::Hidden(Name(name.to_owned()))) } else { Ok(()) }
}

pub(crate) fn parts(path: &Name) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.0.split(|byte| *byte == b'/')
}

/// Returns the path of the parent directory, which may be empty, and the last name of `path`.
pub(crate) fn split(path: &Name) -> (&[u8], &[u8]) {
    let name = parts(path).next_back().unwrap_or_default();
    let above = path.0.len().saturating_sub(name.len() + 1);
    (path.0.get(..above).unwrap_or_default(), name)
}

fn visible(name: &str) -> String {
    name.chars().filter(|c| !is_ignorable(*c)).collect()
}

/// Returns whether a character is a control character, ends a line, or changes the order of the characters around it.
fn is_control(c: char) -> bool {
    use GeneralCategory::{Control, LineSeparator, ParagraphSeparator};
    // Most names are ASCII, for which the tables of Unicode are not needed.
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    // Unicode's property Bidi_Control, and the deprecated format characters after them (PropList.txt).
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
        || matches!(c.general_category(), Control | LineSeparator | ParagraphSeparator)
}

/// Returns whether a character is usually not displayed, such as a joiner of emojis: format characters, and the rest of
/// Unicode's property `Default_Ignorable_Code_Point` (DerivedCoreProperties.txt), which are fillers, variation
/// selectors and tags.
fn is_ignorable(c: char) -> bool {
    if c.is_ascii() {
        return false;
    }
    matches!(c, '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{2065}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}'
        | '\u{e0000}'..='\u{e0fff}')
        || c.general_category() == GeneralCategory::Format
}

/// Returns `text` for display on a terminal: invisible characters and those that could control the terminal are shown
/// as `\u{..}`.
pub(crate) fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_control(c) || is_ignorable(c) {
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

    fn checked(name: &str) -> Result<(), NameError> {
        check(name.as_bytes())
    }

    #[test]
    fn what_any_unix_file_may_be_called_passes() {
        for name in [
            "a",
            "a b.tar.gz",
            ".profile",
            "-rf",
            "\u{e4}",
            "a\u{308}",
            "\u{5831}\u{544a}.pdf",
            "console",
            "nul1",
            &"x".repeat(255),
            // On Windows, these contain separators, name devices, or lose characters.
            "backup 12:30:00.log",
            "a\\b",
            "c:x",
            "etc.",
            "a ",
            "aux.c",
            "nul",
            "what?",
            "a*",
            "\"a\"",
            "...",
            "x. ",
            // Variation selectors, joiners and tags, which occur in emojis and Persian names.
            "\u{2764}\u{fe0f}.jpg",
            "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
            "\u{645}\u{6cc}\u{200c}\u{62e}",
            "\u{1f3f4}\u{e0067}\u{e0062}\u{e007f}",
            "soft\u{ad}hyphen",
        ] {
            assert_eq!(checked(name), Ok(()), "{name}");
        }
        for name in [&b"caf\xe9.txt"[..], b"\xff", b"a\x9bb", b"\xed\xa0\x80"] {
            assert_eq!(check(name), Ok(()));
        }
        for name in [".", "..", "/", "a/b", "/etc/passwd", "../x", "a/", "./a", "a\0", "\u{200d}", ".\u{200d}."] {
            assert_eq!(checked(name), Err(NameError::NotPlain(name.into())));
        }
        assert_eq!(checked(""), Err(NameError::Empty));
        assert_eq!(checked(&"x".repeat(256)), Err(NameError::TooLong(256)));
    }

    /// Overrides and isolates ("Trojan Source"), control characters.
    #[test]
    fn characters_that_control_the_display_are_refused_and_printed_escaped() {
        for c in "\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\n\u{1b}\u{9b}\u{7f}".chars() {
            let name = format!("a{c}b");
            assert_eq!(checked(&name), Err(NameError::Control(name.as_str().into())), "{c:?}");
            let shown = checked(&name).unwrap_err().to_string();
            assert!(!shown.contains(c) && shown.contains(&c.escape_unicode().to_string()), "{shown}");
        }
        assert!(check(b"a\x1b\xff").is_err());
        assert_eq!(escaped("fdp.\u{202e}exe \u{e4}"), "fdp.\\u{202e}exe \u{e4}");
        assert_eq!(escaped("a\u{200b}b\u{fe0f}"), "a\\u{200b}b\\u{fe0f}");
        let name = Name(b"\xe9\xff\x1bx".to_vec());
        assert_eq!((name.to_string().as_str(), name.text().as_str()), ("\\xe9\\xff\\u{1b}x", "\\xe9\\xff\u{1b}x"));
    }

    #[test]
    fn names_come_back_from_json() {
        for name in [&b"a \xe2\x9d\xa4"[..], b"\xff\x00", b""] {
            let name = Name(name.to_vec());
            let json = serde_json::to_string(&name).unwrap();
            assert_eq!(serde_json::from_str::<Name>(&json).unwrap(), name, "{json}");
        }
    }

    #[test]
    fn paths_consist_of_plain_names() {
        for path in ["a", "a/b", "a b/c.d/-e", &vec!["x"; MAX_DEPTH].join("/")] {
            assert_eq!(check_path(&path.into()), Ok(()), "{path}");
        }
        for path in ["/a", "a/../b", "../a", "a/./b", "a//b", "a/", "a/\n", "a/b\0", "a/.longhaul-x", ""] {
            assert!(check_path(&path.into()).is_err(), "{path:?}");
        }
        let deep = vec!["x"; MAX_DEPTH + 1].join("/");
        assert_eq!(check_path(&deep.as_str().into()), Err(NameError::TooDeep));
        assert_eq!(check_path(&"x/".repeat(2048).as_str().into()), Err(NameError::PathTooLong(4096)));
    }

    #[test]
    fn links_stay_inside() {
        for (path, target) in
            [("d/l", "x"), ("d/l", "a/b"), ("d/e/l", ".."), ("d/e/l", "../x"), ("d/e/f/l", "../../x/y"), ("d/l", "a:b")]
        {
            assert_eq!(check_link(&path.into(), &target.into()), Ok(()), "{path} {target}");
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
            ("d/e/l", "../"),
            ("d/e/l", ".\u{200d}./../x"),
        ] {
            assert!(check_link(&path.into(), &target.into()).is_err(), "{path} {target}");
        }
    }

    /// Some file systems ignore case and characters that are not displayed.
    #[test]
    fn own_and_hidden_names_are_known_in_every_spelling() {
        for name in [".longhaul-12-0.part", ".LONGHAUL-x", ".long\u{200d}haul-x", "\u{feff}.longhaul-x"] {
            assert_eq!(checked(name), Err(NameError::Own(name.into())));
        }
        for name in [".bashrc", "-rf", "\u{200c}.bashrc"] {
            assert_eq!(check_not_hidden(&name.into()), Err(NameError::Hidden(name.into())));
        }
        assert_eq!(check_not_hidden(&"a/.b/c".into()), Err(NameError::Hidden(".b".into())));
        assert_eq!(check_not_hidden(&"a.-".into()), Ok(()));
    }
}
