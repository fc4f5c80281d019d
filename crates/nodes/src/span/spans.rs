//! The mirrors, as nodes read them.

use graph::Filter as _;

use crate::filter::Filter;

/// Which frames of a port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(usize)]
pub enum Side {
    /// Frames that come in by the port.
    In,
    /// Frames that leave by the port.
    Out,
}

/// Where copies go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Target {
    /// Out by this port.
    Port(u16),
    /// Into a file, by the ring.
    File,
}

/// A mirror.
#[derive(Clone, Debug)]
pub struct Span {
    /// Its number, below [`MOST`], for as long as it is there.
    pub number: usize,
    /// The ports whose frames it looks at.
    pub ports: Vec<u16>,
    /// Whether received frames, sent ones, or both are copied.
    pub sides: Vec<Side>,
    /// Which of them; all where there is none.
    pub filter: Option<Filter>,
    /// One frame in N is copied; at least 1.
    pub one_in: u32,
    /// Where copies go.
    pub to: Target,
}

impl Span {
    /// True for a frame that it takes.
    #[inline]
    pub(super) fn takes(&self, frame: &[u8]) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.matches(frame))
    }
}

/// All mirrors of an instance.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    /// By number.
    spans: Vec<Option<Span>>,
    /// By port and side: bit n: mirror n looks at it.
    looks: Vec<[u64; 2]>,
}

impl Spans {
    /// These; those beyond [`MOST`] are left out.
    pub fn new(all: impl IntoIterator<Item = Span>) -> Spans {
        let mut spans = Spans { spans: vec![None; MOST], looks: Vec::new() };
        for span in all.into_iter().filter(|span| span.number < MOST) {
            for port in &span.ports {
                let port = usize::from(*port);
                if spans.looks.len() <= port {
                    spans.looks.resize(port + 1, [0; 2]);
                }
                span.sides
                    .iter()
                    .for_each(|side| spans.looks[port][*side as usize] |= 1 << span.number);
            }
            let number = span.number;
            spans.spans[number] = Some(span);
        }
        spans
    }

    /// True where one of them looks at frames of this side.
    pub fn look_at(&self, side: Side) -> bool {
        self.looks.iter().any(|looks| looks[side as usize] != 0)
    }

    /// The mirrors of this port and side, one bit each.
    #[inline]
    pub(super) fn looks(&self, port: u16, side: Side) -> u64 {
        self.looks.get(usize::from(port)).map_or(0, |looks| looks[side as usize])
    }

    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&Span> {
        self.spans.get(number)?.as_ref()
    }
}

/// One worker's counters of one mirror.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Counter {
    /// Frames copied.
    pub copied: graph::Counter,
    /// Their bytes.
    pub bytes: graph::Counter,
    /// Frames not copied: no packet was free for them, or none long enough.
    pub no_buffer: graph::Counter,
    /// Frames not copied: the ring was full.
    pub ring_full: graph::Counter,
}

/// One worker's counters of all mirrors.
#[derive(Debug)]
pub struct Counters([Counter; MOST]);

impl Default for Counters {
    fn default() -> Self {
        Counters(std::array::from_fn(|_| Counter::default()))
    }
}

impl Counters {
    /// The counters of one mirror; numbers are below [`MOST`].
    #[inline]
    pub fn of(&self, number: usize) -> &Counter {
        &self.0[number % MOST]
    }
}

/// Mirrors of one instance: bits of a word.
pub const MOST: usize = 64;
