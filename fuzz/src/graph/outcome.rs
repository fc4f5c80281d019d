//! What may become of a frame, and whether it did.

use std::collections::BTreeMap;
use std::fmt;

use nodes::Class;

/// Where a frame comes out.
#[derive(Clone, Eq, PartialEq)]
pub enum Out {
    /// By this port.
    Sent(u16, Vec<u8>),
    /// To the kernel: interface, classes (one of them), frame.
    Punted(u16, u16, Vec<u8>),
    /// Into a mirror's file: its number, the port, frame.
    Written(u64, u16, Vec<u8>),
}

impl fmt::Debug for Out {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Out::Sent(port, frame) => write!(f, "sent by {port}: {}", hex(frame)),
            Out::Punted(iface, classes, frame) => {
                write!(f, "punted of {iface} as {classes:#x}: {}", hex(frame))
            }
            Out::Written(mirror, port, frame) => {
                write!(f, "written by mirror {mirror} of port {port}: {}", hex(frame))
            }
        }
    }
}

/// A frame for people.
pub fn hex(frame: &[u8]) -> String {
    let begin: String = frame.iter().take(80).map(|byte| format!("{byte:02x}")).collect();
    format!("{begin} ({} bytes)", frame.len())
}

/// One thing that may become of a frame: all of `outs`.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    pub outs: Vec<Out>,
    /// What happened on the way, for the count of what a corpus reaches.
    pub notes: Vec<&'static str>,
}

impl Fate {
    /// Is it one of two that a probe may have whose time is about over?
    pub fn is_of_an_old_probe(&self) -> bool {
        self.notes.contains(&OLD_PROBE)
    }
}

/// What is noted of it.
pub const OLD_PROBE: &str = "an old probe";

/// One of these becomes of a frame.
pub type Fates = Vec<Fate>;

/// It comes out there.
pub fn out(out: Out, note: &'static str) -> Fates {
    vec![Fate { outs: vec![out], notes: vec![note] }]
}

/// It comes out nowhere.
pub fn nowhere(note: &'static str) -> Fates {
    vec![Fate { outs: Vec::new(), notes: vec![note] }]
}

/// Adds a note to each.
pub fn noted(mut fates: Fates, note: &'static str) -> Fates {
    fates.iter_mut().for_each(|fate| fate.notes.push(note));
    fates
}

/// One of the first and one of the second.
pub fn both(a: &Fates, b: &Fates) -> Fates {
    let join = |a: &Fate, b: &Fate| Fate {
        outs: [&a.outs[..], &b.outs].concat(),
        notes: [&a.notes[..], &b.notes].concat(),
    };
    a.iter().flat_map(|a| b.iter().map(move |b| join(a, b))).collect()
}

/// The bit of a class in [`Out::Punted`].
pub fn bit(class: Class) -> u16 {
    1 << class as u16
}

impl Out {
    /// Is `seen` what is meant here?
    fn is(&self, seen: &Out) -> bool {
        match (self, seen) {
            (Out::Punted(iface, classes, frame), Out::Punted(by, class, seen)) => {
                (iface, frame) == (by, seen) && classes & class != 0
            }
            _ => self == seen,
        }
    }
}

/// Counts by name.
pub type Counts = BTreeMap<String, u64>;

/// Adds one.
pub fn count(counts: &mut Counts, what: &str) {
    *counts.entry(what.to_owned()).or_default() += 1;
}

/// Compares what was `seen` with what may become of each of `frames`. Where the
/// means are `scarce` (buffers, queues) anything may be lost, and nothing else may come.
///
/// # Panics
/// Where something came that must not, or did not come that must.
pub fn compare(frames: &[(String, Fates)], mut seen: Vec<Out>, scarce: bool, counts: &mut Counts) {
    if scarce {
        let all = frames.iter().flat_map(|(_, fates)| fates.iter().flat_map(|fate| &fate.outs));
        let mut may: Vec<&Out> = all.collect();
        for out in &seen {
            let at = may.iter().position(|may| may.is(out));
            let at = at.unwrap_or_else(|| panic!("{out:?} may not come of any of {frames:#?}"));
            may.swap_remove(at);
        }
        return count(counts, "scarce");
    }
    // Frames with one fate first: what they take is not another's.
    let mut order: Vec<_> = frames.iter().collect();
    order.sort_by_key(|(_, fates)| fates.len());
    for (frame, fates) in order {
        let mut fates: Vec<&Fate> = fates.iter().collect();
        fates.sort_by_key(|fate| std::cmp::Reverse(fate.outs.len()));
        let found = fates.iter().find_map(|fate| Some((fate, without(&seen, &fate.outs)?)));
        let Some((fate, left)) = found else {
            panic!("{frame}: should become one of {fates:#?}; there is {seen:#?}");
        };
        seen = left;
        fate.notes.iter().for_each(|note| count(counts, note));
    }
    assert!(seen.is_empty(), "nobody expects {seen:#?} of {frames:#?}");
}

/// What is left of `seen` without `outs`; `None` where one of them is not there.
fn without(seen: &[Out], outs: &[Out]) -> Option<Vec<Out>> {
    let mut left = seen.to_vec();
    for out in outs {
        let at = left.iter().position(|seen| out.is(seen))?;
        left.swap_remove(at);
    }
    Some(left)
}
