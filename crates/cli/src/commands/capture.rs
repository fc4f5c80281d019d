//! `rutter capture`: packets into a pcapng file.

use std::fs::File;
use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::filter::text as filter;
use api::reply::Captured;
use api::{CallError, Reply, Request};

use crate::context::Context;
use crate::error::Error;
use crate::pcapng::{Packet, Writer};
use crate::status::Status;
use crate::warn::warn;

/// Write packets to a pcapng file, as they come in and leave
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rutter capture -w packets.pcapng
  rutter capture 'host 192.0.2.1 and not arp' -c 100 -w packets.pcapng
  rutter capture -w - | tcpdump -n -r -

Without -c or --seconds it continues until interrupted (Ctrl-C).")]
pub struct Args {
    /// The file; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    write: PathBuf,
    /// Stop after this many packets
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    /// Bytes to keep of each packet
    #[arg(short, long, value_name = "BYTES", default_value_t = 2048)]
    snap_length: u16,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Which packets: host, net, port, proto, vlan, and, or, not, parentheses
    filter: Vec<String>,
}

/// The summary that `-j` prints at the end.
#[derive(serde::Serialize)]
struct Count {
    packets: u64,
    lost: u64,
}

/// Captures until interrupted, or as many as were asked for.
pub fn run(args: Args, cx: &mut Context) -> Result<Status, Error> {
    let filter = filter::parse(&args.filter)?;
    let mut client = cx.connect()?;
    client.set_timeout(Some(Duration::from_secs(5)))?;
    let stop = interrupted(cx)?;
    let (snap_length, count) = (args.snap_length, args.count);
    let mut parts = client.stream(&Request::Capture { filter, snap_length, count })?.peekable();
    // A capture that is refused leaves an older file as it is.
    if let Some(refused) = parts.next_if(Result::is_err) {
        refused?;
    }
    let to_stdout = args.write.as_os_str() == "-";
    let file: Box<dyn Write> =
        if to_stdout { Box::new(stdout()) } else { Box::new(create(args.write)?) };
    let mut writer = Writer::new(BufWriter::new(file), args.snap_length)?;
    let end = args.seconds.map(|s| std::time::Instant::now() + Duration::from_secs(s));
    let (mut packets, mut lost) = (0_u64, 0);
    for part in parts {
        // The daemon sends an empty part now and then: a quiet network is no reason to wait.
        let Reply::Packets { packets: some, lost: all } = part? else {
            return Err(CallError::Unexpected.into());
        };
        for captured in &some {
            write(&mut writer, captured)?;
        }
        writer.flush()?;
        packets += some.len() as u64;
        lost = all;
        let late = end.is_some_and(|end| std::time::Instant::now() >= end);
        if stop.load(Ordering::Relaxed) || late {
            break;
        }
    }
    if cx.json && !to_stdout {
        cx.print_json(&Count { packets, lost })?;
    } else {
        warn(format_args!("{packets} packets captured, {lost} lost"));
    }
    Ok(Status::Success)
}

fn create(path: PathBuf) -> Result<File, Error> {
    daemon::trusted::output(&path).map_err(|error| Error::File { path, error })
}

/// From now on an interrupt ends the capture, and its file is whole.
fn interrupted(cx: &Context) -> Result<Arc<AtomicBool>, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, stop.clone())?;
    signal_hook::flag::register(signal_hook::consts::SIGTERM, stop.clone())?;
    cx.die_on_interrupt.store(false, Ordering::Relaxed);
    Ok(stop)
}

fn write<W: Write>(writer: &mut Writer<W>, captured: &Captured) -> Result<(), Error> {
    let bytes = from_hex(&captured.bytes);
    let Captured { port, time_ns, out, length, comment, .. } = captured;
    let length = u32::from(*length);
    let packet = Packet { port, time_ns: *time_ns, out: *out, length, bytes: &bytes, comment };
    Ok(writer.packet(packet)?)
}

/// Bytes from hexadecimal digits; another character counts as 0.
fn from_hex(text: &str) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).unwrap_or(0) as u8;
    text.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn hexadecimal() {
        assert_eq!(super::from_hex("00ff1A"), [0, 255, 26]);
        assert_eq!(super::from_hex("0"), [0; 0]);
    }
}
