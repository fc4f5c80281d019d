//! Lanes: what nodes learn about packets, by name and type.
//!
//! ```text
//!  ip4_input ──────────► ip4_lookup ───────────► ip4_rewrite ─────────► output
//!   fills Dst4: u32       reads Dst4              reads Adjacency        reads OutPort
//!                         fills Adjacency         fills OutPort
//!                               AdjacencyId             PortId
//!  slot A32: [Dst4 ──────────────][Adjacency ─────────────]
//!  slot A16:                                              [OutPort ───────────]
//! ```
//!
//! A lane is a name, a type, and the [slot](crate::slot) where its values are; several
//! lanes share a slot, one after the other. A node declares the lanes that it reads
//! ([`Node::READS`](crate::Node::READS)) and, for each of its edges, the lanes that it
//! fills (`carries` in [`labels!`](crate::labels)). The compiler refuses a node that touches
//! other lanes; the [`Builder`](crate::Builder) refuses a graph in which a node could read
//! a lane that no node has filled, or that another lane has overwritten.
//!
//! | cost | none: a lane is a type without values, its conversions compile to nothing |
//! |------|------------------------------------------------------------------------------|

use crate::slots::{Slot, SlotSet, Stored};

/// A lane. Made with [`lanes!`](crate::lanes).
pub trait Lane: Copy + 'static {
    /// Where its values are.
    type Slot: Stored;
    /// What it holds for a packet.
    type Value: Copy + From<Bits<Self>> + Into<Bits<Self>>;
    /// Who it is: name, help, slot.
    const CARD: LaneCard;
}

/// How the slot of `L` holds a value.
pub type Bits<L> = <<L as Lane>::Slot as Slot>::Bits;

/// What a lane is, as data.
#[derive(Clone, Copy, Debug)]
pub struct LaneCard {
    /// The name in messages.
    pub name: &'static str,
    /// What it holds.
    pub help: &'static str,
    /// Its path: no two lanes have the same.
    pub path: &'static str,
    #[doc(hidden)]
    pub slot: SlotSet,
}

impl PartialEq for LaneCard {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

/// Declares lanes: `Name = "name": SLOT as Type;`. The type must be made from what the
/// slot holds, and that from the type, by [`From`].
///
/// ```
/// graph::lanes! {
///     /// How far the packet has come.
///     pub Stage = "stage": B16 as u16;
/// }
/// # use graph::Lane;
/// assert_eq!((Stage::CARD.name, Stage::CARD.help), ("stage", " How far the packet has come."));
/// ```
///
/// A node cannot touch a lane that it has not declared:
/// ```compile_fail,E0080
/// graph::lanes! {
///     /// Some number.
///     Number = "number": B16 as u16;
/// }
/// graph::labels! { enum To { Out = "out" } }
/// struct Reader;
/// impl graph::Node for Reader {
///     type Edge = To;
///     type Drop = graph::NoDrop;
///     const NAME: &'static str = "reader";
///     const HELP: &'static str = "reads what it did not declare";
///     fn process(&mut self, v: &mut graph::View<'_, Self>) {
///         v.get(Number, 0);
///     }
/// }
/// let _: Box<dyn FnMut(&mut graph::View<'_, Reader>)> = Box::new(|v| graph::Node::process(&mut Reader, v));
/// ```
///
/// Nor can it take the value of one lane for that of another, though they share a slot:
/// ```compile_fail,E0308
/// #[derive(Clone, Copy)]
/// struct Group(u32);
/// impl From<u32> for Group { fn from(bits: u32) -> Self { Group(bits) } }
/// impl From<Group> for u32 { fn from(group: Group) -> u32 { group.0 } }
/// graph::lanes! {
///     /// A group.
///     OfGroup = "group": A32 as Group;
///     /// An address.
///     Address = "address": A32 as u32;
/// }
/// graph::labels! { enum To { Out = "out" carries [OfGroup] } }
/// struct Reader;
/// impl graph::Node for Reader {
///     type Edge = To;
///     type Drop = graph::NoDrop;
///     const NAME: &'static str = "reader";
///     const HELP: &'static str = "takes an address for a group";
///     const READS: graph::Lanes = graph::Lanes::of::<(Address,)>();
///     fn process(&mut self, v: &mut graph::View<'_, Self>) {
///         let address = v.get(Address, 0);
///         v.set(OfGroup, 0, address);
///     }
/// }
/// ```
#[macro_export]
macro_rules! lanes {
    ($($(#[doc = $help:literal])+ $vis:vis $name:ident = $text:literal: $slot:ident as $value:ty;)+) => {
        $(
            $(#[doc = $help])+
            #[derive(Clone, Copy, Debug)]
            $vis struct $name;

            impl $crate::Lane for $name {
                type Slot = $crate::slot::$slot;
                type Value = $value;
                const CARD: $crate::LaneCard = $crate::LaneCard::new::<$crate::slot::$slot>(
                    $text,
                    concat!($($help),+),
                    concat!(module_path!(), "::", stringify!($name)),
                );
            }
        )+
    };
}

impl LaneCard {
    #[doc(hidden)]
    pub const fn new<S: Stored>(
        name: &'static str,
        help: &'static str,
        path: &'static str,
    ) -> LaneCard {
        LaneCard { name, help, path, slot: S::BIT }
    }

    const fn is(&self, other: &LaneCard) -> bool {
        let (a, b) = (self.path.as_bytes(), other.path.as_bytes());
        let mut i = 0;
        while i < a.len() && i < b.len() && a[i] == b[i] {
            i += 1;
        }
        i == a.len() && i == b.len()
    }
}

/// Several lanes, as data: `Lanes::of::<(Dst4, Iface)>()`.
#[derive(Clone, Copy, Debug)]
pub struct Lanes(pub(crate) &'static [LaneCard]);

impl Lanes {
    /// No lane.
    pub const NONE: Lanes = Lanes(&[]);

    /// Those of a tuple.
    pub const fn of<T: Several>() -> Lanes {
        Lanes(T::CARDS)
    }

    /// What they are.
    pub fn cards(self) -> &'static [LaneCard] {
        self.0
    }

    pub(crate) const fn has(self, lane: &LaneCard) -> bool {
        let mut i = 0;
        while i < self.0.len() {
            if self.0[i].is(lane) {
                return true;
            }
            i += 1;
        }
        false
    }

    /// Their slots.
    pub(crate) fn slots(self) -> SlotSet {
        self.0.iter().fold(SlotSet::NONE, |slots, lane| slots.and(lane.slot))
    }
}

/// A tuple of lanes.
pub trait Several {
    /// What they are.
    const CARDS: &'static [LaneCard];
}

macro_rules! several {
    ($($lane:ident)*) => {
        impl<$($lane: Lane),*> Several for ($($lane,)*) {
            const CARDS: &'static [LaneCard] = &[$($lane::CARD),*];
        }
    };
}
several! {}
several! { A }
several! { A B }
several! { A B C }
several! { A B C D }
several! { A B C D E }
several! { A B C D E F }
