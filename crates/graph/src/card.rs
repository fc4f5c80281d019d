//! Names: of edges, of reasons to drop, of nodes.

use crate::lanes::Lanes;
use crate::slots::SlotSet;

/// A field-less `#[repr(u8)]` enum whose values have names: the edges of a
/// node, or its reasons to drop. Made with [`labels!`](crate::labels).
pub trait Label: Copy + 'static {
    /// The names in `show` output, by code.
    const NAMES: &'static [&'static str];
    /// What each means, by code: its documentation.
    const HELP: &'static [&'static str];
    /// Of edges: the lanes that the node fills for packets that leave by each, by code.
    const CARRIES: &'static [Lanes] = &[];
    /// 0 for the first, and so on.
    fn code(self) -> u8;
}

/// The edges of a sink.
#[derive(Clone, Copy)]
pub enum NoEdge {}

impl Label for NoEdge {
    const NAMES: &'static [&'static str] = &[];
    const HELP: &'static [&'static str] = &[];
    fn code(self) -> u8 {
        match self {}
    }
}

/// The reasons of a node that drops nothing.
#[derive(Clone, Copy)]
pub enum NoDrop {}

impl Label for NoDrop {
    const NAMES: &'static [&'static str] = &[];
    const HELP: &'static [&'static str] = &[];
    fn code(self) -> u8 {
        match self {}
    }
}

/// Makes an enum of named values, to be a node's edges or its drop reasons. Behind an
/// edge are the [lanes](crate::Lane) that the node fills for packets that leave by it; one
/// that it fills for other edges only, and leaves as it came for this, is behind this, too,
/// and among its [`READS`](crate::Node::READS).
///
/// ```
/// graph::lanes! {
///     /// Destination, host byte order.
///     pub Dst4 = "dst4": A32 as u32;
/// }
/// graph::labels! {
///     /// Where packets go.
///     pub enum To { Lookup = "ip4_lookup" carries [Dst4], Punt = "punt" }
/// }
/// # use graph::Label;
/// assert_eq!(To::NAMES[usize::from(To::Punt.code())], "punt");
/// ```
#[macro_export]
macro_rules! labels {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[doc = $help:literal])* $variant:ident = $text:literal
            $(carries [$($lane:ty),+ $(,)?])?),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        #[repr(u8)]
        $vis enum $name {
            $(#[doc = concat!("`", $text, "`")] $(#[doc = $help])* $variant),+
        }
        impl $crate::Label for $name {
            const NAMES: &'static [&'static str] = &[$($text),+];
            const HELP: &'static [&'static str] = &[$(concat!($($help),*)),+];
            const CARRIES: &'static [$crate::Lanes] =
                &[$($crate::Lanes::of::<($($($lane,)+)?)>()),+];
            #[inline(always)]
            fn code(self) -> u8 {
                self as u8
            }
        }
    };
}

/// Code of the edge to the one `drop` node that all nodes share.
pub(crate) const DROP: u8 = 31;

/// What a node is, as data.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// The name in drawings and counters.
    pub name: &'static str,
    /// One line.
    pub help: &'static str,
    /// Names of its edges.
    pub edges: &'static [&'static str],
    /// Names of its reasons to drop.
    pub drops: &'static [&'static str],
    /// What they mean.
    pub drops_help: &'static [&'static str],
    /// Lanes that it reads and others filled.
    pub reads: Lanes,
    /// Lanes that it fills, by edge.
    pub carries: &'static [Lanes],
    /// True for a node that puts packets in.
    pub source: bool,
    /// Whether it is never asked in vain for want of a bell.
    pub wakes: bool,
    /// True for a node that runs by time.
    pub ticks: bool,
    /// True for a node that keeps packets over polls.
    pub keeps: bool,
}

impl Card {
    /// True where it fills the slot for some edge.
    pub(crate) fn fills(&self, slot: SlotSet) -> bool {
        self.carries.iter().any(|lanes| lanes.slots().has(slot))
    }

    /// True where packets come out of it that did not come into it, or not just now: they
    /// have nothing but what its edges carry.
    pub(crate) const fn puts_in(&self) -> bool {
        self.source || self.ticks || self.keeps
    }
}
