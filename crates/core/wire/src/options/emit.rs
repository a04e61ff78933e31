//! Emitting options.

use crate::codec::put;
use crate::{MAX_WINDOW_SCALE, moving};

use super::{ExId, Options, TIMESTAMPS_ALIGNED, Timestamps, kind};

/// Emits two NOPs and timestamps (RFC 7323, appendix A).
#[inline]
pub(crate) fn aligned_timestamps(timestamps: Timestamps) -> [u8; 12] {
    let [k0, k1, k2, k3] = TIMESTAMPS_ALIGNED.to_be_bytes();
    let [v0, v1, v2, v3] = timestamps.value.to_be_bytes();
    let [e0, e1, e2, e3] = timestamps.echo.to_be_bytes();
    [k0, k1, k2, k3, v0, v1, v2, v3, e0, e1, e2, e3]
}

/// Emits the options into `out`, which has the length [`Options::padded_len`], and pads them with zeros. Returns `None`
/// if `out` is too short.
pub(crate) fn emit(options: &Options, out: &mut [u8]) -> Option<()> {
    let mut writer = Writer { rest: out };
    let aligned = options.is_aligned();
    emit_standard(options, aligned, &mut writer)?;
    emit_experiments(options, &mut writer)?;
    writer.rest.fill(kind::END);
    Some(())
}

fn emit_standard(options: &Options, aligned: bool, writer: &mut Writer<'_>) -> Option<()> {
    if let Some(mss) = options.mss {
        let [high, low] = mss.to_be_bytes();
        writer.put(&[kind::MSS, 4, high, low])?;
    }
    if aligned && !options.sack_permitted && options.timestamps.is_some() {
        writer.put(&[kind::NOP, kind::NOP])?;
    }
    if options.sack_permitted {
        if aligned && options.timestamps.is_none() {
            writer.put(&[kind::NOP, kind::NOP])?;
        }
        writer.put(&[kind::SACK_PERMITTED, 2])?;
    }
    if let Some(timestamps) = options.timestamps {
        writer.put(&[kind::TIMESTAMPS, 10])?;
        writer.put(&timestamps.value.to_be_bytes())?;
        writer.put(&timestamps.echo.to_be_bytes())?;
    }
    if let Some(shift) = options.window_scale {
        if aligned {
            writer.put(&[kind::NOP])?;
        }
        writer.put(&[kind::WINDOW_SCALE, 3, shift.min(MAX_WINDOW_SCALE)])?;
    }
    emit_sack(options, aligned, writer)
}

fn emit_sack(options: &Options, aligned: bool, writer: &mut Writer<'_>) -> Option<()> {
    if options.sack.is_empty() {
        return Some(());
    }
    if aligned {
        writer.put(&[kind::NOP, kind::NOP])?;
    }
    writer.put_head(kind::SACK, options.sack.len().saturating_mul(8))?;
    for block in &options.sack {
        writer.put(&block.left.to_be_bytes())?;
        writer.put(&block.right.to_be_bytes())?;
    }
    Some(())
}

fn emit_experiments(options: &Options, writer: &mut Writer<'_>) -> Option<()> {
    if let Some(echo) = options.probe_echo {
        writer.put_experiment(ExId::PROBES, 4)?;
        writer.put(&echo.value.to_be_bytes())?;
    }
    if let Some(moving) = options.moving {
        writer.put_experiment(ExId::MOVE, moving::BODY_LEN)?;
        writer.put(&moving.tagged())?;
        writer.put(&moving.tag)?;
    }
    let network = options.network.filter(|network| network.body_len() > 0);
    if let Some(network) = network {
        writer.put_experiment(ExId::NETWORK, network.body_len())?;
        network.emit(|bytes| writer.put(bytes))?;
    }
    if !options.arrivals.is_empty() {
        writer.put_experiment(ExId::ARRIVALS, options.arrivals.body_len())?;
        writer.put(&options.arrivals.first_bytes())?;
        options.arrivals.further_bytes().try_for_each(|bytes| writer.put(&bytes))?;
    }
    if let Some(timeout) = options.user_timeout {
        let [high, low] = timeout.bits().to_be_bytes();
        writer.put(&[kind::USER_TIMEOUT, 4, high, low])?;
    }
    let permitted = [
        (options.scaled_window, ExId::SCALED_WINDOW),
        (options.microsecond_timestamps, ExId::MICROSECOND_TIMESTAMPS),
        (options.arrival_permitted, ExId::ARRIVALS),
        (options.probe_permitted, ExId::PROBES),
        (options.network_permitted && network.is_none(), ExId::NETWORK),
        (options.ack_rate_permitted, ExId::ACK_RATE),
    ];
    permitted.iter().filter(|(is, _)| *is).try_for_each(|&(_, exid)| writer.put_experiment(exid, 0))?;
    // The ACK rate comes last, because its length is not a multiple of 4 bytes.
    let Some(rate) = options.ack_rate else { return Some(()) };
    writer.put_experiment(ExId::ACK_RATE, 1)?;
    writer.put(&[rate.byte()])
}

/// Appends bytes to a slice. Methods return `None` if the bytes do not fit.
struct Writer<'a> {
    rest: &'a mut [u8],
}

impl Writer<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.rest = put(core::mem::take(&mut self.rest), bytes)?;
        Some(())
    }

    /// Writes the kind and length of an option with a body of `body_len` bytes.
    fn put_head(&mut self, kind: u8, body_len: usize) -> Option<()> {
        self.put(&[kind, u8::try_from(body_len.saturating_add(2)).ok()?])
    }

    /// Writes the kind, length and ExID of an experimental option with `body_len` further bytes.
    fn put_experiment(&mut self, exid: ExId, body_len: usize) -> Option<()> {
        self.put_head(kind::EXPERIMENT, body_len.saturating_add(2))?;
        self.put(&exid.0.to_be_bytes())
    }
}
