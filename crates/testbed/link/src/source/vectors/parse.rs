//! Parser for Tmix's files, in the original format and the alternate one.
//!
//! Original format: `SEQ start epochs id id`, followed by `> bytes`, `t micros` and `< bytes` in order; or `CONC
//! start units units id id`, followed by `c> bytes` and `t> micros` for the initiator, `c< bytes` and `t< micros` for
//! the acceptor. Alternate format: `S start ...` or `C start ...`, followed by `I` or `A` with the wait since
//! sending, the wait since receiving, and bytes. Either may contain lines `w`, `r`, `l` and `m` with windows, RTT,
//! losses and segment sizes. Times are in microseconds.

use std::str::SplitWhitespace;

use longhaul_units::{Span, Time};

use super::{Adu, ConnectionVector, Exchange, Side, VectorError};

impl ConnectionVector {
    /// Parses connections from text. Empty lines and lines that begin with `#` are skipped.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, VectorError> {
        let mut parser = Parser { vectors: Vec::new(), waits: [Span::ZERO; 2] };
        for (index, line) in text.lines().enumerate() {
            let mut words = Words { line: index + 1, words: line.split_whitespace() };
            match words.words.next() {
                None => {}
                Some(word) if word.starts_with('#') => {}
                Some(word) => parser.line(word, &mut words)?,
            }
        }
        parser.end_connection();
        Ok(parser.vectors)
    }
}

struct Words<'a> {
    line: usize,
    words: SplitWhitespace<'a>,
}

impl Words<'_> {
    fn number<N: core::str::FromStr>(&mut self, what: &'static str) -> Result<N, VectorError> {
        let number = self.words.next().and_then(|word| word.parse().ok());
        number.ok_or(VectorError::NotANumber { line: self.line, what })
    }

    fn pair<N: core::str::FromStr>(&mut self, what: &'static str) -> Result<(N, N), VectorError> {
        Ok((self.number(what)?, self.number(what)?))
    }

    fn micros(&mut self, what: &'static str) -> Result<Span, VectorError> {
        self.number(what).map(Span::from_micros)
    }
}

struct Parser {
    vectors: Vec<ConnectionVector>,
    /// Think time before the next unit; for concurrent connections, that of each side.
    waits: [Span; 2],
}

impl Parser {
    fn line(&mut self, word: &str, words: &mut Words<'_>) -> Result<(), VectorError> {
        let from = if matches!(word, "<" | "c<" | "A") { Side::Acceptor } else { Side::Initiator };
        match word {
            "SEQ" | "S" => self.connection(words, 1, Exchange::Sequential(Vec::new()))?,
            "CONC" | "C" => {
                self.connection(words, 2, Exchange::Concurrent { initiator: Vec::new(), acceptor: Vec::new() })?;
            }
            "w" => self.last(words)?.windows = Some(words.pair("window")?),
            "r" => self.last(words)?.rtt = Some(words.micros("RTT")?),
            "l" => self.last(words)?.loss = Some(words.pair("loss")?),
            "m" => self.last(words)?.mss = Some(words.pair("MSS")?),
            "t" | "t>" | "t<" => {
                self.last(words)?;
                self.waits[usize::from(word == "t<")] += words.micros("think time")?;
            }
            ">" | "<" => self.sequential(from, words.number("bytes")?, word, words)?,
            "c>" | "c<" => {
                let bytes = words.number("bytes")?;
                let wait = core::mem::take(&mut self.waits[usize::from(from == Side::Acceptor)]);
                let adu = Adu { from, after_send: wait, after_receive: Span::ZERO, bytes };
                self.push(adu, word, words, Some("sequential"))?;
            }
            "I" | "A" => {
                let (after_send, after_receive) = (words.micros("send wait")?, words.micros("receive wait")?);
                let adu = Adu { from, after_send, after_receive, bytes: words.number("bytes")? };
                self.push(adu, word, words, None)?;
            }
            _ => return Err(VectorError::UnknownLine { line: words.line, word: word.chars().take(20).collect() }),
        }
        Ok(())
    }

    fn connection(&mut self, words: &mut Words<'_>, counts: usize, exchange: Exchange) -> Result<(), VectorError> {
        self.end_connection();
        let start = Time::ZERO + words.micros("start")?;
        if self.vectors.last().is_some_and(|last| last.start > start) {
            return Err(VectorError::Backwards { line: words.line });
        }
        let mut vector = ConnectionVector::new(start, exchange);
        // The announced numbers of units are checked and ignored; the units are counted as they are read.
        for _ in 0..counts {
            words.number::<u64>("number of units")?;
        }
        while let Some(id) = words.words.next() {
            vector.ids.push(id.parse().map_err(|_| VectorError::NotANumber { line: words.line, what: "id" })?);
        }
        self.vectors.push(vector);
        Ok(())
    }

    /// Turns a trailing think time into a wait before the connection is closed.
    fn end_connection(&mut self) {
        let [wait, other] = core::mem::take(&mut self.waits);
        let Some(vector) = self.vectors.last_mut() else { return };
        let close = |from, wait| Adu { from, after_send: wait, after_receive: Span::ZERO, bytes: 0 };
        match &mut vector.exchange {
            Exchange::Sequential(adus) if !wait.is_zero() => {
                let from = adus.last().map_or(Side::Initiator, |adu| adu.from);
                adus.push(close(from, wait));
            }
            Exchange::Sequential(_) => {}
            Exchange::Concurrent { initiator, acceptor } => {
                if !wait.is_zero() {
                    initiator.push(close(Side::Initiator, wait));
                }
                if !other.is_zero() {
                    acceptor.push(close(Side::Acceptor, other));
                }
            }
        }
    }

    fn sequential(&mut self, from: Side, bytes: u64, word: &str, words: &Words<'_>) -> Result<(), VectorError> {
        let wait = core::mem::take(&mut self.waits[0]);
        let Exchange::Sequential(adus) = &self.last(words)?.exchange else {
            return Err(VectorError::WrongKind { line: words.line, word: word.into(), kind: "concurrent" });
        };
        // A side that keeps sending waits since its last send; a side that responds waits since its last receive.
        let goes_on = adus.last().is_none_or(|last| last.from == from);
        let (after_send, after_receive) = if goes_on { (wait, Span::ZERO) } else { (Span::ZERO, wait) };
        self.push(Adu { from, after_send, after_receive, bytes }, word, words, None)
    }

    /// Adds a unit. If `not` is given, sequential connections are refused, with `not` as their name in the error.
    fn push(&mut self, adu: Adu, word: &str, words: &Words<'_>, not: Option<&'static str>) -> Result<(), VectorError> {
        let adus = match (&mut self.last(words)?.exchange, not) {
            (Exchange::Sequential(_), Some(kind)) => {
                return Err(VectorError::WrongKind { line: words.line, word: word.into(), kind });
            }
            (Exchange::Sequential(adus), None) => adus,
            (Exchange::Concurrent { initiator, .. }, _) if adu.from == Side::Initiator => initiator,
            (Exchange::Concurrent { acceptor, .. }, _) => acceptor,
        };
        adus.push(adu);
        Ok(())
    }

    fn last(&mut self, words: &Words<'_>) -> Result<&mut ConnectionVector, VectorError> {
        self.vectors.last_mut().ok_or(VectorError::NoConnection { line: words.line })
    }
}
