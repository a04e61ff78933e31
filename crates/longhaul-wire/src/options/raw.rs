//! The option list as bytes: kind, length, body.

use crate::ParseError;

use super::kind;

/// An option, not yet looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawOption<'a> {
    /// Its kind.
    pub(crate) kind: u8,
    /// What follows kind and length.
    pub(crate) body: &'a [u8],
    /// Where the body begins, counted from the beginning of the list.
    pub(crate) start: usize,
}

/// Walks an option list up to its end or its end mark; NOPs are left out. After an error it yields nothing more.
#[derive(Clone, Debug)]
pub(crate) struct RawOptions<'a> {
    bytes: &'a [u8],
    rest: &'a [u8],
}

impl<'a> RawOptions<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, rest: bytes }
    }

    /// The option whose kind is `kind` and whose length and body are at the beginning of `tail`.
    fn take(&mut self, kind: u8, tail: &'a [u8]) -> Result<RawOption<'a>, ParseError> {
        let (&len, tail) = tail.split_first().ok_or(ParseError::OptionOverrun { kind })?;
        let body_len = len.checked_sub(2).ok_or(ParseError::OptionLength { kind, len })?;
        let (body, rest) = tail.split_at_checked(usize::from(body_len)).ok_or(ParseError::OptionOverrun { kind })?;
        self.rest = rest;
        let start = self.bytes.len().saturating_sub(tail.len());
        Ok(RawOption { kind, body, start })
    }
}

impl<'a> Iterator for RawOptions<'a> {
    type Item = Result<RawOption<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (&kind, tail) = core::mem::take(&mut self.rest).split_first()?;
            match kind {
                kind::END => return None,
                kind::NOP => self.rest = tail,
                _ => return Some(self.take(kind, tail)),
            }
        }
    }
}
