//! Captures, written: classic pcap or pcapng, nanoseconds in both.

use std::io::{self, Write};

/// Which format to write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Style {
    /// Classic, with nanoseconds.
    Pcap,
    /// pcapng: one section, one interface.
    PcapNg,
}

impl Style {
    /// pcapng for a name that ends so, classic for others.
    pub fn of(path: &str) -> Style {
        if path.ends_with(".pcapng") { Style::PcapNg } else { Style::Pcap }
    }
}

/// Writes frame after frame, little-endian.
pub struct Writer<W> {
    sink: W,
    style: Style,
}

impl<W: Write> Writer<W> {
    /// Writes the capture's header.
    ///
    /// # Errors
    /// When `sink` fails.
    pub fn new(mut sink: W, style: Style, link_type: u16) -> io::Result<Self> {
        match style {
            Style::Pcap => {
                sink.write_all(&words([0xa1b2_3c4d, 4 << 16 | 2, 0, 0, SNAP_LEN]))?;
                sink.write_all(&u32::from(link_type).to_le_bytes())?;
            }
            Style::PcapNg => {
                // Length of the section: unknown (all ones).
                let magic = 0x1a2b_3c4d;
                sink.write_all(&words([0x0a0d_0d0a, 28, magic, 1, u32::MAX, u32::MAX, 28]))?;
                // Option 9, one byte: 10^-9 seconds; then the end of options.
                let resolution = [9 | 1 << 16, 9, 0];
                sink.write_all(&words([1, 32, u32::from(link_type), SNAP_LEN]))?;
                sink.write_all(&words(resolution))?;
                sink.write_all(&words([32]))?;
            }
        }
        Ok(Writer { sink, style })
    }

    /// Writes one frame; `time_ns` counts from 1970.
    ///
    /// # Errors
    /// When the sink fails.
    pub fn write(&mut self, frame: &[u8], time_ns: u64) -> io::Result<()> {
        let len = frame.len() as u32;
        match self.style {
            Style::Pcap => {
                let (seconds, rest) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
                self.sink.write_all(&words([seconds as u32, rest as u32, len, len]))?;
                self.sink.write_all(frame)
            }
            Style::PcapNg => {
                let padding = frame.len().next_multiple_of(4) - frame.len();
                let total = 32 + len + padding as u32;
                let (high, low) = ((time_ns >> 32) as u32, time_ns as u32);
                self.sink.write_all(&words([6, total, 0, high, low, len, len]))?;
                self.sink.write_all(frame)?;
                self.sink.write_all(&[0; 3][..padding])?;
                self.sink.write_all(&total.to_le_bytes())
            }
        }
    }

    /// Passes on what is buffered.
    ///
    /// # Errors
    /// When the sink fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }

    /// The sink.
    pub fn into_inner(self) -> W {
        self.sink
    }
}

fn words<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// libpcap's largest.
const SNAP_LEN: u32 = 262_144;
