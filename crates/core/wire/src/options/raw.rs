//! Iterator over the kinds and bodies of an option list.

use crate::ParseError;

use super::kind;

/// Option with an unparsed body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawOption<'a> {
    pub(crate) kind: u8,
    /// Bytes after kind and length.
    pub(crate) body: &'a [u8],
    /// Offset of the body in the list.
    pub(crate) start: usize,
}

/// Iterates over an option list up to its end or the end-of-list option, skipping NOPs. It ends after an error.
#[derive(Clone, Debug)]
pub(crate) struct RawOptions<'a> {
    bytes: &'a [u8],
    rest: &'a [u8],
}

impl<'a> RawOptions<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, rest: bytes }
    }

    /// Returns the option of kind `kind` whose length and body are at the start of `tail`.
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
