//! Parsing options.

use crate::{Arrivals, MAX_WINDOW_SCALE, MoveOption, NetworkOption, ParseError, SackBlock};

use super::raw::RawOptions;
use super::{AckRate, ExId, Options, ProbeEcho, Timestamps, UserTimeout, kind};

/// Parses an option list into `options`, which must be empty.
///
/// Unknown options and known options of a wrong length are skipped by means of their length field (RFC 9293,
/// section 3.1, MUST-6). If a well-formed option occurs more than once, the first one counts.
pub(crate) fn parse(bytes: &[u8], syn: bool, options: &mut Options) -> Result<(), ParseError> {
    for option in RawOptions::new(bytes) {
        let option = option?;
        match option.kind {
            kind::TIMESTAMPS => parse_timestamps(option.body, options),
            kind::SACK if !syn => parse_sack(option.body, options),
            kind::MSS | kind::WINDOW_SCALE | kind::SACK_PERMITTED if syn => {
                parse_syn_only(option.kind, option.body, options);
            }
            kind::USER_TIMEOUT => parse_user_timeout(option.body, options),
            kind::EXPERIMENT => parse_experiment(option.body, syn, options),
            _ => {}
        }
    }
    Ok(())
}

fn parse_timestamps(body: &[u8], options: &mut Options) {
    if options.timestamps.is_none()
        && let &[v0, v1, v2, v3, e0, e1, e2, e3] = body
    {
        options.timestamps = Some(Timestamps {
            value: u32::from_be_bytes([v0, v1, v2, v3]),
            echo: u32::from_be_bytes([e0, e1, e2, e3]),
        });
    }
}

fn parse_sack(body: &[u8], options: &mut Options) {
    if !options.sack.is_empty() {
        return;
    }
    let (blocks, []) = body.as_chunks::<8>() else {
        return;
    };
    for &[l0, l1, l2, l3, r0, r1, r2, r3] in blocks {
        options.sack.push(SackBlock {
            left: u32::from_be_bytes([l0, l1, l2, l3]),
            right: u32::from_be_bytes([r0, r1, r2, r3]),
        });
    }
}

fn parse_syn_only(kind: u8, body: &[u8], options: &mut Options) {
    match (kind, body) {
        (kind::MSS, &[high, low]) => {
            options.mss.get_or_insert(u16::from_be_bytes([high, low]));
        }
        (kind::WINDOW_SCALE, &[shift]) => {
            options.window_scale.get_or_insert(shift.min(MAX_WINDOW_SCALE));
        }
        (kind::SACK_PERMITTED, []) => options.sack_permitted = true,
        _ => {}
    }
}

fn parse_user_timeout(body: &[u8], options: &mut Options) {
    if options.user_timeout.is_none()
        && let &[high, low] = body
    {
        options.user_timeout = UserTimeout::from_bits(u16::from_be_bytes([high, low]));
    }
}

fn parse_experiment(body: &[u8], syn: bool, options: &mut Options) {
    let Some((&exid, body)) = body.split_first_chunk() else {
        return;
    };
    match (ExId(u16::from_be_bytes(exid)), syn) {
        (ExId::MICROSECOND_TIMESTAMPS, true) => options.microsecond_timestamps |= body.is_empty(),
        (ExId::SCALED_WINDOW, true) => options.scaled_window |= body.is_empty(),
        (ExId::ARRIVALS, true) => options.arrival_permitted |= body.is_empty(),
        (ExId::PROBES, true) => options.probe_permitted |= body.is_empty(),
        (ExId::ARRIVALS, false) if options.arrivals.is_empty() => {
            options.arrivals = Arrivals::parse(body).unwrap_or_default();
        }
        (ExId::PROBES, false) if options.probe_echo.is_none() => {
            options.probe_echo = body.try_into().ok().map(|value| ProbeEcho { value: u32::from_be_bytes(value) });
        }
        (ExId::ACK_RATE, true) => options.ack_rate_permitted |= body.is_empty(),
        (ExId::ACK_RATE, false) if options.ack_rate.is_none() => {
            options.ack_rate = if let &[byte] = body { Some(AckRate::from_byte(byte)) } else { None };
        }
        (ExId::MOVE, false) if options.moving.is_none() => options.moving = MoveOption::parse(body),
        (ExId::NETWORK, _) => parse_network(body, syn, options),
        _ => {}
    }
}

fn parse_network(body: &[u8], syn: bool, options: &mut Options) {
    let network = NetworkOption::parse(body);
    options.network_permitted |= syn && (body.is_empty() || network.is_some());
    options.network = options.network.or(network);
}
