//! Writer for Tmix's alternate format, which can express every connection.

use core::fmt;

use super::{Adu, ConnectionVector, Exchange, Side};

impl fmt::Display for ConnectionVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = self.start.as_nanos() / 1_000;
        match &self.exchange {
            Exchange::Sequential(adus) => write!(f, "S {start} {}", adus.len())?,
            Exchange::Concurrent { initiator, acceptor } => {
                write!(f, "C {start} {} {}", initiator.len(), acceptor.len())?;
            }
        }
        self.ids.iter().try_for_each(|id| write!(f, " {id}"))?;
        writeln!(f)?;
        let mut pair = |word: &str, pair: Option<(u64, u64)>| match pair {
            Some((initiator, acceptor)) => writeln!(f, "{word} {initiator} {acceptor}"),
            None => Ok(()),
        };
        pair("w", self.windows)?;
        pair("m", self.mss)?;
        if let Some(rtt) = self.rtt {
            writeln!(f, "r {}", rtt.as_micros())?;
        }
        if let Some((there, back)) = self.loss {
            writeln!(f, "l {there} {back}")?;
        }
        let mut all = |adus: &[Adu]| adus.iter().try_for_each(|adu| write_adu(f, adu));
        match &self.exchange {
            Exchange::Sequential(adus) => all(adus),
            Exchange::Concurrent { initiator, acceptor } => all(initiator).and_then(|()| all(acceptor)),
        }
    }
}

fn write_adu(f: &mut fmt::Formatter<'_>, adu: &Adu) -> fmt::Result {
    let side = if adu.from == Side::Initiator { 'I' } else { 'A' };
    writeln!(f, "{side} {} {} {}", adu.after_send.as_micros(), adu.after_receive.as_micros(), adu.bytes)
}
