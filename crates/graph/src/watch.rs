//! Looking at single packets while the graph runs: traces and captures.
//!
//! Both cost one predictable branch a vector (a trace) or a vector and point
//! (a capture) while off.

use crate::card::DROP;
use crate::clock;
use crate::ring::{frames, spsc};
use crate::stats::Stats;
use crate::vector::Vector;

/// Decides whether a frame (from its link header on) is of interest.
pub trait Filter: Send {
    /// True when it is.
    fn matches(&self, frame: &[u8]) -> bool;
}

impl<F: Fn(&[u8]) -> bool + Send> Filter for F {
    fn matches(&self, frame: &[u8]) -> bool {
        self(frame)
    }
}

/// Where a frame was captured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u16)]
pub enum Point {
    /// As it came in by a port.
    Received = 1,
    /// As it was given to a port.
    Transmitted = 2,
    /// At the drop node.
    Dropped = 4,
    /// As it was copied to the kernel.
    Punted = 8,
}

impl Point {
    /// All points.
    pub const ALL: [Point; 4] =
        [Point::Received, Point::Transmitted, Point::Dropped, Point::Punted];

    /// From the code in [`frames::Meta::kind`].
    pub fn from_code(code: u16) -> Option<Point> {
        Point::ALL.into_iter().find(|&point| point as u16 == code)
    }

    /// The name in the command.
    pub fn name(self) -> &'static str {
        match self {
            Point::Received => "received",
            Point::Transmitted => "transmitted",
            Point::Dropped => "dropped",
            Point::Punted => "punted",
        }
    }
}

/// A running capture. The ring's records have the interface ([`NO_IFACE`] where
/// it is not known yet), the [`Point`], port << 32 | original length, and time.
pub struct Capture {
    /// Points at which to look.
    pub points: Vec<Point>,
    /// Which frames.
    pub filter: Option<Box<dyn Filter>>,
    /// Bytes kept of each frame.
    pub snap: usize,
    /// Where they go; a full ring loses frames, counted.
    pub ring: frames::Producer,
}

/// In a capture's records: the interface is not known at this point.
pub const NO_IFACE: u16 = u16::MAX;

/// A running trace: follows up to `packets` packets from reception on.
pub struct Trace {
    /// How many packets.
    pub packets: u16,
    /// Which.
    pub filter: Option<Box<dyn Filter>>,
    /// Where the steps go; a full ring loses steps, counted.
    pub ring: spsc::Producer<Step>,
}

/// One step of one traced packet: what a node did with it.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Number of the packet in its trace, from 1.
    pub packet: u16,
    /// Index of the node in [`Stats`]; see [`Step::describe`].
    pub node: u16,
    /// The edge's code, [`Step::SUNK`], [`Step::KEPT`], or [`Step::DROPPED`].
    pub edge: u8,
    /// Where dropped: index of the reason.
    pub why: u16,
    /// Port it came in by.
    pub port: u16,
    /// Interface.
    pub iface: u16,
    /// What the lookup answered.
    pub hop: u32,
    /// Ticks.
    pub time: u64,
    /// Bytes of the frame.
    pub bytes: u16,
    /// The frame's first bytes.
    pub data: [u8; 96],
}

impl Step {
    /// In `edge`: the node took the packet out.
    pub const SUNK: u8 = 255;
    /// In `edge`: the node dropped the packet for the reason `why`.
    pub const DROPPED: u8 = DROP;
    /// In `edge`: the node keeps the packet.
    pub const KEPT: u8 = 254;

    /// What the node at `node` did with packet `i` of `v`; `None` where there is none.
    pub(crate) fn of(v: &Vector, i: usize, node: u16, edge: u8, answered: bool) -> Option<Step> {
        let frame = v.burst.packet(i)?.data();
        let mut data = [0; 96];
        let kept = frame.len().min(data.len());
        data[..kept].copy_from_slice(&frame[..kept]);
        Some(Step {
            packet: v.mark[i],
            node,
            edge,
            why: v.why[i],
            port: v.port,
            iface: v.slots.ifaces[i],
            hop: if answered { v.slots.hops[i].0 } else { 0 },
            time: clock::now(),
            bytes: frame.len() as u16,
            data,
        })
    }

    /// The names of the node, and of the edge or reason.
    pub fn describe(&self, stats: &Stats) -> (&'static str, &'static str) {
        let Some(place) = stats.places.get(usize::from(self.node)) else { return ("?", "?") };
        let label = match self.edge {
            Step::SUNK => Some(&""),
            Step::KEPT => Some(&"kept"),
            Step::DROPPED => usize::from(self.why)
                .checked_sub(place.reasons)
                .and_then(|reason| place.card.drops.get(reason)),
            edge => place.card.edges.get(usize::from(edge)),
        };
        (place.card.name, label.copied().unwrap_or("?"))
    }

    /// The frame's first bytes.
    pub fn data(&self) -> &[u8] {
        &self.data[..usize::from(self.bytes).min(self.data.len())]
    }
}

/// What one worker watches.
#[derive(Default)]
pub(crate) struct Watch {
    capture: Option<Capture>,
    points: u16,
    trace: Option<Trace>,
    traced: u16,
    /// Which trace it is: the time at which it began.
    trace_id: u64,
    /// Frames and steps that found their ring full.
    pub lost: u64,
}

impl Watch {
    pub fn set_capture(&mut self, capture: Option<Capture>) -> Option<Capture> {
        let points = |capture: &Capture| capture.points.iter().fold(0, |all, &p| all | p as u16);
        self.points = capture.as_ref().map_or(0, points);
        std::mem::replace(&mut self.capture, capture)
    }

    pub fn set_trace(&mut self, trace: Option<Trace>) -> Option<Trace> {
        self.traced = 0;
        self.trace_id = clock::now();
        std::mem::replace(&mut self.trace, trace)
    }

    /// The running trace, so that packets kept since an earlier one are not its own.
    pub fn trace_id(&self) -> u64 {
        self.trace_id
    }

    #[inline(always)]
    pub fn capturing(&self, point: Point) -> bool {
        self.points & point as u16 != 0
    }

    #[cold]
    pub fn capture(&mut self, frame: &[u8], point: Point, iface: u16, port: u16, time: u64) {
        if !self.capturing(point) {
            return;
        }
        let Some(capture) = &mut self.capture else { return };
        if capture.filter.as_ref().is_some_and(|filter| !filter.matches(frame)) {
            return;
        }
        let info = u64::from(port) << 32 | frame.len() as u64;
        let meta = frames::Meta { iface, kind: point as u16, info, time };
        if !capture.ring.push(meta, &[&frame[..frame.len().min(capture.snap)]]) {
            self.lost += 1;
        }
    }

    /// True while packets still have to be found.
    #[inline(always)]
    pub fn tracing(&self) -> bool {
        self.trace.is_some()
    }

    /// The number under which `frame` is traced; 0 if it is not.
    pub fn mark(&mut self, frame: &[u8]) -> u16 {
        let Some(trace) = &self.trace else { return 0 };
        if self.traced >= trace.packets {
            return 0;
        }
        if trace.filter.as_ref().is_some_and(|filter| !filter.matches(frame)) {
            return 0;
        }
        self.traced += 1;
        self.traced
    }

    pub fn step(&mut self, step: Step) {
        if let Some(trace) = &mut self.trace
            && trace.ring.push(step).is_err()
        {
            self.lost += 1;
        }
    }
}
